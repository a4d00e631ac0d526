"""The allow-list: one small file per device, read at each request, so that a change counts at once.

`devices/<address>.json` is written whole or not at all. A revoked device keeps its file: who was let in, and until
when, is not forgotten.
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.collector.durable_files import make_folder, replace_file
from ingest.collector.errors import ConfigError, Refused
from protocol.archive import Binding
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal, UploadClaim

MAX_DEVICE_FILE_BYTES = 4096
MAX_LABEL_CHARACTERS = 100
SUFFIX = ".json"
_ADDRESS = re.compile("0x[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the operator said about one device."""

    address: bytes
    enrolled_at_ms: int
    archive_key: bytes | None = None  # None: any key that the address has signed a binding for
    revoked_at_ms: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        if len(self.label) > MAX_LABEL_CHARACTERS or not self.label.isprintable():
            raise ValueError(f"a label is printable and has at most {MAX_LABEL_CHARACTERS} characters")

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at_ms is not None

    def as_dict(self) -> dict[str, str | int | None]:
        return {
            "device": checksum_address(self.address),
            "archive_key": None if self.archive_key is None else self.archive_key.hex(),
            "enrolled_at_ms": self.enrolled_at_ms,
            "revoked_at_ms": self.revoked_at_ms,
            "label": self.label,
        }


class AllowList:
    """Who may bring archives."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder = folder

    def enrol(self, device: Device) -> None:
        """From now on it may. What was said of it before is replaced."""
        replace_file(self._path(device.address), json.dumps(device.as_dict(), indent=2).encode() + b"\n")

    def revoke(self, address: bytes, now_ms: int) -> Device:
        """From now on it may not. Raises: ConfigError for one that was never enrolled."""
        device = self.find(address)
        if device is None:
            raise ConfigError(f"{checksum_address(address)} was never enrolled")
        if not device.is_revoked:
            device = dataclasses.replace(device, revoked_at_ms=now_ms)
            self.enrol(device)
        return device

    def find(self, address: bytes) -> Device | None:
        path = self._path(address)
        try:
            with path.open("rb") as file:
                return _device_from(json.loads(file.read(MAX_DEVICE_FILE_BYTES)), address)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path}: not what 'headgate collector enrol' wrote; enrol the device again") from None

    def devices(self) -> Iterator[Device]:
        for path in sorted(self._folder.glob(f"0x*{SUFFIX}")):
            device = self.find(parse_address(path.stem))
            if device is not None:
                yield device

    def check(self, claim: UploadClaim) -> None:
        """Raises: Refused unless the device of the claim may bring archives, with the key that signed the claim."""
        device = self.find(claim.device)
        name = checksum_address(claim.device)
        if device is None:
            raise Refused(Refusal.DEVICE_UNKNOWN, f"{name} is not enrolled here; headgate collector enrol does that")
        if device.is_revoked:
            raise Refused(Refusal.DEVICE_REVOKED, f"{name} is not welcome any more")
        if device.archive_key not in (None, claim.binding.archive_key):
            raise Refused(Refusal.DEVICE_UNKNOWN, f"{name} is enrolled with another archive key")

    def _path(self, address: bytes) -> Path:
        return self._folder / f"0x{address.hex()}{SUFFIX}"


def parse_address(text: str) -> bytes:
    """Raises: ConfigError, also for mixed case whose EIP-55 checksum is wrong."""
    if not _ADDRESS.fullmatch(text):
        raise ConfigError(f"{text[:60]!r} is no address: 0x and 40 hex digits are expected")
    address = bytes.fromhex(text[2:])
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and text != checksum_address(address):
        raise ConfigError(f"{text}: a digit is wrong, for its capitals do not fit; compare it with the device's own")
    return address


def device_from_public_file(path: Path, now_ms: int, label: str) -> Device:
    """The device that `headgate keys export-public` described. Raises: ConfigError unless its binding is true."""
    with path.open("rb") as file:
        data = file.read(MAX_DEVICE_FILE_BYTES)
    try:
        found = json.loads(data)
        binding = Binding(
            address=bytes.fromhex(found["device"].removeprefix("0x")),
            archive_key=bytes.fromhex(found["archive_key"]),
            signature=bytes.fromhex(found["binding"].removeprefix("0x")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: not what 'headgate keys export-public' writes: {error}") from None
    return Device(address=binding.address, archive_key=binding.archive_key, enrolled_at_ms=now_ms, label=label)


def _device_from(found: dict[str, str], address: bytes) -> Device:
    key, revoked_at_ms = found["archive_key"], found["revoked_at_ms"]
    return Device(
        address=address,
        enrolled_at_ms=int(found["enrolled_at_ms"]),
        archive_key=None if key is None else bytes.fromhex(key),
        revoked_at_ms=None if revoked_at_ms is None else int(revoked_at_ms),
        label=found["label"],
    )
