"""Parses the kernel's files under /proc. Pure: text in, numbers out; absent values are left out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since boot, in the kernel's ticks."""

    busy: int
    total: int

    def use_percent_since(self, before: "CpuTimes") -> float | None:
        passed = self.total - before.total
        return round(100 * (self.busy - before.busy) / passed, 1) if passed > 0 else None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one network interface since boot."""

    received: int
    sent: int


def parse_cpu(stat: str) -> CpuTimes | None:
    """The first line of /proc/stat: user nice system idle iowait irq softirq steal (guest is within user)."""
    words = stat.partition("\n")[0].split()
    if len(words) < 6 or words[0] != "cpu" or not all(word.isdecimal() for word in words[1:]):
        return None
    ticks = [int(word) for word in words[1:9]]
    return CpuTimes(sum(ticks) - ticks[3] - ticks[4], sum(ticks))


def parse_load(loadavg: str) -> float | None:
    return _number(loadavg.partition(" ")[0])


def parse_uptime(uptime: str) -> float | None:
    return _number(uptime.partition(" ")[0])


def parse_memory(meminfo: str) -> dict[str, int]:
    """Bytes by the kernel's names: MemTotal, MemAvailable, SwapFree, …"""
    rows = (line.split() for line in meminfo.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) >= 2 and row[1].isdecimal()}


def parse_traffic(net_dev: str) -> dict[str, Traffic]:
    """By interface; the loopback and interfaces that never carried a byte are left out."""
    rows = (line.partition(":") for line in net_dev.splitlines())
    counters = ((name.strip(), numbers.split()) for name, colon, numbers in rows if colon)
    traffic = {
        name: Traffic(int(words[0]), int(words[8]))
        for name, words in counters
        if name != "lo" and len(words) >= 9 and words[0].isdecimal() and words[8].isdecimal()
    }
    return {name: each for name, each in traffic.items() if each.received or each.sent}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
