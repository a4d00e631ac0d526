"""What the C library promises about itself: small, clean, freestanding, and refusing options it cannot keep."""

import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.link import CRC_BYTES
from protocol.link.cobs import unstuff
from tests.support.c_device import LIBRARY, WARNINGS, WITH_AUTH, WITH_UPDATE
from tests.support.example_firmware import make
from tests.vectors.link import load

MAX_CODE_BYTES = 3000
MAX_RAM_BYTES = 2 * 1024
NAMES = ("headgate_link.c", "hg_sending.c", "hg_proof.c", "hg_wire.c", "hg_blake2s.c")
SOURCES = [LIBRARY / name for name in NAMES]
CORTEX_M3 = ["arm-none-eabi-gcc", "-Os", "-mcpu=cortex-m3", "-mthumb", "-ffreestanding"]
OPTIONS = [[*chosen] for count in range(3) for chosen in itertools.combinations((WITH_AUTH, WITH_UPDATE), count)]
COMPILER_HELPERS = {"memcpy", "memmove", "memset", "memcmp"}
SEEN_FIGURES = re.compile(r"^(.*?) +code (\d+) bytes, RAM (\d+) bytes$", re.MULTILINE)

needs_arm = pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi")
needs_gcc = pytest.mark.needs("gcc", "gcc")


def compile_all(compiler: list[str], directory: Path, *options: str) -> Path:
    """Into one object file. Fails on any warning."""
    built = directory / "library.o"
    command = [*compiler, *WARNINGS, *options, f"-I{LIBRARY}", "-r", "-nostdlib", *map(str, SOURCES), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return built


@needs_arm
@pytest.mark.needs("make", "make")
def test_the_library_fits_its_limits_on_a_cortex_m3(tmp_path: Path) -> None:
    printed = make(tmp_path, "size")
    figures = {name: (int(code), int(ram)) for name, code, ram in SEEN_FIGURES.findall(printed)}
    assert list(figures) == ["base", "with authentication", "with update messages", "with both"]
    assert 1000 < figures["base"][0] <= MAX_CODE_BYTES, printed
    assert all(1024 < ram <= MAX_RAM_BYTES for _, ram in figures.values()), printed
    measured = [size for figure in figures.values() for size in figure]
    assert measured == pytest.approx(stated_sizes(), rel=0.05), "README.md says otherwise"


def stated_sizes() -> list[int]:
    readme = (LIBRARY / "README.md").read_text(encoding="utf-8")
    return [int(size.replace(",", "")) for size in re.findall(r"\| (\d,\d+) bytes", readme)]


@pytest.mark.slow
@needs_gcc
@pytest.mark.needs("clang", "clang")
@needs_arm
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_no_compiler_has_anything_to_say(options: list[str], tmp_path: Path) -> None:
    for compiler in (["gcc", "-O2"], ["clang", "-O2"], CORTEX_M3):
        compile_all(compiler, tmp_path, *options)


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_the_static_analyzer_has_nothing_to_say(options: list[str], tmp_path: Path) -> None:
    for source in SOURCES:
        command = ["gcc", *WARNINGS, "-O2", "-fanalyzer", *options, "-c", str(source), "-o", str(tmp_path / "x.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@needs_arm
def test_the_library_has_no_globals_and_calls_no_other_functions(tmp_path: Path) -> None:
    built = compile_all(CORTEX_M3, tmp_path, WITH_AUTH, WITH_UPDATE)
    symbols = subprocess.run(["arm-none-eabi-nm", str(built)], capture_output=True, text=True, check=True).stdout
    kinds = [(line.split()[-2], line.split()[-1]) for line in symbols.splitlines()]
    assert {name for kind, name in kinds if kind == "U"} <= COMPILER_HELPERS
    assert not [name for kind, name in kinds if kind in "bBdDC"], "a global that can be written"
    assert all(name.startswith("hg_") for kind, name in kinds if kind in "TR")


@needs_gcc
@pytest.mark.parametrize(
    "option",
    [
        "HG_MTU=159",
        "HG_MTU=1025",
        "HG_QUEUE_BYTES=63",
        "HG_QUEUE_BYTES=65536",
        "HG_WINDOW=0",
        "HG_WINDOW=17",
        "HG_WITH_AUTH=2",
    ],
)
def test_an_option_that_cannot_be_kept_stops_the_build(option: str, tmp_path: Path) -> None:
    command = ["gcc", f"-D{option}", "-c", str(SOURCES[0]), "-o", str(tmp_path / "x.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f'#error "{option.split("=")[0]}' in done.stderr


@needs_gcc
@pytest.mark.parametrize("options", [["-DHG_MTU=160"], ["-DHG_MTU=1024", "-DHG_QUEUE_BYTES=65535", "-DHG_WINDOW=16"]])
def test_the_extremes_of_the_options_build(options: list[str], tmp_path: Path) -> None:
    compile_all(["gcc", "-O2"], tmp_path, WITH_AUTH, WITH_UPDATE, *options)


@pytest.mark.slow
@pytest.mark.needs("clang", "clang")
@pytest.mark.needs("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a", "libclang-rt-dev")
@pytest.mark.needs("make", "make")
def test_a_brief_fuzzing_of_the_device_finds_nothing(tmp_path: Path) -> None:
    make(tmp_path, "fuzz")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(fuzz_seeds()):
        (corpus / str(number)).write_bytes(seed)
    options = ["-runs=20000", "-max_total_time=20", "-seed=1", "-timeout=10", "-print_coverage=1"]
    command = [str(tmp_path / "fuzz-link"), *options, str(corpus)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "COVERED_FUNC: " in done.stderr
    never_reached = re.findall(r"^UNCOVERED_FUNC: .*", done.stderr, re.MULTILINE)
    assert never_reached == []


def fuzz_seeds() -> Iterator[bytes]:
    """What the gateways of the conversations say: as it is, as bodies, and as bodies to be proved."""
    raw, bodies, proved = range(3)
    for conversation in load("conversations"):
        wires = [bytes.fromhex(step["host"]) for step in conversation["steps"] if "host" in step]
        pieces = [wire[start : start + 200] for wire in wires for start in range(0, len(wire), 200)]
        yield bytes((raw, 0)) + b"".join(bytes((len(piece) - 1,)) + piece for piece in pieces)
        texts = [unstuff(wire[1:-1])[:-CRC_BYTES][:200] for wire in wires]
        for way in (bodies, proved):
            yield bytes((way, 0)) + b"".join(bytes((len(text) - 1,)) + text for text in texts)
