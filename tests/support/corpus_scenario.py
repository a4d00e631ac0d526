"""A corpus in which everything happens that the ingest must stand: in two deliveries, the second a month later.

| device | what it does |
|---|---|
| 1 | readings every 10 s over three days; loses some and says so; some of its records are tampered with on the way |
| 2 | an encrypted stream that rotates its key, one without a key here, a JSON stream, raw payloads; archive encrypted |
| 3 | starts without knowing the time and learns it later, in the second delivery for its second start |
| 4 | is not on the list of devices |
| 1 to 3 | packs: lost, late, repeated, tampered with, encrypted, in JSON, of events, some readings of an unknown time |
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nacl.public import PrivateKey

from protocol.archive.encryption import Encryptor, derive_encryption_keys
from protocol.archive.random_access import open_archive
from protocol.clock import MEDIA_TYPE, ClockContext, ClockCorrection
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.losses import Loss
from protocol.reference import Reference
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import SignatureType, StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from testbed.corpus.archives import Archive, Chain, Device, Made, noise, raw_draft
from tests.support.corpus_truth import Landed, Truth

__all__ = ["DECRYPTION_KEY", "DEVICES", "GROUP_KEYS", "everything", "land"]

START_MS = 1_790_000_000_000  # 2026-09-21 13:33:20
DAY_MS = 86_400_000
STEP_MS = 10_000

ONE, TWO, THREE, UNKNOWN = (Device(number) for number in range(1, 5))
DEVICES = frozenset(device.address for device in (ONE, TWO, THREE))
FIRST_KEY = GroupKey("key-1", noise("group key", 1))
NEXT_KEY = GroupKey("key-2", noise("group key", 2))
OTHER_KEY = GroupKey("key-x", noise("group key", 3))
DECRYPTION_KEY = PrivateKey(noise("sealing key"))
GROUP_KEYS = {f"{TWO.address}/encrypted": {FIRST_KEY.group_key_id: FIRST_KEY}}


def everything() -> tuple[Truth, Truth]:
    """The first delivery, and both together."""
    for device in (ONE, TWO, THREE, UNKNOWN):
        device.positions = 0
        device.chains.clear()
    first, second = Truth([]), Truth([])
    _honest_and_lossy(first, second)
    _encrypted_and_raw(first, second)
    _without_a_clock(first, second)
    _packs(first, second)
    _packs_of_events(first, second)
    _tampered(first)
    _broken_archives(first)
    both = Truth(first.landed + second.landed, first.notices + second.notices, first.corrections | second.corrections)
    return first, both


def land(folder: Path, landed: Iterable[Landed], *, at_s: int = START_MS // 1000) -> None:
    """Put files into a landing area as the collector would: whole, and one second after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(landed):
        path = folder / f"{file.name}.hga"
        hidden = path.with_name(f".{path.name}")
        hidden.write_bytes(file.data)
        os.utime(hidden, (at_s + number, at_s + number))
        hidden.rename(path)


def readings(chain: Chain, count: int, start_ms: int, *, step_ms: int = STEP_MS) -> list[Made]:
    offset = len(chain.produced)
    return [chain.reading(((offset + each) % 97) * 0.25, start_ms + each * step_ms) for each in range(count)]


def _land(truth: Truth, archive: Archive, *, encrypt_for: PrivateKey | None = None) -> Landed:
    data = archive.to_bytes()
    digest = hashlib.sha256(data).hexdigest()
    file = data if encrypt_for is None else _encrypted(data, encrypt_for)
    landed = Landed(hashlib.sha256(file).hexdigest(), file, digest, archive.filed, archive)
    truth.landed.append(landed)
    return landed


def _encrypted(data: bytes, recipient: PrivateKey) -> bytes:
    keys = derive_encryption_keys(noise("device secret"), hashlib.sha256(data).digest(), recipient.public_key)
    encryptor = Encryptor(keys, recipient.public_key)
    return encryptor.begin() + encryptor.update(data) + encryptor.finish()


def _reject(truth: Truth, name: str, data: bytes, reason: str, digest: str | None = None) -> None:
    own = hashlib.sha256(data).hexdigest()
    truth.landed.append(Landed(name or own, data, digest or own, rejected=reason))


