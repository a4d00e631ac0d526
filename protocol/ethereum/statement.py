"""Headgate's own signed statements, in a form that no Streamr text can have.

    digest = keccak256(0x19 ‖ 0x00 ‖ VALIDATOR ‖ "headgate " ‖ kind ‖ "\\n" ‖ body)

This is version 0x00 of EIP-191, data for one intended validator. Streamr clients, nodes and wallets sign texts with
version 0x45 (`\\x19Ethereum Signed Message:\\n…`) and nothing else, so what is hashed differs in its second byte from
every login challenge and every StreamMessage, whatever text an attacker chooses. The kind names the format and its
version; the line end after it ensures that no kind is the beginning of another.
"""

from typing import Final, NamedTuple

from protocol.ethereum.hashing import keccak256

VALIDATOR: Final = bytes.fromhex("ddfd65d6ce6e42f64fa695b3c900554acaa5aaf4")  # of keccak256("headgate"), the last 20


class Statement(NamedTuple):
    """A statement of the holder of a key about itself. `kind` is a name and a version, such as `binding 1`."""

    kind: str
    body: bytes

    @property
    def digest(self) -> bytes:
        """Raises ValueError for a kind that is not one line."""
        if not self.kind.isascii() or not self.kind.isprintable() or not self.kind:
            raise ValueError(f"{self.kind!r} is not the kind of a statement")
        return keccak256(b"\x19\x00%bheadgate %b\n%b" % (VALIDATOR, self.kind.encode(), self.body))
