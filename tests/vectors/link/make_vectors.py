"""Writes the vectors beside it: `python -m tests.vectors.link.make_vectors`.

Nothing of ours is imported. Frames are put together here, once more and plainly, from what others made: `cobs` for the
stuffing, `cbor2` for the payloads, `zlib` for the CRC, `hashlib` for keyed BLAKE2s. What the documents of others state
is written out by hand below.
"""

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import cbor2
from cobs import cobs

HERE = Path(__file__).parent
KEY, NONCE, BOOT_ID = bytes(range(32)), bytes.fromhex("a0a1a2a3a4a5a6a7"), bytes.fromhex("b0b1b2b3b4b5b6b7")
TO_DEVICE, TO_HOST = 0, 1
SYNC, HELLO, DESC_REQ, DESC, READING, ACK, TIME_REQ, TIME, COMMAND, RESULT, LOG = range(1, 12)
FW_BEGIN, FW_CHUNK, FW_END, FW_CONFIRM, FW_QUERY, FW_STATUS = range(16, 22)

# The device of the conversations; tests/support/c_device.c is built from the same words.
DESCRIPTIONS = [
    [0, 0, "temperature", "temperature", "Cel", -2],
    [1, 0, "état", "state", "", 0],
    [2, 1, "count", "number to add"],
    [3, 1, "echo", ""],
]
SCHEMA = zlib.crc32(b"".join(cbor2.dumps(item, canonical=True) for item in DESCRIPTIONS))


def session_key(syncs: int) -> bytes:
    material = b"headgate link 1" + NONCE + BOOT_ID + syncs.to_bytes(4, "little")
    return hashlib.blake2s(material, key=KEY, digest_size=32).digest()


def body(
    kind: int,
    items: list[Any],
    session: int,
    seq: int = 0,
    nak: bool = False,
    proof: tuple[bytes, int, int] | None = None,
) -> bytes:
    """Header, payload, proof and CRC. `proof` is session key, direction, counter."""
    flags = (2 if nak else 0) + (1 if proof else 0)
    text = bytes([0x40 + kind, flags, session, seq]) + cbor2.dumps(items, canonical=True)
    if proof:
        key, direction, counter = proof
        text += counter.to_bytes(4, "little")
        text += hashlib.blake2s(bytes([direction]) + text, key=key, digest_size=8).digest()
    return text + zlib.crc32(text).to_bytes(4, "little")


def wire(unstuffed: bytes) -> bytes:
    return b"\0" + bytes(cobs.encode(unstuffed)) + b"\0"


def frame(kind: int, items: list[Any], session: int, seq: int = 0, **more: Any) -> bytes:
    return wire(body(kind, items, session, seq, **more))


