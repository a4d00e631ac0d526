"""The ledger of the mqtt driver against a model broker: connections and sessions end at any time, also during a commit.

Laws: a message that the broker forgets because it was acknowledged is committed; within one session of the broker and
one life of the agent no message is read twice.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Ledger
from runtime.mqtt.packets import Message
from tests.effort import effort

NUMBERS = 5  # so few that numbers come again soon


class Sessions(RuleBasedStateMachine):
    """The broker numbers messages as mosquitto does: upwards, and around."""

    @initialize(words=st.sampled_from(["same", "other"]))
    def start(self, words: str) -> None:
        self.says_the_same = words == "same"
        self.ledger = Ledger()
        self.published = 0
        self.last_number = 0
        self.unacknowledged: dict[int, int] = {}  # the broker's: number ──► message
        self.delivered: set[int] = set()  # numbers that were sent once, so that they are marked as duplicates
        self.tokens: dict[int, int] = {}  # the agent's: token ──► message, read and not committed
        self.committed: list[int] = []
        self.read_in_session: list[int] = []
        self.ledger.connected(session_is_resumed=False)

    def message(self, number: int) -> Message:
        words = b"same" if self.says_the_same else b"%d" % self.unacknowledged[number]
        return Message("t", words, number, number in self.delivered, is_retained=False)

    def deliver(self, number: int, *, arrives: bool) -> None:
        message = self.message(number)
        self.delivered.add(number)
        if not arrives:
            return
        known: list[int] = []
        for _, token in self.ledger.receive([message], known):
            assert token is not None
            self.tokens[token] = self.unacknowledged[number]
            self.read_in_session.append(self.unacknowledged[number])
        self.acknowledge(known)

    def acknowledge(self, numbers: list[int]) -> None:
        for number in numbers:
            message = self.unacknowledged.pop(number)  # KeyError: acknowledged what was not delivered
            self.delivered.discard(number)
            assert message in self.committed, "the broker forgot what is not committed"

    @precondition(lambda self: len(self.unacknowledged) < NUMBERS)
    @rule(arrives=st.booleans())
    def publish(self, arrives: bool) -> None:
        while True:
            self.last_number = self.last_number % 65_535 + 1
            if self.last_number not in self.unacknowledged:
                break
        self.published += 1
        self.unacknowledged[self.last_number] = self.published
        self.deliver(self.last_number, arrives=arrives)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), is_connected=st.booleans())
    def commit(self, data: st.DataObject, is_connected: bool) -> None:
        tokens = data.draw(st.lists(st.sampled_from(sorted(self.tokens)), unique=True, min_size=1))
        self.committed += [self.tokens.pop(token) for token in tokens]
        numbers = self.ledger.commit(tokens)
        if is_connected:  # else the acknowledgements are lost on the way
            self.acknowledge(numbers)

    @rule(data=st.data())
    def reconnect(self, data: st.DataObject) -> None:
        self.ledger.connected(session_is_resumed=True)
        for number in list(self.unacknowledged):
            self.deliver(number, arrives=data.draw(st.booleans()))

    @rule()
    def lose_the_session(self) -> None:
        """The broker restarts without its sessions: it counts from 1 again, and knows no message."""
        self.unacknowledged.clear()
        self.delivered.clear()
        self.last_number = 0
        self.read_in_session = []
        self.ledger.connected(session_is_resumed=False)

    @invariant()
    def nothing_is_read_twice_in_a_session(self) -> None:
        if hasattr(self, "read_in_session"):
            assert len(set(self.read_in_session)) == len(self.read_in_session)


Sessions.TestCase.settings = settings(max_examples=effort(test=30, soak=20_000), stateful_step_count=30, deadline=None)
test_sessions = Sessions.TestCase


@settings(max_examples=effort(test=20, soak=500), deadline=None)
@given(
    start=st.integers(1, 65_535),
    sent=st.integers(1, 5 * MAX_UNACKNOWLEDGED),
    acknowledged=st.integers(0, 5 * MAX_UNACKNOWLEDGED),
)
def test_nothing_is_read_twice_however_many_acknowledgements_are_lost_with_a_connection(
    start: int, sent: int, acknowledged: int
) -> None:
    """Brokers do not always respect the maximum that they were given."""
    ledger, known = Ledger(), list[int]()
    numbers = [(start + at - 1) % 65_535 + 1 for at in range(sent)]
    messages = [Message("t", b"%d" % at, number, False, is_retained=False) for at, number in enumerate(numbers)]
    ledger.connected(session_is_resumed=False)
    assert ledger.commit([token for _, token in ledger.receive(messages, known) if token]) == numbers
    ledger.connected(session_is_resumed=True)
    again = [message._replace(is_duplicate=True) for message in messages[acknowledged:]]
    assert list(ledger.receive(again, known)) == []
    assert known == numbers[acknowledged:]
