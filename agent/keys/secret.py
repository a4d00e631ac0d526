"""A secret value that is masked in `repr`, logs and tracebacks."""

import hmac
from typing import NoReturn


class Secret:
    """Key material or a passphrase.

    No repr, hash, copy or pickle reveals it; only `reveal` does. Use its result in the same expression, so that no
    frame of a traceback holds it in a variable.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment] # a hash would give a hint

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __repr__(self) -> str:
        return f"Secret({len(self)} bytes)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied, pickled or sent anywhere")
