"""`headgate tap` on a journal that is being written."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cli import main
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.operator.commands.tap import matches, may_match
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage
from tests.support.pack_samples import binary_content, linked_readings

NOW_MS = 1_700_000_000_000


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    path.write_text('[device]\nname = "bench"\ndata_directory = "data"\n')
    return path


@pytest.fixture
def journal(config: Path) -> Iterator[Journal]:
    disk = DirectoryDisk(config.parent / "data" / "journal")
    opened = Journal(disk, JournalSettings(max_bytes=4 << 20, segment_bytes=64 << 10), new_journal_id=7, now_ms=NOW_MS)
    yield opened
    opened.close(NOW_MS)


def commit(journal: Journal, stream: str, *contents: str, lane: int = 4) -> None:
    for number, content in enumerate(contents):
        message = StreamMessage(MessageID(stream, 0, NOW_MS, number, "0xab", "chain"), content)
        journal.append(lane, Entry(message.serialize().encode(), stream, NOW_MS, number))
    journal.commit(NOW_MS)


def commit_on_sleep(monkeypatch: pytest.MonkeyPatch, *work: object) -> None:
    """Each look finds what one more piece of work left; then the operator has seen enough."""
    rounds = iter(work)

    def sleep(_: float) -> None:
        if (each := next(rounds, None)) is None:
            raise KeyboardInterrupt
        each()  # type: ignore[operator]

    monkeypatch.setattr("agent.operator.commands.tap.time.sleep", sleep)


def test_messages_are_shown_as_they_are_committed(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(journal, "0xab/boiler", '{"n":1}')
    commit_on_sleep(monkeypatch, lambda: commit(journal, "0xab/boiler", '{"n":2}'), lambda: None)
    assert main(["tap", "--config", str(config)]) == 130
    assert capsys.readouterr().out == '2023-11-14T22:13:20.000Z  0xab/boiler  {"n":2}\n'


def test_it_can_begin_earlier_filter_count_and_speak_json(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(journal, "0xab/boiler", '{"n":1}', '{"n":2}', '{"n":3}')
    commit(journal, "0xab/valve", '{"n":4}', lane=2)
    assert main(["tap", "--config", str(config), "--last", "9", "--count", "2", "--json", "boiler"]) == 0
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["content"]["n"] for each in reported] == [1, 2]
    assert reported[0]["stream"] == "0xab/boiler"


@pytest.mark.parametrize(
    ("pattern", "is_meant"),
    [("*", True), ("0xab/plant/boiler", True), ("boiler", True), ("plant/boiler", True), ("0xab/*", True),
     ("oiler", False), ("plant", False), ("*/valve", False)],
)  # fmt: skip
def test_a_stream_is_meant_by_its_id_its_end_or_a_pattern(pattern: str, is_meant: bool) -> None:
    assert matches("0xab/plant/boiler", pattern) is is_meant


def test_what_cannot_be_read_is_reported_and_passed_over(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(4, Entry(b"garbage", "c", NOW_MS, 0))
    commit(journal, "0xab/boiler", '{"n":1}')
    assert main(["tap", "--config", str(config), "--last", "2", "--count", "1"]) == 0
    captured = capsys.readouterr()
    assert "boiler" in captured.out
    assert "lane 4, position 0" in captured.err


def test_a_journal_that_is_not_there_is_named_and_not_made(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tap", "--config", str(config)]) == 66
    assert "journal" in capsys.readouterr().err
    assert not (config.parent / "data" / "journal").exists()


@pytest.mark.parametrize(
    ("known", "pattern", "is_possible"),
    [("*/bench/boiler", "boiler", True), ("*/bench/boiler", "bench/boiler", True), ("*/bench/boiler", "nosuch", False),
     ("*/bench/*", "anything", True), ("0xab/plant", "0xab/plant", True), ("0xab/plant", "0xab/pl*", True)],
)  # fmt: skip
def test_a_stream_can_be_meant_though_parts_of_its_id_are_not_known_yet(
    known: str, pattern: str, is_possible: bool
) -> None:
    assert may_match(known, pattern) is is_possible


def test_a_stream_that_there_is_none_of_is_an_answer_with_those_there_are(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text() + '[drivers.valve]\ndriver = "system"\n')
    commit(journal, "0xab/boiler", '{"n":1}')
    assert main(["tap", "--config", str(config), "nosuch"]) == 1
    problem = capsys.readouterr().err
    assert all(each in problem for each in ("'nosuch'", "0xab/boiler", "*/bench/valve", "*/bench/events"))


def test_it_says_that_it_waits(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(journal, "0xab/boiler", '{"n":1}')
    commit_on_sleep(monkeypatch, *[lambda: None] * 12)
    assert main(["tap", "--config", str(config), "boiler"]) == 130
    assert capsys.readouterr().err.count("waiting for messages of boiler (the agent is not running)") == 1


def test_it_says_that_it_waits_for_the_rest_of_the_count(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(journal, "0xab/boiler", '{"n":1}')
    commit_on_sleep(monkeypatch, *[lambda: None] * 24)
    assert main(["tap", "--config", str(config), "boiler", "--last", "2", "--count", "2"]) == 130
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert printed.err.count("waiting for messages of boiler") == 1


def test_readings_that_left_the_journal_between_two_polls_are_counted_on_stderr(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DirectoryDisk(config.parent / "data" / "journal")
    settings = JournalSettings(max_bytes=1 << 20, segment_bytes=64 << 10, compression="none")
    journal = Journal(disk, settings, new_journal_id=7, now_ms=NOW_MS)
    commit(journal, "0xab/boiler", '{"n":1}', '{"n":2}')

    def commit_more_than_it_holds() -> None:
        for _ in range(150):
            commit(journal, "0xab/boiler", "1" * 10_000)

    commit_on_sleep(monkeypatch, commit_more_than_it_holds, lambda: None)
    assert main(["tap", "--config", str(config), "--last", "1"]) == 130
    printed = capsys.readouterr()
    shown = len(printed.out.splitlines()) - 1
    missed = 150 - shown
    assert 0 < shown < 150
    assert printed.err.count("left the journal") == 1
    assert f"lane 4, positions 2 to {missed + 1}: {missed} readings left the journal" in printed.err
    journal.close(NOW_MS)


def test_a_pack_is_one_line_per_reading_and_counted_by_them(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(journal, "0xab/boiler", binary_content(linked_readings(5)))
    assert main(["tap", "--config", str(config), "--last", "5", "--count", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2023-11-14T22:13:20.000Z  0xab/boiler  boiler temperature 20.0 Cel",
        "2023-11-14T22:13:21.000Z  0xab/boiler  boiler temperature 20.5 Cel",
        "2023-11-14T22:13:22.000Z  0xab/boiler  boiler temperature 21.0 Cel",
    ]


def test_a_pack_that_cannot_be_decoded_is_one_line_with_the_reason(
    config: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(journal, "0xab/boiler", '{"ioMessages":"AAAA"}')
    assert main(["tap", "--config", str(config), "--last", "1", "--count", "1"]) == 0
    assert "UNREADABLE: in a pack: " in capsys.readouterr().out
