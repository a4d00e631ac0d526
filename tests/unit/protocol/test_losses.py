import dataclasses
from typing import Any

import pytest

from protocol.losses import Loss
from protocol.reference import Reference
from tests.support.archives import LOSS


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"count": 0}, "count"),
        ({"count": 2**63}, "count"),
        ({"cause": ""}, "cause"),
        ({"cause": "é" * 200}, "cause bytes 400"),
        ({"number": -1}, "number"),
        ({"lane": 256}, "lane"),
        ({"first_position": -1}, "first_position"),
        ({"last_position": 89}, "last_position"),
        ({"chain": ""}, "must be present if the chain is known"),
        ({"first": None}, "must be present if the chain is known"),
        ({"chain": "x" * 1025}, "chain of 1025 bytes"),
        ({"last": Reference(1, 0)}, "before first"),
        ({"first": Reference(-1, 0)}, "first timestamp_ms"),
        ({"last": Reference(2**50, 2**32)}, "last sequence"),
    ],
)
def test_a_loss_that_makes_no_sense_cannot_exist(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        dataclasses.replace(LOSS, **change)


@pytest.mark.parametrize("loss", [LOSS, dataclasses.replace(LOSS, chain="", first=None, last=None)])
def test_a_loss_survives_its_cbor(loss: Loss) -> None:
    assert Loss.from_cbor(loss.to_cbor()) == loss
