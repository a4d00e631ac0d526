"""The driver contract: what every driver promises, and what the agent may rely on.

    build(name, settings) ──► open() ──► read() … read() ──► close()
      checks, opens nothing     ▲             │ DeviceError
                                └── backoff ◄─┘            drivers/attend.py turns this circle

- `build` reports every problem of its settings at once, as a `ConfigError`.
- `open` may fail with a `DeviceError` and may be called again, also while open: it starts afresh.
- `read` waits until there are readings and gives them, or fails with a `DeviceError`. A device that stalls is a failure
  after the `silence_s` of its settings; a source that may rightly be silent (a broker) gives an empty list now and
  then. So no call waits for ever. One call gives at most `MAX_READINGS_PER_READ`.
- Readings with a `token` come from a source that wants to be told. One token covers all the readings that carry it;
  they follow each other. `acknowledge` is called with it only after all of them are committed.
- `close` never fails and may be called at any time, any number of times.
- A driver that keeps its port and goes on trying says in `outage` why nothing can be read meanwhile.
- What a device sends costs bounded memory and CPU. Noise is counted and shown in `trouble`, never raised.
- Every `DeviceError` says what, where, and what to do.
"""

from abc import ABC, abstractmethod
from asyncio import Event
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from drivers.reading import Reading

__all__ = ["MAX_READINGS_PER_READ", "Driver"]

MAX_READINGS_PER_READ: Final = 4096


class Driver(ABC):
    """One device, or one source of readings."""

    KIND: ClassVar[str] = ""  # its name in the registry
    HAS_LASTING_TOKENS: ClassVar[bool] = False  # each reading has its own token, which names it for ever, and they rise

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def trouble(self) -> str:
        """What is wrong although readings may still come (noise, a flood); "" when all is well."""
        return ""

    @property
    def outage(self) -> str:
        """Why nothing can be read although the port is open and the driver goes on trying; "" when it can."""
        return ""

    @property
    def counters(self) -> Mapping[str, float]:
        """What it counts, for the operator; names are in its README."""
        return {}

    @property
    def identity(self) -> Mapping[str, str]:
        """Who is read, where that says so itself: `device`, `firmware`, and `port`, by which it is reached now."""
        return {}

    @property
    def ports(self) -> tuple[str, ...]:
        """The device files it opens, as its settings name them (some by a pattern); for whoever has to grant access."""
        return ()

    @abstractmethod
    async def open(self) -> None:
        """Open the port. Raises: DeviceError."""

    @abstractmethod
    async def read(self) -> list[Reading]:
        """Wait for readings. Raises: DeviceError."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the port, if it is held."""

    async def acknowledge(self, tokens: Collection[int]) -> None:  # noqa: B027 - most sources have nothing to be told
        """Called after everything that one `read` gave is committed, with the tokens found in it."""

    def recall(self, latest: Collection[int], lost: Collection[int]) -> None:  # noqa: B027 - most tokens do not last
        """Called before it is first opened, where tokens last: what this source handed over last, perhaps in an earlier
        process, and which of it was not committed and must be taken again. All before that is committed."""

    async def returned(self) -> None:
        """Wait until a device that is absent comes back, so that it is reopened at once and not at the end of a wait.

        A driver that cannot notice waits for ever, and the backoff alone decides.
        """
        await Event().wait()
