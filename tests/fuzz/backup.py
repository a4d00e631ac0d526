"""Any bytes, as a backup or as what is in its box, give a value or a `WireError`.

A checksum refuses random input, so each input is also tried with a matching checksum. The passphrase is never hashed.
"""

import contextlib
import hashlib

from agent.errors import ConfigError
from agent.keys.secret import Secret
from agent.operator.backup.backup_file import decode_backup, decode_content
from protocol.errors import WireError
from tests.unit.agent.operator.backup.test_backup_file import ENCODED, content

SEEDS = [ENCODED[:-32], content().reveal(), content(named_files={"../x": b"", "a/b": b""}).reveal()]


def _no_passphrase() -> Secret:
    raise ConfigError("not asked for here")


def fuzz_one(data: bytes) -> None:
    for whole in (data, data + hashlib.sha256(data).digest()):
        with contextlib.suppress(WireError, ConfigError):
            decode_backup(whole, _no_passphrase)
    with contextlib.suppress(WireError):
        backup = decode_content(Secret(data))
        assert not any(".." in name.split("/") or name.startswith("/") for name in backup.named_files)
