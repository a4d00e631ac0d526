import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.account import Account, ChainAccount, ChainName
from ingest.errors import IngestBusy, IngestError
from ingest.store import Change, Store, StoredFile, files_of, files_of_all, version_of


class PowerLoss(Exception):
    pass


def staged(store: Store, table: str, *names: str) -> list[Path]:
    folder = store.work(table)
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return [folder / name for name in names]


def commit(store: Store) -> None:
    """The second of two commits: it adds to one table and replaces another."""
    account = store.account()
    account.chains[ChainName("d", "c")] = ChainAccount(archived=2)
    messages = staged(store, "messages", "date=2026-01-01/part-0.parquet", "date=2026-01-02/part-0.parquet")
    changes = {
        "messages": Change(messages),
        "ledger": Change(staged(store, "ledger", "b.parquet"), store.files("ledger")),
    }
    store.commit(account, changes)


def prepared(folder: Path) -> Path:
    with Store(folder) as store:
        account = Account(chains={ChainName("d", "c"): ChainAccount(archived=1)})
        store.commit(account, {"ledger": Change(staged(store, "ledger", "a.parquet"))})
    return folder


def content(folder: Path) -> dict[str, Any]:
    with Store(folder) as store:
        files = {table: [file.name for file in store.files(table)] for table in ("messages", "ledger")}
        return {**files, "account": store.account()}


def test_a_commit_adds_removes_and_remembers(tmp_path: Path) -> None:
    with Store(prepared(tmp_path)) as store:
        commit(store)
        assert [file.date for file in store.files("messages")] == ["2026-01-01", "2026-01-02"]
        assert store.files("messages", ["2026-01-02", "2026-01-03"]) == [
            StoredFile("date=2026-01-02/000002-00001.parquet")
        ]
        assert len(store.files("ledger")) == 1
        assert store.account().chains == {ChainName("d", "c"): ChainAccount(archived=2)}
    assert [path.name for path in files_of(tmp_path, "ledger")] == ["000002-00000.parquet"]


def crash(patch: pytest.MonkeyPatch, crash_at: int) -> None:
    """Let the world end at the n-th operation on files that changes something."""
    counter = itertools.count(1)

    def counted(operation: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(counter) >= crash_at:
                raise PowerLoss
            return operation(*arguments, **options)

        return call

    for owner, name in ((Path, "rename"), (Path, "unlink"), (os, "fsync"), (shutil, "rmtree")):
        patch.setattr(owner, name, counted(getattr(owner, name)))


def test_a_commit_happens_wholly_or_not_at_all_wherever_it_is_cut(tmp_path: Path) -> None:
    before = content(prepared(tmp_path / "before"))
    with Store(prepared(tmp_path / "after")) as store:
        commit(store)
    after = content(tmp_path / "after")
    seen = set()
    for crash_at in itertools.count(1):
        folder = prepared(tmp_path / str(crash_at))
        with pytest.MonkeyPatch.context() as patch:
            crash(patch, crash_at)
            try:
                with Store(folder) as store:
                    commit(store)
                completed = True
            except PowerLoss:
                completed = False
        found = content(folder)
        assert found in (before, after), f"cut at operation {crash_at}"
        seen.add(found == after)
        if completed:
            break
    assert seen == {False, True}
    assert crash_at > 10


def test_a_second_run_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(IngestBusy, match="another run"):
        Store(tmp_path)
    Store(tmp_path).close()


def test_tables_keep_their_format(tmp_path: Path) -> None:
    Store(tmp_path, "delta").close()
    with Store(tmp_path) as store:
        assert store.format == "delta"
    with pytest.raises(IngestError, match="format delta"):
        Store(tmp_path, "parquet")


def test_what_a_dead_run_left_is_cleared(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        (left,) = staged(store, "messages", "part-0.parquet")
    Store(tmp_path).close()
    assert not left.exists()


def cut_before_the_moves(folder: Path) -> None:
    """A commit that is written down and of which nothing else was done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_finish_commit", lambda _: None)
        patch.setattr(Store, "_clear_work", lambda _: None)
        with Store(folder) as store:
            commit(store)


def test_a_commit_that_was_cut_is_made_where_the_tables_lie_by_then(tmp_path: Path) -> None:
    with Store(prepared(tmp_path / "whole")) as store:
        commit(store)
    cut_before_the_moves(prepared(tmp_path / "here"))
    (tmp_path / "here").rename(tmp_path / "there")
    assert content(tmp_path / "there") == content(tmp_path / "whole")


def test_a_commit_whose_files_are_gone_is_not_taken_for_made(tmp_path: Path) -> None:
    cut_before_the_moves(prepared(tmp_path))
    shutil.rmtree(tmp_path / "_headgate" / "work")
    with pytest.raises(IngestError, match="is gone"):
        Store(tmp_path)


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"{}"), lambda path: path.write_text("")]
)
def test_tables_without_their_account_are_not_written_over(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    with Store(tmp_path) as store:
        store.commit(store.account(), {"archives": Change(staged(store, "archives", "a.parquet"))})
    damage(tmp_path / "_headgate" / "account.json")
    with pytest.raises(IngestError, match=r"account\.json: is (gone|damaged)"):
        Store(tmp_path)


def test_a_new_folder_of_a_date_is_durable_before_the_commit_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(prepared(tmp_path)) as store:
        synced: list[Path] = []
        for module in ("ingest.store", "runtime.durable_files"):
            monkeypatch.setattr(f"{module}.sync_directory", synced.append)
        commit(store)
    plan = synced.index(tmp_path / "_headgate")
    assert any(path.name == "date=2026-01-01" for path in synced[:plan])
    assert {tmp_path / "messages", tmp_path / "messages" / "date=2026-01-01"} <= set(synced[plan:])


def test_a_reader_sees_no_half_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_before_the_moves(prepared(tmp_path))
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        Store(tmp_path).close()  # finishes the commit

    monkeypatch.setattr("time.sleep", wait)
    found = files_of_all(tmp_path)
    assert len(waits) == 1
    assert [path.name for path in found["ledger"]] == ["000002-00000.parquet"]
    assert len(found["messages"]) == 2


def test_a_reader_uses_the_existing_files_of_an_unfinished_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_before_the_moves(prepared(tmp_path))
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert [path.name for path in files_of_all(tmp_path)["ledger"]] == ["000001-00000.parquet"]


def test_each_commit_is_another_version(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    first = version_of(prepared(tmp_path))
    with Store(tmp_path) as store:
        commit(store)
    assert version_of(tmp_path) != first
