"""Which serial ports there are, and which of them is the one that was meant.

`/dev/ttyUSB0` is a place, not a device: after re-plugging it may be `/dev/ttyUSB1`, or somebody else's. So a port is
known by its USB identity (vendor, product, serial number and interface; the socket it is plugged into where the device
has no serial number), which is read from the kernel's files below `root`:

    /sys/class/tty/ttyUSB0/device ──► …/usb1/1-1/1-1:1.0/ttyUSB0      1-1:1.0 holds bInterfaceNumber
                                      …/usb1/1-1                      holds idVendor, idProduct, serial
    /dev/serial/by-id/usb-FTDI_… ──► ../../ttyUSB0                    made by udev from the same facts
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PORT_PATTERN", "PortIdentity", "SerialPortInfo", "find_port", "identity_of", "serial_ports"]

PORT_PATTERN: Final = r"/\S+|usb:[0-9a-fA-F]{4}:[0-9a-fA-F]{4}(:\S+)?|tcp://\S+:[0-9]{1,5}"
_MAX_FILE_CHARS: Final = 256
_MAX_ANCESTORS: Final = 6


@dataclass(frozen=True, slots=True)
class PortIdentity:
    """What stays the same when a USB device is pulled and plugged in again."""

    vendor: str  # four hex digits
    product: str
    serial: str  # "" where the device has none
    interface: str  # two hex digits; boards with several ports differ in it
    socket: str  # the hub port, as 1-1.4

    def is_same_device(self, other: "PortIdentity") -> bool:
        same_kind = (self.vendor, self.product, self.interface) == (other.vendor, other.product, other.interface)
        if self.serial or other.serial:
            return same_kind and self.serial == other.serial
        return same_kind and self.socket == other.socket


@dataclass(frozen=True, slots=True)
class SerialPortInfo:
    device: str  # /dev/ttyUSB0
    identity: PortIdentity | None  # None for a port that is not on USB
    by_id: str  # /dev/serial/by-id/…, or ""
    description: str  # what the device calls itself, or ""


def serial_ports(root: Path = Path("/")) -> list[SerialPortInfo]:
    """Every serial port with a device behind it."""
    links = _links_by_target(root / "dev/serial/by-id")
    ports = sorted((root / "sys/class/tty").glob("*/device"), key=lambda device: _natural(device.parent.name))
    return [_describe(device, links) for device in ports if _is_real(device)]


def find_port(wanted: str, learned: PortIdentity | None, root: Path = Path("/")) -> str | None:
    """The device file of the port that is meant, or None while it is absent.

    `wanted` is as in the settings; `learned` is the identity it had when it was last open.
    """
    if wanted.startswith("usb:"):
        return _find_usb(wanted, root)
    if learned is not None:
        same = (info for info in serial_ports(root) if info.identity and info.identity.is_same_device(learned))
        return next((info.device for info in same), None)
    return wanted if (root / wanted.lstrip("/")).exists() else None


def identity_of(device: str, root: Path = Path("/")) -> PortIdentity | None:
    """The identity of an open port, to find it again by."""
    ttys = root / "sys/class/tty"
    name = Path(device).name
    if not (ttys / name).exists():  # a link: /dev/serial/by-id/…, /dev/serial0
        name = (root / device.lstrip("/")).resolve().name
    return _identity(ttys / name / "device")


def _find_usb(wanted: str, root: Path) -> str | None:
    _, vendor, product, *serial = wanted.split(":", 3)
    for info in serial_ports(root):
        identity = info.identity
        if identity is None or (identity.vendor, identity.product) != (vendor.lower(), product.lower()):
            continue
        if not serial or identity.serial == serial[0]:
            return info.device
    return None


def _describe(device: Path, links: dict[str, str]) -> SerialPortInfo:
    name = device.parent.name
    usb = _usb_device(device)
    words = (_read(usb / file) for file in ("manufacturer", "product")) if usb else ()
    return SerialPortInfo(
        f"/dev/{name}", _identity(device), links.get(name, ""), " ".join(word for word in words if word)
    )


def _identity(device: Path) -> PortIdentity | None:
    usb = _usb_device(device)
    if usb is None:
        return None
    interface = _ancestor_with(device, "bInterfaceNumber")
    number = _read(interface / "bInterfaceNumber") if interface else ""
    return PortIdentity(_read(usb / "idVendor"), _read(usb / "idProduct"), _read(usb / "serial"), number, usb.name)


def _usb_device(device: Path) -> Path | None:
    return _ancestor_with(device, "idVendor")


def _ancestor_with(device: Path, file: str) -> Path | None:
    folder = device.resolve()
    for candidate in (folder, *list(folder.parents)[:_MAX_ANCESTORS]):
        if (candidate / file).is_file():
            return candidate
    return None


def _is_real(device: Path) -> bool:
    """The kernel lists 32 built-in ports on any PC; those with no chip behind them have type 0."""
    kind = device.parent / "type"
    return not kind.is_file() or _read(kind) != "0"


def _links_by_target(folder: Path) -> dict[str, str]:
    try:
        links = sorted(folder.iterdir())
    except OSError:  # it is there only while a port is, and may go while we look
        return {}
    return {link.resolve().name: f"/dev/serial/by-id/{link.name}" for link in links}


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_FILE_CHARS).strip()
    except OSError:  # the device left while we looked
        return ""


def _natural(name: str) -> tuple[str, int]:
    digits = len(name) - len(name.rstrip("0123456789"))
    return (name[: len(name) - digits], int(name[len(name) - digits :] or 0))
