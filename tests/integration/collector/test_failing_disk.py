"""A disk that fails at the worst moments: what is not durable is not vouched for."""

import errno
import os
from pathlib import Path

import pytest

from tests.support.collectors import ARCHIVE, RunningCollector, claim_for


def test_a_receipt_that_cannot_be_written_is_given_later_and_the_archive_is_not_lost(
    collector: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(collector.intake.receipts, "issue", no_space)
        assert collector.put(ARCHIVE).code == "no-space"
        assert collector.receipts() == []
    assert collector.put(ARCHIVE).status == 200
    assert list(collector.landed().values()) == [ARCHIVE]


def test_an_archive_that_cannot_be_synced_is_sent_again_in_full(
    collector: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def broken(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".part":
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", broken)
        assert collector.put(ARCHIVE).code == "fault"
    assert (collector.landed(), collector.parts(), collector.receipts()) == ({}, {}, [])
    assert collector.head(claim_for(ARCHIVE)).offset == 0
    assert collector.put(ARCHIVE).status == 201
