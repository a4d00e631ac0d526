"""The envelope of a small file: magic and version before the body, a checksum after it.

| bytes | what |
|---|---|
| 6 | the magic, which names the kind of file |
| 2 | the version of its format, big-endian |
| … | the body |
| 32 | SHA-256 of all before it |
"""

import hashlib
from dataclasses import dataclass

from protocol.errors import Corrupt, Truncated, Unsupported

CHECKSUM_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnvelope:
    """The envelope of one kind of file. `name` is how errors call it: "key file"."""

    name: str
    magic: bytes
    version: int
    max_bytes: int

    @property
    def preamble(self) -> bytes:
        return self.magic + self.version.to_bytes(2, "big")

    def wrap(self, body: bytes) -> bytes:
        content = self.preamble + body
        return content + hashlib.sha256(content).digest()

    def unwrap(self, data: bytes) -> bytes:
        """The body. Raises: Unsupported for another version, Truncated, Corrupt."""
        preamble = self.preamble
        if not preamble.startswith(data[: len(preamble)]):
            if not data.startswith(self.magic):
                raise Corrupt(f"not a Headgate {self.name}: it does not begin with {self.magic.decode()}", offset=0)
            found = data[len(self.magic) : len(preamble)].hex()
            raise Unsupported(
                f"{self.name} format {found}, this program supports {self.version}", offset=len(self.magic)
            )
        if len(data) <= len(preamble) + CHECKSUM_BYTES:
            raise Truncated(f"the {self.name} is truncated", offset=len(data))
        if len(data) > self.max_bytes:
            raise Corrupt(f"{self.name} of {len(data)} bytes is larger than {self.max_bytes}")
        if hashlib.sha256(data[:-CHECKSUM_BYTES]).digest() != data[-CHECKSUM_BYTES:]:
            raise Corrupt(f"the {self.name} is damaged: checksum mismatch")
        return data[len(preamble) : -CHECKSUM_BYTES]
