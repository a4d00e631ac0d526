"""Are the ports there, may they be opened, and does somebody else hold them?"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.config import Config
from agent.doctor.finding import Finding, error, good, warning
from drivers.ports import find_port

__all__ = ["PortFacts", "gather_ports", "judge_port"]

AREA: Final = "port"
MAX_PROCESSES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    driver: str
    wanted: str  # as the settings name it
    device: str | None  # None while it is absent
    may_open: bool = True
    holders: tuple[str, ...] = ()  # other processes that have it open, as far as this user may see them


def gather_ports(config: Config, own_pids: Collection[int], root: Path = Path("/")) -> list[PortFacts]:
    """One for each port; of a pattern, one for each that fits."""
    wanted = [(name, port) for name, driver in config.build_drivers().items() for port in driver.ports]
    return [
        PortFacts(driver=name, wanted=port, device=None)
        if device is None
        else _look_at(name, port, device, own_pids, root)
        for name, port in wanted
        for device in _find(port, root)
    ]


def _find(port: str, root: Path) -> list[str | None]:
    if not re.search(r"[*?[]", port):
        return [find_port(port, None, root)]
    return [f"/{found.relative_to(root)}" for found in sorted(root.glob(port.lstrip("/")))] or [None]


def _look_at(driver: str, port: str, device: str, own_pids: Collection[int], root: Path) -> PortFacts:
    file = root / device.lstrip("/")
    return PortFacts(
        driver=driver,
        wanted=port,
        device=device,
        may_open=os.access(file, os.R_OK | os.W_OK),
        holders=tuple(_holders(file.resolve(), own_pids, root / "proc")),
    )


def _holders(file: Path, own_pids: Collection[int], proc: Path) -> Iterator[str]:
    processes = (entry for entry in proc.iterdir() if entry.name.isdecimal() and int(entry.name) not in own_pids)
    for _, process in zip(range(MAX_PROCESSES), processes, strict=False):
        try:
            if any(descriptor.readlink() == file for descriptor in (process / "fd").iterdir()):
                yield f"{(process / 'comm').read_text().strip()} ({process.name})"
        except OSError:  # it ended, or is somebody else's
            continue


def judge_port(facts: PortFacts) -> list[Finding]:
    name = f"{facts.driver}: {facts.wanted}"
    if facts.device is None:
        return [error(AREA, f"{name} is absent", "plug it in; headgate devices lists what is there")]
    if not facts.may_open:
        advice = "the user needs the group dialout (usermod -aG dialout USER); the service gets it by headgate systemd"
        return [error(AREA, f"{name} may not be opened by this user", advice)]
    if facts.holders:
        advice = "stop it, or give it another port (ModemManager: systemctl disable --now ModemManager)"
        return [warning(AREA, f"{name} is held by {', '.join(facts.holders)}", advice)]
    return [good(AREA, f"{name} is there")]
