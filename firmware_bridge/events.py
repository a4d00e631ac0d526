"""The events and counters of a session."""

from dataclasses import dataclass

from protocol.link import Hello, LogLine, SensorDescription, UpdateStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUp:
    """A session began, and the device has described itself."""

    hello: Hello
    is_new_boot: bool  # first session with the device, or it was reset


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLost:
    """The session ended; the host tries to begin another."""

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
class LogReceived:
    line: LogLine
    lost_lines: int  # between the previous line and this one


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReceived:
    """The state of a firmware update; also the response to the request for it."""

    status: UpdateStatus


Event = LinkUp | LinkLost | Measured | LogReceived | StatusReceived


@dataclass(slots=True, kw_only=True)
class LinkCounters:
    """Counters of a link. They only rise."""

    sessions: int = 0
    boots: int = 0  # resets of the device that were detected
    frames: int = 0
    damaged_frames: int = 0
    foreign_frames: int = 0  # whole, but of an unknown version or type, or meaning nothing
    refused_frames: int = 0  # not authenticated, or wrongly
    records: int = 0
    samples: int = 0
    duplicate_records: int = 0
    missing_records: int = 0  # the device had no space for them
    empty_samples: int = 0  # the sensor gave no value
    naks: int = 0
    repeated_requests: int = 0
    log_lines: int = 0
    lost_log_lines: int = 0
    commands: int = 0
    last_problem: str = ""  # of the last frame that was not accepted

    def note_foreign(self, problem: str) -> None:
        self.foreign_frames += 1
        self.last_problem = problem
