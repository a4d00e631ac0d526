"""The contract between drivers and the agent.

    build(name, settings) ──► open() ──► read() … read() ──► close()
      checks, opens nothing     ▲             │ DeviceError
                                └── backoff ◄─┘            drivers/supervise.py runs this loop

- `build` reports every problem of its settings at once, as a `ConfigError`.
- `open` may fail with a `DeviceError` and may be called again, also while open: it starts again.
- `read` waits for readings and returns them, or fails with a `DeviceError`. A device that stalls is a failure
  after the `silence_s` of its settings; a source that may be silent (a broker) returns an empty list now and
  then. So no call waits for ever. One call returns at most `MAX_READINGS_PER_READ`.
- Readings with a `token` come from a source that is acknowledged. One token covers all the readings that carry it;
  they follow each other. `acknowledge` is called with it only after all of them are committed.
- `close` never fails and may be called at any time, any number of times.
- A driver that holds its port open and retries gives the reason in `outage`.
- What a device sends costs bounded memory and CPU. Noise is counted and reported in `trouble`, never raised.
- Input that cannot be read is recorded in `rejects`, with its bytes. One bad field does not affect the good ones.
- Every `DeviceError` names the problem, the place and what to do.
"""

from abc import ABC, abstractmethod
from asyncio import Event
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from drivers.reading import Reading
from drivers.rejects import Rejects

MAX_READINGS_PER_READ: Final = 4096


class Driver(ABC):
    """One device, or one source of readings."""

    KIND: ClassVar[str] = ""  # its name in the registry
    HAS_DURABLE_TOKENS: ClassVar[bool] = False  # each reading has a token, which identifies it for ever

    def __init__(self, name: str) -> None:
        self.name = name
        self.silence_s: float | None = None  # a sensor is silent after this; None: learned, 0: never
        self.rejects = Rejects()  # input that it could not read; everything that is dropped is counted here

    @property
    def trouble(self) -> str:
        """A problem that does not stop the readings (noise, a flood); "" if there is none."""
        return ""

    @property
    def outage(self) -> str:
        """Why nothing can be read although the port is open and the driver retries; "" if it can."""
        return ""

    @property
    def counters(self) -> Mapping[str, float]:
        """Counters for the operator; its README lists the names."""
        return {}

    @property
    def identity(self) -> Mapping[str, str]:
        """The identity that the device reports: `device`, `firmware`, and `port`, its present port."""
        return {}

    @property
    def ports(self) -> tuple[str, ...]:
        """The device files it opens, as its settings name them (some by a pattern); `headgate systemd` grants these."""
        return ()

    @abstractmethod
    async def open(self) -> None:
        """Open the port. Raises: DeviceError."""

    @abstractmethod
    async def read(self) -> list[Reading]:
        """Wait for readings. Raises: DeviceError."""

    @abstractmethod
    async def close(self) -> None:
        """Close the port, if it is open."""

    async def acknowledge(self, tokens: Collection[int]) -> None:  # noqa: B027 - most sources need no acknowledgement
        """Called when everything that one `read` returned is committed, with its tokens."""

    def recall(self, latest: Collection[int], lost: Collection[int]) -> None:  # noqa: B027 - few tokens are durable
        """Called before the first `open`, where tokens are durable: the tokens that this source delivered last, maybe
        in an earlier process, and those that were not committed and must be read again. Earlier ones are committed."""

    def continue_from(self, previous: "Driver") -> None:  # noqa: B027 - few remember anything of their source
        """Called before the first `open` of a driver that replaces another of its name, which is closed: all that the
        previous one passed on is committed, and what it did not pass on is to be read again."""

    async def returned(self) -> None:
        """Wait until an absent device is present again, so that it is reopened at once and not at the end of a wait.

        A driver that cannot detect this waits for ever, and the backoff alone decides.
        """
        await Event().wait()
