"""What a session tells, and what it counts."""

from dataclasses import dataclass

from protocol.link import Hello, LogLine, SensorDescription, UpdateStatus

__all__ = ["Event", "LinkCounters", "LinkLost", "LinkUp", "LogHeard", "Measured", "StatusHeard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUp:
    """A session began, and the device has described itself."""

    hello: Hello
    is_new_boot: bool  # the device was not met before, or has been reset since


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLost:
    """The session is over; another is being sought."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One value of one sensor. Commit its token once it is durable."""

    device_id: str
    sensor: SensorDescription
    value: int | float
    uptime_ms: int
    taken_at_ms: int  # UTC
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeard:
    line: LogLine
    lost_lines: int  # between the line before and this one


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHeard:
    """Where a firmware update stands; also given to whoever asked."""

    status: UpdateStatus


Event = LinkUp | LinkLost | Measured | LogHeard | StatusHeard


@dataclass(slots=True, kw_only=True)
class LinkCounters:
    """They only rise."""

    sessions: int = 0
    boots: int = 0  # how often the device was found to have begun anew
    frames: int = 0
    damaged_frames: int = 0
    foreign_frames: int = 0  # whole, but of an unknown version or type, or meaning nothing
    refused_frames: int = 0  # not authenticated, or wrongly
    records: int = 0
    samples: int = 0
    duplicate_records: int = 0
    missing_records: int = 0  # the device had no room for them
    empty_samples: int = 0  # the sensor gave no value
    naks: int = 0
    repeated_requests: int = 0
    log_lines: int = 0
    lost_log_lines: int = 0
    commands: int = 0
    last_problem: str = ""  # of a frame that was not taken

    def note_foreign(self, problem: str) -> None:
        self.foreign_frames += 1
        self.last_problem = problem
