"""Events of the agent about itself and its data: signed messages on the device's events stream.

Events are readings like any other, of the sensor that is the device itself, with CBOR for content, on a route that no
rule chooses and at the highest priority. So they are linked, signed, committed, published and archived like readings.

| InfoType | content | when |
|---|---|---|
| `headgate/start`, `headgate/stop`, `headgate/configuration` | `protocol.lifecycle.LifecycleNotice` | as they say |
| `headgate/device` | `protocol.lifecycle.DeviceNotice` | a sensor's device changed its state |
| `headgate/rejected` | `protocol.lifecycle.RejectedNotice` | input of a source could not be read |
| `headgate/gap` | `protocol.events.GapNotice` | the journal lost messages |
| `headgate/refused` | `protocol.events.RefusedNotice` | no message can hold a reading |
| `headgate/checkpoint` | `protocol.devicelog.checkpoint.Checkpoint` | at intervals, while anything else is committed |
| `clock correction` | `protocol.clock.ClockCorrection` | the time became known, or was set |
| `headgate/clock-excursion` | `protocol.clock.ExcursionNotice` | references were ahead of the time, new chains begin |
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from agent.clock import Clock, SynchronisationWatch
from agent.collect import Batch, nothing_to_do
from agent.journal import PendingLoss
from agent.journal.thread import JournalThread
from agent.pack.routing import Route
from agent.pack.wrap import Group, RefusedReading
from drivers import DeviceChange, Reading
from protocol.clock import CORRECTION_INFO_TYPE, EXCURSION_INFO_TYPE, ExcursionNotice
from protocol.events import (
    GAP_INFO_TYPE,
    MAX_NOTICE_TEXT_BYTES,
    MEDIA_TYPE,
    REFUSED_INFO_TYPE,
    GapNotice,
    RefusedNotice,
)
from protocol.lifecycle import DEVICE_INFO_TYPE, DeviceNotice, LifecycleNotice

EVENT_PRIORITY: Final = 0
CLOCK_CHECK_S: Final = 5.0
LOSS_CHECK_S: Final = 1.0
MAX_REASON_CHARACTERS: Final = 200
MAX_UNSENT_CHANGES: Final = 256
MAX_REFUSED_NOTICES: Final = 8  # of one commit; readings of further kinds are reported together

log = logging.getLogger(__name__)


class Events:
    """Puts events into the queue that all readings go through."""

    def __init__(self, queue: asyncio.Queue[Batch], device: str, stream_id: str, clock: Clock) -> None:
        self._queue = queue
        self._device = device
        self._route = Route(stream_id, 0, "binary", EVENT_PRIORITY, "", "none")
        self._clock = clock
        self._changes: asyncio.Queue[DeviceChange] = asyncio.Queue(MAX_UNSENT_CHANGES)

    async def report(
        self, info_type: str, content: bytes, committed: Callable[[], Awaitable[None]] = nothing_to_do
    ) -> None:
        await self._queue.put(Batch("", [self._reading(info_type, content)], self._route, committed))

    def of_excursion(self, notice: ExcursionNotice) -> Group:
        """An event to be committed with the first messages of the new chains."""
        return Group(self._route, [self._reading(EXCURSION_INFO_TYPE, notice.to_bytes())])

    def of_refused(self, refused: Sequence[RefusedReading]) -> Group:
        """Events to be committed before the source is acknowledged."""
        return Group(self._route, [self._reading(REFUSED_INFO_TYPE, each.to_bytes()) for each in notices_of(refused)])

    def _reading(self, info_type: str, content: bytes) -> Reading:
        taken_at_ms = max(0, self._clock.now_ms())
        return Reading(self._device, info_type, content, taken_at_ms=taken_at_ms, mime_type=MEDIA_TYPE)

    async def report_lifecycle(self, info_type: str, notice: LifecycleNotice) -> None:
        await self.report(info_type, notice.to_bytes())

    def device_changed(self, change: DeviceChange) -> None:
        """Returns at once; beyond a bound, changes of a device that flaps are not reported."""
        if not self._changes.full():
            self._changes.put_nowait(change)

    async def report_device_changes(self) -> None:
        """Report changes of devices until cancelled."""
        while True:
            change = await self._changes.get()
            await self.report(DEVICE_INFO_TYPE, device_notice(change).to_bytes())


def device_notice(change: DeviceChange) -> DeviceNotice:
    return DeviceNotice(
        device=change.device,
        before=change.before.value,
        after=change.after.value,
        lasted_ms=change.lasted_ms,
        reason=change.reason[:MAX_REASON_CHARACTERS],
    )


def notices_of(refused: Sequence[RefusedReading]) -> list[RefusedNotice]:
    """One for each sensor and quantity, up to a bound."""
    kinds: dict[tuple[str, str], list[RefusedReading]] = {}
    for each in refused:
        kind = (each.reading.sensor, each.reading.quantity)
        is_known = kind in kinds or len(kinds) < MAX_REFUSED_NOTICES - 1
        kinds.setdefault(kind if is_known else ("", ""), []).append(each)
    return [
        RefusedNotice(sensor=_cut(sensor), quantity=_cut(quantity), count=len(those), reason=_cut(those[0].problem))
        for (sensor, quantity), those in kinds.items()
    ]


def _cut(text: str) -> str:
    """Cut a text that may be too long for a notice."""
    return text.encode(errors="replace")[:MAX_NOTICE_TEXT_BYTES].decode(errors="ignore")


async def report_losses(
    events: Events,
    journal: JournalThread,
    journal_id: bytes,
    is_archived: Callable[[PendingLoss], bool],
    is_receipted: Callable[[PendingLoss], bool],
) -> None:
    """Report each loss at least once, in a signed message and in an archive's manifest. Runs until cancelled.

    The journal may drop a loss when its message is committed and the collector has it in a manifest. The message alone
    is not enough: it is in the journal like other records, and can be damaged with them.
    """
    reported: set[int] = set()
    committed: set[int] = set()
    while True:
        pending = await journal.call(journal.journal.pending_losses)
        numbers = {each.number for each in pending}
        reported &= numbers
        committed &= numbers
        for each in pending:
            if each.number not in reported:
                reported.add(each.number)
                notice = GapNotice(journal=journal_id, loss=each.loss, archived=is_archived(each))
                _log_loss(notice)
                await _report_loss(events, notice, committed)
            elif each.number in committed and is_receipted(each):
                await journal.call(partial(journal.journal.acknowledge_loss, each.number))
        await asyncio.sleep(LOSS_CHECK_S)


def _log_loss(notice: GapNotice) -> None:
    what = (notice.loss.chain or "?", notice.loss.count, notice.loss.cause)
    if notice.archived:
        log.warning("readings not published, archives have them; chain=%s readings=%d cause=%s", *what)
    else:
        log.error("readings lost; chain=%s readings=%d cause=%s", *what)


async def _report_loss(events: Events, notice: GapNotice, committed: set[int]) -> None:
    async def note_commit() -> None:
        committed.add(notice.loss.number)

    await events.report(GAP_INFO_TYPE, notice.to_bytes(), note_commit)


async def watch_clock(events: Events, clock: Clock) -> None:
    """Publish a clock correction whenever one is due. Runs until cancelled."""
    watch = SynchronisationWatch()
    while True:
        correction = watch.observe(clock.read())
        if correction is not None:
            log.info("clock synchronised; uncertainty_ms=%d", correction.uncertainty_ms)
            await events.report(CORRECTION_INFO_TYPE, correction.to_bytes())
        await asyncio.sleep(CLOCK_CHECK_S)
