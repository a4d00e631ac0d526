"""Archives against the minimum of such a format: zstd, SHA-256 and one Ed25519 signature of the same bytes."""

import hashlib
import json
import random
from collections.abc import Iterator

import zstandard
from nacl.signing import SigningKey

from benchmarks.harness import Figure, cpu_seconds_per_call
from protocol.archive.block import DEFAULT_ZSTD_LEVEL
from protocol.archive.header import Header
from protocol.archive.limits import DEFAULT_BLOCK_TARGET_BYTES
from protocol.archive.random_access import open_archive
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.binding import sign_binding
from protocol.devicelog.log import LogHead
from protocol.ethereum import Signer
from protocol.iomessage.content import encode_binary_content

RECORDS = 8_000
KEY = SigningKey(bytes(32))
HEADER = Header(
    binding=sign_binding(Signer(b"\x01" * 32), bytes(KEY.verify_key)),
    journal_id=bytes(16),
    created_at_ms=0,
)


def measure() -> Iterator[Figure]:
    records = [_record(number, random.Random(number)) for number in range(RECORDS)]
    texts = b"".join(record.text for record in records)
    pieces = [
        texts[start : start + DEFAULT_BLOCK_TARGET_BYTES] for start in range(0, len(texts), DEFAULT_BLOCK_TARGET_BYTES)
    ]
    archive, bare = _write(records), _write_bare(pieces)
    signed = KEY.sign(hashlib.sha256(b"".join(bare)).digest())
    seconds = cpu_seconds_per_call(
        {
            "write": lambda: _write(records),
            "bare write": lambda: _write_bare(pieces),
            "read columns": lambda: _read(archive),
            "read records": lambda: _read_records(archive),
            "bare read": lambda: _read_bare(bare, bytes(signed)),
        }
    )
    yield _rate("archive write", "write", seconds, len(texts), at_least=0.5)
    yield _rate("archive read, by columns", "read columns", seconds, len(texts), at_least=0.2)
    yield _rate("archive read, block by block and by records", "read records", seconds, len(texts), at_least=0.15)
    yield Figure(
        name="archive size, × its texts in bare zstd",
        value=len(archive) / sum(map(len, bare)),
        unit="×",
        at_most=1.05,
        note=f"{len(archive) / len(texts):.3f} of the texts",
    )


def _rate(name: str, what: str, seconds: dict[str, float], size_bytes: int, *, at_least: float) -> Figure:
    bare = seconds["bare write" if what == "write" else "bare read"]
    rates = f"{size_bytes / seconds[what] / 1e6:.0f} MB/s of message text; bare {size_bytes / bare / 1e6:.0f}"
    return Figure(
        name=f"{name}, × bare zstd + SHA-256 + Ed25519",
        value=bare / seconds[what],
        unit="×",
        at_least=at_least,
        note=rates,
    )


def _record(number: int, chance: random.Random) -> Record:
    """A typical record: an ioMessage in base64 within a signed message, about 600 bytes."""
    stream, time_ms = f"0x{'ab' * 20}/sensor-{number % 8}", 1_700_000_000_000 + 40 * number
    content = encode_binary_content([b"temperature Cel/cbor boiler" + chance.randbytes(90) + b" " * 60])
    signature = "0x" + chance.randbytes(65).hex()
    identity = [stream, 0, time_ms, 0, "0x" + "cd" * 20, "chain"]
    text = json.dumps(
        [32, identity, [time_ms - 320, 0], 27, 0, None, content, None, 2, signature], separators=(",", ":")
    )
    return Record(text.encode(), stream, time_ms, 0, number % 3, number, time_ms)


def _write(records: list[Record]) -> bytes:
    writer = ArchiveWriter(HEADER, sign=lambda message: KEY.sign(message).signature)
    parts = [writer.begin(), *map(writer.add, records)]
    return b"".join([*parts, writer.finish(LogHead(log=b"log-of-the-bench").entry(writer.reached))])


def _write_bare(pieces: list[bytes]) -> list[bytes]:
    compressor = zstandard.ZstdCompressor(level=DEFAULT_ZSTD_LEVEL)
    compressed = [compressor.compress(piece) for piece in pieces]
    KEY.sign(hashlib.sha256(b"".join(compressed)).digest())
    return compressed


def _read(archive: bytes) -> None:
    for _ in open_archive(lambda offset, count: archive[offset : offset + count], len(archive)).blocks():
        pass


def _read_records(archive: bytes) -> None:
    for block in open_archive(lambda offset, count: archive[offset : offset + count], len(archive)).blocks():
        assert block.records


def _read_bare(compressed: list[bytes], signed: bytes) -> None:
    decompressor = zstandard.ZstdDecompressor()
    for piece in compressed:
        decompressor.decompress(piece)
    hashlib.sha256(b"".join(compressed)).digest()
    KEY.verify_key.verify(signed)
