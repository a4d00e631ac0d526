from node.errors import StorageError
from node.mqtt_bridge.bridge import Delivery

PROBLEM = StorageError("disk full")


class Outcome:
    def __init__(self) -> None:
        self.acknowledgements = 0
        self.failures = 0
        self.delivery = Delivery(self._acknowledge, self._give_up)

    def _acknowledge(self) -> None:
        self.acknowledgements += 1

    def _give_up(self, _problem: StorageError) -> None:
        self.failures += 1


def test_it_is_acknowledged_once_when_the_last_message_is_stored() -> None:
    outcome = Outcome()
    first, second = outcome.delivery.expect(), outcome.delivery.expect()
    outcome.delivery.close()
    second(None)
    assert outcome.acknowledgements == 0
    first(None)
    assert outcome.acknowledgements == 1


def test_messages_stored_before_the_last_is_taken_do_not_acknowledge_it_too_soon() -> None:
    outcome = Outcome()
    outcome.delivery.expect()(None)
    assert outcome.acknowledgements == 0
    outcome.delivery.expect()(None)
    outcome.delivery.close()
    assert outcome.acknowledgements == 1


def test_it_is_not_acknowledged_and_given_up_once_where_messages_could_not_be_stored() -> None:
    outcome = Outcome()
    done = [outcome.delivery.expect() for _ in range(3)]
    outcome.delivery.close()
    for settle, problem in zip(done, (PROBLEM, PROBLEM, None), strict=True):
        settle(problem)
    assert (outcome.acknowledgements, outcome.failures) == (0, 1)


def test_one_without_messages_is_acknowledged() -> None:
    outcome = Outcome()
    outcome.delivery.close()
    assert outcome.acknowledgements == 1
