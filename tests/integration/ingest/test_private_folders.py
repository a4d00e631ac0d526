"""Where a real Spark puts what it writes beside the tables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import pathlib, stat, sys
from ingest.spark_command import spark_for_command

place = pathlib.Path(sys.argv[1])
with spark_for_command("local[1]", {}, None) as spark:
    assert spark.range(1000).repartition(3).count() == 1000
    used = [str(each) for each in place.rglob("blockmgr-*")]
    assert used
    used += [spark.sparkContext._temp_dir, spark._jvm.java.lang.System.getProperty("java.io.tmpdir")]
    used += [spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")]
    for path in used:
        assert pathlib.Path(path).is_relative_to(place), path
    for folder in place.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0, folder
"""


def test_all_of_it_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    place, work = tmp_path / "place", tmp_path / "work"
    place.mkdir(mode=0o755)
    work.mkdir()
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert list(place.iterdir()) == []
    assert list(work.iterdir()) == []
