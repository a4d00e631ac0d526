import dataclasses
from typing import Any

import pytest

from protocol import strict_cbor
from protocol.archive.manifest import BlockEntry, ChainEntry, LaneEntry, Manifest
from protocol.devicelog.entry import LaneRange
from protocol.errors import Corrupt, WireError
from protocol.reference import Reference
from tests.support.archives import LOSS
from tests.support.device_logs import log_entry

ENTRY = log_entry(2, lanes=(LaneRange(0, 0, 0, 12), LaneRange(3, 5, 7, 8)))
BLOCKS = (BlockEntry(100, 50, 400, 3, 5, b"1" * 32), BlockEntry(150, 60, 500, 4, 4, b"2" * 32))
CHAINS = (
    ChainEntry("a", 5, 7, Reference(1, 0), Reference(9, 1)),
    ChainEntry("b", 2, 2, Reference(2, 0), Reference(2, 1)),
)
MANIFEST = Manifest(
    header_sha256=b"h" * 32,
    entry=ENTRY,
    blocks=BLOCKS,
    chains=CHAINS,
    lanes=(LaneEntry(0, 6, 8, 0, 9), LaneEntry(3, 1, 1, 7, 7)),
    losses=(LOSS,),
)


def test_round_trip() -> None:
    assert Manifest.from_bytes(MANIFEST.to_bytes()) == MANIFEST
    assert (MANIFEST.records, MANIFEST.readings) == (7, 9)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"header_sha256": b"short"}, "header digest"),
        ({"blocks": BLOCKS[:1]}, "3 records in blocks, 7 in chains"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(offset=151))}, "do not follow"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(raw_bytes=2**40))}, "block bytes"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(records=0))}, "block records"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(readings=3))}, "block readings 3"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(readings=5))}, "10 readings in blocks, 9 in chains, 9 in lanes"),
        ({"chains": (CHAINS[0], CHAINS[1]._replace(readings=1))}, "chain readings 1"),
        ({"chains": (CHAINS[0], CHAINS[1]._replace(readings=3))}, "9 readings in blocks, 10 in chains, 9 in lanes"),
        ({"blocks": (BLOCKS[0], BLOCKS[1]._replace(sha256=b""))}, "block digest"),
        ({"lanes": (LaneEntry(3, 1, 1, 7, 7), LaneEntry(0, 6, 8, 0, 9))}, "lanes are not in order"),
        ({"lanes": (LaneEntry(0, 7, 7, 9, 0),)}, "first position"),
        ({"lanes": (LaneEntry(0, 7, 6, 0, 9),)}, "lane readings 6"),
        ({"lanes": (LaneEntry(0, 7, 11, 0, 9),)}, "lane readings 11"),
        ({"lanes": (LaneEntry(0, 7, 7, 0, 12),)}, "lane 0 has positions outside 0..12"),
        ({"lanes": (LaneEntry(0, 6, 6, 0, 9), LaneEntry(3, 1, 1, 6, 6))}, "lane 3 has positions outside 7..8"),
        ({"lanes": (LaneEntry(0, 6, 6, 0, 9), LaneEntry(4, 1, 1, 6, 6))}, "lane 4 has positions outside 0..0"),
        ({"chains": (ChainEntry("", 7, 9, Reference(1, 0), Reference(1, 0)),)}, "chain key"),
        ({"chains": (MANIFEST.chains[0], MANIFEST.chains[1]._replace(chain="a"))}, "twice"),
        ({"losses": (LOSS,) * 4097}, "losses"),
    ],
)
def test_a_manifest_that_contradicts_itself_cannot_exist(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        dataclasses.replace(MANIFEST, **change)


def test_a_loss_whose_chain_is_unknown_survives_the_round_trip() -> None:
    unknown = dataclasses.replace(LOSS, chain="", first=None, last=None)
    manifest = dataclasses.replace(MANIFEST, losses=(unknown,))
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": 1},
        {"blocks": [[1]]},
        {"chains": [["a", 1, [1], [1, 2]]]},
        {"lanes": [[True, 0, 0, 0, 0]]},
        {"more": 1},
        {"entry": {}},
    ],
)
def test_a_wrong_shape_is_corrupt_and_says_it_is_the_manifest(change: dict[str, Any]) -> None:
    bounds = strict_cbor.CborBounds(10_000, 1000, 5)
    values = strict_cbor.decode(MANIFEST.to_bytes(), bounds)
    assert isinstance(values, dict)
    with pytest.raises(Corrupt, match="manifest: "):
        Manifest.from_bytes(strict_cbor.encode({**values, **change}))


def test_any_change_of_a_byte_gives_another_manifest_or_a_wire_error() -> None:
    data = MANIFEST.to_bytes()
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x10
        try:
            assert Manifest.from_bytes(bytes(damaged)) != MANIFEST
        except WireError:
            continue
