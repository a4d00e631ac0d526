from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.clock import CeilingFile
from agent.clock.ceiling import FILE_BYTES, SLOT_BYTES, SLOT_OFFSETS, encode_slot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ceiling"


@pytest.fixture
def file(path: Path) -> Iterator[CeilingFile]:
    with closing(CeilingFile(path)) as file:
        yield file


def reopened(path: Path) -> int:
    file = CeilingFile(path)
    file.close()
    return file.ceiling_ms


def test_a_new_file_knows_nothing_and_has_its_full_size(path: Path) -> None:
    assert reopened(path) == -1
    assert path.stat().st_size == FILE_BYTES


def test_the_last_number_is_found_again_and_the_file_does_not_grow(path: Path, file: CeilingFile) -> None:
    for number in (10, 5_000, 4_000):  # lower is fine: after a clean stop
        file.write(number)
        assert reopened(path) == number
    assert path.stat().st_size == FILE_BYTES


def test_a_write_torn_at_any_byte_leaves_the_number_before_it(path: Path, file: CeilingFile) -> None:
    file.write(1_000)
    file.write(2_000)
    before = path.read_bytes()
    slot, offset = encode_slot(3, 3_000), SLOT_OFFSETS[1]
    for length in range(SLOT_BYTES):
        torn = bytearray(before)
        torn[offset : offset + length] = slot[:length]
        path.write_bytes(torn)
        assert reopened(path) == 2_000
    file.write(3_000)
    assert reopened(path) == 3_000


def test_a_failed_write_never_costs_the_slot_that_is_good(
    path: Path, file: CeilingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    file.write(1_000)
    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", fail)
        for number in (2_000, 3_000):
            with pytest.raises(OSError, match="Input/output"):
                file.write(number)
    content = bytearray(path.read_bytes())
    content[SLOT_OFFSETS[0] : SLOT_OFFSETS[0] + SLOT_BYTES] = bytes(SLOT_BYTES)  # the writes never reached the medium
    path.write_bytes(content)
    assert reopened(path) == 1_000


def test_damage_of_both_slots_is_as_if_nothing_were_known_and_heals(path: Path) -> None:
    path.write_bytes(b"\xff" * 100)
    assert reopened(path) == -1
    with closing(CeilingFile(path)) as file:
        file.write(7)
    assert reopened(path) == 7
