"""The error for a corrupt archive."""

from protocol.errors import Corrupt


class CorruptArchive(Corrupt):
    """An archive breaks its format; `block` and `record` name the place, counted from 0, if it is known."""

    def __init__(
        self, problem: str, *, offset: int | None = None, block: int | None = None, record: int | None = None
    ) -> None:
        super().__init__(problem, offset=offset)
        self.block = block
        self.record = record

    def __str__(self) -> str:
        places = (("block", self.block), ("record", self.record))
        named = ", ".join(f"{name} {number}" for name, number in places if number is not None)
        return f"{named}: {super().__str__()}" if named else super().__str__()