def plain(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


# ---- frames.json ----


def hello(
    nonce: bytes, *, syncs: int, uptime: int = 0, rseq: int = 0, dropped: int = 0, command: int = 0, features: int = 2
) -> list[Any]:
    words = ["test-device", "1.2.3", 256, 4, 2, 2, SCHEMA]
    return [nonce, BOOT_ID, syncs, *words, rseq, dropped, command, uptime, features]


def frames() -> list[dict[str, Any]]:
    top = 2**32 - 1
    key = session_key(1)
    cases: list[tuple[str, int, list[Any], dict[str, Any]]] = [
        ("sync", SYNC, [NONCE, 200], {"session": 7}),
        ("sync, longest wait", SYNC, [NONCE, 60000], {"session": 255}),
        ("hello, a call", HELLO, hello(b"", syncs=0), {"session": 0}),
        ("hello, an answer", HELLO, hello(NONCE, syncs=1, uptime=1234), {"session": 7}),
        (
            "hello, everything at its largest",
            HELLO,
            [NONCE, BOOT_ID, top, "d" * 32, "f" * 32, 1024, 16, 255, 255, top, top, top, top, 2**48 - 1, 3],
            {"session": 255},
        ),
        ("description request", DESC_REQ, [0], {"session": 7}),
        ("description request, last", DESC_REQ, [510], {"session": 7}),
        *((f"description {item[0]}", DESC, item, {"session": 7}) for item in DESCRIPTIONS),
        ("reading of the documents", READING, [1000, 123456, 0, 2150], {"session": 7, "seq": 3}),
        ("reading, all zero", READING, [0, 0, 0, 0], {"session": 1}),
        (
            "reading of eight",
            READING,
            [1000, 123456, *(x for i in range(8) for x in (i, 2000 + i))],
            {"session": 7, "seq": 3},
        ),
        ("reading, no value", READING, [1, 2, 3, None], {"session": 7, "seq": 255}),
        ("reading, negative", READING, [65536, 65535, 254, -1, 23, -25], {"session": 7}),
        ("reading, widest", READING, [top, 2**48 - 1, 254, 2**63 - 1, 254, -(2**63)], {"session": 7}),
        ("reading of 64", READING, [7, 8, *(x for i in range(64) for x in (i, -i * 1000))], {"session": 7}),
        ("ack", ACK, [1001], {"session": 7, "seq": 4}),
        ("ack that asks again", ACK, [0], {"session": 7, "seq": 4, "nak": True}),
        ("time request", TIME_REQ, [top], {"session": 7}),
        ("time", TIME, [top, 2**48 - 1], {"session": 7}),
        ("command", COMMAND, [1, 2, -5], {"session": 7}),
        ("command with text", COMMAND, [2, 3, "größer"], {"session": 7}),
        ("command without argument", COMMAND, [top, 510, None], {"session": 7}),
        ("result", RESULT, [1, 0, 2**31 - 1], {"session": 7}),
        ("result, failed", RESULT, [2, 3, None], {"session": 7}),
        ("result, text", RESULT, [2, 0, "x" * 64], {"session": 7}),
        ("log", LOG, [0, 1, "link up"], {"session": 7}),
        ("log, error", LOG, [24, 3, "é" * 100], {"session": 7}),
        ("update begins", FW_BEGIN, [b"manifest", bytes(64)], {"session": 7}),
        ("update chunk", FW_CHUNK, [4096, bytes(200)], {"session": 7}),
        ("update chunk, largest", FW_CHUNK, [top, b"\1" * 960], {"session": 7}),
        ("update ends", FW_END, [], {"session": 7}),
        ("update is confirmed", FW_CONFIRM, [], {"session": 7}),
        ("update query", FW_QUERY, [], {"session": 7}),
        ("update status", FW_STATUS, [4296, 1, 0], {"session": 7}),
        ("update refused", FW_STATUS, [0, 4, 3], {"session": 7}),
        ("proved reading", READING, [1000, 123456, 0, 2150], {"session": 7, "seq": 3, "proof": (key, TO_HOST, 0)}),
        (
            "proved reading, later",
            READING,
            [1000, 123456, 0, 2150],
            {"session": 7, "seq": 3, "proof": (key, TO_HOST, 256)},
        ),
        ("proved ack", ACK, [1001], {"session": 7, "seq": 4, "proof": (key, TO_DEVICE, 0)}),
        ("proved ack, last", ACK, [1001], {"session": 7, "nak": True, "proof": (key, TO_DEVICE, 2**32 - 2)}),
    ]
    found = []
    for name, kind, items, where in cases:
        entry = {"name": name, "type": kind, "items": [plain(item) for item in items], "session": where["session"]}
        entry |= {"seq": where.get("seq", 0), "nak": where.get("nak", False)}
        if "proof" in where:
            entry |= {"direction": where["proof"][1], "counter": where["proof"][2]}
        found.append(entry | {"wire": frame(kind, items, **where).hex()})
    return found


# ---- primitives.json ----


def primitives() -> dict[str, Any]:
    texts = [b"", b"\0", b"\0\0", b"\0\x11\0", b"\x11\x22\0\x33", b"\1" * 253, b"\1" * 254, b"\1" * 255, b"\2" * 508]
    texts += [
        b"\1" * 254 + b"\0",
        b"\0" + b"\1" * 254,
        b"\1" * 253 + b"\0" + b"\3" * 300,
        bytes(range(256)) * 4,
        bytes(1024),
    ]
    return {
        # The example table of the paper by Cheshire and Baker as it is usually given, and the check value of CRC-32.
        "by_hand": {
            "cobs": [["00", "0101"], ["0000", "010101"], ["11220033", "0311220233"], ["11223344", "0511223344"]],
            "crc32": [["313233343536373839", 0xCBF43926], ["", 0]],
            # Of the known answers that the authors of BLAKE2 publish: key 00…1f, inputs of 0 and 1 bytes (00).
            "blake2s": [
                ["", "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49"],
                ["00", "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1"],
            ],
        },
        "cobs": [[text.hex(), cobs.encode(text).hex()] for text in texts],
        "crc32": [[text.hex(), zlib.crc32(text)] for text in texts],
        "blake2s": [
            [text.hex(), size, hashlib.blake2s(text, key=KEY, digest_size=size).hexdigest()]
            for text in (*texts, bytes(63), bytes(64), bytes(65), bytes(128), bytes(129))
            for size in (8, 32)
        ],
        "key": KEY.hex(),
        "session_keys": [
            {"nonce": NONCE.hex(), "boot_id": BOOT_ID.hex(), "syncs": syncs, "session_key": session_key(syncs).hex()}
            for syncs in (0, 1, 2**32 - 1)
        ],
    }


# ---- bad.json ----


def bad() -> list[dict[str, str]]:
    """What no reader may take: damaged, foreign (whole, but not for us), or payload (a frame with nonsense in it)."""
    good = body(ACK, [5], 7)

    def checked(text: bytes) -> str:
        return wire(text + zlib.crc32(text).to_bytes(4, "little")).hex()

    def payload(kind: int, text: str) -> str:
        return checked(bytes([0x40 + kind, 0, 7, 0]) + bytes.fromhex(text))

    flipped = good[:4] + bytes([good[4] ^ 1]) + good[5:]
    long = b"\1" * 1021
    cases = [
        ("damaged", "no body", "000100"),
        ("damaged", "CRC alone", wire(zlib.crc32(b"").to_bytes(4, "little")).hex()),
        ("damaged", "a bit turned", wire(flipped).hex()),
        ("damaged", "a byte short", wire(good[:-1]).hex()),
        ("damaged", "a block that runs past the end", "0005010200"),
        ("damaged", "body of 1025 bytes", checked(long)),
        ("damaged", "two thousand bytes without a zero", "00" + "01" * 2000 + "00"),
        ("damaged", "authenticated, with no room for it", checked(bytes([0x46, 1, 7, 0]) + b"\x81\x05")),
        ("foreign", "version 0", checked(bytes([0x06, 0, 7, 0]) + b"\x81\x05")),
        ("foreign", "version 2", checked(bytes([0x86, 0, 7, 0]) + b"\x81\x05")),
        ("foreign", "reserved flag", checked(bytes([0x46, 4, 7, 0]) + b"\x81\x05")),
        ("foreign", "type 0", checked(bytes([0x40, 0, 7, 0]) + b"\x80")),
        ("foreign", "type 12", checked(bytes([0x4C, 0, 7, 0]) + b"\x80")),
        ("foreign", "type 63", checked(bytes([0x7F, 0, 7, 0]) + b"\x80")),
        ("payload", "no payload", payload(ACK, "")),
        ("payload", "no array", payload(ACK, "05")),
        ("payload", "an item too few", payload(ACK, "80")),
        ("payload", "an item too many", payload(ACK, "820505")),
        ("payload", "bytes after the payload", payload(ACK, "810505")),
        ("payload", "ends within a number", payload(ACK, "811a0000")),
        ("payload", "a number of 64 bits", payload(ACK, "811b0000000100000000")),
        ("payload", "a negative number", payload(ACK, "8120")),
        ("payload", "true for a number", payload(ACK, "81f5")),
        ("payload", "a float", payload(ACK, "81f93c00")),
        ("payload", "indefinite length", payload(ACK, "9f05ff")),
        ("payload", "a tag", payload(ACK, "81c105")),
        ("payload", "nonce of 7 bytes", payload(SYNC, "8247a0a1a2a3a4a5a6" + "18c8")),
        ("payload", "nonce as text", payload(SYNC, "8268" + "61" * 8 + "18c8")),
        ("payload", "no wait", payload(SYNC, "8248a0a1a2a3a4a5a6a700")),
        ("payload", "a wait of 60001 ms", payload(SYNC, "8248a0a1a2a3a4a5a6a719ea61")),
        ("payload", "a string that runs past the end", payload(SYNC, "825affffffff")),
        ("payload", "command 0", payload(COMMAND, "830002f6")),
        ("payload", "argument of 33 bits", payload(COMMAND, "8301021a80000000")),
        ("payload", "argument in bytes", payload(COMMAND, "83010241ff")),
        ("payload", "argument true", payload(COMMAND, "830102f5")),
        ("payload", "argument in an array", payload(COMMAND, "83010280")),
        ("payload", "signature of 63 bytes", payload(FW_BEGIN, "82416d583f" + "00" * 63)),
        ("payload", "empty manifest", payload(FW_BEGIN, "82405840" + "00" * 64)),
        ("payload", "empty chunk", payload(FW_CHUNK, "820040")),
        ("payload", "an end with something in it", payload(FW_END, "8100")),
    ]
    return [{"name": name, "says": says, "wire": text} for says, name, text in cases]


# ---- conversations.json ----


def conversations() -> list[dict[str, Any]]:
    """What a device says to what it is reported, byte for byte. Times are the device's clock in ms."""
    return [
        _ordinary(),
        _repeats(),
        _new_session(),
        _commands(),
        _update(),
        _authenticated(),
        _full_queue(),
        _silence(),
    ]


def _host(kind: int, items: list[Any], seq: int = 0, session: int = 7, **more: Any) -> dict[str, str]:
    return {"host": frame(kind, items, session, seq, **more).hex()}


def _device(kind: int, items: list[Any], seq: int = 0, session: int = 7, **more: Any) -> dict[str, str]:
    return {"device": frame(kind, items, session, seq, **more).hex()}


def _opening(at_ms: int = 0) -> list[dict[str, Any]]:
    return [
        _device(HELLO, hello(b"", syncs=0), session=0),
        {"now_ms": at_ms},
        _host(SYNC, [NONCE, 200]),
        _device(HELLO, hello(NONCE, syncs=1, uptime=at_ms)),
        _host(ACK, [0]),
    ]


def _ordinary() -> dict[str, Any]:
    steps = [
        *_opening(10),
        *(step for item in DESCRIPTIONS for step in (_host(DESC_REQ, [item[0]]), _device(DESC, item))),
        _host(DESC_REQ, [4]),
        {"record": [[0, 2150], [1, None]]},
        _device(READING, [0, 10, 0, 2150, 1, None]),
        {"now_ms": 2**32 - 1},  # long after, in one step: the gateway was silent
        {"device": frame(HELLO, hello(b"", syncs=1, uptime=2**32 - 1, rseq=1), 0).hex()},
        {"now_ms": 5},
        {"record": [[0, -(2**31) + 1], [0, 2**31 - 1]]},
        _host(SYNC, [NONCE, 200], session=8),
        _device(HELLO, hello(NONCE, syncs=2, uptime=2**32 + 5, rseq=2), session=8),
        _host(TIME_REQ, [77], session=8),
        _device(TIME, [77, 2**32 + 5], session=8),
        _host(ACK, [0], session=8),
        _device(READING, [0, 10, 0, 2150, 1, None], session=8),
        _device(READING, [1, 2**32 + 5, 0, -(2**31) + 1, 0, 2**31 - 1], seq=1, session=8),
        {"log": [2, "hot: 41 °C"]},
        _device(LOG, [0, 2, "hot: 41 °C"], session=8),
    ]
    return {"name": "descriptions, a record, a clock that wraps, a log line", "steps": steps}


def _reading(number: int, seq: int, session: int = 7) -> dict[str, str]:
    return _device(READING, [number, 10, 0, number], seq, session)


def _repeats() -> dict[str, Any]:
    steps = [
        *_opening(10),
        *({"record": [[0, number]]} for number in range(6)),
        *(_reading(number, number) for number in range(4)),  # the window is full
        {"now_ms": 209},
        {"now_ms": 210},
        *(_reading(number, number) for number in range(4)),  # no word for 200 ms
        _host(ACK, [0], seq=2),  # two were received: two more may follow
        _reading(4, 4),
        _reading(5, 5),
        _host(ACK, [2], seq=3, nak=True),  # 3 was damaged
        _reading(3, 3),
        _reading(4, 4),
        _reading(5, 5),
        _host(ACK, [0], seq=2),  # late: behind what is known
        _host(ACK, [0], seq=7),  # never sent
        _host(ACK, [7], seq=6),  # never made
        _host(ACK, [6], seq=3),  # durable, though it was not received: what is on the way stays
        {"now_ms": 410},
        *(_reading(number, number) for number in range(3, 6)),
        _host(ACK, [6], seq=6),
        {"now_ms": 3000},
        {"record": [[0, 6]]},
        _device(READING, [6, 3000, 0, 6], seq=6),
    ]
    return {"name": "a window, a silence, a NAK, and acknowledgements that are not true", "steps": steps}


def _new_session() -> dict[str, Any]:
    other = bytes(8)
    steps = [
        *_opening(10),
        *({"record": [[0, number]]} for number in range(3)),
        *(_reading(number, number) for number in range(3)),
        _host(SYNC, [NONCE, 200]),  # again: nothing changes
        _device(HELLO, hello(NONCE, syncs=1, uptime=10, rseq=3)),
        _host(ACK, [1], seq=3),  # three received, one durable
        _host(SYNC, [other, 300], session=9),
        _device(HELLO, hello(other, syncs=2, uptime=10, rseq=3), session=9),
        _host(ACK, [3]),  # of the old session
        {"record": [[0, 3]]},
        _host(ACK, [2], session=9),  # in the meantime two are durable
        _reading(2, 0, session=9),
        _reading(3, 1, session=9),
    ]
    return {"name": "a gateway that restarts gets what is not durable again", "steps": steps}


def _commands() -> dict[str, Any]:
    steps = [
        *_opening(),
        _host(COMMAND, [1, 2, 5]),
        _device(RESULT, [1, 0, 5]),
        _host(COMMAND, [1, 2, 5]),
        _device(RESULT, [1, 0, 5]),
        _host(COMMAND, [2, 2, -2]),
        _device(RESULT, [2, 0, 3]),
        _host(COMMAND, [1, 2, 5]),  # older: dropped
        _host(COMMAND, [5, 3, "größer"]),
        _device(RESULT, [5, 0, "größer"]),
        _host(COMMAND, [6, 2, "no number"]),
        _device(RESULT, [6, 2, None]),
        _host(COMMAND, [7, 1, 0]),  # a sensor
        _device(RESULT, [7, 1, None]),
        _host(COMMAND, [8, 4, 0]),  # beyond the last
        _device(RESULT, [8, 1, None]),
        _host(COMMAND, [9, 2, None]),
        _device(RESULT, [9, 2, None]),
        _host(COMMAND, [2**32 - 1, 2, 2**31 - 1]),
        _device(RESULT, [2**32 - 1, 2, None]),
        _host(SYNC, [NONCE, 200]),
        _device(HELLO, hello(NONCE, syncs=1, command=2**32 - 1)),
    ]
    return {"name": "commands run once", "steps": steps}


def _update() -> dict[str, Any]:
    steps = [
        *_opening(),
        _host(FW_QUERY, []),
        _device(FW_STATUS, [0, 0, 0]),
        _host(FW_BEGIN, [b"manifest", b"s" * 64]),
        _device(FW_STATUS, [0, 1, 0]),
        _host(FW_CHUNK, [0, b"x" * 200]),
        _device(FW_STATUS, [200, 1, 0]),
        _host(FW_CHUNK, [100, b"y"]),
        _device(FW_STATUS, [200, 1, 9]),
        _host(FW_END, []),
        _device(FW_STATUS, [200, 2, 0]),
        _host(FW_CONFIRM, []),
        _device(FW_STATUS, [200, 0, 0]),
    ]
    return {"name": "the steps of an update reach the board", "steps": steps}


def _authenticated() -> dict[str, Any]:
    key, later = session_key(1), session_key(2)
    ack = _host(ACK, [0], proof=(key, TO_DEVICE, 0))
    steps = [
        _device(HELLO, hello(b"", syncs=0, features=3), session=0),
        {"now_ms": 10},
        _host(SYNC, [NONCE, 200]),
        _device(HELLO, hello(NONCE, syncs=1, uptime=10, features=3), proof=(key, TO_HOST, 0)),
        {"record": [[0, 0]]},
        _host(ACK, [0]),  # no proof
        _host(ACK, [0], proof=(later, TO_DEVICE, 0)),  # another session
        _host(ACK, [0], proof=(key, TO_HOST, 0)),  # another direction
        ack,
        _device(READING, [0, 10, 0, 0], proof=(key, TO_HOST, 1)),
        ack,  # replayed
        _host(COMMAND, [1, 2, 5], proof=(key, TO_DEVICE, 9)),
        _device(RESULT, [1, 0, 5], proof=(key, TO_HOST, 2)),
        _host(TIME_REQ, [1], proof=(key, TO_DEVICE, 8)),  # overtaken
        _host(TIME_REQ, [2], proof=(key, TO_DEVICE, 10)),
        _device(TIME, [2, 10], proof=(key, TO_HOST, 3)),
        _host(TIME_REQ, [3], proof=(key, TO_DEVICE, 2**32 - 1)),  # one above the last counter
        _host(SYNC, [NONCE, 200], session=8),
        _device(
            HELLO, hello(NONCE, syncs=2, uptime=10, rseq=1, command=1, features=3), session=8, proof=(later, TO_HOST, 0)
        ),
        _host(ACK, [0], session=8, proof=(later, TO_DEVICE, 0)),
        _device(READING, [0, 10, 0, 0], session=8, proof=(later, TO_HOST, 1)),
    ]
    return {"name": "authenticated", "key": KEY.hex(), "steps": steps}


def _full_queue() -> dict[str, Any]:
    """A record of one sample of five bytes takes 1 + 9 or, from number 24 on, 1 + 10 bytes of the 1,024."""
    fit = 24 + (1024 - 24 * 10) // 11
    value = 100_000
    steps = [
        *_opening(10),
        *({"record": [[0, value]]} for _ in range(fit)),
        {"full": [[0, value]]},
        {"full": [[0, value]]},
        *(_device(READING, [number, 10, 0, value], seq=number) for number in range(4)),
        _host(ACK, [4], seq=4),
        *(_device(READING, [number, 10, 0, value], seq=number) for number in range(4, 8)),
        {"record": [[0, 1]]},  # there is room again, and its number tells what is missing
        _host(SYNC, [NONCE, 200]),
        _device(HELLO, hello(NONCE, syncs=1, uptime=10, rseq=fit + 3, dropped=2)),
    ]
    return {"name": "a full queue drops the new and counts it", "steps": steps}


def _silence() -> dict[str, Any]:
    steps = [
        *_opening(10),
        {"now_ms": 3009},
        {"now_ms": 3010},
        _device(HELLO, hello(b"", syncs=1, uptime=3010), session=0),
        {"now_ms": 4009},
        {"now_ms": 4010},
        _device(HELLO, hello(b"", syncs=1, uptime=4010), session=0),
        _host(ACK, [0]),  # of a session that is over
        _host(SYNC, [NONCE, 200], session=0),  # of no session
    ]
    return {"name": "three seconds of silence end a session", "steps": steps}


def main() -> None:
    for name, content in (
        ("frames", frames()),
        ("primitives", primitives()),
        ("bad", bad()),
        ("conversations", conversations()),
    ):
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
