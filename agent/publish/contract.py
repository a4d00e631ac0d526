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
3. `outcomes` waits for the next proofs. `Acknowledged` means that the far end has the message and is answerable for it;
   `Refused`, that it never will take this message, and why. Each record gets one of the two, once per connection and in
   any order, or the connection ends.
4. Whenever the connection is lost, `send` and `outcomes` raise `LinkDown`. Silence is not noticed here: `Delivery` ends
   a connection on which something is under way and nothing was proved within its deadline.
5. `close` may be called at any time and more than once. It does not raise.

A publisher never holds more than `max_in_flight` records, and one of each lane: `Delivery` gives it no more before some
are settled.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agent.journal import Record

__all__ = ["Acknowledged", "Outcome", "Publisher", "Refused"]


class Acknowledged(NamedTuple):
    """The far end has it."""

    lane: int
    position: int


class Refused(NamedTuple):
    """The far end will never take this one; the reason is in its own words, or ours."""

    lane: int
    position: int
    reason: str


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
