import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import pytest

from agent.clock import SystemClock
from agent.config.configuration import load_config
from agent.journal.thread import JournalThread
from agent.keys import Secret, load_keys
from agent.pipeline import Pipeline
from protocol.ethereum.signer import Signer
from protocol.lifecycle import LifecycleNotice
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from protocol.streamr.stream_message.signing import Verdict, Verifier
from tests.support.destinations import NodeDestination
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, assert_whole, by_chain, readings_of, wait_until
from tests.support.small_client import SmallClient

pytestmark = pytest.mark.slow

T = TypeVar("T")


def test_readings_arrive_signed_in_order_and_whole(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 100, "100 messages are published")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    messages = agent.messages()
    assert_whole(messages)
    streams = {stream_id.split("/", 1)[1] for stream_id, _, _ in by_chain(messages)}
    assert streams == {"plant", "plant/json", "bench/events"}


def test_a_stop_in_the_middle_of_load_loses_nothing_and_says_goodbye(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=2000)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 100, "it is under load")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    messages = agent.messages()
    assert_whole(messages)
    assert len(readings_of(*messages)) == _committed(agent)["readings"]
    *_, last = readings_of(*(each for each in messages if each.message_id.stream_id.endswith("/events")))
    assert last.info_type == "headgate/stop"
    assert LifecycleNotice.from_bytes(last.content_data or b"")


def test_a_reload_restarts_what_changed_and_leaves_the_rest(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 50, "it runs")
        signals = '[{ quantity = "level", kind = "walk" }]'
        added = f'\n[drivers.second]\ndriver = "simulated"\nrate_hz = 50\nsignals = {signals}\n'
        agent.config.write_text(agent.config.read_text() + added)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: any(io.tag == "second" for io in readings_of(*agent.messages())), "the new driver is read")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    messages = agent.messages()
    assert_whole(messages)
    boiler = {m.message_id.msg_chain_id for m in messages if readings_of(m)[0].info_type == "temperature"}
    assert len(boiler) == 1, "the other driver's chain went on"
    assert "headgate/configuration" in {io.info_type for io in readings_of(*messages)}


def test_a_run_that_ended_leaves_its_status(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=50)
    with agent.start("--once", "--seconds", "0.5") as process:
        assert process.wait(PATIENCE_S) == 0
    asked = subprocess.run(agent.command("status", "--config", str(agent.config)), capture_output=True, check=False)
    assert asked.returncode == 1
    screen = asked.stdout.decode()
    assert "NOT RUNNING" in screen
    assert f", in {len(agent.lines())} messages, 0 readings quarantined" in screen


IMPOSSIBLE = {
    "a table that there is none of": "\n[jurnal]\n",
    "a key that is not there": '[archive]\n[ship]\nurl = "http://127.0.0.1:9"\ncollector_key = "nowhere.key"\n',
    "a folder that cannot be one": '[archive]\ndirectory = "headgate.toml"\n',
}


