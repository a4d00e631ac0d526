import asyncio
import base64
import contextlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.clock import ChainReferences, ClockReading, SystemClock
from agent.collect import Batch
from agent.commit import Committer
from agent.errors import StorageError
from agent.events.events import Events
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings, Record
from agent.journal.inspection import inspect_journal
from agent.journal.thread import JournalThread, read_floor
from agent.journal.token_log import Recalled, TokenLog
from agent.pack.routing import Route, Router, StreamRule
from agent.pack.wrap import Group, Wrapped, Wrapper
from drivers import Reading
from protocol.ethereum.signer import Signer
from protocol.events import REFUSED_INFO_TYPE, RefusedNotice
from protocol.iomessage import IoMessage
from protocol.streamr.stream_message import parse_stream_message
from tests.support.ceilings import CeilingInMemory
from tests.support.patience import PATIENCE_S


class FlakyJournal(Journal):
    """Refuses the first commits and appends, as a full disk does."""

    failures_left = 0

    def commit(self, now_ms: int) -> None:
        self._fail()
        super().commit(now_ms)

    def append_many(self, lane: int, entries: Sequence[Entry]) -> list[int]:
        self._fail()
        return super().append_many(lane, entries)

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
        references = ChainReferences(CeilingInMemory(), None)
        self.wrapper = Wrapper(Signer(b"\x07" * 32), references, max_payload_bytes=100_000)
        rules = [StreamRule(stream="x/{driver}", driver="known*")]
        self.committer = Committer(
            self.queue,
            self.thread,
            self.wrapper,
            Router(rules, {"address": "0x", "device": "d"}),
            clock,
            TokenLog(folder),
            commit_records=100,
            commit_interval_s=commit_interval_s,
            on_commit=self._count,
            report_refused=Events(self.queue, "d", "x/events", clock).of_refused,
        )

    def _count(self) -> None:
        self.commits += 1

    def records(self) -> list[Record]:
        cursor = self.thread.journal.cursor("publisher")
        found: list[Record] = []
        while taken := cursor.take(1000):
            found += taken
        return found


def _counted(records: list[Record]) -> int:
    return sum(record.readings for record in records)


def _readings(count: int, start: int = 0) -> list[Reading]:
    return [Reading("s", "q", start + at, taken_at_ms=1) for at in range(count)]


def test_a_source_is_acknowledged_only_after_the_commit(tmp_path: Path) -> None:
    async def run() -> None:
        bench, acknowledged_at = Bench(tmp_path), []

        async def committed() -> None:
            acknowledged_at.append(bench.commits)

        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(3), None, committed))
            await bench.queue.join()
            committing.cancel()
        assert acknowledged_at == [1]
        assert _counted(bench.records()) == 3
        await bench.thread.close()

    asyncio.run(run())


def test_a_concurrent_reader_never_finds_records_that_are_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appending and committing are one visit to the journal's thread: nothing comes between them."""

    async def run() -> None:
        bench, found = Bench(tmp_path), list[asyncio.Future[int]]()
        loop, append = asyncio.get_running_loop(), FlakyJournal.append_many

        def append_and_let_another_in(journal: Journal, lane: int, entries: Sequence[Entry]) -> list[int]:
            asked = asyncio.run_coroutine_threadsafe(bench.thread.call(lambda: journal.durable_position(lane)), loop)
            found.append(asyncio.wrap_future(asked, loop=loop))
            return append(journal, lane, entries)  # type: ignore[arg-type]

        monkeypatch.setattr(FlakyJournal, "append_many", append_and_let_another_in)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(3)))
            await bench.queue.join()
            committing.cancel()
            assert await asyncio.gather(*found) == [3]
        await bench.thread.close()

    asyncio.run(run())


def test_readers_of_the_journal_do_not_wait_for_signatures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        bench, loop, read = Bench(tmp_path), asyncio.get_running_loop(), list[int]()
        wrap = bench.wrapper.wrap

        def slow_wrap(groups: list[Group], clock: ClockReading, wrapped: Wrapped) -> None:
            visit = bench.thread.call(lambda: bench.thread.journal.stats(0).records)
            read.append(asyncio.run_coroutine_threadsafe(visit, loop).result(PATIENCE_S / 2))
            wrap(groups, clock, wrapped)

        monkeypatch.setattr(bench.wrapper, "wrap", slow_wrap)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(3)))
            joining = asyncio.create_task(bench.queue.join())
            await asyncio.wait([committing, joining], return_when=asyncio.FIRST_COMPLETED)
            committing.cancel()
        assert read == [0], "before the commit"
        assert _counted(bench.records()) == 3
        joining.cancel()
        await bench.thread.close()

    asyncio.run(run())


def test_what_no_message_can_hold_is_counted_once_and_not_among_the_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.commit.RETRY_S", 0.01)
    monkeypatch.setattr(FlakyJournal, "failures_left", 3)

    async def run() -> None:
        bench = Bench(tmp_path)
        too_large = Reading("s", "q", bytes(100_000), taken_at_ms=1, mime_type="image/jpeg")
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", [*_readings(2), too_large, *_readings(3)]))
            await bench.queue.join()
            committing.cancel()
        records = bench.records()
        assert _counted(records) == bench.committer.status.readings + 1 == 6, "one reports what was refused"
        assert len(records) == bench.committer.status.messages == 2
        assert bench.committer.status.refused == 1
        await bench.thread.close()

    asyncio.run(run())


