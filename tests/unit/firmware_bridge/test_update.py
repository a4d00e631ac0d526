"""Updates of a device whose update code is the real one, reset wherever it hurts."""

import asyncio

import pytest

from firmware_bridge import CommandRejected, LinkDown, UpdateReport, UpdateResult, check_signature, update_firmware
from protocol.firmware import Package
from protocol.link import (
    Feature,
    Message,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
)
from tests.effort import seeds
from tests.support.booted_link import LATE_S, BootedLink
from tests.support.firmware_samples import BUILDER_KEY, UNKNOWN, image, package

pytestmark = pytest.mark.needs("gcc", "build-essential")


@pytest.fixture(autouse=True)
def _quick_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firmware_bridge.update.SETTLE_S", LATE_S)


OLD = package(image(700, seed=1), version="1.0.0", counter=1)
NEW = package(image(1900, seed=2), version="1.1.0", counter=2)


def update(link: BootedLink, firmware: Package = NEW, *, is_forced: bool = False) -> UpdateReport:
    return asyncio.run(update_firmware(link, firmware, is_forced=is_forced, trial_s=5.0))


def test_an_update_is_sent_tried_and_confirmed() -> None:
    link = BootedLink(OLD, NEW)
    assert update(link) == UpdateReport(
        device_id="bench", before="1.0.0", after="1.1.0", result=UpdateResult.CONFIRMED, sent_bytes=1900
    )
    link.reset()
    assert link.firmware == "1.1.0"


def test_progress_is_reported_from_the_first_byte_to_the_last() -> None:
    reached: list[int] = []
    asyncio.run(update_firmware(BootedLink(OLD, NEW), NEW, reached=reached.append))
    assert (reached[0], reached[-1]) == (0, 1900)
    assert reached == sorted(reached)


@pytest.mark.parametrize(("mtu", "chunk_bytes"), [(235, 192), (256, 224), (1024, 960)])
def test_chunks_are_as_large_as_the_device_takes(mtu: int, chunk_bytes: int) -> None:
    link = BootedLink(OLD, NEW, mtu=mtu)
    update(link)
    assert {len(each.data) for each in link.asked if isinstance(each, UpdateChunk)} == {chunk_bytes, 1900 % chunk_bytes}


@pytest.mark.parametrize("message", [UpdateBegin, UpdateChunk, UpdateEnd, UpdateConfirm, UpdateQuery])
@pytest.mark.parametrize("times", [1, 2])
def test_a_device_that_is_reset_during_the_update_is_still_updated(message: type[Message], times: int) -> None:
    link = BootedLink(OLD, NEW, reset_before={message: times})
    assert update(link).result is UpdateResult.CONFIRMED
    link.reset()
    assert link.firmware == "1.1.0"


@pytest.mark.parametrize("seed", seeds(test=5, soak=200))
def test_answers_that_come_twice_are_not_taken_for_others(seed: int) -> None:
    link = BootedLink(OLD, NEW, double_answers=0.3, seed=seed)
    report = update(link)
    assert report.result is UpdateResult.CONFIRMED
    assert report.sent_bytes <= 1900 + 10 * 224, "not everything is sent twice"
    link.reset()
    assert link.firmware == "1.1.0"


def test_a_device_that_is_always_reset_is_given_up() -> None:
    with pytest.raises(CommandRejected, match="does not store what it receives"):
        update(BootedLink(OLD, NEW, reset_before={UpdateChunk: 10**9}))
    with pytest.raises(CommandRejected, match="several times and does not store it"):
        update(BootedLink(OLD, NEW, reset_before={UpdateEnd: 10**9}))


def test_a_firmware_that_does_not_start_is_reported_as_reverted() -> None:
    link = BootedLink(OLD, NEW, never_speak=(NEW,))
    report = update(link)
    assert (report.result, report.after) == (UpdateResult.REVERTED, "1.0.0")


def test_a_firmware_with_another_name_than_its_manifest_is_not_confirmed() -> None:
    with pytest.raises(CommandRejected, match=r"its version is 1\.1 and not 1\.1\.0"):
        update(BootedLink(OLD, NEW, calls_itself="1.1"))


def test_a_device_that_runs_it_already_is_not_updated_unless_forced() -> None:
    link = BootedLink(OLD, NEW)
    assert update(link, OLD).result is UpdateResult.ALREADY_RUNS
    assert [type(message) for message in link.asked] == [UpdateQuery]
    assert update(link, OLD, is_forced=True).result is UpdateResult.CONFIRMED


def test_a_trial_that_was_left_alone_is_finished_by_the_same_update_and_no_other() -> None:
    link = BootedLink(OLD, NEW)
    link.device.send(NEW)
    link.reset()
    with pytest.raises(CommandRejected, match=r"has 1\.1\.0 on trial"):
        update(link, package(image(300), version="1.2.0", counter=3))
    report = update(link)
    assert (report.result, report.sent_bytes) == (UpdateResult.CONFIRMED, 0)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (package(image(300), by=UNKNOWN), "not one of the device's"),
        (package(image(300), board="bench-2"), "for another board"),
        (package(image(300), version="0.9.0", counter=0), "lower counters are refused"),
        (package(image(60_000), version="2.0.0"), "does not fit"),
    ],
)
def test_a_refusal_names_its_reason(refused: Package, why: str) -> None:
    link = BootedLink(package(image(300, seed=9), version="0.1.0", counter=0), OLD)
    assert update(link, OLD).result is UpdateResult.CONFIRMED
    with pytest.raises(CommandRejected, match=why):
        update(link, refused, is_forced=True)


def test_a_device_without_update_support_gets_no_update_request() -> None:
    link = BootedLink(OLD, features=Feature(0))
    with pytest.raises(CommandRejected, match="does not support updates over the link"):
        update(link)
    assert link.asked == []


def test_a_device_that_stages_it_and_never_resets_is_reported() -> None:
    class Stuck(BootedLink):
        async def ask(self, message: Message, patience_s: float) -> Message:
            is_early = isinstance(message, UpdateQuery) and not self.asked
            answer = await super().ask(message, patience_s)
            if is_early or not isinstance(message, UpdateQuery | UpdateEnd):
                return answer
            return UpdateStatus(next_offset=0, state=UpdateState.STAGED, reason=UpdateReason.NONE)

    with pytest.raises(LinkDown, match="reset it by hand"):
        asyncio.run(update_firmware(Stuck(OLD, NEW), NEW, trial_s=0.3))


def test_a_package_must_be_signed_by_one_of_the_trusted_keys() -> None:
    unknown = bytes(UNKNOWN.verify_key)
    check_signature(NEW, [unknown, BUILDER_KEY])
    for keys in ([], [unknown]):
        with pytest.raises(CommandRejected, match="not signed by any trusted key"):
            check_signature(NEW, keys)