@pytest.mark.parametrize("added", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_configuration_that_is_wrong_or_turns_out_to_be_impossible_leaves_the_old_one_at_work(
    tmp_path: Path, added: str
) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 20, "it runs")
        agent.config.write_text(agent.config.read_text() + added)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "keeping the previous one" in agent.log(), "it reports the problem")
        count = len(agent.lines())
        wait_until(lambda: len(agent.lines()) > count + 20, "it goes on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert_whole(agent.messages())


@pytest.mark.parametrize("added", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_the_reload_command_fails_with_the_reason_and_succeeds_once_that_is_mended(tmp_path: Path, added: str) -> None:
    agent = Agent.make(tmp_path)
    good = agent.config.read_text()
    accepted = good + f'\n[publishers.second]\nkind = "file"\npath = "{tmp_path / "second.jsonl"}"\n'
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {"RUNTIME_DIRECTORY": str(tmp_path), "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with agent.start(**environment) as process:
            wait_until((tmp_path / "control.sock").exists, "it listens")
            agent.config.write_text(good + added)
            refused = _reload(agent)
            agent.config.write_text(accepted)
            done = _reload(agent)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
            heard = b"".join(iter(lambda: manager.recv(2000) + b"\n\n", b"STOPPING=1\n\n"))
    assert refused.returncode == 78
    assert "keeps the previous one: " in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "loaded and in use" in done.stdout
    assert heard.count(b"READY=1\nSTATUS=configuration rejected") == 1, "systemctl status shows it"
    assert b"READY=1\nSTATUS=\n" in heard, "and that it is over"
    assert _reload(agent).returncode == 69, "the agent has stopped"


def _reload(agent: Agent) -> "subprocess.CompletedProcess[str]":
    command = agent.command("reload", "--config", str(agent.config))
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(agent.folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_after_a_reload_with_another_key_file_the_device_is_who_that_says(tmp_path: Path) -> None:
    agent, other = Agent.make(tmp_path), tmp_path / "other" / "device.keys"
    made = subprocess.run(agent.command("keys", "init", "--keys", str(other)), check=True, capture_output=True)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 20, "it runs")
        text = agent.config.read_text().replace('name = "bench"', f'name = "bench"\nkey_file = "{other}"')
        agent.config.write_text(text)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(_signers(agent)) > 1, "another one signs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert any(address.lower() in made.stdout.decode().lower() for address in _signers(agent))
    assert_whole(agent.messages())


def test_a_new_publisher_takes_part_after_a_reload(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 20, "it runs")
        second = tmp_path / "second.jsonl"
        added = f'\n[publishers.second]\nkind = "file"\npath = "{second}"\n'
        agent.config.write_text(agent.config.read_text() + added)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: second.exists() and second.stat().st_size > 1000, "the new publisher works")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert_whole(agent.messages())


def test_the_last_status_counts_what_was_published_while_it_stopped(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=50)
    agent.config.write_text(agent.config.read_text().replace("every_s = 0.1", "every_s = 3600"))
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 20, "it publishes")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    status = json.loads((tmp_path / "data" / "status.json").read_text())
    assert status["links"]["out"]["messages_acknowledged"] == len(agent.lines())
    assert status["journal"]["pending"]["out"] == 0


def test_status_tells_of_a_running_agent_and_of_one_that_is_gone(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 20, "it runs")
        wait_until((tmp_path / "data" / "status.json").exists, "it writes its status")
        running = _status(agent)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert running.returncode == 0
    status = json.loads(running.stdout)
    assert status["devices"]["boiler"]["state"] == "up"
    assert status["links"]["out"]["is_up"]
    assert _status(agent).returncode == 1


def test_the_service_manager_hears_ready_alive_reloading_and_stopping(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        with agent.start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000") as process:
            heard = {manager.recv(200), manager.recv(200), manager.recv(200)}
            process.send_signal(signal.SIGHUP)
            while not (word := manager.recv(200)).startswith(b"RELOADING=1"):
                heard.add(word)
            process.send_signal(signal.SIGTERM)
            while (word := manager.recv(200)) != b"STOPPING=1":
                heard.add(word)
            assert process.wait(PATIENCE_S) == 0
    assert heard == {b"READY=1", b"WATCHDOG=1"}


def test_a_pipeline_that_does_not_move_feeds_no_watchdog(tmp_path: Path) -> None:
    """The process stands still as one does whose disk never answers; only the journal's thread can say otherwise."""

    class StuckJournal(JournalThread):
        async def call(self, function: Callable[[], T]) -> T:  # noqa: ARG002
            await asyncio.Event().wait()
            raise AssertionError

    async def run() -> bool:
        agent = Agent.make(tmp_path)
        keys = load_keys(agent.key_file, lambda: Secret(b""))
        pipeline = Pipeline(load_config(agent.config), keys, SystemClock())
        before = await pipeline.is_making_progress()
        assert before
        real, pipeline.journal = pipeline.journal, StuckJournal(pipeline.journal.journal, SystemClock())
        is_making_progress = await pipeline.is_making_progress()
        await real.close()
        return is_making_progress

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.pipeline.STALLED_S", 0.05)
        assert not asyncio.run(run())


def test_run_once_publishes_everything_and_ends(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start("--once", "--seconds", "0.5") as process:
        assert process.wait(PATIENCE_S) == 0
    assert_whole(agent.messages())
    assert len(agent.messages()) == _committed(agent)["records"]


def test_a_dry_run_prints_readings_and_keeps_nothing(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    done = subprocess.run(
        agent.command("run", "--config", str(agent.config), "--dry-run", "--seconds", "0.3"),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[0])["sensor"] == "boiler"
    assert not (tmp_path / "data" / "journal").exists()
    assert not agent.output.exists()


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_a_node_has_what_the_agent_counts_as_acknowledged(tmp_path: Path, kind: Literal["websocket", "http"]) -> None:
    node = NodeDestination(tmp_path / "node", kind)
    node.start()
    extra = f'\n[publishers.node]\nkind = "{kind}"\nurl = "http://{node.url}"\n'
    agent = Agent.make(tmp_path / "agent", rate_hz=50, extra=extra)
    try:
        with agent.start("--once", "--seconds", "2") as process:
            assert process.wait(PATIENCE_S) == 0
        signer = Signer(load_keys(agent.key_file, lambda: Secret(b"")).identity.reveal())
        client = SmallClient(node.url, signer)
        arrived = client.resend_last(f"{signer.address}/plant", 10_000)
        client.close()
    finally:
        node.stop()
    published = [m.content for m in agent.messages() if m.message_id.stream_id == f"{signer.address}/plant"]
    assert published
    assert list(dict.fromkeys(arrived)) == published


def test_an_encrypted_stream_is_signed_and_unreadable(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    rule = '[[streams]]\nstream = "{address}/secret"\nencryption = "aes"\nrotate_after_messages = 3\n[[streams]]'
    agent.config.write_text(agent.config.read_text().replace("[[streams]]", rule, 1))
    with agent.start("--once", "--seconds", "1") as process:
        assert process.wait(PATIENCE_S) == 0
    locked = _locked(agent)
    verifier = Verifier()
    assert all(verifier.verify(message) is Verdict.VERIFIED for message in locked)
    assert all(message.encryption_type is EncryptionType.AES for message in locked)
    assert len({message.group_key_id for message in locked}) > 2
    assert any(message.new_group_key for message in locked)


def test_rekeying_on_demand_changes_the_key_of_a_running_agent(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    rule = '[[streams]]\nstream = "{address}/secret"\nencryption = "aes"\n[[streams]]'
    agent.config.write_text(agent.config.read_text().replace("[[streams]]", rule, 1))
    rekey = agent.command("rekey", "--config", str(agent.config))
    refused = subprocess.run([*rekey, "0xother/stream"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "not an encrypted stream: 0xother/stream" in refused.stderr) == (78, True)
    with agent.start() as process:
        wait_until(agent.lines, "it publishes")
        done = subprocess.run([*rekey, "--wait", "60"], capture_output=True, text=True, check=False)
        assert (done.returncode, "has a new key" in done.stdout) == (0, True)
        wait_until(lambda: len({m.group_key_id for m in _locked(agent)}) == 2, "the new key is in use")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert not any(message.new_group_key for message in _locked(agent)), "the old key's readers must not follow"
    unheard = subprocess.run([*rekey, "--wait", "0"], capture_output=True, text=True, check=False)
    assert (unheard.returncode, "requested, not done yet" in unheard.stdout) == (1, True)


def _locked(agent: Agent) -> list[StreamMessage]:
    return [message for message in agent.messages() if message.message_id.stream_id.endswith("/secret")]


def test_the_device_itself_can_verify_its_archives_in_a_directory(tmp_path: Path) -> None:
    extra = f'\n[archive]\nevery_s = 0.2\n[ship]\ndirectory = "{tmp_path / "stick"}"\ncheck_every_s = 0.1\n'
    agent = Agent.make(tmp_path / "agent", extra=extra)
    with agent.start() as process:
        wait_until(lambda: list((tmp_path / "stick").glob("*.hga")), "an archive is on the stick")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    archive = next((tmp_path / "stick").glob("*.hga"))
    subprocess.run(agent.command("archive", "verify", str(archive)), check=True, capture_output=True)
    assert list((tmp_path / "agent" / "data" / "archives").glob("*.hga")), "kept until a receipt comes"


def _signers(agent: Agent) -> set[str]:
    return {message.message_id.publisher_id for message in agent.messages()}


def _committed(agent: Agent) -> dict[str, int]:
    directory = str(agent.folder / "data" / "journal")
    done = subprocess.run(agent.command("journal", "stat", directory, "--json"), capture_output=True, check=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def _status(agent: Agent) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        agent.command("status", "--config", str(agent.config), "--json"), capture_output=True, check=False
    )


def test_a_stop_before_the_service_listens_is_no_failure(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path)
    with agent.start() as process:
        wait_until(lambda: _catches_sigterm(process.pid), "the interpreter is up")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in agent.log()


def _catches_sigterm(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught & 1 << signal.SIGTERM - 1)
