import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from protocol.archive.manifest import Manifest
from protocol.archive.random_access import open_archive
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import IoMessage
from protocol.losses import Loss
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import Verdict, Verifier
from tests.effort import FIRST_SEED, effort
from tests.support.archives import read_at_of
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, assert_whole, by_chain, readings_of, wait_until

pytestmark = pytest.mark.slow

KILLS = effort(test=8, soak=200)
NEVER = "\n[archive]\nevery_s = 1000000.0\n"  # its cursor keeps every record in the journal, for the test to count


def test_kills_at_random_moments_lose_nothing_and_break_no_chain(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=300, extra=NEVER)
    chance = random.Random(7 + FIRST_SEED)
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
        assert process.wait(PATIENCE_S) == 0
    messages = agent.messages()
    assert_whole(messages)
    assert {message.serialize() for message in messages} == {record["payload"] for record in _journal(agent)}
    assert len({chain_id for _, _, chain_id in by_chain(messages)}) >= KILLS
    _assert_references_rise(messages)


def test_what_a_full_journal_sheds_is_reported_in_signed_messages(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=3000)
    text = agent.config.read_text().replace("max_megabytes = 16", "max_megabytes = 1")
    agent.config.write_text(
        text.replace("segment_kilobytes = 256", "segment_kilobytes = 64").replace('"out.jsonl"', '"/dev/full"')
    )
    with agent.start() as process:
        wait_until(lambda: "readings lost" in agent.log(), "the journal is full")
        agent.config.write_text(agent.config.read_text().replace('"/dev/full"', '"out.jsonl"'))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: _reported(agent.messages()), "the loss is published")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    agent.config.write_text(agent.config.read_text().replace("rate_hz = 3000", "rate_hz = 1"))
    with agent.start() as process:
        wait_until(lambda: not _unreported(agent.messages()), "the next process reports the last losses")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    verifier = Verifier()
    assert all(verifier.verify(message) is Verdict.VERIFIED for message in agent.messages())


def test_the_manifests_of_archives_tell_what_was_shed_before_it_could_be_archived(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=3000, extra="\n[archive]\nevery_s = 2.0\n")
    text = agent.config.read_text().replace("max_megabytes = 16", "max_megabytes = 1")
    agent.config.write_text(text.replace("segment_kilobytes = 256", 'segment_kilobytes = 64\ncompression = "none"'))
    with agent.start() as process:
        wait_until(
            lambda: _archived_losses(agent).keys() & _reported_losses(agent).keys(), "a loss is reported in both ways"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    archived, reported = _archived_losses(agent), _reported_losses(agent)
    in_both = archived.keys() & reported.keys()  # the last ones are reported by the next process
    assert all(archived[number].count == reported[number] for number in in_both)
    assert {loss.cause for loss in archived.values()} <= {"shed", "journal full"}


def _archived_losses(agent: Agent) -> dict[int, Loss]:
    archives = (agent.folder / "data" / "archives").glob("*.hga")
    losses = [loss for archive in archives for loss in _manifest(archive).losses]
    numbers = {loss.number: loss for loss in losses}
    assert len(numbers) == len(losses)
    return numbers


def _reported_losses(agent: Agent) -> dict[int, int]:
    return {notice.loss.number: notice.loss.count for notice in _reported(agent.messages())}


def _manifest(path: Path) -> Manifest:
    data = path.read_bytes()
    return open_archive(read_at_of(data), len(data)).manifest


def _journal(agent: Agent) -> list[dict[str, str]]:
    directory = str(agent.folder / "data" / "journal")
    done = subprocess.run(agent.command("journal", "export", directory), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _assert_references_rise(messages: list[StreamMessage]) -> None:
    """Each process begins its chains after everything that the previous one had committed."""
    first_and_last = [(chain[0].message_id.ref, chain[-1].message_id.ref) for chain in _plant_chains(messages)]
    ends = [last for _, last in first_and_last]
    assert all(end < begin for end, (begin, _) in zip(ends, first_and_last[1:], strict=False))


def _plant_chains(messages: list[StreamMessage]) -> list[list[StreamMessage]]:
    return [chain for (stream_id, _, _), chain in by_chain(messages).items() if stream_id.endswith("/plant")]


def _reported(messages: list[StreamMessage]) -> list[GapNotice]:
    found = readings_of(*(message for message in messages if message.message_id.stream_id.endswith("/events")))
    return [GapNotice.from_bytes(io.content_data or b"") for io in found if io.info_type == GAP_INFO_TYPE]


def _unreported(messages: list[StreamMessage]) -> list[str]:
    """The chains from which more readings are missing than losses are reported."""
    reported: Counter[str] = Counter()
    for loss in {notice.loss.number: notice.loss for notice in _reported(messages)}.values():
        reported[loss.chain] += loss.count
    missing = {
        f"{stream_id}#{partition}/{chain_id}": _missing(readings_of(*chain))
        for (stream_id, partition, chain_id), chain in by_chain(messages).items()
    }
    return [chain for chain, count in missing.items() if count > reported[chain] + reported[""]]


def _missing(chain: list[IoMessage]) -> int:
    return (chain[-1].chain_position or 0) + 1 - len(chain)
