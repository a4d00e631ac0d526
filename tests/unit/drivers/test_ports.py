"""Ports by what they are, not by where they are; against a tree laid out as the kernel and udev do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.ports import PortIdentity, find_port, identity_of, is_tcp, serial_ports, tcp_address


def plug_usb(
    root: Path, tty: str, socket: str, *, vendor: str, product: str, serial: str = "", interface: str = "00"
) -> None:
    """What appears when a USB serial adapter is plugged in."""
    usb = root / f"sys/devices/pci0/usb1/{socket}"
    port = usb / f"{socket}:1.{int(interface)}" / tty
    port.mkdir(parents=True)
    facts = {"idVendor": vendor, "idProduct": product, "manufacturer": "FTDI", "product": "FT232R USB UART"}
    if serial:
        facts["serial"] = serial
    for name, text in facts.items():
        (usb / name).write_text(text + "\n")
    (port.parent / "bInterfaceNumber").write_text(interface + "\n")
    (root / f"sys/class/tty/{tty}").mkdir(parents=True)
    (root / f"sys/class/tty/{tty}/device").symlink_to(os.path.relpath(port, root / f"sys/class/tty/{tty}"))
    (root / "dev/serial/by-id").mkdir(parents=True, exist_ok=True)
    (root / f"dev/{tty}").touch()
    if serial:
        link = root / f"dev/serial/by-id/usb-FTDI_FT232R_USB_UART_{serial}-if{interface}-port0"
        link.symlink_to(f"../../{tty}")


def built_in(root: Path, tty: str, kind: str) -> None:
    folder = root / f"sys/class/tty/{tty}"
    (root / "sys/devices/platform/serial8250").mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(os.path.relpath(root / "sys/devices/platform/serial8250", folder))
    (folder / "type").write_text(kind + "\n")


def test_ports_are_listed_with_identity_name_and_description(tmp_path: Path) -> None:
    plug_usb(tmp_path, "ttyUSB10", "1-2", vendor="1a86", product="7523")
    plug_usb(tmp_path, "ttyUSB2", "1-1.4", vendor="0403", product="6001", serial="A10K5LZ7")
    first, second = serial_ports(tmp_path)
    assert first.device == "/dev/ttyUSB2"
    assert first.identity == PortIdentity("0403", "6001", "A10K5LZ7", "00", "1-1.4")
    assert first.by_id == "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10K5LZ7-if00-port0"
    assert first.description == "FTDI FT232R USB UART"
    assert (second.device, second.by_id) == ("/dev/ttyUSB10", "")


def test_built_in_ports_without_a_chip_are_left_out(tmp_path: Path) -> None:
    built_in(tmp_path, "ttyS0", "4")
    built_in(tmp_path, "ttyS1", "0")
    assert [(info.device, info.identity) for info in serial_ports(tmp_path)] == [("/dev/ttyS0", None)]


def test_a_machine_without_ports_has_none(tmp_path: Path) -> None:
    assert serial_ports(tmp_path) == []
    assert find_port("/dev/ttyUSB0", None, tmp_path) is None


def test_a_port_is_found_by_vendor_product_and_serial_number(tmp_path: Path) -> None:
    plug_usb(tmp_path, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A")
    plug_usb(tmp_path, "ttyUSB1", "1-2", vendor="0403", product="6001", serial="B")
    assert find_port("usb:0403:6001:B", None, tmp_path) == "/dev/ttyUSB1"
    assert find_port("usb:0403:6001", None, tmp_path) == "/dev/ttyUSB0"
    assert find_port("usb:0403:6001:C", None, tmp_path) is None


def test_a_port_that_comes_back_under_another_name_is_found_by_its_serial_number(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    plug_usb(before, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A")
    learned = identity_of("/dev/ttyUSB0", before)
    plug_usb(after, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="ANOTHER")
    plug_usb(after, "ttyUSB1", "1-2", vendor="0403", product="6001", serial="A")
    assert find_port("/dev/ttyUSB0", learned, after) == "/dev/ttyUSB1"


def test_a_device_without_serial_number_is_known_by_its_socket(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    plug_usb(before, "ttyUSB0", "1-1", vendor="1a86", product="7523")
    learned = identity_of("/dev/ttyUSB0", before)
    plug_usb(after, "ttyUSB0", "1-2", vendor="1a86", product="7523")
    assert find_port("/dev/ttyUSB0", learned, after) is None
    plug_usb(after, "ttyUSB1", "1-1", vendor="1a86", product="7523")
    assert find_port("/dev/ttyUSB0", learned, after) == "/dev/ttyUSB1"


def test_a_name_by_id_leads_to_the_identity(tmp_path: Path) -> None:
    plug_usb(tmp_path, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A")
    by_id = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A-if00-port0"
    assert find_port(by_id, None, tmp_path) == by_id
    assert identity_of(by_id, tmp_path) == PortIdentity("0403", "6001", "A", "00", "1-1")


@pytest.mark.parametrize("port", ["/dev/ttyS0", "/dev/null"])
def test_what_is_not_on_usb_has_no_identity(port: str, tmp_path: Path) -> None:
    built_in(tmp_path, "ttyS0", "4")
    assert identity_of(port, tmp_path) is None


def test_links_that_are_removed_while_they_are_listed_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the last device is pulled, and udev takes the folder away."""
    plug_usb(tmp_path, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A10K")

    def gone(folder: Path) -> Iterator[Path]:
        raise FileNotFoundError(2, "No such file or directory", str(folder))

    monkeypatch.setattr(Path, "iterdir", gone)
    assert [port.by_id for port in serial_ports(tmp_path)] == [""]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://10.0.0.5:502", ("10.0.0.5", 502)),
        ("tcp://[::1]:1", ("::1", 1)),
        ("tcp://münchen:65535", ("münchen", 65535)),
    ],
)
def test_a_tcp_converter_has_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert is_tcp(text)
    assert tcp_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["tcp://10.0.0.5", "tcp://h:", "tcp://h:abc", "tcp://h:0", "tcp://h:65536", "tcp://h:٣", "tcp://:1", "tcp://", "tcp://a/b:1",
     "tcp://u@h:1", "tcp://[::1:1", "tcp://a..b:1", "tcp://h:" + "1" * 5000],
)  # fmt: skip
def test_a_tcp_converter_without_host_or_port_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"port|host"):
        tcp_address(text)