def _honest_and_lossy(first: Truth, second: Truth) -> None:
    boiler = ONE.chain("boiler")
    made = readings(boiler, 120, START_MS, step_ms=DAY_MS // 50)
    pump = readings(ONE.chain("pump", sensor="pump", quantity="pressure", unit="bar"), 60, START_MS)
    _land(first, Archive(ONE, START_MS + DAY_MS).add([*made[:40], *pump[:30]]))
    # 40 to 44 are lost, as the manifest says; 60 to 69 come a month late; 80 and 81 are lost without a word
    lossy = Archive(ONE, START_MS + 2 * DAY_MS).add([*made[45:60], *made[70:80], *made[82:]])
    lossy.lose(made[40:45], 1, "shed")
    _land(first, lossy)
    _land(second, Archive(ONE, START_MS + 30 * DAY_MS).add(made[60:70]))
    # the same records in another archive, some of them new, one of them twice
    again = Archive(ONE, START_MS + 3 * DAY_MS).add([*pump[20:30], *pump[30:50], pump[45]])
    _land(first, again)
    replay = first.landed[0]
    first.landed.append(replace(replay, name=f"copy-of-{replay.name[:8]}"))
    second.landed.append(replace(replay, name=f"late-copy-of-{replay.name[:8]}"))
    # 50 to 54 of the pump are lost, as a signed message of another chain says
    loss = Loss(
        number=2,
        lane=0,
        chain="pump",
        first_position=50,
        last_position=54,
        count=5,
        first=Reference(*pump[50].ref),
        last=Reference(*pump[54].ref),
        cause="thinned",
    )
    notice = GapNotice(journal=ONE.journal, loss=loss)
    status = ONE.chain("status", sensor="gateway", quantity="status")
    _land(first, Archive(ONE, START_MS + 3 * DAY_MS).add([*pump[55:], status.notice(notice, START_MS + 3 * DAY_MS)]))
    first.notices.append((ONE.address, notice))


def _encrypted_and_raw(first: Truth, second: Truth) -> None:
    encrypted = TWO.chain("encrypted", key=FIRST_KEY)
    made = [
        encrypted.reading(20.5, START_MS),
        encrypted.reading(21, START_MS + 1000, next_key=NEXT_KEY),
        encrypted.reading(True, START_MS + 2000),
        encrypted.reading("open", START_MS + 3000),
    ]
    locked = TWO.chain("locked", key=OTHER_KEY, readable=False, linked=False)
    secret = [*(locked.reading(1.0, START_MS + each) for each in range(3)), locked.pack([1.0, 2.0], START_MS + 3)]
    # a second, later archive of the locked chain: a hole of which only the references tell
    hole = [locked.reading(1.0, START_MS + 60_000 + each) for each in range(4)]
    text = TWO.chain("text", as_json=True, quantity="humidity", unit="%", sensor="cellar")
    raw = TWO.chain("gps", sensor="gps")
    plain = [*readings(text, 25, START_MS), raw.payload("position", "text/plain", b"$GPGGA,1*00\r\n", START_MS)]
    unlinked = readings(TWO.chain("unlinked", linked=False, sensor="legacy"), 5, START_MS)
    packs = [
        encrypted.pack([1.5, 2, "shut"], START_MS + 4000),
        text.pack([55.0, 56.5], START_MS + DAY_MS),
        unlinked[0].chain.pack([1.0, 2.0, 3.0], START_MS + DAY_MS),
    ]
    together = Archive(TWO, START_MS + DAY_MS).add([*made, *secret, *packs, *plain, *unlinked])
    _land(first, together, encrypt_for=DECRYPTION_KEY)
    _land(second, Archive(TWO, START_MS + 2 * DAY_MS).add(hole[2:]))


def _without_a_clock(first: Truth, second: Truth) -> None:
    chain = THREE.chain("attic", sensor="attic")
    for number, truth in enumerate((first, second)):
        boot = noise("boot", number)[:16]
        wrong_ms = 1_600_000_000_000 + number * 1_000_000 if number else 500_000  # fake clocks: 2020, and 1970
        wrong_ms = max(wrong_ms, chain.produced[-1].ref[0] + 1 if chain.produced else 0)
        early = [
            chain.reading(
                5.0 + each,
                wrong_ms + each * 1000,
                context=ClockContext(boot_id=boot, monotonic_ms=10_000 + each * 1000, is_synchronised=False),
            )
            for each in range(6)
        ]
        correction = ClockCorrection(
            boot_id=boot, monotonic_ms=60_000, utc_ms=START_MS + number * DAY_MS, uncertainty_ms=5
        )
        reported = chain.correction(correction, START_MS + number * DAY_MS + 1)
        known = [
            chain.reading(
                30.0,
                START_MS + number * DAY_MS + 2,
                context=ClockContext(boot_id=boot, monotonic_ms=60_002, is_synchronised=True),
            )
        ]
        if number == 0:
            _land(first, Archive(THREE, START_MS).add(early[:3]))
            _land(first, Archive(THREE, START_MS + 1).add([*early[3:], reported, *known]))
            truth.corrections[boot.hex()] = correction
        else:
            # made in the first delivery, corrected in the second, which also brings one of them again
            _land(first, Archive(THREE, START_MS + 2).add(early))
            _land(second, Archive(THREE, START_MS + DAY_MS).add([early[2], reported, *known]))
            second.corrections[boot.hex()] = correction


def _packs(first: Truth, second: Truth) -> None:
    """Packs of one to seven readings of three sensors."""
    chain = ONE.chain("packed")
    made = [_mixed_pack(chain, 1 + number % 7, START_MS + number * STEP_MS) for number in range(40)]
    _land(first, Archive(ONE, START_MS).add(made[:10]))
    # 10 and 11 are lost, as the manifest says; 20 to 22 come a month late; 30 is lost without a word
    lossy = Archive(ONE, START_MS + 1).add([*made[12:20], *made[23:30], *made[31:]])
    lossy.lose(made[10:12], 11, "shed")
    _land(first, lossy)
    _land(second, Archive(ONE, START_MS + 30 * DAY_MS).add([*made[18:24], made[39]]))
    _land(first, Archive(ONE, START_MS + 2).add([made[5], *made[3:8]]))
    # an invalid reading costs the whole pack
    archive = Archive(ONE, START_MS + 3)
    for number, (reason, spoilt) in enumerate([("hash mismatch", "spoil_hash"), ("link broken", "broken_link")]):
        at_ms = START_MS + DAY_MS + number * STEP_MS
        archive.add([_mixed_pack(chain, 3, at_ms)])
        drafts = [chain.draft(0.5, at_ms + 1 + each, **{spoilt: each == 2}) for each in range(5)]
        archive.file(chain.send(drafts, at_ms + 10), reason=reason)
    _land(first, archive.add([_mixed_pack(chain, 3, START_MS + 2 * DAY_MS)]))


def _mixed_pack(chain: Chain, count: int, at_ms: int) -> Made:
    drafts = [chain.draft(each * 0.5, at_ms - count + each, sensor=f"part-{each % 3}") for each in range(count)]
    return chain.send(drafts, at_ms)


def _packs_of_events(first: Truth, second: Truth) -> None:
    """A loss in a pack; and packs of which some readings were made before the time was known."""
    chain = THREE.chain("packed events", sensor="cellar")
    counted = THREE.chain("counted", sensor="cellar")
    made = readings(counted, 5, START_MS)
    loss = Loss(
        number=31,
        lane=0,
        chain="counted",
        first_position=THREE.positions,
        last_position=THREE.positions,
        count=1,
        first=Reference(*made[2].ref),
        last=Reference(*made[2].ref),
        cause="shed",
    )
    notice = GapNotice(journal=THREE.journal, loss=loss)
    first.notices.append((THREE.address, notice))
    report = raw_draft(GAP_INFO_TYPE, MEDIA_TYPE, notice.to_bytes(), START_MS)
    packs = [chain.send([chain.draft(1.0, START_MS - 1), report, chain.draft(2.0, START_MS)], START_MS)]
    packs += [_pack_of_boot(chain, noise("boot", number)[:16], START_MS + 1 + number) for number in range(2)]
    _land(first, Archive(THREE, START_MS + 3).add([*made[:2], *made[3:], *packs]))
    _land(second, Archive(THREE, START_MS + DAY_MS + 1).add([packs[2]]))


def _pack_of_boot(chain: Chain, boot: bytes, at_ms: int) -> Made:
    """Four readings, of which the second and the third were made on another day, as a correction tells."""
    drafts = [
        chain.draft(float(each), at_ms, context=ClockContext(boot_id=boot, monotonic_ms=each, is_synchronised=False))
        if each in (1, 2)
        else chain.draft(float(each), at_ms)
        for each in range(4)
    ]
    return chain.send(drafts, at_ms)


def _tampered(truth: Truth) -> None:
    chain = ONE.chain("tampered", sensor="door")
    made = readings(chain, 20, START_MS)
    unknown = UNKNOWN.chain("foreign")
    archive = Archive(ONE, START_MS + DAY_MS)
    archive.add(made[:2])
    archive.file(made[2], text=_with_content(made[2].message, made[3].message.content), reason="signature forged")
    archive.file(made[3], text=b'[32,["x"]]', reason="not a stream message")
    archive.file(made[4], text=b"\xff\x00 noise", reason="not a stream message")
    archive.add(made[5:7])
    archive.file(made[7], text=_unsigned(made[7].message), reason="unsigned")
    archive.file(made[8], text=_with_signature(made[8].message, "0x1234"), reason="signature malformed")
    forged = sign_message(_by(made[9].message, UNKNOWN.address), UNKNOWN.signer)
    as_ours = _by(forged, ONE.address).serialize().encode()
    archive.file(made[9], text=as_ours, reason="signature forged")
    other = sign_message(_by(made[10].message, UNKNOWN.address), UNKNOWN.signer)
    archive.file(made[10], text=other.serialize().encode(), reason="foreign publisher")
    archive.add(made[11:13])
    archive.file(made[13], ref=(made[13].ref[0] + 1, 0), reason="misfiled")
    archive.add(made[14:])
    spoilt = chain.reading(1.0, START_MS + 300_000, spoil_hash=True)
    archive.file(spoilt, reason="hash mismatch")
    archive.add([chain.reading(2.0, START_MS + 310_000)])
    unreadable = chain.payload("temperature", "Cel/cbor", b"\xff", START_MS + 320_000)
    archive.file(unreadable, reason="content unreadable")
    out_of_range = chain.reading(3.0, 9_000_000_000_000)  # the year 2255
    archive.file(out_of_range, reason="time out of range")
    assert unknown.produced == []
    _land(truth, archive)


def _broken_archives(truth: Truth) -> None:
    chain = ONE.chain("damaged", sensor="window")
    made = readings(chain, 60, START_MS)
    archive = Archive(ONE, START_MS + DAY_MS, block_target_bytes=6000).add(made)
    data = bytearray(archive.to_bytes())
    block = open_archive(lambda offset, count: bytes(data[offset : offset + count]), len(data)).manifest.blocks[1]
    first_record = open_archive(lambda offset, count: bytes(data[offset : offset + count]), len(data)).block(1)
    data[block.offset + block.frame_bytes // 2] ^= 1
    numbers = range(first_record.first_record, first_record.first_record + block.records)
    archive.spoil(numbers, "block damaged")
    digest = hashlib.sha256(data).hexdigest()
    damaged = Landed(digest, bytes(data), digest, archive.filed, archive, damaged_blocks=[block])
    truth.landed.append(damaged)
    whole = Archive(ONE, START_MS).add(readings(ONE.chain("never", sensor="roof"), 3, START_MS)).to_bytes()
    _reject(truth, "", whole[: len(whole) // 2], "archive truncated")
    _reject(truth, "", b"not an archive at all", "archive corrupt")
    _reject(truth, "", b"HGARCH\x00\x09" + whole[8:], "archive unsupported")
    _reject(truth, "ab" * 32, whole + b"", "archive misnamed")
    _reject(truth, "", _forged_manifest(whole), "archive corrupt")
    other = _encrypted(whole + b"x", PrivateKey(noise("another collector")))
    _reject(truth, "", other, "archive encrypted")
    foreign = Archive(UNKNOWN, START_MS).add(readings(UNKNOWN.chain("foreign 2"), 3, START_MS)).to_bytes()
    _reject(truth, "", foreign, "device unknown")


def _forged_manifest(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _with_content(message: StreamMessage, content: str) -> bytes:
    return message.replace(content=content).serialize().encode()


def _with_signature(message: StreamMessage, signature: str) -> bytes:
    return message.replace(signature=signature).serialize().encode()


def _unsigned(message: StreamMessage) -> bytes:
    return message.replace(signature=None, signature_type=SignatureType.NONE).serialize().encode()


def _by(message: StreamMessage, publisher: str) -> StreamMessage:
    return message.replace(message_id=message.message_id._replace(publisher_id=publisher))
