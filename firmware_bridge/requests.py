"""Requests to a device: one at a time, each repeated until the device responds or it times out. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from firmware_bridge.errors import CommandRejected
from protocol.link import Command, CommandResult, Message, UpdateStatus

MAX_WAITING: Final = 64


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A request without a response."""

    reason: str


Done: TypeAlias = Callable[[Message | Unanswered], None]


@dataclass(slots=True, kw_only=True)
class _Request:
    make: Callable[[], Message]  # called once, when it is first sent
    done: Done
    times_out_at_ms: float
    message: Message | None = None
    repeats_at_ms: float = 0.0


class Requests:
    def __init__(self) -> None:
        self.repeated = 0
        self._waiting: deque[_Request] = deque()

    def add(self, make: Callable[[], Message], done: Done, times_out_at_ms: float) -> None:
        """`make` is called when the request is first sent; if it raises CommandRejected, that is the result."""
        if len(self._waiting) >= MAX_WAITING:
            done(Unanswered(f"{MAX_WAITING} requests are pending already"))
            return
        self._waiting.append(_Request(make=make, done=done, times_out_at_ms=times_out_at_ms))

    def due(self, now_ms: float, retry_ms: float) -> Message | None:
        """The message to send now, if any."""
        while self._waiting and (request := self._waiting[0]).message is None:
            try:
                request.message = request.make()
            except (CommandRejected, ValueError) as error:  # unknown command, or its argument does not fit into a frame
                self._finish(Unanswered(str(error)))
                continue
            request.repeats_at_ms = now_ms + retry_ms
            return request.message
        if not self._waiting or now_ms < self._waiting[0].repeats_at_ms:
            return None
        self.repeated += 1
        self._waiting[0].repeats_at_ms = now_ms + retry_ms
        return self._waiting[0].message

    def next_due_ms(self) -> float | None:
        """When `due` has a message again; None if nothing is pending."""
        return self._waiting[0].repeats_at_ms if self._waiting else None

    def accept(self, answer: Message) -> bool:
        """Whether it is the response to the pending request."""
        asked = self._waiting[0].message if self._waiting else None
        if asked is None or not _answers(answer, asked):
            return False
        self._finish(answer)
        return True

    def end_timed_out(self, now_ms: float) -> None:
        """End the requests that timed out."""
        over = [request for request in self._waiting if request.times_out_at_ms <= now_ms]
        for request in over:
            self._waiting.remove(request)
            request.done(Unanswered("the device did not answer in time"))

    def resend(self) -> None:
        """A new session with the same device: pending requests are sent again at once."""
        for request in self._waiting:
            request.repeats_at_ms = 0.0

    def drop_commands(self, reason: str) -> None:
        """The device was reset: whether a command ran is unknown, so it is not sent again."""
        sent = [request for request in self._waiting if isinstance(request.message, Command)]
        for request in sent:
            self._waiting.remove(request)
            request.done(Unanswered(reason))

    def _finish(self, outcome: Message | Unanswered) -> None:
        self._waiting.popleft().done(outcome)


def _answers(answer: Message, asked: Message) -> bool:
    match answer:
        case CommandResult():
            return isinstance(asked, Command) and asked.id == answer.id
        case UpdateStatus():
            return asked.KIND.name.startswith("FW_")
        case _:
            return False
