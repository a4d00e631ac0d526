from pathlib import Path

import pytest

from agent.archive.settings import ShipConfig
from agent.errors import LinkDown
from agent.ship.connection import Abort
from agent.ship.heartbeat import send_checkpoint
from protocol.shipping import Refusal
from tests.support.device_logs import checkpoint
from tests.support.small_collector import KEY, SmallCollector


def config(url: str) -> ShipConfig:
    return ShipConfig(url=url, collector_key=Path("collector.pub"), timeout_s=5)


def test_the_answer_is_for_this_checkpoint() -> None:
    with SmallCollector() as collector:
        answer = send_checkpoint(checkpoint(), config(collector.url), bytes(KEY.verify_key), Abort())
    assert answer.held_size == checkpoint().size
    assert collector.checkpoints == [checkpoint()]


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [
        (Refusal.DEVICE_UNKNOWN, "403 device-unknown"),
        (Refusal.NOT_STORED, "the collector answers 404 to a checkpoint"),
        (Refusal.LOG_FORKED, "the collector refuses a checkpoint: 409 log-forked"),
        (Refusal.ARCHIVE_INVALID, "the collector refuses a checkpoint: 422 archive-invalid"),
    ],
)
def test_a_refusal_says_why(refusal: Refusal, problem: str) -> None:
    with SmallCollector() as collector:
        collector.refuse_with = refusal
        with pytest.raises(LinkDown, match=problem):
            send_checkpoint(checkpoint(), config(collector.url), bytes(KEY.verify_key), Abort())


def test_an_answer_that_is_none_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with SmallCollector() as collector:
        monkeypatch.setattr(collector, "answer_to", lambda _: b"nonsense" * 1000)
        with pytest.raises(LinkDown, match="the answer to a checkpoint is not valid"):
            send_checkpoint(checkpoint(), config(collector.url), bytes(KEY.verify_key), Abort())


def test_a_collector_that_is_not_there_is_named() -> None:
    with SmallCollector() as collector:
        url = collector.url
    with pytest.raises(LinkDown, match=url):
        send_checkpoint(checkpoint(), config(url), bytes(KEY.verify_key), Abort())
