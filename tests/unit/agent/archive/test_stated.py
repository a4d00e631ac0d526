import pytest

from agent.archive.stated import STATED_NAME, Stated, read_stated
from protocol.errors import WireError
from tests.support.device_logs import checkpoint

STATED = Stated(b"journal-of-tests", checkpoint())


class Files:
    def __init__(self, **files: bytes) -> None:
        self._files = {name.replace("_", "."): data for name, data in files.items()}

    def names(self) -> list[str]:
        return list(self._files)

    def read(self, name: str, offset: int, count: int) -> bytes:
        return self._files[name][offset : offset + count]


def test_round_trip() -> None:
    assert Stated.from_bytes(STATED.to_bytes()) == STATED


def test_no_byte_can_change_and_no_beginning_passes() -> None:
    data = STATED.to_bytes()
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        for bad in (bytes(damaged), data[:offset]):
            with pytest.raises(WireError):
                Stated.from_bytes(bad)


def test_a_file_that_is_missing_or_damaged_states_nothing() -> None:
    assert STATED_NAME == "checkpoint.state"
    assert read_stated(Files(checkpoint_state=STATED.to_bytes())) == STATED
    assert read_stated(Files()) is None
    assert read_stated(Files(checkpoint_state=b"HGCHKP and noise")) is None
