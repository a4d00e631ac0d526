"""`headgate run --once` ships what it archived before it ends, and states it in a last checkpoint."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.collector.devices import Device
from protocol.devicelog.checkpoint import Checkpoint
from protocol.events import CHECKPOINT_INFO_TYPE
from protocol.iomessage.content import decode_content
from tests.support.archives import read_archive
from tests.support.collectors import COLLECTOR_KEY, RunningCollector, running_collector
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent

SHIP = """
[archive]
[ship]
url = "{url}"
collector_key = "collector.pub"
"""


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with running_collector(tmp_path / "collector") as running:
        yield running


def make_agent(folder: Path, url: str) -> Agent:
    agent = Agent.make(folder, extra=SHIP.format(url=url))
    (folder / "collector.pub").write_text(COLLECTOR_KEY.hex())
    return agent


def enrol(agent: Agent, collector: RunningCollector) -> bytes:
    command = [sys.executable, "-m", "agent", "keys", "export-public", "--keys", str(agent.key_file)]
    public = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    address = bytes.fromhex(public["device"][2:])
    key = bytes.fromhex(public["archive_key"])
    collector.intake.allow_list.enrol(Device(address=address, enrolled_at_ms=1, archive_key=key))
    return address


def checkpoints_published(agent: Agent) -> list[bytes]:
    readings = [reading for message in agent.messages() for reading in decode_content(message.content)]
    return [reading.content_data or b"" for reading in readings if reading.info_type == CHECKPOINT_INFO_TYPE]


def run_once(agent: Agent) -> str:
    with agent.start("--once", "--seconds", "1") as process:
        assert process.wait(PATIENCE_S) == 0
    return (agent.folder / "log").read_text()


def test_everything_that_was_read_is_at_the_collector_and_stated(tmp_path: Path, collector: RunningCollector) -> None:
    agent = make_agent(tmp_path / "device", f"http://{collector.host}:{collector.port}")
    address = enrol(agent, collector)
    run_once(agent)
    archives = [data for name, data in collector.landed().items() if name.endswith(".hga")]
    records = [record for data in archives for record in read_archive(data)[1]]
    [path] = collector.folders.landing.glob(f"{address.hex()}-*.checkpoint")
    checkpoint = Checkpoint.from_bytes(path.read_bytes())
    assert checkpoint.size == len(archives)
    assert checkpoint.waiting == 0
    assert checkpoint.produced == sum(record.readings for record in records) > 100
    assert all(lane.released == lane.archived == lane.committed for lane in checkpoint.lanes)
    assert not list((agent.folder / "data" / "archives").glob("*.hg*"))
    stated = [Checkpoint.from_bytes(content) for content in checkpoints_published(agent)]
    assert [each.log for each in stated] == [checkpoint.log]
    assert 100 < stated[0].produced < checkpoint.produced


def test_a_collector_that_is_not_there_is_reported_and_the_archives_stay(
    tmp_path: Path, collector: RunningCollector
) -> None:
    agent = make_agent(tmp_path / "device", f"http://{collector.host}:{collector.port}")  # which is not enrolled
    log = run_once(agent)
    assert "not all archives were shipped; waiting=1 problem=the collector answers 403 device-unknown" in log
    assert "the last checkpoint was not sent" in log
    assert len(list((agent.folder / "data" / "archives").glob("*.hga"))) == 1
