"""The allow-list: one small file per device, read at each request, so that a change takes effect at once.

`devices/<address>.json` is written whole or not at all, and by the operator's commands only. The file of a
revoked device stays, as a record of the enrolment.

A device that was enrolled by its address alone has no archive key yet. The first key that it offers, with a binding by
its address, is stored in `devices/<address>.offered`, and its archives are refused until the operator has compared that
key with the device's own and confirmed it. The server writes only these `.offered` files, so it cannot undo a decision
of the operator.
"""

import dataclasses
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.collector.errors import ConfigError, UploadRefused
from protocol.binding import ED25519_KEY_BYTES, Binding
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal
from runtime.durable_files import PRIVATE_DIRECTORY, make_directory, replace_file

MAX_DEVICE_FILE_BYTES = 4096
MAX_LABEL_CHARACTERS = 100
SUFFIX = ".json"
OFFER_SUFFIX = ".offered"
MIN_KEY_DIGITS = 16  # of an archive key, by which the operator may name it
CONFIRMATION_RETRY_S = 60
_ADDRESS = re.compile("0x[0-9a-fA-F]{40}")
_KEY = re.compile("[0-9a-f]{64}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The entry of one device."""

    address: bytes
    enrolled_at_ms: int
    archive_key: bytes | None = None  # None: not confirmed yet, so nothing is accepted
    revoked_at_ms: int | None = None
    label: str = ""
    offered_key: bytes | None = None  # the archive key that the device sends, not confirmed by the operator

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
    """The devices that may upload archives."""

    def __init__(self, folder: Path) -> None:
        make_directory(folder, mode=PRIVATE_DIRECTORY)
        self._folder = folder

    def enrol(self, device: Device) -> None:
        """Add a device; it may upload once its archive key is known. Replaces its previous entry."""
        replace_file(self._path(device.address), json.dumps(device.as_dict(), indent=2).encode() + b"\n")
        if device.archive_key is not None:
            self._offer_path(device.address).unlink(missing_ok=True)

    def confirm(self, address: bytes, key: str) -> Device:
        """Accept the archive key of a device that was enrolled by its address. `key` is the whole key or its beginning.

        Raises: ConfigError unless that identifies one key.
        """
        device, name = self.find(address), checksum_address(address)
        if device is None:
            raise ConfigError(f"{name} is not enrolled; run: headgate collector enrol {name} --archive-key KEY")
        confirmed = _confirmed_key(device, key.lower().removeprefix("0x"))
        if device.archive_key not in (None, confirmed):
            raise ConfigError(f"{name} has the archive key {device.archive_key.hex()}; enrol it again to change that")
        device = dataclasses.replace(device, archive_key=confirmed, offered_key=None)
        self.enrol(device)
        return device

    def revoke(self, address: bytes, now_ms: int) -> Device:
        """Refuse its uploads from now on. Raises: ConfigError for a device that was never enrolled."""
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
                device = _device_from(json.loads(file.read(MAX_DEVICE_FILE_BYTES)), address)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path}: damaged; enrol the device again") from None
        if device.archive_key is not None:
            return device
        return dataclasses.replace(device, offered_key=self._find_offer(address))

    def devices(self) -> Iterator[Device]:
        for path in sorted(self._folder.glob(f"0x*{SUFFIX}")):
            device = self.find(parse_address(path.stem))
            if device is not None:
                yield device

    def check(self, binding: Binding) -> None:
        """Raises: UploadRefused unless the device may upload archives, with the archive key that is bound to it."""
        device = self.find(binding.address)
        name = checksum_address(binding.address)
        if device is None:
            raise UploadRefused(
                Refusal.DEVICE_UNKNOWN, f"{name} is not enrolled; enrol it with headgate collector enrol"
            )
        if device.is_revoked:
            raise UploadRefused(Refusal.DEVICE_REVOKED, f"{name} was revoked")
        if device.archive_key is None:
            raise self._unconfirmed(device, binding.archive_key)
        if device.archive_key != binding.archive_key:
            problem = f"{name} has another archive key; enrol the output of headgate keys export-public"
            raise UploadRefused(Refusal.DEVICE_UNKNOWN, problem)

    def _unconfirmed(self, device: Device, key: bytes) -> UploadRefused:
        """Record the first key that is offered. Returns the refusal, with the command that confirms the key."""
        name, start = checksum_address(device.address), key.hex()[:MIN_KEY_DIGITS]
        command = f"headgate collector confirm {name} {start}"
        if device.offered_key is None:
            replace_file(self._offer_path(device.address), key.hex().encode() + b"\n")
            log.warning(
                "the archive key of a device is not confirmed, its uploads are refused; device=%s key=%s; run: %s",
                name,
                start,
                command,
            )
        elif device.offered_key != key:
            command = f"another key was offered before; headgate collector confirm {name} {key.hex()}"
        return UploadRefused(
            Refusal.KEY_UNCONFIRMED,
            f"{name} is enrolled by its address alone, and its archive key is not confirmed; if headgate keys show on"
            f" the device has {start}…, on the collector: {command}",
            retry_after_s=CONFIRMATION_RETRY_S,
        )

    def _find_offer(self, address: bytes) -> bytes | None:
        try:
            with self._offer_path(address).open("rb") as file:
                return _key_from(file.read(MAX_DEVICE_FILE_BYTES).decode(errors="replace").strip())
        except (FileNotFoundError, ConfigError):
            return None

    def _offer_path(self, address: bytes) -> Path:
        return self._folder / f"0x{address.hex()}{OFFER_SUFFIX}"

    def _path(self, address: bytes) -> Path:
        return self._folder / f"0x{address.hex()}{SUFFIX}"


