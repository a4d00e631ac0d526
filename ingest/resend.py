"""Lists the gaps of the chains, and composes resend requests for the missing messages."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.account import ChainName
from ingest.query import ask
from ingest.small_tables import OPEN
from ingest.store import files_of, files_of_all
from protocol.shown_text import printable, utc_text


def read_gaps(tables: Path, *, also_closed: bool = False) -> list[dict[str, Any]]:
    rows = ask(
        tables, lambda: [row for path in files_of_all(tables)["gaps"] for row in pq.read_table(path).to_pylist()]
    )
    return [row for row in rows if also_closed or row["state"] == OPEN]


def describe_gaps(gaps: list[dict[str, Any]]) -> list[str]:
    """One line per gap."""
    return [printable(_describe(gap)) for gap in gaps] or ["no gaps"]


def _describe(gap: dict[str, Any]) -> str:
    if gap["log"] is not None:
        places = f"positions {gap['first_position']} to {gap['next_position'] - 1}"
        return (
            f"{gap['device']} log {gap['log']} lane {gap['lane']}: {gap['missing']} missing, {places}: {gap['cause']}"
        )
    after = "the beginning" if gap["after_timestamp_ms"] is None else utc_text(gap["after_timestamp_ms"])
    missing = "an unknown number" if gap["missing"] is None else str(gap["missing"])
    causes = [gap["cause"]] if gap["cause"] else []
    causes += [f"{gap['held']} in quarantine"] if gap["held"] else []
    why = "; ".join(causes) or "unexplained"
    span = f"{after} to {utc_text(gap['before_timestamp_ms'])}"
    return f"{gap['device']} {gap['chain']}: {missing} missing, {span}: {why} ({gap['state']})"


def resend_requests(tables: Path, gaps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One per open gap: the range of the stream, both ends included, whose messages would fill it.

    Without those of chains of which the table has no message any more: nobody knows their streams.
    """
    in_chains = [gap for gap in gaps if gap["state"] == OPEN and gap["log"] is None]
    streams = _streams(tables, {ChainName(gap["device"], gap["chain"]) for gap in in_chains})
    named = ((gap, streams.get(ChainName(gap["device"], gap["chain"]))) for gap in in_chains)
    return [_request(gap, *stream) for gap, stream in named if stream is not None]


def _streams(tables: Path, names: set[ChainName]) -> dict[ChainName, tuple[str, int, str]]:
    """Stream, partition and message chain of each of these chains, from the first file that has a message of it."""
    found: dict[ChainName, tuple[str, int, str]] = {}
    columns = ["device", "chain", "stream_id", "stream_partition", "msg_chain_id"]
    for path in files_of(tables, "messages"):
        if names <= found.keys():
            break
        rows = pq.ParquetFile(path).read(columns=columns).group_by(columns).aggregate([])
        for row in rows.to_pylist():
            found.setdefault(ChainName(row["device"], row["chain"]), tuple(row[name] for name in columns[2:]))
    return found


def _request(gap: dict[str, Any], stream_id: str, partition: int, msg_chain_id: str) -> dict[str, Any]:
    """What a resend of a range asks for. Where nothing before the gap is known, it begins at 0."""
    starts = gap["after_timestamp_ms"] is not None
    return {
        "streamId": stream_id,
        "streamPartition": partition,
        "publisherId": gap["device"],
        "msgChainId": msg_chain_id,
        "fromMsgRef": {
            "timestamp": gap["after_timestamp_ms"] if starts else 0,
            "sequenceNumber": gap["after_sequence"] + 1 if starts else 0,
        },
        "toMsgRef": {"timestamp": gap["last_timestamp_ms"], "sequenceNumber": gap["last_sequence"]},
    }
