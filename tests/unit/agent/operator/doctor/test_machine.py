from pathlib import Path

import pytest

from agent.operator.doctor.finding import Severity
from agent.operator.doctor.machine import (
    EARLIEST_S,
    ClockFacts,
    MachineFacts,
    gather_clock,
    gather_machine,
    judge_clock,
    judge_machine,
)


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (MachineFacts(throttled=0x50005), Severity.ERROR, "too low"),
        (MachineFacts(throttled=0x10000), Severity.WARNING, "was too low"),
        (MachineFacts(throttled=0x4), Severity.WARNING, "throttled"),
        (MachineFacts(temperature_c=82.0), Severity.WARNING, "82 °C"),
        (MachineFacts(memory_available_bytes=9_000_000), Severity.WARNING, "9.0 MB of memory"),
        (MachineFacts(swaps_on_card=("/var/swap",)), Severity.WARNING, "/var/swap"),
        (MachineFacts(flash_wear_steps=9), Severity.WARNING, "90 % worn"),
        (MachineFacts(flash_wear_steps=11), Severity.ERROR, "end of its life"),
        (MachineFacts(flash_wear_steps=1, flash_pre_eol=3), Severity.ERROR, "end of its life"),
        (MachineFacts(has_fast_signatures=False), Severity.WARNING, "slower"),
    ],
)
def test_a_board_is_judged(facts: MachineFacts, severity: Severity, word: str) -> None:
    finding = judge_machine(facts)[0]
    assert finding.severity is severity
    assert word in finding.text
    assert finding.advice


@pytest.mark.parametrize("facts", [MachineFacts(), MachineFacts(throttled=0, flash_wear_steps=1, flash_pre_eol=1)])
def test_a_board_that_says_nothing_or_only_good_is_fine(facts: MachineFacts) -> None:
    assert [finding.severity for finding in judge_machine(facts)] == [Severity.OK]


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_the_facts_of_a_pi_are_read_from_the_kernels_files(tmp_path: Path) -> None:
    _write(tmp_path, "sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n")
    _write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "48312\n")
    _write(tmp_path, "proc/meminfo", "MemTotal: 437580 kB\nMemAvailable: 210000 kB\n")
    _write(
        tmp_path,
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/mmcblk0p3 partition 1 0 -2\n/dev/zram0 partition 1 0 100\n",
    )
    _write(tmp_path, "sys/block/mmcblk0/device/life_time", "0x02 0x05\n")
    _write(tmp_path, "sys/block/mmcblk0/device/pre_eol_info", "0x01\n")
    facts = gather_machine(tmp_path)
    assert facts.throttled == 0x50005
    assert facts.temperature_c == 48.312
    assert facts.memory_available_bytes == 215_040_000
    assert facts.swaps_on_card == ("/dev/mmcblk0p3",)
    assert (facts.flash_wear_steps, facts.flash_pre_eol) == (5, 1)


def test_files_that_are_absent_or_hold_nonsense_are_facts_that_are_not_known(tmp_path: Path) -> None:
    _write(tmp_path, "sys/devices/platform/soc/soc:firmware/get_throttled", "what?")
    _write(tmp_path, "sys/block/mmcblk0/device/life_time", "")
    _write(tmp_path, "proc/swaps", "header\n\n")
    facts = gather_machine(tmp_path)
    assert (facts.throttled, facts.flash_wear_steps, facts.swaps_on_card) == (None, None, ())


NOW_S = EARLIEST_S + 86_400.0


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (ClockFacts(now_s=0.0, is_synchronised=False), Severity.ERROR, "1970"),
        (ClockFacts(now_s=NOW_S, is_synchronised=None, problem="no"), Severity.WARNING, "unknown whether"),
        (ClockFacts(now_s=NOW_S, is_synchronised=False), Severity.WARNING, "not synchronised (no NTP"),
        (ClockFacts(now_s=NOW_S, is_synchronised=True, max_error_ms=5000), Severity.WARNING, "5.0 s"),
        (ClockFacts(now_s=NOW_S, is_synchronised=True, max_error_ms=20), Severity.OK, "within 20 ms"),
    ],
)
def test_the_clock_is_judged(facts: ClockFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_clock(facts)
    assert finding.severity is severity
    assert word in finding.text
    assert bool(finding.advice) == (severity is not Severity.OK)


def test_the_facts_of_this_machine_can_be_gathered() -> None:
    assert gather_clock().now_s > EARLIEST_S


def test_a_kernel_that_does_not_answer_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted", "adjtimex")

    monkeypatch.setattr("agent.operator.doctor.machine.read_kernel_clock", refuse)
    assert gather_clock().is_synchronised is None
