"""The cable that firmware is tested behind, with a real pty on one side and a socket on the other."""

import socket
import time
from io import FileIO
from pathlib import Path

import pytest
import serial

from testbed.cable import Cable, Faults
from testbed.cable.port import wait_until_readable
from tests.support.descriptors import many_descriptors
from tests.support.driver_rigs import fd_count
from tests.support.joined_ports import joined_ports
from tests.support.patience import PATIENCE_S


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The cable's end, and ours, which stands for the device."""
    destination, device = socket.socketpair()
    device.settimeout(PATIENCE_S)
    return destination, device


def receive(device: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += device.recv(count - len(data))
    return data


def open_port(link: Path) -> serial.Serial:
    return serial.Serial(str(link), timeout=PATIENCE_S, exclusive=True)


def read(port: FileIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        assert wait_until_readable([port.fileno()], PATIENCE_S), "nothing comes"
        data += port.read(count - len(data))
    return data


def test_bytes_go_both_ways(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination), open_port(tmp_path / "port") as host, device:
        host.write(b"\x00\xff ask")
        assert receive(device, 6) == b"\x00\xff ask"
        device.send(b"answer\r\n\x03")
        assert host.read(9) == b"answer\r\n\x03"


def test_bytes_go_both_ways_with_any_descriptor(tmp_path: Path) -> None:
    with many_descriptors():
        destination, device = socket_pair()
        with Cable(tmp_path / "port", destination), (tmp_path / "port").open("r+b", buffering=0) as host, device:
            host.write(b"ask")
            assert receive(device, 3) == b"ask"
            device.send(b"answer")
            assert read(host, 6) == b"answer"


def test_joined_ports_carry_bytes_with_any_descriptor() -> None:
    with (
        many_descriptors(),
        joined_ports() as (one, other),
        Path(one).open("r+b", buffering=0) as here,
        Path(other).open("r+b", buffering=0) as there,
    ):
        here.write(b"ask")
        assert read(there, 3) == b"ask"
        there.write(b"answer")
        assert read(here, 6) == b"answer"


def test_pulling_it_hangs_up_and_it_comes_back_under_the_name_it_is_given(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination) as cable, device:
        with open_port(tmp_path / "port") as host:
            cable.unplug()
            assert not (tmp_path / "port").exists()
            with pytest.raises((OSError, serial.SerialException)):
                host.read(1)
        device.send(b"not received")
        cable.plug(tmp_path / "other")
        with open_port(tmp_path / "other") as host:
            device.send(b"x")
            assert host.read(1) == b"x"


def test_a_half_open_cable_carries_one_way_only(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination) as cable, open_port(tmp_path / "port") as host, device:
        cable.cut(to_host=True, to_device=False)
        device.send(b"lost")
        host.write(b"arrives")
        assert receive(device, 7) == b"arrives"
        cable.repair()
        device.send(b"heard")
        assert host.read(5) == b"heard"


def test_a_slow_line_is_slow(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination, baudrate=19200), open_port(tmp_path / "port") as host, device:
        begun_s = time.monotonic()
        device.send(bytes(384))
        assert host.read(384) == bytes(384)
        assert time.monotonic() - begun_s >= 0.2


def test_faults_can_be_switched_on_while_it_runs(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination) as cable, open_port(tmp_path / "port") as host, device:
        cable.set_faults(Faults(bit_flips=1))
        device.send(b"\x00\x0f")
        assert host.read(2) == b"\xff\xf0"
        assert cable.damaged_bytes == 16


def test_a_device_that_is_replaced_goes_on_under_the_same_name(tmp_path: Path) -> None:
    destination, device = socket_pair()
    with Cable(tmp_path / "port", destination) as cable, open_port(tmp_path / "port") as host:
        device.close()
        other_end, other = socket_pair()
        cable.replace_device(other_end)
        other.send(b"new")
        assert host.read(3) == b"new"
        other.close()


def test_closing_leaks_nothing(tmp_path: Path) -> None:
    before = fd_count()
    for number in range(3):
        destination, device = socket_pair()
        with Cable(tmp_path / f"port{number}", destination), device:
            pass
    assert fd_count() == before
