"""The worked example of the document is what the code writes, and plain libraries find it true."""

import hashlib
import json
from pathlib import Path

import cbor2
from nacl.signing import SigningKey, VerifyKey

from protocol.devicelog.answer import HeartbeatAnswer, LogStatus, NumberRange
from protocol.devicelog.checkpoint import Checkpoint, LaneState
from protocol.devicelog.entry import LogEntry
from protocol.devicelog.log import LogHead

ROOT = Path(__file__).parents[4]
EXAMPLE = json.loads((ROOT / "tests" / "vectors" / "devicelog" / "example.json").read_text())
CHAPTER = (ROOT / "docs" / "wire-formats.md").read_text(encoding="utf-8").split("## 12. ")[-1]
ARCHIVE = bytes.fromhex(EXAMPLE["archive"])
CHECKPOINT, ANSWER = bytes.fromhex(EXAMPLE["checkpoint"]), bytes.fromhex(EXAMPLE["answer"])
HEAD = LogHead(log=bytes.fromhex(EXAMPLE["log"]))


def test_the_entry() -> None:
    entry = LogEntry.from_cbor(cbor2.loads(bytes.fromhex(EXAMPLE["entry"])))
    assert entry == HEAD.entry({0: 250})
    assert HEAD.append(entry, ARCHIVE).frontier.root == hashlib.sha256(b"\x00" + ARCHIVE).digest()
    assert EXAMPLE["root_after"][:8] in CHAPTER


def test_the_checkpoint() -> None:
    checkpoint = Checkpoint.from_bytes(CHECKPOINT)
    assert (checkpoint.size, checkpoint.last) == (1, ARCHIVE)
    assert checkpoint.root.hex() == EXAMPLE["root_after"]
    assert checkpoint.lanes == (LaneState(0, 0, 260, 250, 0, 3),)
    assert f"has {len(CHECKPOINT)} bytes" in CHAPTER
    values = cbor2.loads(CHECKPOINT)
    signature = values.pop("signature")
    signed = b"headgate checkpoint 1\n" + cbor2.dumps(values, canonical=True)
    assert values["archive_key"] == bytes(SigningKey(bytes.fromhex(EXAMPLE["archive_key_seed"])).verify_key)
    VerifyKey(values["archive_key"]).verify(signed, signature)


def test_the_answer() -> None:
    answer = HeartbeatAnswer.from_bytes(ANSWER)
    collector_key = bytes(SigningKey(bytes.fromhex(EXAMPLE["collector_key_seed"])).verify_key)
    assert answer.answers(checkpoint=hashlib.sha256(CHECKPOINT).digest(), log=HEAD.log, collector_key=collector_key)
    assert (answer.held_size, answer.missing, answer.status) == (0, (NumberRange(0, 1),), LogStatus.OK)
    assert f"yet has {len(ANSWER)} bytes" in CHAPTER
    values = cbor2.loads(ANSWER)
    signature = values.pop("signature")
    VerifyKey(collector_key).verify(b"headgate heartbeat answer 1\n" + cbor2.dumps(values, canonical=True), signature)


def test_the_bytes_in_the_document_are_those_of_the_example() -> None:
    assert bytes.fromhex("656c616e6573 81 84 00 00 00 18fa") in bytes.fromhex(EXAMPLE["entry"])
    assert bytes.fromhex("656c616e6573 81 86 00 00 190104 18fa 00 03") in CHECKPOINT
    assert bytes.fromhex("676d697373696e67 81 82 00 01") in ANSWER
