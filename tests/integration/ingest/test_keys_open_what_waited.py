"""A group key that comes later opens what came earlier, whether a message hands it over or the operator gives it."""

import hashlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.job import JobSettings, run_job
from ingest.progress import Progress
from protocol.streamr.group_keys.group_key import GroupKey
from testbed.corpus.archives import Archive, Device, noise
from tests.support.corpus_scenario import START_MS, land
from tests.support.corpus_truth import Landed, Truth
from tests.support.lake_tables import assert_tables_are_true, read_all, read_parquet

pytestmark = pytest.mark.slow

KEYS = [GroupKey(f"key-{number}", noise("rotating", number)) for number in range(4)]
DEVICE = Device(21)


def rotating_archives() -> list[Landed]:
    """Four archives of one chain over two days: each begins with the key that the previous one delivered."""
    DEVICE.positions = 0
    chain = DEVICE.chain("secret", sensor="vault", key=KEYS[0])
    landed = []
    for number in range(4):
        start_ms = START_MS + number * 43_200_000
        made = [chain.reading(float(each), start_ms + each * 1000) for each in range(3)]
        made.append(chain.pack([3.0, 3.5, 4.0], start_ms + 3000))
        if number + 1 < len(KEYS):
            made.append(chain.reading(0.5, start_ms + 5000, next_key=KEYS[number + 1]))
        archive = Archive(DEVICE, start_ms).add(made)
        data = archive.to_bytes()
        landed.append(Landed(f"archive-{number}", data, hashlib.sha256(data).hexdigest(), archive.filed, archive))
    return landed


def ingest(spark: SparkSession, folder: Path, *keys: GroupKey) -> None:
    given = {f"{DEVICE.address}/secret": {key.group_key_id: key for key in keys}}
    decode = DecodeSettings(group_keys=given)
    job = JobSettings(landing=folder / "landing", tables=folder / "tables", decode=decode, batch_archives=2)
    run_job(spark, job, Progress(quiet=True))


def states(folder: Path) -> list[str]:
    rows = read_parquet(folder / "tables", "messages")
    return [row["content_state"] for row in sorted(rows, key=lambda row: row["timestamp_ms"])]


def test_archives_that_wait_are_opened_when_their_keys_come(spark: SparkSession, tmp_path: Path) -> None:
    landed = rotating_archives()
    land(tmp_path / "landing", landed[1:3])
    ingest(spark, tmp_path)
    assert set(states(tmp_path)) == {"locked"}
    before = read_all(tmp_path / "tables")["ledger"]
    assert before[0]["balanced"]
    land(tmp_path / "landing", landed[:1], at_s=START_MS // 1000 - 100)
    ingest(spark, tmp_path, KEYS[0])  # the first archive delivers the key of the second, and that of the third
    assert set(states(tmp_path)) == {"decrypted"}
    land(tmp_path / "landing", landed[3:], at_s=START_MS // 1000 + 100)
    ingest(spark, tmp_path)  # without the operator's key: a message delivered this one in an earlier run
    tables = read_all(tmp_path / "tables")
    opened = [row for row in tables["archives"] if row["verdict"] == "unlocked"]
    tables["archives"] = [row for row in tables["archives"] if row["verdict"] != "unlocked"]
    assert {row["path"] for row in opened} == {"archive-1.hga", "archive-2.hga"}
    assert_tables_are_true({**tables, "gaps": []}, Truth(landed), [])
    ingest(spark, tmp_path)
    again = read_all(tmp_path / "tables")
    assert again["messages"] == tables["messages"]
    assert len(again["archives"]) == len(tables["archives"]) + len(opened)
