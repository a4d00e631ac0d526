"""The worked example of docs/wire-formats.md is what the code writes."""

import re
from pathlib import Path

from protocol.link import Ack, Authenticator, Direction, Record, Sample, derive_session_key, frame_of

CHAPTER = (Path(__file__).parents[4] / "docs" / "wire-formats.md").read_text(encoding="utf-8").split("## 10. ")[-1]
EXAMPLE = CHAPTER.split("### Worked example\n")[1].split("\n### ")[0]
READING = frame_of(Record(rseq=1000, uptime_ms=123_456, samples=(Sample(0, 2150),)), session=7, seq=3)


def test_the_reading_of_the_document() -> None:
    written = re.findall(r"^    ((?:[0-9a-f]{2} )*[0-9a-f]{2})\b", EXAMPLE, re.MULTILINE)
    assert bytes.fromhex(" ".join(written)) == READING.to_bytes()
    assert f"{len(READING.to_bytes())} bytes on the wire" in EXAMPLE


def test_the_other_figures_of_the_document() -> None:
    eight = Record(rseq=1000, uptime_ms=123_456, samples=tuple(Sample(at, 2000 + at) for at in range(8)))
    assert f"one record make {len(frame_of(eight, session=7, seq=3).to_bytes())} bytes" in EXAMPLE
    prose = " ".join(EXAMPLE.split())
    assert frame_of(Ack(committed_rseq=1001), session=7, seq=4).to_bytes().hex(" ") in prose
    key = derive_session_key(
        bytes(range(32)), host_nonce=bytes(range(0xA0, 0xA8)), boot_id=bytes(range(0xB0, 0xB8)), syncs=1
    )
    assert f"{key.hex()[:8]}…{key.hex()[-8:]}" in prose
    proved = Authenticator(key, sends=Direction.TO_HOST).prove(READING)
    assert proved.proof is not None
    assert (proved.proof.counter.to_bytes(4, "little") + proved.proof.tag).hex(" ") in prose
    assert f"has {len(proved.to_bytes())} bytes" in prose
