"""Batches → wrapped → committed → acknowledged: the one place where a reading becomes durable.

Commits are few and large: the first reading after a start or a quiet time is committed at once, and whatever comes
within the commit interval after it goes into the next one, unless so many wait that they are due at once. A disk that
refuses is asked again until it does not; meanwhile the queue fills and the sources are held back. Nothing that was
signed is ever dropped here, or its chain would have a hole.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from agent.batch import Batch
from agent.clock import Clock
from agent.errors import StorageError
from agent.journal_thread import JournalThread
from agent.routing import Route, Router
from agent.token_log import LastingReadings, TokenLog
from agent.wrap import Refused, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.errors import HeadgateError

__all__ = ["Keeper", "KeeperStatus"]

RETRY_S: Final = 1.0
ACKNOWLEDGE_TIMEOUT_S: Final = 5.0
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class KeeperStatus:
    """The numbers only rise."""

    messages: int = 0
    refused: int = 0  # readings that no message can hold
    unrouted: int = 0  # readings that no rule names
    commits: int = 0
    problem: str = ""  # why the disk refuses; "" while it does not


class Keeper:
    """Takes batches from the queue, in turn, for as long as it runs."""

    def __init__(
        self,
        queue: asyncio.Queue[Batch],
        journal: JournalThread,
        wrapper: Wrapper,
        router: Router,
        clock: Clock,
        tokens: TokenLog,
        *,
        commit_records: int,
        commit_interval_s: float,
        on_commit: Callable[[], None],
    ) -> None:
        self.status = KeeperStatus()
        self.router = router
        self.is_hurried = False  # commit without waiting for more: the agent is about to stop
        self.moved_at_s = time.monotonic()  # when it last finished something, or found nothing to do
        self._queue = queue
        self._journal = journal
        self._wrapper = wrapper
        self._clock = clock
        self._tokens = tokens
        self._commit_records = commit_records
        self._commit_interval_s = commit_interval_s
        self._on_commit = on_commit
        self._committed_at_s = time.monotonic() - commit_interval_s

    async def run(self) -> None:
        while True:
            batches = await self._gather()
            await self._keep(batches)
            for _ in batches:
                self._queue.task_done()  # whoever waits by `queue.join()` waits for the medium

    async def _gather(self) -> list[Batch]:
        batches = [await self._queue.get()]
        due_at_s = self._committed_at_s + self._commit_interval_s
        records = len(batches[0].readings)
        while records < self._commit_records and not self.is_hurried:
            try:
                async with asyncio.timeout(max(0.0, due_at_s - time.monotonic())):
                    batch = await self._queue.get()
            except TimeoutError:
                break
            batches.append(batch)
            records += len(batch.readings)
        return batches

    async def _keep(self, batches: Sequence[Batch]) -> None:
        routed = self._route(batches)
        lasting, all_routed = LastingReadings(batches), list(routed)
        wrapped, first_positions = Wrapped.nothing(), dict[int, int]()

        def store() -> None:
            """In one visit to the journal's thread. What one try has wrapped and appended stays so for the next."""
            self._wrapper.wrap(routed, self._clock.read(), wrapped)
            self._append(wrapped, first_positions)
            if lasting:
                self._tokens.note(lasting.place(all_routed, wrapped.refused, first_positions))
            self._journal.journal.commit(self._clock.now_ms())

        await self._insist(store)
        self._note_refusals(wrapped.refused)
        self.moved_at_s = time.monotonic()
        if any(batch.route is None for batch in batches):  # the agent's own words keep no reading waiting
            self._committed_at_s = self.moved_at_s
        self.status.commits += 1
        self.status.messages += sum(len(readings) for _, readings in all_routed) - len(wrapped.refused)
        self._on_commit()
        for batch in batches:
            await self._acknowledge(batch)

    async def _acknowledge(self, batch: Batch) -> None:
        """A source that cannot be told sends again, and what it sends is stored twice: no reason to stop."""
        try:
            async with asyncio.timeout(ACKNOWLEDGE_TIMEOUT_S):
                await batch.committed()
        except (TimeoutError, HeadgateError) as error:
            log.warning("a source was not told that its readings are stored; source=%s problem=%s", batch.source, error)

    def _append(self, wrapped: Wrapped, first_positions: dict[int, int]) -> None:
        """Each lane once, however often the disk is asked again. Tells where in each lane the entries begin."""
        now_ms = self._clock.now_ms()
        while wrapped.lanes:
            lane, entries = next(iter(wrapped.lanes.items()))
            first_positions[lane] = self._journal.journal.append_many(lane, entries, now_ms).start
            del wrapped.lanes[lane]

    async def _insist(self, work: Callable[[], T]) -> T:
        """Do it in the journal's thread, again and again until the disk lets it be done."""
        while True:
            try:
                result = await self._journal.call(work)
            except StorageError as error:
                self._note_storage(str(error))
                await asyncio.sleep(RETRY_S)
            else:
                self._note_storage("")
                return result

    def _note_storage(self, problem: str) -> None:
        self.moved_at_s = time.monotonic()  # an answer, if a bad one
        if problem and not self.status.problem:
            log.error("the journal cannot be written, sources are held back; problem=%s", problem)
        elif self.status.problem and not problem:
            log.info("the journal can be written again")
        self.status.problem = problem

    def _route(self, batches: Sequence[Batch]) -> list[tuple[Route, Sequence[Reading]]]:
        """Readings by route; those of one route in the order in which they came."""
        routed: dict[Route, list[Reading]] = {}
        for batch in batches:
            known: dict[tuple[str, str], list[Reading]] = {}  # sensors and quantities are few
            for reading in batch.readings:
                group = known.get(reading[:2])
                if group is None:
                    route = batch.route or self._find_route(batch.source, reading)
                    if route is None:
                        continue
                    group = known[reading[:2]] = routed.setdefault(route, [])
                group.append(reading)
        return list(routed.items())

    def _find_route(self, source: str, reading: Reading) -> Route | None:
        try:
            route = self.router.route(source, reading.sensor, reading.quantity)
        except ValueError as error:
            self._note_refusals([Refused(reading, str(error))])
            return None
        if route is None:
            self._note_unrouted(source, reading)
        return route

    def _note_unrouted(self, source: str, reading: Reading) -> None:
        if not self.status.unrouted:
            log.warning(
                "a reading that no [[streams]] rule names is dropped, as all like it; driver=%s sensor=%s quantity=%s",
                source, reading.sensor, reading.quantity,
            )  # fmt: skip
        self.status.unrouted += 1

    def _note_refusals(self, refused: Sequence[Refused]) -> None:
        if refused and not self.status.refused:
            reading, problem = refused[0]
            log.error("no message can hold a reading; sensor=%s problem=%s", reading.sensor, problem)
        self.status.refused += len(refused)
