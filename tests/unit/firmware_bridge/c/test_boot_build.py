"""The boot library is small, warns of nothing, and stands the sanitizers and the compiler's own analysis."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.boot_library import SOURCES, WARNINGS
from tests.support.firmware_samples import BUILDER_KEY

ROOT = Path(__file__).parents[4]
MAX_BOOT_LOADER_BYTES = 6 * 1024


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi")
def test_the_boot_loader_fits_and_has_no_variables(tmp_path: Path) -> None:
    keys = tmp_path / "keys.pub"
    keys.write_text(f"{BUILDER_KEY.hex()}\n{BUILDER_KEY.hex()}\n")
    options = [f"KEYS={keys}", f"BUILD={tmp_path}"]
    printed = run("make", "-s", "-C", str(SOURCES), *options, "boot-loader", "size").splitlines()
    sizes = {line.split("  ")[0]: line for line in printed}
    assert "RAM 0 bytes" in sizes["boot loader"]
    assert int(sizes["boot loader"].split()[3]) <= MAX_BOOT_LOADER_BYTES
    assert {path.name for path in SOURCES.glob("hg_*.c")} <= sizes.keys()


@pytest.mark.needs("make", "make")
def test_a_boot_loader_without_a_key_is_not_built(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "-C", str(SOURCES), f"BUILD={tmp_path}"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "headgate firmware keygen" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("gcc", "build-essential")
def test_the_compiler_finds_nothing_by_analysis(tmp_path: Path) -> None:
    for source in sorted(SOURCES.glob("hg_*.c")):
        run("gcc", *WARNINGS, "-O2", "-fanalyzer", "-c", str(source), "-o", str(tmp_path / "out.o"))


@pytest.mark.slow
@pytest.mark.needs("gcc", "build-essential")
def test_the_tests_of_the_library_pass_under_the_address_sanitizer() -> None:
    sanitizer = run("gcc", "-print-file-name=libasan.so").strip()
    tests = ["test_boot.py", "test_update.py", "test_ed25519.py"]
    files = [str(Path(__file__).with_name(name)) for name in tests]
    options = {"LD_PRELOAD": sanitizer, "ASAN_OPTIONS": "detect_leaks=0", "BOOT_LIBRARY_CHECKS": "address,undefined"}
    manifests = str(ROOT / "tests/unit/protocol/firmware/test_manifest.py")
    printed = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, manifests, **options)
    assert " passed" in printed
