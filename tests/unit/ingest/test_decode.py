import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nacl.signing import SigningKey
from pyspark.sql import SparkSession

from ingest.account import Account
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.decode import decode_archives
from ingest.job import FILES
from ingest.summary import ArchiveSummary
from protocol.archive.encryption import is_encrypted
from protocol.archive.layout import SIGNATURE, FrameKind, bytes_to_sign, encode_frame
from protocol.archive.manifest import Manifest
from protocol.archive.random_access import open_archive
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message.signing import sign_message
from testbed.corpus.archives import Archive, Device, noise
from tests.support.corpus_scenario import DECRYPTION_KEY, DEVICES, GROUP_KEYS, ONE, TWO, everything
from tests.support.device_logs import make_receipt

AS_JSON = Device(9).chain("json", as_json=True, linked=False).reading(1.0, 1_790_000_000_001).message.content
SETTINGS = DecodeSettings(devices=DEVICES, group_keys=GROUP_KEYS, decryption_key=bytes(DECRYPTION_KEY))


def rows_of(name: str, data: bytes, settings: DecodeSettings = SETTINGS) -> list[dict[str, Any]]:
    """Messages first, the summary last."""
    messages: list[dict[str, Any]] = []

    def take(batch: pa.RecordBatch) -> None:
        messages.extend({"kind": "message", **row} for row in batch.to_pylist())

    batches = list(decode_archive(f"file:/landing/{name}.hga", data, 1_767_225_600_000, settings, take))
    messages.sort(key=lambda row: (row["record"], row["reading"]))
    return [*messages, *(row for batch in batches for row in batch.to_pylist())]


def summary_of(rows: list[dict[str, Any]]) -> ArchiveSummary:
    return ArchiveSummary.from_json(rows[-1]["summary"])


def test_every_record_of_the_corpus_is_a_message_or_in_quarantine_with_its_reason_and_bytes() -> None:
    for landed in everything()[1].landed:
        rows = rows_of(landed.name, landed.data)
        assert [row["kind"] for row in rows].count("summary") == 1
        rejected = {row["record"]: row for row in rows if row["kind"] == "quarantine"}
        if landed.rejected is not None:
            assert [row["reason"] for row in rejected.values()] == [landed.rejected]
            continue
        for number, filed in enumerate(landed.filed):
            if filed.reason not in (None, "block damaged"):
                assert rejected[number]["reason"] == filed.reason
                assert rejected[number]["bytes"] == filed.record.text
                assert rejected[number]["offset"] > 0
        kept = {row["record"] for row in rows if row["kind"] == "message"}
        assert kept == {number for number, filed in enumerate(landed.filed) if filed.reason is None}


def test_an_archive_that_is_known_is_not_decoded_again() -> None:
    landed = everything()[0].landed[0]
    known = DecodeSettings(known={landed.digest: "verified"})
    rows = rows_of(landed.name, landed.data, known)
    assert [row["kind"] for row in rows] == ["summary"]
    assert summary_of(rows).verdict == "known"


def test_an_archive_that_could_not_be_opened_is_tried_again_with_other_settings() -> None:
    encrypted = next(landed for landed in everything()[0].landed if is_encrypted(landed.data) and landed.filed)
    without_key = rows_of(encrypted.name, encrypted.data, DecodeSettings())
    failed = summary_of(without_key)
    assert failed.verdict == "archive encrypted"
    known = {failed.archive: failed.verdict}
    assert [row["kind"] for row in rows_of(encrypted.name, encrypted.data, DecodeSettings(known=known))] == ["summary"]
    with_key = DecodeSettings(known=known, group_keys=GROUP_KEYS, decryption_key=bytes(DECRYPTION_KEY))
    assert len(rows_of(encrypted.name, encrypted.data, with_key)) > 30


def test_a_link_that_does_not_go_on_is_marked_and_counted() -> None:
    device = Device(9)
    chain = device.chain("boiler")
    made = [chain.reading(1.0, 1_790_000_000_000 + number, broken_link=number == 2) for number in range(4)]
    rows = rows_of("x", Archive(device, 0).add(made).to_bytes(), DecodeSettings())
    assert [row["link"] for row in rows[:-1]] == ["first", "linked", "forked", "linked"]
    assert summary_of(rows).chains["boiler"].forked == 1


@pytest.mark.parametrize("count", [3, 60])
def test_an_arrival_beyond_the_calendar_is_null_and_stops_no_reader(count: int) -> None:
    device = Device(9)
    chain = device.chain("boiler")
    archive = Archive(device, 0).add([chain.reading(1.0, 1_790_000_000_000 + number) for number in range(count)])
    last = archive.filed[-1]
    archive.filed[-1] = replace(last, record=last.record._replace(arrived_at_ms=2**53 - 1))
    rows = rows_of("x", archive.to_bytes(), DecodeSettings())
    assert [row["arrived_at"] is None for row in rows[:-1]] == [False] * (count - 1) + [True]
    forged = Archive(device, 0)
    forged.filed = [replace(last, record=last.record._replace(arrived_at_ms=2**53 - 1, text=b"nonsense"))]
    [quarantined, _] = rows_of("x", forged.to_bytes(), DecodeSettings())
    assert quarantined["arrived_at"] is None


def give_receipt(folder: Path, device: Device, file: bytes) -> None:
    key = SigningKey(noise("collector"))
    receipt = make_receipt(
        archive=hashlib.sha256(file).digest(), size_bytes=len(file), device=bytes.fromhex(device.address[2:]), key=key
    )
    path = folder / device.address[2:] / f"{hashlib.sha256(file).hexdigest()}.receipt"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(receipt.to_bytes())


