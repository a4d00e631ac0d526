"""Files that were written once stay readable, and say the same to plain libraries that know nothing of our code."""

import hashlib
import struct
from pathlib import Path

import cbor2
import zstandard
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt
from nacl.public import PrivateKey, SealedBox
from nacl.signing import SigningKey, VerifyKey

from protocol.archive.encryption import Decryptor
from protocol.archive.receipt import Receipt
from protocol.archive.records import Record
from protocol.devicelog.log import LogHead
from protocol.losses import Loss
from protocol.reference import Reference
from tests.support.archives import read_archive

VECTORS = Path(__file__).parents[3] / "vectors" / "archive"
ARCHIVE = (VECTORS / "tiny.hga").read_bytes()
ENCRYPTED = (VECTORS / "tiny.hgs").read_bytes()
RECEIPT = (VECTORS / "tiny.receipt").read_bytes()
COLLECTOR_BOX = PrivateKey(b"\x04" * 32)

RECORDS = [
    Record(b'["first"]', "boiler", 1_700_000_000_000, 0, 0, 7, 1_700_000_000_001),
    Record(b'["second"]', "boiler", 1_700_000_000_000, 1, 0, 8, 1_700_000_000_002, 3),
]
LOSS = Loss(
    number=1,
    lane=0,
    chain="boiler",
    first_position=5,
    last_position=6,
    count=2,
    first=Reference(1_699_999_999_000, 0),
    last=Reference(1_699_999_999_500, 0),
    cause="shed",
)


def test_the_golden_archive_reads_as_it_was_written() -> None:
    archive, records = read_archive(ARCHIVE)
    assert records == RECORDS
    assert archive.manifest.losses == (LOSS,)
    assert archive.manifest.entry == LogHead(log=bytes(range(16)), begins={0: 5}).entry({0: 11})
    assert archive.manifest.readings == 4
    assert archive.header.created_at_ms == 1_700_000_001_000
    assert archive.header.binding.address.hex() == "7e5f4552091a69125d5dfcb7b8c2659029395bdf"


def test_the_golden_encrypted_archive_opens() -> None:
    decryptor = Decryptor(COLLECTOR_BOX)
    assert b"".join([*decryptor.feed(ENCRYPTED), decryptor.finish()]) == ARCHIVE


def test_the_golden_receipt_covers_the_golden_archive() -> None:
    receipt = Receipt.from_bytes(RECEIPT)
    assert receipt.covers(
        archive=hashlib.sha256(ARCHIVE).digest(),
        size_bytes=len(ARCHIVE),
        device=bytes.fromhex("7e5f4552091a69125d5dfcb7b8c2659029395bdf"),
        collector_key=bytes(SigningKey(b"\x03" * 32).verify_key),
    )


def test_plain_libraries_take_the_archive_apart_and_find_it_true() -> None:
    frames, offset = {}, 8
    while offset < len(ARCHIVE):
        kind, length = struct.unpack_from(">cI", ARCHIVE, offset)
        frames[kind] = (offset, ARCHIVE[offset + 5 : offset + 5 + length])
        offset += 5 + length
    header, manifest = cbor2.loads(frames[b"H"][1]), cbor2.loads(frames[b"M"][1])
    block_offset, block_bytes, raw_bytes, records, readings, digest = manifest["blocks"][0]
    raw = zstandard.decompress(frames[b"B"][1])
    assert hashlib.sha256(ARCHIVE[:block_offset]).digest() == manifest["header_sha256"]
    assert hashlib.sha256(ARCHIVE[block_offset : block_offset + block_bytes]).digest() == digest
    assert (len(raw), records, readings) == (raw_bytes, 2, 4)
    assert raw.endswith(b'boiler["first"]["second"]')
    manifest_offset, signature = struct.unpack(">Q64s", frames[b"S"][1])
    assert manifest_offset == frames[b"M"][0]
    signed = b"headgate archive 3\n" + hashlib.sha256(frames[b"M"][1]).digest()
    VerifyKey(header["archive_key"]).verify(signed, signature)


def test_plain_libraries_open_the_encrypted_archive() -> None:
    key = SealedBox(COLLECTOR_BOX).decrypt(ENCRYPTED[40:120])
    last_chunk_0 = bytes(23) + b"\x01"
    assert crypto_aead_xchacha20poly1305_ietf_decrypt(ENCRYPTED[124:], ENCRYPTED[:124], last_chunk_0, key) == ARCHIVE


def test_plain_libraries_check_the_receipt() -> None:
    values = cbor2.loads(RECEIPT)
    signature = values.pop("signature")
    signed = b"headgate receipt 2\n" + cbor2.dumps(values, canonical=True)
    VerifyKey(values["collector_key"]).verify(signed, signature)
