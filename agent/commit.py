"""The commit stage: routes, packs and signs batches, commits them to the journal, and acknowledges their sources.

Commits are few and large: the first reading after a start or a quiet time is committed at once. Readings that come
within the commit interval after it go into the next commit, which is made early if many wait. If the disk fails, the
commit is retried until it works; meanwhile the queue fills and the sources wait. A signed message is never dropped
here, because its chain would have a gap.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from agent.clock import Clock
from agent.collect import Batch
from agent.errors import StorageError
from agent.journal.thread import JournalThread
from agent.journal.token_log import Noted, TokenLog, digest_of
from agent.pack.routing import Route, Router
from agent.pack.wrap import Group, RefusedReading, Run, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.errors import HeadgateError

RETRY_S: Final = 1.0
ACKNOWLEDGE_TIMEOUT_S: Final = 5.0
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class CommitterStatus:
    """The numbers only rise."""

    readings: int = 0
    messages: int = 0
    refused: int = 0  # readings that no message can hold
    unrouted: int = 0  # readings that no rule names
    commits: int = 0
    problem: str = ""  # why the journal cannot be written; "" while it can


class Committer:
    """Commits the batches of the queue, in turn, for as long as it runs."""

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
        report_refused: Callable[[Sequence[RefusedReading]], Group],
    ) -> None:
        self.status = CommitterStatus()
        self.router = router
        self.is_hurried = False  # commit without waiting for more: the agent is about to stop
        self.moved_at_s = time.monotonic()  # when a commit or an attempt last ended
        self._queue = queue
        self._journal = journal
        self._wrapper = wrapper
        self._clock = clock
        self._tokens = tokens
        self._commit_records = commit_records
        self._commit_interval_s = commit_interval_s
        self._on_commit = on_commit
        self._report_refused = report_refused
        self._committed_at_s = time.monotonic() - commit_interval_s

    async def run(self) -> None:
        while True:
            batches = await self._gather()
            await self._commit(batches)
            for _ in batches:
                self._queue.task_done()  # so `queue.join()` waits until all is on the medium

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

    async def _commit(self, batches: Sequence[Batch]) -> None:
        wrapped, noted = Wrapped.nothing(), dict[str, list[Noted]]()
        routed = self._route(batches, wrapped.refused)
        readings = sum(len(group.readings) for group in routed) + len(wrapped.refused)
        messages = 0
        refused: Sequence[RefusedReading] = ()

        def store() -> None:
            """One call to the journal's thread. A retry continues with what was wrapped and appended before.

            Readings that no message can hold are reported by an event in the same commit, before the acknowledgement.
            """
            nonlocal refused
            self._wrapper.wrap(routed, self._clock.read(), wrapped)
            if wrapped.refused and not refused:
                refused = tuple(wrapped.refused)
                routed.append(self._report_refused(refused))
                self._wrapper.wrap(routed, self._clock.read(), wrapped)
            self._journal.call_from_thread(commit)

        def commit() -> None:
            nonlocal messages
            messages += self._append(wrapped.runs, noted)
            self._tokens.note(noted)
            self._journal.journal.commit(self._clock.now_ms())

        await self._retry(store)
        self._note_refusals(refused)
        self.moved_at_s = time.monotonic()
        if any(batch.route is None for batch in batches):  # the agent's own events delay no reading
            self._committed_at_s = self.moved_at_s
        self.status.commits += 1
        self.status.readings += readings - len(refused)
        self.status.messages += messages
        self._on_commit()
        for batch in batches:
            await self._acknowledge(batch)

    async def _acknowledge(self, batch: Batch) -> None:
        """Acknowledge the source. If that fails, the source sends again and its readings are stored twice."""
        try:
            async with asyncio.timeout(ACKNOWLEDGE_TIMEOUT_S):
                await batch.committed()
        except (TimeoutError, HeadgateError) as error:
            log.warning(
                "source not acknowledged, it may send its readings again; source=%s problem=%s", batch.source, error
            )

    def _append(self, runs: list[Run], noted: dict[str, list[Noted]]) -> int:
        """Append each run once, however often the commit is retried; note the positions of readings with tokens.

        Returns how many messages were appended.
        """
        appended = 0
        while runs:
            run = runs[0]
            positions = self._journal.journal.append_many(run.lane, run.entries)
            del runs[0]
            if run.source:
                noted.setdefault(run.source, []).extend(_notes(run, positions))
            appended += len(run.entries)
        return appended

    async def _retry(self, work: Callable[[], T]) -> T:
        """Do the work beside the journal's thread, and repeat it until the disk accepts it."""
        while True:
            try:
                result = await self._journal.call_beside(work)
            except StorageError as error:
                self._note_storage(str(error))
                await asyncio.sleep(RETRY_S)
            else:
                self._note_storage("")
                return result

    def _note_storage(self, problem: str) -> None:
        self.moved_at_s = time.monotonic()  # the disk responded, if with an error
        if problem and not self.status.problem:
            log.error("cannot write the journal, reading is paused; problem=%s", problem)
        elif self.status.problem and not problem:
            log.info("journal can be written again")
        self.status.problem = problem

    def _route(self, batches: Sequence[Batch], refused: list[RefusedReading]) -> list[Group]:
        """Readings by route, in their order; readings with durable tokens form groups of their own.

        Those without a possible stream go to `refused`.
        """
        routed: dict[tuple[Route, str], list[Reading]] = {}
        for batch in batches:
            traced_as = batch.source if batch.has_durable_tokens else ""
            known: dict[tuple[str, str], list[Reading]] = {}  # sensors and quantities are few
            for reading in batch.readings:
                group = known.get(reading[:2])
                if group is None:
                    route = batch.route or self._find_route(batch.source, reading, refused)
                    if route is None:
                        continue
                    group = known[reading[:2]] = routed.setdefault((route, traced_as), [])
                group.append(reading)
        return [Group(route, readings, source) for (route, source), readings in routed.items()]

    def _find_route(self, source: str, reading: Reading, refused: list[RefusedReading]) -> Route | None:
        try:
            route = self.router.route(source, reading.sensor, reading.quantity)
        except ValueError as error:
            refused.append(RefusedReading(reading, str(error)))
            return None
        if route is None:
            self._note_unrouted(source, reading)
        return route

    def _note_unrouted(self, source: str, reading: Reading) -> None:
        if not self.status.unrouted:
            log.warning(
                "reading matches no [[streams]] rule, it and all like it are dropped; driver=%s sensor=%s quantity=%s",
                source, reading.sensor, reading.quantity,
            )  # fmt: skip
        self.status.unrouted += 1

    def _note_refusals(self, refused: Sequence[RefusedReading]) -> None:
        if refused and not self.status.refused:
            reading, problem = refused[0]
            log.error("reading refused, no message can hold it; sensor=%s problem=%s", reading.sensor, problem)
        self.status.refused += len(refused)


def _notes(run: Run, positions: Iterable[int]) -> Iterator[Noted]:
    """Where each reading with a token will stand: the readings of a message have positions from the message's on."""
    tokens = iter(run.tokens)
    for first, entry in zip(positions, run.entries, strict=True):
        digest = digest_of(entry.payload)
        for position, token in enumerate(islice(tokens, entry.readings), first):
            if token is not None:
                yield Noted(token, run.lane, position, digest)