def test_a_source_is_acknowledged_for_a_refused_reading_only_after_a_signed_message_reports_it(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        stored: list[bytes] = []

        async def acknowledged() -> None:
            with contextlib.closing(DirectoryDisk(tmp_path / "journal", read_only=True)) as disk:
                view = inspect_journal(disk)
                stored.extend(record.payload for lane in view.lanes.values() for record in view.records(lane))

        too_large = [
            Reading("camera", "image", bytes(100_000), taken_at_ms=at, mime_type="image/jpeg") for at in (1, 2)
        ]
        no_stream = Reading("a\x07b", "temperature", 1.0, taken_at_ms=1)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", too_large, committed=acknowledged))
            await bench.queue.join()
            bench.committer.router = Router([StreamRule(stream="x/{sensor}")], {"address": "0x", "device": "d"})
            await bench.queue.put(Batch("known", [no_stream]))
            await bench.queue.join()
            committing.cancel()
        [message] = map(parse_stream_message, stored)
        assert message.message_id.stream_id == "x/events"
        io_message = IoMessage.from_bytes(base64.b64decode(json.loads(message.content)["ioMessage"]))
        assert io_message.info_type == REFUSED_INFO_TYPE
        assert io_message.content_data is not None
        notice = RefusedNotice.from_bytes(io_message.content_data)
        assert (notice.sensor, notice.quantity, notice.count) == ("camera", "image", 2)
        assert len(bench.records()) == 2, "a reading without a possible stream is reported too"
        assert bench.committer.status.refused == 3
        await bench.thread.close()

    asyncio.run(run())


def test_where_readings_with_lasting_tokens_stand_is_noted_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies at the first commit has them noted as lost; one that lives a little longer, as kept."""
    monkeypatch.setattr("agent.commit.RETRY_S", 0.01)

    async def run() -> None:
        bench = Bench(tmp_path)
        readings = [reading._replace(token=100 + at) for at, reading in enumerate(_readings(3))]
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(2)))
            await bench.queue.put(Batch("known", readings, has_durable_tokens=True))
            monkeypatch.setattr(FlakyJournal, "commit", _refuse)
            while not _noted(tmp_path):  # noqa: ASYNC110 - a file knows no events
                await asyncio.sleep(0.001)
            assert _recalled(tmp_path) == ([100, 101, 102], {100, 101, 102})
            monkeypatch.undo()
            await bench.queue.join()
            committing.cancel()
        assert _recalled(tmp_path) == ([100, 101, 102], set())
        await bench.thread.close()

    asyncio.run(run())


def _refuse(_journal: Journal, _now_ms: int) -> None:
    raise StorageError("No space left on device")


def _noted(folder: Path) -> bool:
    return bool(_recalled(folder).latest)


def _recalled(folder: Path) -> Recalled:
    """As the next process would find it; that one writes to the log, so it gets a copy."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    for path in folder.glob("tokens.*"):
        shutil.copy(path, copy)
    log = TokenLog(copy)
    with contextlib.closing(DirectoryDisk(folder / "journal", read_only=True)) as disk:
        log.compare(inspect_journal(disk))
    return log.recall("known")


def test_a_full_disk_holds_back_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.commit.RETRY_S", 0.01)
    monkeypatch.setattr(FlakyJournal, "failures_left", 5)

    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            for at in range(20):
                await bench.queue.put(Batch("known", _readings(5, at * 5)))
            await bench.queue.join()
            committing.cancel()
        records = bench.records()
        messages = [parse_stream_message(record.payload) for record in records]
        assert _counted(records) == 100
        assert [message.prev_msg_ref for message in messages[1:]] == [m.message_id.ref for m in messages[:-1]]
        assert bench.committer.status.problem == ""
        await bench.thread.close()

    asyncio.run(run())


def test_readings_within_the_interval_share_a_commit(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path, commit_interval_s=0.2)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            for _ in range(5):
                await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            committing.cancel()
        assert bench.commits == 2
        await bench.thread.close()

    asyncio.run(run())


def test_the_agents_own_events_keep_no_reading_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path, commit_interval_s=3600)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            for route in (Route("x/events", 0, "binary", 0, "", "none"), None):
                await bench.queue.put(Batch("known", _readings(1), route))
                await bench.queue.join()
            committing.cancel()
        assert bench.commits == 2
        await bench.thread.close()

    asyncio.run(run())


def test_what_no_rule_names_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("unknown", _readings(2)))
            await bench.queue.put(Batch("known", _readings(1)))
            await bench.queue.join()
            committing.cancel()
        assert bench.committer.status.unrouted == 2
        assert len(bench.records()) == 1
        await bench.thread.close()

    asyncio.run(run())


def test_the_next_process_finds_the_last_reference(tmp_path: Path) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        async with asyncio.timeout(PATIENCE_S):
            committing = asyncio.create_task(bench.committer.run())
            await bench.queue.put(Batch("known", _readings(3)))
            await bench.queue.join()
            committing.cancel()
        last = bench.records()[-1]
        await bench.thread.close()
        with contextlib.closing(DirectoryDisk(tmp_path / "journal", read_only=True)) as disk:
            assert read_floor(disk) == (last.timestamp_ms, last.sequence)

    asyncio.run(run())


def test_an_empty_journal_has_no_last_reference(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with contextlib.closing(DirectoryDisk(tmp_path / "journal", read_only=True)) as disk:
        assert read_floor(disk) is None
