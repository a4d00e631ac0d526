"""Checks the clock and the board: supply, temperature, memory, swap, wear of the flash chip, and versions."""

import importlib.util
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.clock import read_kernel_clock
from agent.operator.doctor.finding import Finding, error, good, warning
from agent.operator.terminal import bytes_text
from agent.version import VERSION
from drivers.kernel_files import numeric_file, read_kernel_file
from drivers.system.proc import parse_memory

AREA: Final = "machine"
THROTTLED_FILE: Final = "sys/devices/platform/soc/soc:firmware/get_throttled"
LOW_MEMORY_BYTES: Final = 32_000_000
HOT_C: Final = 80.0

# Bits of the Raspberry Pi firmware: the present state, and 16 bits higher, the state at any time since boot.
UNDER_VOLTAGE: Final = 0x1
SLOWED_DOWN: Final = 0x2 | 0x4 | 0x8
SINCE_START: Final = 16

WORN_OUT_STEP: Final = 10  # eMMC reports its wear in steps of 10 %; 11 means beyond its lifetime
PRE_EOL_NORMAL: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """None or empty: unknown on this machine."""

    throttled: int | None = None
    temperature_c: float | None = None
    memory_available_bytes: int | None = None
    swaps_on_card: tuple[str, ...] = ()
    flash_wear_steps: int | None = None  # the worse of the chip's two kinds of memory
    flash_pre_eol: int | None = None
    has_fast_signatures: bool = True
    python: str = ""


def gather_machine(root: Path = Path("/")) -> MachineFacts:
    millidegrees = numeric_file(root / "sys/class/thermal/thermal_zone0/temp")
    flash = next(iter(sorted((root / "sys/block").glob("mmcblk*/device/life_time"))), None)
    return MachineFacts(
        throttled=_hex(read_kernel_file(root / THROTTLED_FILE)),
        temperature_c=None if millidegrees is None else millidegrees / 1000,
        memory_available_bytes=parse_memory(read_kernel_file(root / "proc/meminfo") or "").get("MemAvailable"),
        swaps_on_card=tuple(_swaps_on_card(read_kernel_file(root / "proc/swaps") or "", root)),
        flash_wear_steps=_worst(read_kernel_file(flash)) if flash else None,
        flash_pre_eol=_hex(read_kernel_file(flash.with_name("pre_eol_info"))) if flash else None,
        has_fast_signatures=importlib.util.find_spec("coincurve") is not None,
        python=platform.python_version(),
    )


def _hex(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _worst(text: str | None) -> int | None:
    return max((step for word in (text or "").split() if (step := _hex(word)) is not None), default=None)


def _swaps_on_card(swaps: str, root: Path) -> Iterator[str]:
    """Swap partitions and swap files that are on an SD card or eMMC chip."""
    for line in swaps.splitlines()[1:]:
        name = line.split()[0] if line.split() else ""
        if "mmcblk" in name or (name.startswith("/") and "mmcblk" in _device_of(root / name.lstrip("/"), root)):
            yield name


def _device_of(file: Path, root: Path) -> str:
    try:
        number = file.stat().st_dev
        return (root / f"sys/dev/block/{number >> 8}:{number & 0xFF}").resolve().name
    except OSError:
        return ""


def judge_machine(facts: MachineFacts) -> list[Finding]:
    fallback = good(AREA, f"headgate {VERSION}, Python {facts.python}")
    return [*_judge_supply(facts), *_judge_memory(facts), *_judge_flash(facts), *_judge_program(facts), fallback]


def _judge_supply(facts: MachineFacts) -> Iterator[Finding]:
    throttled = facts.throttled or 0
    if throttled & UNDER_VOLTAGE:
        yield error(
            AREA,
            "the supply voltage is too low",
            "use a stronger supply and a shorter cable; low voltage destroys SD cards",
        )
    elif throttled >> SINCE_START & UNDER_VOLTAGE:
        yield warning(
            AREA, "the supply voltage was too low at some time since boot", "use a stronger supply and a shorter cable"
        )
    if throttled & SLOWED_DOWN:
        yield warning(AREA, "the processor is throttled", "improve cooling or the power supply")
    if facts.temperature_c is not None and facts.temperature_c >= HOT_C:
        yield warning(
            AREA,
            f"the processor is at {facts.temperature_c:.0f} °C",
            "improve cooling; a Raspberry Pi throttles at 85 °C",
        )


def _judge_memory(facts: MachineFacts) -> Iterator[Finding]:
    available = facts.memory_available_bytes
    if available is not None and available < LOW_MEMORY_BYTES:
        yield warning(AREA, f"{bytes_text(available)} of memory available", "stop other programs")
    for swap in facts.swaps_on_card:
        advice = "dphys-swapfile swapoff, and disable it; swap in compressed memory (zram) does not wear the card"
        yield warning(AREA, f"{swap}: swap on the card wears it out", advice)


def _judge_flash(facts: MachineFacts) -> Iterator[Finding]:
    steps, advice = facts.flash_wear_steps or 0, "copy the data and replace the flash chip or the board"
    if steps > WORN_OUT_STEP or (facts.flash_pre_eol or 0) > PRE_EOL_NORMAL + 1:
        yield error(AREA, "the flash chip reports that it is at the end of its life", advice)
    elif steps >= WORN_OUT_STEP - 1 or (facts.flash_pre_eol or 0) > PRE_EOL_NORMAL:
        yield warning(AREA, f"the flash chip is {min(steps, WORN_OUT_STEP) * 10} % worn, as it reports", advice)


def _judge_program(facts: MachineFacts) -> Iterator[Finding]:
    if not facts.has_fast_signatures:
        advice = "pip install coincurve, if there is a wheel for this machine"
        yield warning(AREA, "signing uses the pure-Python implementation, about 50 times slower", advice)


CLOCK: Final = "clock"
EARLIEST_S: Final = 1_767_225_600  # 2026-01-01, before the first release
MAX_ERROR_MS: Final = 1000
SYNC_ADVICE: Final = (
    "enable a time service (timedatectl set-ntp true, or chrony); until then times are marked uncertain"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    now_s: float
    is_synchronised: bool | None  # None: unknown
    max_error_ms: int = 0
    problem: str = ""


def gather_clock() -> ClockFacts:
    try:
        kernel = read_kernel_clock()
    except OSError as refusal:
        return ClockFacts(now_s=time.time(), is_synchronised=None, problem=str(refusal))
    return ClockFacts(now_s=time.time(), is_synchronised=kernel.is_synchronised, max_error_ms=kernel.max_error_ms)


def judge_clock(facts: ClockFacts) -> list[Finding]:
    if facts.now_s < EARLIEST_S:
        return [error(CLOCK, f"not set: {_date(facts.now_s)} is in the past", f"set it; {SYNC_ADVICE}")]
    if facts.is_synchronised is None:
        return [
            warning(CLOCK, f"unknown whether it is synchronised ({facts.problem})", "allow the system call adjtimex")
        ]
    if not facts.is_synchronised:
        return [
            warning(
                CLOCK, f"not synchronised (no NTP service is running); it is set to {_date(facts.now_s)}", SYNC_ADVICE
            )
        ]
    if facts.max_error_ms > MAX_ERROR_MS:
        return [
            warning(
                CLOCK, f"it may be off by {facts.max_error_ms / 1000:.1f} s", "check the servers of the NTP service"
            )
        ]
    return [good(CLOCK, f"synchronised, within {facts.max_error_ms} ms")]


def _date(now_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now_s))
