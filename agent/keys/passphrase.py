"""Reads a passphrase: from a file, the service manager or the keyboard; never from the command line."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.errors import ConfigError
from agent.keys.files import read_credential
from agent.keys.secret import Secret
from runtime.private_files import read_private_file

CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
PASSPHRASE_CREDENTIAL = "headgate.passphrase"  # noqa: S105 - the name of a file, not what is in it
MAX_PASSPHRASE_BYTES = 1024

Ask = Callable[[str], str]


def ask_at_terminal(prompt: str) -> str:
    """Prompt on the terminal. Raises: ConfigError if there is none."""
    if not sys.stdin.isatty():
        raise ConfigError(
            "a passphrase is needed and there is no terminal to prompt on; give --passphrase-file or provide the"
            f" credential {PASSPHRASE_CREDENTIAL}"
        )
    import getpass

    try:
        return getpass.getpass(prompt)
    except EOFError:  # Ctrl-D
        raise KeyboardInterrupt from None


def passphrase_from(
    file: Path | None, environment: Mapping[str, str], *, prompt: str, ask: Ask = ask_at_terminal
) -> Secret:
    """Read the passphrase from `file`, else from a systemd credential, else prompt for it.

    Raises: ConfigError if there is none of them, or it is empty or too long.
    """
    if file is not None:
        return _without_newline(Secret(read_private_file(file, max_bytes=MAX_PASSPHRASE_BYTES)), str(file))
    credential = find_credential(environment, PASSPHRASE_CREDENTIAL)
    if credential is not None:
        return _without_newline(Secret(read_credential(credential, max_bytes=MAX_PASSPHRASE_BYTES)), str(credential))
    return _without_newline(Secret(ask(prompt).encode()), "the passphrase")


def new_passphrase_from(file: Path | None, environment: Mapping[str, str], *, ask: Ask = ask_at_terminal) -> Secret:
    """A new passphrase, prompted for twice at the terminal."""
    first = passphrase_from(file, environment, prompt="New passphrase: ", ask=ask)
    if file is None and find_credential(environment, PASSPHRASE_CREDENTIAL) is None:
        again = passphrase_from(None, environment, prompt="Repeat the passphrase: ", ask=ask)
        if first != again:
            raise ConfigError("the passphrases do not match; nothing was changed")
    return first


def find_credential(environment: Mapping[str, str], name: str) -> Path | None:
    """The path of the systemd credential of that name, if there is one."""
    folder = environment.get(CREDENTIALS_VARIABLE)
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def _without_newline(passphrase: Secret, source: str) -> Secret:
    trimmed = Secret(passphrase.reveal().removesuffix(b"\n").removesuffix(b"\r"))
    if not 1 <= len(trimmed) <= MAX_PASSPHRASE_BYTES:
        raise ConfigError(f"{source}: a passphrase must have 1 to {MAX_PASSPHRASE_BYTES} bytes")
    return trimmed
