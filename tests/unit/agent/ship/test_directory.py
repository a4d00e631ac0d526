from pathlib import Path

import pytest

from agent.archive.settings import ShipConfig
from agent.ship.directory import mount_problem, write_checkpoint
from protocol.devicelog.checkpoint import Checkpoint
from tests.support.archives import BINDING, LOG
from tests.support.device_logs import checkpoint


@pytest.mark.parametrize("mounted", ["", "media", "media/stick", "media/stick/headgate"])
def test_a_mount_at_the_directory_or_above_it_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str
) -> None:
    monkeypatch.setattr(
        Path, "is_mount", lambda path: path in (Path("/"), tmp_path / mounted if mounted else Path("/"))
    )
    config = ShipConfig(directory=tmp_path / "media" / "stick" / "headgate", require_mount=True)
    assert ("no file system is mounted" in mount_problem(config)) == (mounted == "")


def test_no_mount_is_needed_unless_it_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda _: False)
    assert mount_problem(ShipConfig(directory=tmp_path)) == ""
    assert mount_problem(ShipConfig(url="http://x", collector_key=tmp_path, require_mount=True)) == ""


def test_the_checkpoint_is_named_by_device_and_log(tmp_path: Path) -> None:
    write_checkpoint(checkpoint(), tmp_path / "stick")
    [path] = (tmp_path / "stick").iterdir()
    assert path.name == f"{BINDING.address.hex()}-{LOG.hex()}.checkpoint"
    assert Checkpoint.from_bytes(path.read_bytes()) == checkpoint()
