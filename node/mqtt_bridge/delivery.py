"""One MQTT message on its way into the storage."""

from collections.abc import Callable

from node.errors import StorageError

__all__ = ["Delivery"]


class Delivery:
    """Counts the stream messages of one MQTT message until the last is stored, then acknowledges it, once.

    Where one could not be stored nothing is acknowledged: the broker will bring the whole again.
    """

    def __init__(self, acknowledge: Callable[[], None], give_up: Callable[[StorageError], None]) -> None:
        self._acknowledge = acknowledge
        self._give_up = give_up
        self._outstanding = 1  # the delivery itself, until `close`: the first may be stored before the last is taken
        self._has_failed = False

    def expect(self) -> Callable[[StorageError | None], None]:
        """What to call when one more stream message is stored, or could not be."""
        self._outstanding += 1
        return self._settle

    def close(self) -> None:
        """There are no more stream messages to expect."""
        self._settle(None)

    def _settle(self, problem: StorageError | None) -> None:
        self._outstanding -= 1
        if problem is not None and not self._has_failed:
            self._has_failed = True
            self._give_up(problem)
        if self._outstanding == 0 and not self._has_failed:
            self._acknowledge()
