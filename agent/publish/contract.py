"""The contract between publishers and the sender that drives them.

A publisher carries journal records to one destination. It knows nothing of cursors, retries or quarantine: `Sender`
drives it and does all that, the same for every kind.

    Sender ── connect() ─────────────►  publisher ── … ──► destination
           ── send(records) ─────────►
           ◄── outcomes() ────────────  Acknowledged, RejectedRun
           ◄── raises LinkDown ───────
           ── close() ───────────────►

1. `connect` opens a new connection, whatever became of the previous one; nothing sent earlier is remembered. It raises
   `LinkDown` if the destination cannot be reached within a bounded time.
2. `send` accepts records in the order in which they must arrive and never changes that order within a chain. It may
   wait until the destination accepts more; it does not wait for acknowledgements.
3. `outcomes` waits for the next outcomes. `Acknowledged` means that the destination has stored the messages;
   `RejectedRun`, that it never will, and why. Both concern a run: everything that was sent of a lane from one position
   to another, whole messages always (`run_of`). Each record gets one of the two, once per connection and in any order,
   or the connection ends. No outcomes are a sign that the destination responds, as when it has part of a message.
4. When the connection is lost, `send` and `outcomes` raise `LinkDown`. Silence is not detected here: `Sender` closes a
   connection on which records are in flight and nothing was acknowledged within its deadline.
5. `close` may be called at any time and more than once. It does not raise.

A publisher never holds more than `max_in_flight` records, and one of each lane: `Sender` waits until some are
settled.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agent.errors import LinkDown
from agent.journal import Record


class Acknowledged(NamedTuple):
    """The destination has stored the whole run."""

    lane: int
    first: int
    last: int


class RejectedRun(NamedTuple):
    """The destination permanently refuses the run, with a reason."""

    lane: int
    first: int
    last: int
    reason: str


def run_of(records: Sequence[Record]) -> tuple[int, int, int]:
    """Lane, first and last position of records that are a run: the last one is that of the last reading."""
    return records[0].lane, records[0].position, records[-1].next_position - 1


Outcome = Acknowledged | RejectedRun


class Publisher(Protocol):
    """One connection at a time to one destination, as described at the top of the module."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    @property
    def max_in_flight(self) -> int:
        """How many records may wait for their outcome."""

    async def connect(self) -> None:
        """Raises: LinkDown."""

    async def send(self, records: Sequence[Record]) -> None:
        """Raises: LinkDown."""

    async def outcomes(self) -> Sequence[Outcome]:
        """Raises: LinkDown."""

    async def close(self) -> None: ...


class OutcomeQueue:
    """Outcomes of one connection, until it fails. For the event loop's thread only.

    It holds no more than the publisher has in flight.
    """

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        self._problem: LinkDown | None = None
        self._has_something = asyncio.Event()

    def put(self, *outcomes: Outcome) -> None:
        """Without an outcome: the destination responded."""
        self._outcomes += outcomes
        self._has_something.set()

    def fail(self, problem: LinkDown) -> None:
        """The connection is gone. The first problem is the one that counts."""
        self._problem = self._problem or problem
        self._has_something.set()

    def check(self) -> None:
        """Raises: LinkDown, if the connection is gone."""
        if self._problem is not None:
            raise self._problem

    async def take(self) -> list[Outcome]:
        """Wait for outcomes and return all; those before a failure come first. Raises: LinkDown."""
        await self._has_something.wait()
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes:
            self.check()
        if self._problem is None:
            self._has_something.clear()
        return outcomes
