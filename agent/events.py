"""What the agent says about itself and its data: signed messages on the device's events stream.

Events are readings like any other, of the sensor that is the device itself, with CBOR for content, on a route that no
rule chooses and at the highest priority. So they are sealed, signed, committed, published and archived as all else is.

| InfoType | content | when |
|---|---|---|
| `headgate/start`, `headgate/stop`, `headgate/configuration` | `protocol.lifecycle.LifecycleNotice` | as they say |
| `headgate/device` | `protocol.lifecycle.DeviceNotice` | a sensor's device changed its state |
| `headgate/gap` | `protocol.events.GapNotice` | the journal lost messages |
| `clock correction` | `protocol.clock.ClockCorrection` | the time became known, or was set |
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from agent.batch import Batch, nothing_to_do
from agent.clock import Clock, SynchronisationWatch
from agent.journal import Gap
from agent.journal_thread import JournalThread
from agent.routing import Route
from drivers import DeviceChange, Reading
from protocol.clock import CORRECTION_INFO_TYPE
from protocol.events import GAP_INFO_TYPE, MEDIA_TYPE, GapNotice
from protocol.lifecycle import DEVICE_INFO_TYPE, DeviceNotice, LifecycleNotice

__all__ = ["EVENT_PRIORITY", "Events", "tell_gaps", "watch_clock"]

EVENT_PRIORITY: Final = 0
CLOCK_CHECK_S: Final = 5.0
GAP_CHECK_S: Final = 1.0
MAX_REASON_CHARACTERS: Final = 200
MAX_UNSENT_CHANGES: Final = 256

log = logging.getLogger(__name__)


class Events:
    """Puts events into the queue that all readings go through."""

    def __init__(self, queue: asyncio.Queue[Batch], device: str, stream_id: str, clock: Clock) -> None:
        self._queue = queue
        self._device = device
        self._route = Route(stream_id, 0, "binary", EVENT_PRIORITY, "", "none")
        self._clock = clock
        self._changes: asyncio.Queue[DeviceChange] = asyncio.Queue(MAX_UNSENT_CHANGES)

    async def tell(
        self, info_type: str, content: bytes, committed: Callable[[], Awaitable[None]] = nothing_to_do
    ) -> None:
        reading = Reading(
            self._device, info_type, content, taken_at_ms=max(0, self._clock.now_ms()), mime_type=MEDIA_TYPE
        )
        await self._queue.put(Batch("", [reading], self._route, committed))

    async def tell_lifecycle(self, info_type: str, notice: LifecycleNotice) -> None:
        await self.tell(info_type, notice.to_bytes())

    def device_changed(self, change: DeviceChange) -> None:
        """Takes note without waiting; a device that flickers beyond all measure is told of less often."""
        if not self._changes.full():
            self._changes.put_nowait(change)

    async def pass_on_changes(self) -> None:
        """For as long as it runs."""
        while True:
            change = await self._changes.get()
            await self.tell(DEVICE_INFO_TYPE, device_notice(change).to_bytes())


def device_notice(change: DeviceChange) -> DeviceNotice:
    return DeviceNotice(
        device=change.device,
        before=change.before.value,
        after=change.after.value,
        lasted_ms=change.lasted_ms,
        reason=change.reason[:MAX_REASON_CHARACTERS],
    )


def gap_notice(gap: Gap, journal_id: bytes, *, archived: bool) -> GapNotice:
    loss = gap.loss
    has_chain = bool(loss.chain) and loss.first is not None and loss.last is not None
    return GapNotice(
        journal=journal_id,
        number=gap.number,
        chain=loss.chain if has_chain else "",
        count=loss.count,
        first=loss.first if has_chain else None,
        last=loss.last if has_chain else None,
        cause=gap.cause.value,
        archived=archived,
    )


async def tell_gaps(
    events: Events,
    journal: JournalThread,
    journal_id: bytes,
    is_archived: Callable[[Gap], bool],
    is_receipted: Callable[[Gap], bool],
) -> None:
    """Each loss at least once, in a signed message and in an archive's manifest. For as long as it runs.

    The journal may forget a loss when its message is committed and the collector has it in a manifest. The message
    alone would not do: it lies in the journal as all else does, and what damaged other records can damage it too.
    """
    told: set[int] = set()
    committed: set[int] = set()
    while True:
        pending = await journal.call(journal.journal.pending_gaps)
        numbers = {gap.number for gap in pending}
        told &= numbers
        committed &= numbers
        for gap in pending:
            if gap.number not in told:
                told.add(gap.number)
                notice = gap_notice(gap, journal_id, archived=is_archived(gap))
                _log_gap(notice)
                await _tell_gap(events, notice, committed)
            elif gap.number in committed and is_receipted(gap):
                await journal.call(partial(journal.journal.acknowledge_gap, gap.number))
        await asyncio.sleep(GAP_CHECK_S)


def _log_gap(notice: GapNotice) -> None:
    what = (notice.chain or "?", notice.count, notice.cause)
    if notice.archived:
        log.warning("messages not published, archives have them; chain=%s count=%d cause=%s", *what)
    else:
        log.error("messages lost; chain=%s count=%d cause=%s", *what)


async def _tell_gap(events: Events, notice: GapNotice, committed: set[int]) -> None:
    async def note_commit() -> None:
        committed.add(notice.number)

    await events.tell(GAP_INFO_TYPE, notice.to_bytes(), note_commit)


async def watch_clock(events: Events, clock: Clock) -> None:
    """A correction whenever one is due. For as long as it runs."""
    watch = SynchronisationWatch()
    while True:
        correction = watch.observe(clock.read())
        if correction is not None:
            log.info("clock synchronised; uncertainty_ms=%d", correction.uncertainty_ms)
            await events.tell(CORRECTION_INFO_TYPE, correction.to_bytes())
        await asyncio.sleep(CLOCK_CHECK_S)
