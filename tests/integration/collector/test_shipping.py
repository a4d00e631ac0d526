"""What a well-behaved device meets: upload, resume, ask, and the receipt."""

import hashlib
import http.client
import os
import time
from pathlib import Path

import pytest

from protocol.shipping import archive_path
from tests.archives import BINDING
from tests.collectors import (
    ARCHIVE,
    COLLECTOR_KEY,
    SEALING_KEY,
    RunningCollector,
    claim_for,
    read_reply,
    running_collector,
    seal,
)

NAME = hashlib.sha256(ARCHIVE).hexdigest() + ".hga"
CLAIM = claim_for(ARCHIVE)
HALF = len(ARCHIVE) // 2


@pytest.fixture
def collector(tmp_path: Path):  # type: ignore[no-untyped-def]
    with running_collector(tmp_path) as running:
        yield running


def test_an_archive_is_stored_under_its_digest_and_answered_with_a_receipt(collector: RunningCollector) -> None:
    reply = collector.put(ARCHIVE)
    assert reply.status == 201
    assert reply.receipt.covers(
        archive=CLAIM.archive, size_bytes=len(ARCHIVE), device=BINDING.address, collector_key=COLLECTOR_KEY
    )
    assert collector.landed() == {NAME: ARCHIVE}
    assert collector.parts() == {}
