"""The journal's thread, and what is read of a journal beside it."""

import asyncio
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.errors import StorageError
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.inspection import inspect_journal, open_read_only
from agent.journal.thread import JournalThread, durable_view, open_journal_id, read_floor
from protocol.reference import Reference

NOW_MS = 1_700_000_000_000
JOURNAL_ID = 0xABCD
SETTINGS = JournalSettings(cursors=("archive",), compression="none")


def open_journal(folder: Path) -> Journal:
    return Journal(DirectoryDisk(folder), SETTINGS, new_journal_id=JOURNAL_ID, now_ms=NOW_MS)


def commit(journal: Journal, lane: int, *references: tuple[int, int]) -> None:
    journal.append_many(lane, [Entry(b"payload", "boiler", *reference) for reference in references])
    journal.commit(NOW_MS)


def in_thread(folder: Path) -> JournalThread:
    return JournalThread(open_journal(folder), SystemClock())


def test_what_is_asked_for_is_done_in_order_by_one_thread_and_not_in_the_event_loop(tmp_path: Path) -> None:
    done: list[tuple[int, str]] = []

    def note(at: int) -> None:
        done.append((at, threading.current_thread().name))

    async def scenario() -> None:
        thread = in_thread(tmp_path)
        await asyncio.gather(*(thread.call(partial(note, at)) for at in range(20)))
        await thread.close()

    asyncio.run(scenario())
    assert done == [(at, "journal_0") for at in range(20)]


def test_a_caller_that_is_cancelled_leaves_the_work_to_be_finished(tmp_path: Path) -> None:
    may_commit = threading.Event()

    async def scenario() -> None:
        thread = in_thread(tmp_path)

        def commit_late() -> None:
            may_commit.wait()
            commit(thread.journal, 0, (NOW_MS, 0))

        calling = asyncio.create_task(thread.call(commit_late))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        may_commit.set()
        await thread.close()

    asyncio.run(scenario())
    with open_read_only(tmp_path) as disk:
        view = inspect_journal(disk)
        assert [record.payload for record in view.records(view.lanes[0])] == [b"payload"]


def test_signing_beside_the_journal_may_wait_for_the_journal_and_closing_waits_for_both(tmp_path: Path) -> None:
    threads: list[str] = []
    may_sign = threading.Event()

    async def scenario() -> None:
        thread = in_thread(tmp_path)

        def sign_and_commit() -> int:
            may_sign.wait()
            threads.append(threading.current_thread().name)
            thread.call_from_thread(lambda: threads.append(threading.current_thread().name))
            thread.call_from_thread(lambda: commit(thread.journal, 0, (NOW_MS, 0)))
            return thread.journal.durable_position(0)

        signing = asyncio.create_task(thread.call_beside(sign_and_commit))
        assert await thread.call(lambda: "the journal is free meanwhile")
        closing_thread = asyncio.create_task(thread.close())
        await asyncio.wait({closing_thread}, timeout=0.05)
        assert not closing_thread.done()
        may_sign.set()
        assert await signing == 1
        await closing_thread

    asyncio.run(scenario())
    assert threads == ["signing_0", "journal_0"]


def test_a_problem_in_the_thread_is_the_callers_and_the_thread_goes_on(tmp_path: Path) -> None:
    def fail() -> None:
        raise StorageError("the disk is full, on purpose")

    async def scenario() -> None:
        thread = in_thread(tmp_path)
        for call in (thread.call, thread.call_beside):
            with pytest.raises(StorageError, match="on purpose"):
                await call(fail)
        assert await thread.call(lambda: "goes on") == "goes on"
        await thread.close()

    asyncio.run(scenario())


def test_a_tick_commits_nothing_and_closing_commits_what_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        thread = in_thread(tmp_path)
        thread.journal.append_many(0, [Entry(b"payload", "boiler", NOW_MS, 1)])
        await thread.tick()
        assert thread.journal.durable_position(0) == 0
        await thread.close()

    asyncio.run(scenario())
    with open_read_only(tmp_path) as disk:
        assert read_floor(disk) == Reference(NOW_MS, 1)


def test_the_floor_is_the_latest_reference_of_all_lanes(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with open_read_only(tmp_path) as disk:
        assert read_floor(disk) is None
        commit(journal, 3, (NOW_MS, 0), (NOW_MS + 5, 2))
        commit(journal, 1, (NOW_MS + 4, 9))
        journal.close(NOW_MS)
        floor = read_floor(disk)
    assert floor == Reference(NOW_MS + 5, 2)


def test_a_journal_whose_last_record_is_damaged_gives_no_floor(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    commit(journal, 0, (NOW_MS + 1, 0))
    commit(journal, 1, (NOW_MS, 0))  # which is whole, and not the latest
    journal.close(NOW_MS)
    segment, _ = sorted(tmp_path.glob("*.segment"))
    segment.write_bytes(segment.read_bytes().replace(b"payload", b"Payload"))
    with open_read_only(tmp_path) as disk:
        assert read_floor(disk) is None


class WritesButDoesNotSync(DirectoryDisk):
    """A disk whose writes arrive, and whose syncs fail from a moment on."""

    fails = False

    def sync(self, name: str) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        super().sync(name)


def test_a_durable_view_ends_before_what_was_written_and_is_not_durable(tmp_path: Path) -> None:
    with closing(WritesButDoesNotSync(tmp_path)) as disk:
        journal = Journal(disk, SETTINGS, new_journal_id=JOURNAL_ID, now_ms=NOW_MS)
        commit(journal, 0, (NOW_MS, 0))
        disk.fails = True
        with pytest.raises(StorageError):
            commit(journal, 0, (NOW_MS, 1))
        everything, durable = inspect_journal(disk), durable_view(disk, journal)
        assert [record.sequence for record in everything.records(everything.lanes[0])] == [0, 1]
        assert [record.sequence for record in durable.records(durable.lanes[0])] == [0]


def test_the_identity_of_a_journal_is_that_of_its_state(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with open_read_only(tmp_path) as disk:
        assert open_journal_id(disk) == JOURNAL_ID.to_bytes(16)
    journal.close(NOW_MS)


def test_an_empty_folder_has_no_identity(tmp_path: Path) -> None:
    with closing(DirectoryDisk(tmp_path, read_only=True)) as disk, pytest.raises(StorageError, match="no identity"):
        open_journal_id(disk)