def test_a_encrypted_archive_that_only_another_device_uploaded_is_refused(tmp_path: Path) -> None:
    encrypted = next(landed for landed in everything()[0].landed if is_encrypted(landed.data) and landed.filed)
    settings = replace(SETTINGS, receipts=tmp_path)
    assert (
        summary_of(rows_of(encrypted.name, encrypted.data, settings)).verdict == "verified"
    )  # no device has a receipt
    give_receipt(tmp_path, ONE, encrypted.data)
    rows = rows_of(encrypted.name, encrypted.data, settings)
    assert [row["reason"] for row in rows if row["kind"] == "quarantine"] == ["device mismatch"]
    assert f"of {TWO.address}, uploaded by {ONE.address}" in rows[0]["detail"]
    known = {summary_of(rows).archive: "device mismatch"}
    give_receipt(tmp_path, TWO, encrypted.data)
    again = rows_of(encrypted.name, encrypted.data, replace(settings, known=known))
    assert summary_of(again).verdict == "verified"


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda message: message.replace(message_id=message.message_id._replace(stream_partition=2**40)),
        lambda message: message.replace(content=AS_JSON.replace("boiler", "half \\ud800")),
    ],
)
def test_signed_nonsense_does_not_stop_the_rest_of_its_archive(nonsense: Any) -> None:
    device = Device(9)
    honest, odd = (device.chain(name).reading(1.0, 1_790_000_000_000) for name in ("boiler", "odd"))
    archive = Archive(device, 0).add([honest])
    archive.file(odd, text=sign_message(nonsense(odd.message), device.signer).serialize().encode())
    rows = rows_of("x", archive.to_bytes(), DecodeSettings())
    assert [row["kind"] for row in rows] == ["message", "quarantine", "summary"]


def with_another_manifest(archive: Archive, change: Callable[[Manifest], Manifest]) -> bytes:
    """The archive's own blocks under a manifest that its device signed and that says something else."""
    data, key = archive.to_bytes(), archive.device.archive_key
    opened = open_archive(lambda offset, count: data[offset : offset + count], len(data))
    start = opened.manifest.blocks[-1].offset + opened.manifest.blocks[-1].frame_bytes
    manifest = change(opened.manifest).to_bytes()
    signature = SIGNATURE.pack(start, key.sign(bytes_to_sign(manifest)).signature)
    end = encode_frame(FrameKind.MANIFEST, manifest) + encode_frame(FrameKind.SIGNATURE, signature)
    return data[:start] + end


def test_a_chain_that_the_manifest_does_not_name_stops_nothing_and_does_not_balance() -> None:
    device = Device(9)
    made = [device.chain(name).reading(1.0, 1_790_000_000_000) for name in ("boiler", "pump")]
    archive = Archive(device, 0).add(made)
    archive.file(made[1], text=b"nonsense")

    def rename(manifest: Manifest) -> Manifest:
        first, second = manifest.chains
        return replace(manifest, chains=(first, second._replace(chain="another")))

    rows = rows_of("x", with_another_manifest(archive, rename), DecodeSettings())
    assert [row["kind"] for row in rows] == ["message", "message", "quarantine", "summary"]
    account = Account()
    account.add([summary_of(rows)], {})
    assert {row["chain"]: row["balanced"] for row in account.ledger()} == {
        "boiler": True, "pump": False, "another": False,
    }  # fmt: skip


def test_a_locked_message_of_a_time_out_of_range_does_not_wait_for_its_key() -> None:
    chain = Device(9).chain("boiler", key=GroupKey("k", noise("key")), readable=False)
    made = [chain.reading(1.0, at_ms) for at_ms in (1_790_000_000_000, 4_200_000_000_000)]
    rows = rows_of("x", Archive(chain.device, 0).add(made).to_bytes(), DecodeSettings())
    assert [row["reason"] for row in rows if row["kind"] == "quarantine"] == ["time out of range"]
    locked = summary_of(rows).locked
    assert locked is not None
    assert (locked.first_ms, locked.last_ms) == (1_790_000_000_000, 1_790_000_000_000)


def test_an_archive_of_a_format_of_tomorrow_is_tried_again_by_the_release_that_knows_it() -> None:
    landed = everything()[0].landed[0]
    known = DecodeSettings(known={landed.digest: "archive unsupported"})
    assert summary_of(rows_of(landed.name, landed.data, known)).verdict == "verified"


def test_every_prefix_of_an_archive_is_quarantined_and_nothing_raises() -> None:
    device = Device(9)
    data = Archive(device, 0).add([device.chain("c").reading(1.0, 1_790_000_000_000)]).to_bytes()
    for end in range(0, len(data), 7):
        rows = rows_of("x", data[:end], DecodeSettings())
        assert [row["kind"] for row in rows] == ["quarantine", "summary"]


@pytest.mark.slow
def test_the_step_gives_the_same_rows_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    first, _ = everything()
    landing, decoded_into = tmp_path / "landing", tmp_path / "decoded"
    landing.mkdir()
    for each in first.landed:
        (landing / f"{each.name}.hga").write_bytes(each.data)
    files = spark.read.format("binaryFile").schema(FILES).load(str(landing))
    decoded = decode_archives(files, SETTINGS, decoded_into).collect()
    expected = [row for each in first.landed for row in rows_of(each.name, each.data)]
    written = [pq.ParquetFile(row.file).read() for row in decoded if row.kind == "file"]
    found = Counter(row.kind for row in decoded if row.kind != "file") + Counter(message=sum(map(len, written)))
    assert found == Counter(row["kind"] for row in expected)
    assert {Path(row.file) for row in decoded if row.kind == "file"} == set(tmp_path.rglob("*.parquet"))
    hashes = {value for table in written for value in table["hash"].to_pylist()}
    assert hashes == {row["hash"] for row in expected if row["kind"] == "message"}
