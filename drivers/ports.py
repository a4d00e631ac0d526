"""Serial ports: listing them, and finding the configured one again after it was unplugged.

`/dev/ttyUSB0` is a slot, not a device: after re-plugging it may be `/dev/ttyUSB1`, or another device. So a port is
identified by its USB identity (vendor, product, serial number and interface; the USB socket where the device has no
serial number), which is read from the kernel's files below `root`:

    /sys/class/tty/ttyUSB0/device ──► …/usb1/1-1/1-1:1.0/ttyUSB0      1-1:1.0 holds bInterfaceNumber
                                      …/usb1/1-1                      holds idVendor, idProduct, serial
    /dev/serial/by-id/usb-FTDI_… ──► ../../ttyUSB0                    created by udev from the same
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from drivers.errors import DeviceError

POLL_S: Final = 0.25
PORT_PATTERN: Final = r"/\S+|usb:[0-9a-fA-F]{4}:[0-9a-fA-F]{4}(:\S+)?|tcp://\S+"
TCP_PREFIX: Final = "tcp://"
MAX_TCP_PORT: Final = 65_535
_MAX_FILE_CHARS: Final = 256
_MAX_ANCESTORS: Final = 6


@dataclass(frozen=True, slots=True)
class PortIdentity:
    """The part of a USB device's description that stays the same when it is unplugged and plugged in again."""

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
    description: str  # the device's own description, or ""


def is_tcp(address: str) -> bool:
    return address.startswith(TCP_PREFIX)


def tcp_address(address: str) -> tuple[str, int]:
    """Host and port of `tcp://HOST:PORT`, an IPv6 address in brackets. Raises ValueError, saying what is wrong."""
    host, colon, port = address.removeprefix(TCP_PREFIX).rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and 0 < len(port) <= len(str(MAX_TCP_PORT))):
        raise ValueError(
            "the TCP port number is missing or not a number; write tcp://HOST:PORT, such as tcp://10.0.0.5:502"
        )
    if not 0 < int(port) <= MAX_TCP_PORT:
        raise ValueError(f"port {port} is not between 1 and {MAX_TCP_PORT}")
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        name.encode("idna")
    except UnicodeError:
        name = ""
    if not name or any(each in name for each in "/@?#[]") or not name.isprintable():
        raise ValueError(f"{host!r:.60} is not a host name")
    return name, int(port)


def serial_ports(root: Path = Path("/")) -> list[SerialPortInfo]:
    """Every serial port with a device behind it."""
    links = _links_by_target(root / "dev/serial/by-id")
    ports = sorted((root / "sys/class/tty").glob("*/device"), key=lambda device: _natural(device.parent.name))
    return [_describe(device, links) for device in ports if _is_real(device)]


def find_port(configured: str, learned: PortIdentity | None, root: Path = Path("/")) -> str | None:
    """The device file of the configured port, or None while it is absent.

    `configured` is as in the settings; `learned` is the identity it had when it was last open.
    """
    if configured.startswith("usb:"):
        return _find_usb(configured, root)
    if learned is not None:
        same = (info for info in serial_ports(root) if info.identity and info.identity.is_same_device(learned))
        return next((info.device for info in same), None)
    return configured if (root / configured.lstrip("/")).exists() else None


def identity_of(device: str, root: Path = Path("/")) -> PortIdentity | None:
    """The identity of an open port, to find it again by."""
    ttys = root / "sys/class/tty"
    name = Path(device).name
    if not (ttys / name).exists():  # a link: /dev/serial/by-id/…, /dev/serial0
        name = (root / device.lstrip("/")).resolve().name
    return _identity(ttys / name / "device")


def _find_usb(configured: str, root: Path) -> str | None:
    _, vendor, product, *serial = configured.split(":", 3)
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
    except OSError:  # it is there only while a port is, and may disappear meanwhile
        return {}
    return {link.resolve().name: f"/dev/serial/by-id/{link.name}" for link in links}


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_FILE_CHARS).strip()
    except OSError:  # the device was unplugged meanwhile
        return ""


def _natural(name: str) -> tuple[str, int]:
    digits = len(name) - len(name.rstrip("0123456789"))
    return (name[: len(name) - digits], int(name[len(name) - digits :] or 0))


class KnownPort:
    """A serial port of the settings, found by its USB identity once it was open."""

    def __init__(self, configured: str, root: Path = Path("/")) -> None:
        self.configured = configured
        self._root = root
        self._device = configured
        self._tried: _Node | None = None
        self._identity: PortIdentity | None = None

    @property
    def is_tcp(self) -> bool:
        return is_tcp(self.configured)

    @property
    def device_files(self) -> tuple[str, ...]:
        """As the settings name it; none behind a TCP converter."""
        return () if self.is_tcp else (self.configured,)

    @property
    def host_and_port(self) -> tuple[str, int]:
        return tcp_address(self.configured)  # it was checked with the settings

    def find(self) -> str:
        """Its present device file, to be opened. Raises: DeviceError."""
        self._tried = self._inspect()
        if self._tried is None:
            raise DeviceError(
                f"{self.configured} is absent; check that it is plugged in; 'headgate devices' lists attached devices"
            )
        self._device = self._tried.device
        return str(self._root / self._device.lstrip("/"))

    def learn(self) -> None:
        """Store the identity of the port, which is open now."""
        self._identity = identity_of(self._device, self._root) or self._identity

    async def returned(self) -> None:
        """Wait until it appears, or appears again, after the last try. A port that stays present and fails is left to
        the backoff."""
        if self.is_tcp:
            await asyncio.Event().wait()
        while self._inspect() in (None, self._tried):  # noqa: ASYNC110 - there is no notification; polling is cheap
            await asyncio.sleep(POLL_S)

    def _inspect(self) -> "_Node | None":
        device = find_port(self.configured, self._identity, self._root)
        try:
            stat = (self._root / device.lstrip("/")).stat() if device else None
        except OSError:  # it was unplugged meanwhile
            return None
        return _Node(device, stat.st_ino, stat.st_ctime_ns) if device and stat else None


class _Node(NamedTuple):
    """A device file; one that was created again differs, even under the same name."""

    device: str
    inode: int
    changed_at_ns: int
