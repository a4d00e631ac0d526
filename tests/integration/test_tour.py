"""The tour names the modules that a reading passes through: checked against a real run, process by process.

A simulated sensor is read by a real agent, archived, shipped to a real collector, and decoded as Spark's workers do.
Every function that is called after the first reading is recorded. The tour must name each module with such a function,
and every module that it names for this part of the path must have been called.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.collector_process import PROJECT, collector_process
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended
from tests.support.running_agent import wait_until

pytestmark = pytest.mark.slow

TOUR = PROJECT / "docs" / "tour.md"
HEADGATE = (sys.executable, "-m", "agent")
AGENT = """
import runpy, sys
from pathlib import Path
import agent.clock.system
from tests.support.traced import record
agent.clock.system.MAX_ERROR_US = 1 << 62  # synchronised, as the clock of a device with a time service
record(Path(sys.argv[1]), "drivers/simulated/driver.py:read")
sys.argv = ["headgate", "run", "--config", sys.argv[2]]
runpy.run_module("agent", run_name="__main__")
"""
DECODE = """
import datetime, sys
from pathlib import Path
import pyarrow as pa
from tests.support.traced import record
from ingest.archive_rows import DecodeSettings
from ingest.decode import _decode_batches
record(Path(sys.argv[1]), "ingest/decode.py:_decode_batches")
files = sorted(map(str, Path(sys.argv[2]).glob("*.hga")))
landed_at = [datetime.datetime(2026, 1, 1)] * len(files)
batch = pa.RecordBatch.from_arrays([pa.array(files), pa.array(landed_at, pa.timestamp("us"))], names=["path", "at"])
decoded = _decode_batches(DecodeSettings(), Path(sys.argv[3]), iter([batch]))
kinds = [row["kind"] for rows in decoded for row in rows.to_pylist()]
assert "file" in kinds and "quarantine" not in kinds, kinds
"""

# Called while a reading travels, and not on its path: settings, keys, logs, status and the command itself.
PLUMBING = re.compile(
    r"runtime/|tests/|agent/(config|keys|operator|service)/|agent/(cli|version)\.py"
    r"|ingest/cli\.py|ingest/collector/(cli|devices|keys|metrics|settings)\.py|.*/(__init__|__main__|errors)\.py"
    r"|protocol/shown_text\.py"
)
OTHER_PATHS = "Other paths:"  # begins a paragraph about other sensors, streams, destinations, and faults
END = "<!-- the traced path ends here -->"


def named_files(text: str) -> set[str]:
    """Python files that a text links to, from the project's folder."""
    return {link for link in re.findall(r"\]\(\.\./([^)#]+)\)", text) if link.endswith(".py")}


def named_by_the_tour() -> tuple[set[str], set[str]]:
    """Modules on the path of the reading, and modules of other paths."""
    traced_part, end, _ = TOUR.read_text(encoding="utf-8").partition(END)
    assert end, f"the tour has no line {END}"
    paragraphs = traced_part.split("\n\n")
    aside = named_files("\n".join(each for each in paragraphs if each.startswith(OTHER_PATHS)))
    return named_files("\n".join(each for each in paragraphs if not each.startswith(OTHER_PATHS))), aside


def headgate(*arguments: str) -> None:
    subprocess.run([*HEADGATE, *arguments], check=True, capture_output=True, cwd=PROJECT)


def traced(out: Path, first: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.traced", str(out), first]


def prepare(root: Path, url: str) -> Path:
    config = root / "headgate.toml"
    config.write_text(
        f"""
[device]
name = "greenhouse"
data_directory = "data"
key_file = "keys/device.keys"
[drivers.boiler]
driver = "simulated"
rate_hz = 500
signals = [{{ quantity = "temperature", kind = "walk", unit = "Cel" }}]
[[streams]]
stream = "{{address}}/plant"
[publishers.out]
kind = "file"
path = "out.jsonl"
[archive]
every_s = 0.5
[page]
listen = "off"
[ship]
url = "{url}"
collector_key = "collector.key"
check_every_s = 0.2
"""
    )
    return config


def touched_modules(root: Path) -> set[str]:
    """Send readings down the whole path, and return the modules that were called."""
    headgate("collector", "keys", "init", "--state", str(root / "state"))
    (root / "keys").mkdir(mode=0o700)
    headgate("keys", "init", "--keys", str(root / "keys" / "device.keys"))
    headgate("keys", "export-public", "--keys", str(root / "keys" / "device.keys"), "--out", str(root / "device.json"))
    headgate("collector", "enrol", str(root / "device.json"), "--state", str(root / "state"))
    public = json.loads((root / "state" / "keys" / "public.json").read_text())
    (root / "collector.key").write_text(public["signing_key"])
    wrapper = traced(root / "collector.trace", "ingest/collector/intake.py:admit")
    with collector_process(root, traced_by=wrapper) as collector:
        config = prepare(root, collector.url)
        command = [sys.executable, "-c", AGENT, str(root / "agent.trace"), str(config)]
        with ended(subprocess.Popen(command, cwd=PROJECT)) as agent:
            archives, receipts = root / "data" / "archives", root / "state" / "receipts"
            wait_until(lambda: len(list(receipts.rglob("*.receipt"))) > 2, "archives are shipped")
            first = next((root / "landing").glob("*.hga"))
            wait_until(lambda: not list(archives.rglob(first.name)), "the device deletes what has a receipt")
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 0
        assert collector.stop() == 0
    (root / "rows").mkdir()
    arguments = [str(root / "decode.trace"), str(root / "landing"), str(root / "rows")]
    subprocess.run([sys.executable, "-c", DECODE, *arguments], check=True, cwd=PROJECT)
    lines = [line for trace in root.glob("*.trace") for line in trace.read_text().splitlines()]
    return {module for module in (line.split()[0] for line in lines) if not PLUMBING.match(module)}


def test_every_file_that_the_tour_names_exists() -> None:
    missing = [link for link in re.findall(r"\]\(\.\./([^)#]+)\)", TOUR.read_text()) if not (PROJECT / link).exists()]
    assert missing == []


def test_a_reading_passes_the_modules_that_the_tour_names_and_no_others(tmp_path: Path) -> None:
    touched = touched_modules(tmp_path)
    on_path, on_other_paths = named_by_the_tour()
    assert sorted(on_path - touched) == [], "named by the tour, and not called"
    assert sorted(touched - on_path - on_other_paths) == [], "called, and not named by the tour"
