"""What every publisher promises, and what it may rely on.

A publisher carries journal records to one far end. It knows nothing of cursors, retries or quarantine: `Delivery` (in
`delivery`) drives it and does all that, the same for every kind.

    Delivery ── connect() ─────────────►  publisher ── … ──► far end
             ── send(records) ─────────►
             ◄── outcomes() ────────────  Acknowledged, Refused
             ◄── raises LinkDown ───────
             ── close() ───────────────►

1. `connect` begins a new connection, whatever became of the one before; nothing sent earlier is remembered. It raises
   `LinkDown` where the far end is out of reach, within a bounded time.
2. `send` takes records in the order they must arrive in and never changes that order within a chain. It may wait for
   the far end to take more; it does not wait for proof.
3. `outcomes` waits for the next proofs. `Acknowledged` means that the far end has the messages and is answerable for
   them; `Refused`, that it never will take them, and why. Both speak of a run, which is everything that was sent of a
   lane from one position to another, be it one record or many. Each record gets one of the two, once per connection
   and in any order, or the connection ends.
4. Whenever the connection is lost, `send` and `outcomes` raise `LinkDown`. Silence is not noticed here: `Delivery` ends
   a connection on which something is under way and nothing was proved within its deadline.
5. `close` may be called at any time and more than once. It does not raise.

A publisher never holds more than `max_in_flight` records, and one of each lane: `Delivery` gives it no more before some
are settled.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agent.journal import Record

__all__ = ["Acknowledged", "Outcome", "Publisher", "Refused", "run_of"]


class Acknowledged(NamedTuple):
    """The far end has all of the run."""

    lane: int
    first: int
    last: int


class Refused(NamedTuple):
    """The far end will never take any of the run; the reason is in its own words, or ours."""

    lane: int
    first: int
    last: int
    reason: str


def run_of(records: Sequence[Record]) -> tuple[int, int, int]:
    """Lane, first and last position of records that are a run."""
    return records[0].lane, records[0].position, records[-1].position


Outcome = Acknowledged | Refused


class Publisher(Protocol):
    """One connection at a time to one far end, in the words of the module's head."""

    @property
    def name(self) -> str:
        """What the operator calls it."""

    @property
    def max_in_flight(self) -> int:
        """How many records may wait for their outcome."""

    async def connect(self) -> None:
        """Raises: LinkDown."""

    async def send(self, records: Sequence[Record]) -> None:
        """Raises: LinkDown."""

    async def outcomes(self) -> Sequence[Outcome]:
        """At least one. Raises: LinkDown."""

    async def close(self) -> None: ...
