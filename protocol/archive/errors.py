"""An archive that is not what it should be, and where."""

from protocol.errors import Corrupt


class CorruptArchive(Corrupt):
    """Corrupt, with the block and the record to blame where one is known (both count from 0)."""

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