def parse_address(text: str) -> bytes:
    """Raises: ConfigError, also for mixed case whose EIP-55 checksum is wrong."""
    if not _ADDRESS.fullmatch(text):
        raise ConfigError(f"{text[:60]!r} is not an address: expected 0x and 40 hex digits")
    address = bytes.fromhex(text[2:])
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and text != checksum_address(address):
        raise ConfigError(f"{text}: its EIP-55 checksum is wrong; compare it with the address shown on the device")
    return address


def parse_archive_key(text: str) -> bytes:
    """Raises: ConfigError."""
    return _key_from(text.lower().removeprefix("0x"))


def _key_from(digits: str) -> bytes:
    if not _KEY.fullmatch(digits):
        raise ConfigError(
            f"{digits[:70]!r} is not an archive key: expected 64 hex digits, as headgate keys show prints them"
        )
    return bytes.fromhex(digits)


def _confirmed_key(device: Device, digits: str) -> bytes:
    """The key given in full, or the offered key that begins with these digits. Raises: ConfigError."""
    if len(digits) == 2 * ED25519_KEY_BYTES:
        return _key_from(digits)
    if len(digits) < MIN_KEY_DIGITS:
        raise ConfigError(f"{digits!r}: expected at least {MIN_KEY_DIGITS} digits of the archive key")
    if device.offered_key is None:
        raise ConfigError("the device has offered no archive key yet; give all 64 digits of it")
    if not device.offered_key.hex().startswith(digits):
        raise ConfigError(f"the device offers {device.offered_key.hex()}, which does not begin with {digits[:64]!r}")
    return device.offered_key


def addresses_in(folder: Path) -> frozenset[str]:
    """The addresses of enrolled and revoked devices, in lower case. Raises: OSError.

    Revoked devices are included: archives that were accepted before the revocation stay valid.
    """
    return frozenset(path.stem.lower() for path in folder.iterdir() if path.suffix == SUFFIX)


def device_from_public_file(path: Path, now_ms: int, label: str) -> Device:
    """The device that `headgate keys export-public` described. Raises: ConfigError unless its binding is valid."""
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
        raise ConfigError(f"{path}: not a file of 'headgate keys export-public': {error}") from None
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
