"""Messages with the size and entropy of real ones, for benchmarks that do not check them.

The ioMessage has an id with a random prefix and a counter, a noisy reading, and optionally the hashes of its chain. It
is in base64 in a JSON StreamMessage with a signature of 65 random bytes.
"""

import hashlib
import random
import struct

import orjson

from protocol.iomessage.content import encode_binary_content

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ADDRESS = "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b"
STREAM = f"{ADDRESS}/plant/boiler"
CHAIN = f"{STREAM}#0/{ADDRESS}"
START_MS = 1_700_000_000_000
PERIOD_MS = 10


def sample_messages(count: int, *, hashed: bool = False, seed: int = 1) -> list[bytes]:
    """About 590 bytes each, 760 with hashes."""
    chance = random.Random(seed)
    prefix = "".join(chance.choices(BASE58, k=24))
    return [_message(number, prefix, chance, hashed) for number in range(count)]


def _message(number: int, prefix: str, chance: random.Random, hashed: bool) -> bytes:
    at_ms = START_MS + number * PERIOD_MS
    text = encode_binary_content([_io_message(number, prefix, chance, hashed)])
    message_id = [STREAM, 0, at_ms, 0, ADDRESS, prefix[:20]]
    signature = f"0x{chance.randbytes(65).hex()}"
    return orjson.dumps([32, message_id, [at_ms - PERIOD_MS, 0], 27, 0, 0, None, text, None, 2, signature])


def _io_message(number: int, prefix: str, chance: random.Random, hashed: bool) -> bytes:
    fields = [
        f"{prefix}{_base58_counter(number)}".encode(),
        struct.pack(">q", START_MS + number * PERIOD_MS),
        b"boiler-room-gateway-07/boiler-1",
        b"temperature",
        b"Cel/cbor",
        b"\xa2dboot\x50" + prefix[:16].encode() + b"dmono\x1b" + struct.pack(">Q", number * PERIOD_MS),
        b"\xfb" + struct.pack(">d", 71.5 + chance.gauss(0, 0.2)),
        struct.pack(">I", number),
    ]
    if hashed:
        fields += [hashlib.sha256(b"%d" % at).hexdigest().encode() for at in (number, number - 1)]
    return b"\x00\x04" + bytes(map(len, fields)).ljust(40, b"\0") + b"".join(fields)


def _base58_counter(number: int) -> str:
    return "".join(BASE58[number // 58**place % 58] for place in range(7, -1, -1))
