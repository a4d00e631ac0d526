"""The link to microcontrollers: the codec against a minimal one, bytes on the wire, and the C library.

The floor is COBS and CBOR by C extensions and zlib's CRC: bytes to a list of numbers, nothing checked. Ours
checks every field of the frames and records, and the session delivers them in order and once.
"""

import re
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cbor2
from cobs import cobs

from benchmarks.harness import Figure, NotTaken, Result, cpu_seconds_per_call
from benchmarks.programs import NEEDS, measure_with
from firmware_bridge import HostSession, Measured, Moment
from protocol.link import LinkDecoder, Record, Sample, frame_of, message_in
from testbed.microcontroller import LIBRARY
from tests.support.model_device import SENSORS, ModelDevice

FRAMES = 100
SAMPLES = 8
MAX_CHUNKS = 1000  # more than are measured
LINE_READINGS = 11_520 // 52 * SAMPLES  # a second, 8 in a frame of 52 bytes
MAX_STEPS = 1000  # until a session is open
MAX_CODE_BYTES = 3000
MAX_RAM_BYTES = 2 * 1024
LIBRARY_CODE = "link library, code on a Cortex-M3"
LIBRARY_RAM = "link library, RAM"
SIZE_LINE = re.compile(r"^(?P<name>.+?) +code (?P<code>\d+) bytes, RAM (?P<ram>\d+) bytes$", re.MULTILINE)


def measure() -> Iterator[Result]:
    yield from _codec_figures()
    for samples, at_most in ((1, 26), (8, 54)):
        size = len(frame_of(_record(1000, samples), session=7, seq=3).to_bytes())
        yield Figure(name=f"link, {samples} readings in a frame", value=size, unit="bytes", at_most=at_most)
    yield from measure_with(NEEDS["link"], (LIBRARY_CODE, LIBRARY_RAM), _library_figures)


def _codec_figures() -> Iterator[Figure]:
    records = [_record(number, SAMPLES) for number in range(FRAMES)]
    wire = b"".join(frame_of(record, session=7, seq=record.rseq % 256).to_bytes() for record in records)
    seconds = cpu_seconds_per_call(
        {
            "our decode": lambda: [message_in(frame) for frame in LinkDecoder().feed(wire)],  # type: ignore[arg-type]
            "floor decode": lambda: [_floor_decode(part) for part in wire.split(b"\0") if part],
            "our encode": lambda: [frame_of(record, session=7).to_bytes() for record in records],
            "floor encode": lambda: [_floor_encode(record) for record in records],
            "session": _session_run(),
        }
    )
    readings = FRAMES * SAMPLES
    for what, at_least in (("decode", 0.08), ("encode", 0.3)):
        yield Figure(
            name=f"link {what}, × the floor of cobs and cbor2",
            value=seconds[f"floor {what}"] / seconds[f"our {what}"],
            unit="×",
            at_least=at_least,
            note=f"{readings / seconds[f'our {what}']:,.0f} readings/s, 8 in a frame; every field is checked",
        )
    yield Figure(
        name="link, bytes to committed readings through a session, × decoding alone",
        value=seconds["session"] / seconds["our decode"],
        unit="×",
        at_most=4,
        note=f"{readings / seconds['session']:,.0f} readings/s; a line of 115,200 baud carries {LINE_READINGS:,}",
    )


def _record(rseq: int, samples: int) -> Record:
    return Record(rseq=rseq, uptime_ms=123_456, samples=tuple(Sample(at % len(SENSORS), 2150) for at in range(samples)))


def _floor_decode(part: bytes) -> Any:
    body = cobs.decode(part)
    if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
        raise ValueError("CRC")
    return cbor2.loads(body[4:-4])


def _floor_encode(record: Record) -> bytes:
    flat = [item for sample in record.samples for item in sample]
    body = b"\x45\x00\x07\x00" + cbor2.dumps([record.rseq, record.uptime_ms, *flat])
    stuffed: bytes = cobs.encode(body + zlib.crc32(body).to_bytes(4, "little"))
    return b"\0" + stuffed + b"\0"


def _session_run() -> Callable[[], object]:
    """Feed the next records to an open session, and commit what it delivers."""
    session = _open_session()
    chunks = iter([_chunk(session.number, at * FRAMES) for at in range(MAX_CHUNKS)])
    now = Moment(1000.0, 1_700_000_000_000)

    def run() -> None:
        tokens = [each.token for each in session.receive(next(chunks), now) if isinstance(each, Measured)]
        if len(tokens) != FRAMES * SAMPLES:
            raise RuntimeError(f"{len(tokens)} readings of {FRAMES * SAMPLES}")
        session.commit(tokens, now.steady_ms)
        session.take_output()

    return run


def _open_session() -> HostSession:
    session, device = HostSession(baudrate=115_200), ModelDevice()
    for step in range(MAX_STEPS):
        now_ms = step * 10.0
        session.tick(Moment(now_ms, 0))
        device.receive(session.take_output(), now_ms)
        session.receive(device.take_output(), Moment(now_ms, 0))
        if session.is_open:
            return session
    raise RuntimeError(f"no session: {session.problem}")


def _chunk(session: int, first: int) -> bytes:
    numbers = range(first, first + FRAMES)
    return b"".join(frame_of(_record(at, SAMPLES), session=session, seq=at % 256).to_bytes() for at in numbers)


def _library_figures() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["make", "--silent", "-C", str(LIBRARY), "size", f"BUILD={folder}"],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        reason = f"the library does not build: {done.stderr.strip()[-300:]}"
        yield from (NotTaken(name=name, reason=reason, is_fault=True) for name in (LIBRARY_CODE, LIBRARY_RAM))
        return
    sizes = {match["name"]: (int(match["code"]), int(match["ram"])) for match in SIZE_LINE.finditer(done.stdout)}
    code, ram = sizes["base"]
    others = "; ".join(f"{name}: {sizes[name][0]} and {sizes[name][1]}" for name in sizes if name != "base")
    yield Figure(name=LIBRARY_CODE, value=code, unit="bytes", at_most=MAX_CODE_BYTES)
    yield Figure(name=LIBRARY_RAM, value=ram, unit="bytes", at_most=MAX_RAM_BYTES, note=others)
