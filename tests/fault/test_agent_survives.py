import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from protocol.archive import ArchiveReader, Manifest
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.streamr import StreamMessage
from protocol.streamr.signing import Verdict, Verifier
from testbed.running_agent import Agent, assert_whole, by_chain, io_message, wait_until

pytestmark = pytest.mark.slow

KILLS = 50
NEVER = "\n[archive]\nevery_s = 1000000.0\n"  # its cursor keeps every record in the journal, for the test to count


def test_kills_at_random_moments_lose_nothing_and_break_no_chain(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=300, extra=NEVER)
    chance = random.Random(7)
    for _ in range(KILLS):
        published = len(agent.lines())
        with agent.start() as process:
            wait_until(lambda published=published: len(agent.lines()) > published, "it publishes again")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.15))
            process.kill()
    published = len(agent.lines())
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > published, "it publishes again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    messages = agent.messages()
    assert_whole(messages)
    assert {message.serialize() for message in messages} == {record["payload"] for record in _journal(agent)}
    assert len({chain_id for _, _, chain_id in by_chain(messages)}) >= KILLS
    _assert_references_rise(messages)


def test_what_a_full_journal_sheds_is_told_in_signed_messages(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=3000)
    text = agent.config.read_text().replace("max_megabytes = 16", "max_megabytes = 1")
    agent.config.write_text(
        text.replace("segment_kilobytes = 256", "segment_kilobytes = 64").replace('"out.jsonl"', '"/dev/full"')
    )
    with agent.start() as process:
        wait_until(lambda: "messages lost" in agent.log(), "the journal is full")
        agent.config.write_text(agent.config.read_text().replace('"/dev/full"', '"out.jsonl"'))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: _told(agent.messages()), "the loss is published")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    agent.config.write_text(agent.config.read_text().replace("rate_hz = 3000", "rate_hz = 1"))
    with agent.start("--once", "--seconds", "2") as process:  # losses of the last second are told by the next process
        assert process.wait(30) == 0
    messages = agent.messages()
    verifier = Verifier()
    assert all(verifier.verify(message) is Verdict.VERIFIED for message in messages)
    _assert_holes_are_told(messages)


def test_the_manifests_of_archives_tell_what_was_shed_before_it_could_be_archived(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=3000, extra="\n[archive]\nevery_s = 2.0\n")
    text = agent.config.read_text().replace("max_megabytes = 16", "max_megabytes = 1")
    agent.config.write_text(text.replace("segment_kilobytes = 256", 'segment_kilobytes = 64\ncompression = "none"'))
    with agent.start() as process:
        wait_until(lambda: "messages lost" in agent.log(), "the journal is full")
        lost_at = agent.log().index("messages lost")
        wait_until(lambda: agent.log().count("archived;", lost_at) >= 2, "an archive was made after the loss")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    archives = (agent.folder / "data" / "archives").glob("*.hga")
    losses = [loss for archive in archives for loss in _manifest(archive).losses]
    told = {notice.number: notice.count for notice in _told(agent.messages())}
    numbers = {loss.number: loss.count for loss in losses}
    in_both = numbers.keys() & told.keys()
    assert {loss.reason for loss in losses} <= {"shed", "no room"}
    assert len(numbers) == len(losses)
    assert in_both  # the last ones are told by the next process
    assert all(numbers[number] == told[number] for number in in_both)


def _manifest(path: Path) -> Manifest:
    reader = ArchiveReader()
    for _ in reader.feed(path.read_bytes()):
        pass
    return reader.finish().manifest


def _journal(agent: Agent) -> list[dict[str, str]]:
    directory = str(agent.folder / "data" / "journal")
    done = subprocess.run(agent.command("journal", "export", directory), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _assert_references_rise(messages: list[StreamMessage]) -> None:
    """Each process begins its chains after everything that the one before it had committed."""
    first_and_last = [(chain[0].message_id.ref, chain[-1].message_id.ref) for chain in _plant_chains(messages)]
    ends = [last for _, last in first_and_last]
    assert all(end < begin for end, (begin, _) in zip(ends, first_and_last[1:], strict=False))


def _plant_chains(messages: list[StreamMessage]) -> list[list[StreamMessage]]:
    return [chain for (stream_id, _, _), chain in by_chain(messages).items() if stream_id.endswith("/plant")]


def _told(messages: list[StreamMessage]) -> list[GapNotice]:
    found = (io_message(message) for message in messages if message.message_id.stream_id.endswith("/events"))
    return [GapNotice.from_bytes(io.content_data or b"") for io in found if io.info_type == GAP_INFO_TYPE]


def _assert_holes_are_told(messages: list[StreamMessage]) -> None:
    told: dict[str, int] = {}
    for notice in {notice.number: notice for notice in _told(messages)}.values():
        told[notice.chain] = told.get(notice.chain, 0) + notice.count
    for (stream_id, partition, chain_id), chain in by_chain(messages).items():
        last = io_message(chain[-1]).chain_position or 0
        assert last + 1 - len(chain) <= told.get(f"{stream_id}#{partition}/{chain_id}", 0) + told.get("", 0)
