"""The board itself: supply, heat, memory, swap, the flash chip's own account of its wear; and the versions in use."""

import importlib.util
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.doctor.finding import Finding, error, good, warning
from agent.span_texts import bytes_text
from agent.version import VERSION
from drivers.kernel_files import numeric_file, read_kernel_file
from drivers.system.proc import parse_memory

__all__ = ["MachineFacts", "gather_machine", "judge_machine"]

AREA: Final = "machine"
THROTTLED_FILE: Final = "sys/devices/platform/soc/soc:firmware/get_throttled"
LOW_MEMORY_BYTES: Final = 32_000_000
HOT_C: Final = 80.0

# Of the Pi's firmware: what is so now, and (16 bits higher) what was so since the start.
UNDER_VOLTAGE: Final = 0x1
SLOWED_DOWN: Final = 0x2 | 0x4 | 0x8
SINCE_START: Final = 16

WORN_OUT_STEP: Final = 10  # eMMC tells its wear in steps of ten per cent; 11 is beyond its life
PRE_EOL_NORMAL: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """None or empty: this machine does not say."""

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
    """A partition by its name, a file by the device it is on."""
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
            AREA, "the supply voltage is too low", "use a stronger supply and a shorter cable; cards die of this"
        )
    elif throttled >> SINCE_START & UNDER_VOLTAGE:
        yield warning(
            AREA, "the supply voltage was too low since the start", "use a stronger supply and a shorter cable"
        )
    if throttled & SLOWED_DOWN:
        yield warning(AREA, "the processor is slowed down", "cool it, or give it a better supply")
    if facts.temperature_c is not None and facts.temperature_c >= HOT_C:
        yield warning(AREA, f"the processor is at {facts.temperature_c:.0f} °C", "cool it; at 85 °C a Pi slows down")


def _judge_memory(facts: MachineFacts) -> Iterator[Finding]:
    available = facts.memory_available_bytes
    if available is not None and available < LOW_MEMORY_BYTES:
        yield warning(AREA, f"{bytes_text(available)} of memory are left", "stop what else runs here")
    for swap in facts.swaps_on_card:
        advice = "dphys-swapfile swapoff, and disable it; swap in compressed memory (zram) spares the card"
        yield warning(AREA, f"{swap}: swap on the card wears it out", advice)


def _judge_flash(facts: MachineFacts) -> Iterator[Finding]:
    steps, advice = facts.flash_wear_steps or 0, "copy the data and replace the flash chip or the board"
    if steps > WORN_OUT_STEP or (facts.flash_pre_eol or 0) > PRE_EOL_NORMAL + 1:
        yield error(AREA, "the flash chip is at the end of its life, by its own account", advice)
    elif steps >= WORN_OUT_STEP - 1 or (facts.flash_pre_eol or 0) > PRE_EOL_NORMAL:
        yield warning(AREA, f"the flash chip is {min(steps, WORN_OUT_STEP) * 10} % worn, by its own account", advice)


def _judge_program(facts: MachineFacts) -> Iterator[Finding]:
    if not facts.has_fast_signatures:
        advice = "pip install coincurve, if it has a wheel for this machine"
        yield warning(AREA, "signatures are made in Python, some fifty times slower", advice)
