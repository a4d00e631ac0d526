import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.batch import Batch
from agent.clock import CeilingFile, ChainReferences, SystemClock
from agent.errors import StorageError
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings, Record
from agent.journal.inspection import look
from agent.journal_thread import JournalFloor, JournalThread, read_floor
from agent.keep import Keeper
from agent.routing import Route, Router, StreamRule
from agent.token_log import Recalled, TokenLog
from agent.wrap import Wrapper
from drivers import Reading
from protocol.streamr import Signer, parse_stream_message

TIMEOUT_S = 20


class FlakyJournal(Journal):
    """Refuses the first commits and appends, as a full disk does."""

    failures_left = 0

    def commit(self, now_ms: int) -> None:
        self._fail()
        super().commit(now_ms)

    def append_many(self, lane: int, entries: Sequence[Entry], now_ms: int) -> range:
        self._fail()
        return super().append_many(lane, entries, now_ms)

    def _fail(self) -> None:
        if FlakyJournal.failures_left:
            FlakyJournal.failures_left -= 1
            raise StorageError("No space left on device")


class Bench:
    def __init__(self, folder: Path, commit_interval_s: float = 0.0) -> None:
        clock = SystemClock()
        self.queue = asyncio.Queue[Batch](8)
        self.commits = 0
        journal = FlakyJournal(DirectoryDisk(folder / "journal"), JournalSettings(), new_journal_id=1, now_ms=0)
        self.thread = JournalThread(journal, clock)
        references = ChainReferences(CeilingFile(folder / "ceiling"), JournalFloor(None))
        wrapper = Wrapper(Signer(b"\x07" * 32), references, max_payload_bytes=100_000)
        rules = [StreamRule(stream="x/{driver}", driver="known*")]
        self.keeper = Keeper(
            self.queue,
            self.thread,
            wrapper,
            Router(rules, {"address": "0x", "device": "d"}),
            clock,
            TokenLog(folder),
            commit_records=100,
            commit_interval_s=commit_interval_s,
            on_commit=self._count,
        )

    def _count(self) -> None:
        self.commits += 1

    def records(self) -> list[Record]:
        cursor = self.thread.journal.cursor("publisher")
        found: list[Record] = []
        while taken := cursor.take(1000):
            found += taken
        return found


def _readings(count: int, start: int = 0) -> list[Reading]:
    return [Reading("s", "q", start + at, taken_at_ms=1) for at in range(count)]


def test_a_source_is_acknowledged_only_after_the_commit(tmp_path: Path) -> None:
    async def run() -> None:
        bench, acknowledged_at = Bench(tmp_path), []

        async def committed() -> None:
            acknowledged_at.append(bench.commits)

        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", _readings(3), None, committed))
            await bench.queue.join()
            keeping.cancel()
        assert acknowledged_at == [1]
        assert len(bench.records()) == 3
        await bench.thread.close()

    asyncio.run(run())


def test_a_commit_is_one_visit_to_the_journals_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench, visits = Bench(tmp_path), list[object]()
        call = bench.thread.call

        async def counting(work: Callable[[], None]) -> None:
            visits.append(work)
            await call(work)

        monkeypatch.setattr(bench.thread, "call", counting)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", _readings(3)))
            await bench.queue.join()
            keeping.cancel()
        assert len(visits) == bench.commits == 1
        await bench.thread.close()

    asyncio.run(run())


def test_what_no_message_can_hold_is_counted_once_and_not_among_the_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.keep.RETRY_S", 0.01)
    monkeypatch.setattr(FlakyJournal, "failures_left", 3)

    async def run() -> None:
        bench = Bench(tmp_path)
        too_large = Reading("s", "q", bytes(100_000), taken_at_ms=1, mime_type="image/jpeg")
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", [*_readings(2), too_large, *_readings(3)]))
            await bench.queue.join()
            keeping.cancel()
        assert len(bench.records()) == bench.keeper.status.messages == 5
        assert bench.keeper.status.refused == 1
        await bench.thread.close()

    asyncio.run(run())


def test_where_readings_with_lasting_tokens_stand_is_noted_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies at the first commit has them noted as lost; one that lives a little longer, as kept."""
    monkeypatch.setattr("agent.keep.RETRY_S", 0.01)

    async def run() -> None:
        bench = Bench(tmp_path)
        readings = [reading._replace(token=100 + at) for at, reading in enumerate(_readings(3))]
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", _readings(2)))
            await bench.queue.put(Batch("known", readings, is_lasting=True))
            monkeypatch.setattr(FlakyJournal, "commit", _refuse)
            while not _noted(tmp_path):  # noqa: ASYNC110 - a file knows no events
                await asyncio.sleep(0.001)
            assert _recalled(tmp_path) == ([100, 101, 102], {100, 101, 102})
            monkeypatch.undo()
            await bench.queue.join()
            keeping.cancel()
        assert _recalled(tmp_path) == ([100, 101, 102], set())
        await bench.thread.close()

    asyncio.run(run())


def _refuse(_journal: Journal, _now_ms: int) -> None:
    raise StorageError("No space left on device")


def _noted(folder: Path) -> bool:
    return bool(TokenLog(folder).recall("known").latest)


def _recalled(folder: Path) -> Recalled:
    """As the next process would find it."""
    log = TokenLog(folder)
    with contextlib.closing(DirectoryDisk(folder / "journal", read_only=True)) as disk:
        log.compare(look(disk))
    return log.recall("known")


def test_a_full_disk_holds_back_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.keep.RETRY_S", 0.01)
    monkeypatch.setattr(FlakyJournal, "failures_left", 5)

    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            for at in range(20):
                await bench.queue.put(Batch("known", _readings(5, at * 5)))
            await bench.queue.join()
            keeping.cancel()
        messages = [parse_stream_message(record.payload) for record in bench.records()]
        assert len(messages) == 100
        assert [message.prev_msg_ref for message in messages[1:]] == [m.message_id.ref for m in messages[:-1]]
        assert bench.keeper.status.problem == ""
        await bench.thread.close()

    asyncio.run(run())


def test_readings_within_the_interval_share_a_commit(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path, commit_interval_s=0.2)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            for _ in range(5):
                await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            keeping.cancel()
        assert bench.commits == 2
        await bench.thread.close()

    asyncio.run(run())


def test_the_agents_own_events_keep_no_reading_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path, commit_interval_s=3600)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            for route in (Route("x/events", 0, "binary", 0, "", "none"), None):
                await bench.queue.put(Batch("known", _readings(1), route))
                await bench.queue.join()
            keeping.cancel()
        assert bench.commits == 2
        await bench.thread.close()

    asyncio.run(run())


def test_what_no_rule_names_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("stranger", _readings(2)))
            await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            keeping.cancel()
        assert bench.keeper.status.unrouted == 2
        assert len(bench.records()) == 1
        await bench.thread.close()

    asyncio.run(run())


def test_the_next_process_finds_the_last_reference(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(TIMEOUT_S):
            keeping = asyncio.create_task(bench.keeper.run())
            await bench.queue.put(Batch("known", _readings(3)))
            await bench.queue.join()
            keeping.cancel()
        last = bench.records()[-1]
        await bench.thread.close()
        disk = DirectoryDisk(tmp_path / "journal", read_only=True)
        assert read_floor(disk) == (last.timestamp_ms, last.sequence)

    asyncio.run(run())


def test_an_empty_journal_has_no_last_reference(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    assert read_floor(DirectoryDisk(tmp_path / "journal", read_only=True)) is None
