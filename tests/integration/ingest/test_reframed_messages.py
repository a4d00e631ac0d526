"""A device's messages, their signed text cut into other fields and archived with its own key: each is ingested once."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.job import JobSettings, run_job
from ingest.progress import Progress
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message.signing import signed_digest, verify
from testbed.corpus.archives import Archive, Chain, Device, Made
from tests.support.lake_tables import read_parquet
from tests.support.reframing import moved_before_publisher

pytestmark = pytest.mark.slow

AT_MS = 1_794_950_000_000  # without its first two digits, a time after 2000
READINGS = 13  # of the same time, so that the last sequence numbers have two digits
DEVICE = Device(7)
CHAINS = [
    DEVICE.chain("plant7"),
    DEVICE.chain("json7", as_json=True),
    DEVICE.chain("unlinked7", linked=False),
    DEVICE.chain("locked7", key=GroupKey("unknown", b"\x11" * 32), readable=False),
]
PACKED = DEVICE.chain("packed7")
TRUE = [
    *(chain.reading(number * 0.5, AT_MS) for chain in CHAINS for number in range(READINGS)),
    *(PACKED.pack([number * 0.5] * 3, AT_MS, step_ms=60_000) for number in range(READINGS)),
]
MAX_PARTITION = 99  # a stream has no more
MAX_SEQUENCE = 2**32 - 1  # an archive holds no higher one


def reframed(made: Made) -> Iterable[Made]:
    """The cuts of a message under other identities, each filed under the name that its chain would have."""
    for cut in moved_before_publisher(made.message):
        stream_id, partition, _, sequence, *_ = cut.message_id
        is_other = (stream_id, partition) != made.message.message_id[:2]
        if is_other and partition <= MAX_PARTITION and sequence <= MAX_SEQUENCE:
            assert verify(cut)
            yield replace(made, message=cut, chain=Chain(DEVICE, f"{stream_id}#{partition}"))


FORGED = [cut for made in TRUE for cut in reframed(made)]
AT_THE_SAME_TIME = [made for made in FORGED if made.message.message_id.timestamp == AT_MS]


@pytest.mark.parametrize(
    "runs",
    [[[TRUE, FORGED]], [[TRUE], [FORGED]], [[FORGED], [TRUE]]],
    ids=["in one batch", "in a later run", "in an earlier run"],
)
def test_a_signed_text_is_one_message_whatever_fields_it_is_cut_into(
    spark: SparkSession, tmp_path: Path, runs: list[list[list[Made]]]
) -> None:
    job = JobSettings(landing=tmp_path / "landing", tables=tmp_path / "tables", decode=DecodeSettings())
    job.landing.mkdir()
    for number, archives in enumerate(runs):
        for index, messages in enumerate(archives):
            data = Archive(DEVICE, AT_MS).add(messages).to_bytes()
            (job.landing / f"{number}-{index}.hga").write_bytes(data)
        run_job(spark, job, Progress(quiet=True))
    rows = read_parquet(job.tables, "messages")
    true_digests = [signed_digest(made.message) for made in TRUE for _ in made.readings]
    assert sorted(row["signed_digest"] for row in rows) == sorted(true_digests)
    ledger = read_parquet(job.tables, "ledger")
    assert {row["reason"] for row in read_parquet(job.tables, "quarantine")} == {"time out of range"}
    assert sum(row["duplicate"] for row in ledger) == sum(len(made.readings) for made in AT_THE_SAME_TIME)
    assert len(AT_THE_SAME_TIME) > len(TRUE)
    if runs[0] == [TRUE]:
        true_chains = {chain.name for chain in [*CHAINS, PACKED]}
        assert {row["chain"] for row in rows} == true_chains
        assert all(row["balanced"] for row in ledger if row["chain"] in true_chains)
