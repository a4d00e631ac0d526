"""Decode the records of one block: whole runs where a chain is one, the others one by one."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from ingest.decoded import Decoded
from ingest.keyring import Keyring
from ingest.quick import Parsed
from ingest.reasons import Rejected
from ingest.records import Readers, decode_record
from ingest.runs import MIN_RUN, Run, lay_out_run
from ingest.walk import LINKED, Walk
from protocol.archive import Block, Record

__all__ = ["BlockDecoder", "DecodedBlock"]


class DecodedBlock(NamedTuple):
    """What a block holds. Each of its records is in one of these."""

    runs: list[tuple[Run, list[str]]]  # with how each of its messages is linked to the one before it
    rows: list[tuple[Any, ...]]
    links: list[str]
    rejected: list[tuple[int, Record, Rejected]]


class BlockDecoder:
    """Decodes the blocks of one archive in their order, and notes in the walk what they hold."""

    def __init__(self, device: str, walk: Walk, keyring: Keyring, readers: Readers) -> None:
        self._device = device
        self._walk = walk
        self._keyring = keyring
        self._readers = readers

    def decode(self, block: Block) -> DecodedBlock:
        records = block.records
        verified = self._readers.quick.verify(records, self._device)
        done = DecodedBlock([], [], [], [])
        for indexes in _stretches(records):
            if len(indexes) < MIN_RUN or not self._take_run(indexes, records, verified, block.first_record, done):
                for index in indexes:
                    self._take_one(records[index], verified[index], block.first_record + index, done)
        return done

    def _take_run(
        self, indexes: list[int], records: list[Record], verified: list[Parsed | None], start: int, done: DecodedBlock
    ) -> bool:
        """Whether these records of one chain are a perfect run, and were taken."""
        parsed = [each for each in map(verified.__getitem__, indexes) if each is not None]
        head = records[indexes[0]]
        first = self._readers.quick.decode(head, verified[indexes[0]], start + indexes[0])
        if first is None or len(parsed) < len(indexes):
            return False
        run = lay_out_run(first, [start + index for index in indexes], [records[index] for index in indexes], parsed)
        link = None if run is None else self._walk.take(head, first)
        if run is None or not isinstance(link, str):
            return False
        self._walk.go_on(head.chain, run, records[indexes[-1]].position)
        done.runs.append((run, [link] + [LINKED] * (run.messages - 1)))
        return True

    def _take_one(self, record: Record, parsed: Parsed | None, number: int, done: DecodedBlock) -> None:
        try:
            decoded = self._readers.quick.decode(record, parsed, number) or self._decode_long(record, number)
        except Rejected as problem:
            self._reject(record, number, problem, done)
            return
        link = self._walk.take(record, decoded)
        if isinstance(link, Rejected):
            self._reject(record, number, link, done)
        else:
            done.rows.append(decoded.row)
            done.links.append(link)

    def _decode_long(self, record: Record, number: int) -> Decoded:
        return decode_record(record, number, self._device, self._keyring, self._readers)

    def _reject(self, record: Record, number: int, problem: Rejected, done: DecodedBlock) -> None:
        done.rejected.append((number, record, problem))
        self._walk.reject(record)


def _stretches(records: list[Record]) -> Iterator[list[int]]:
    """Chain by chain, the places of records that follow each other and are as long as each other.

    What one chain says does not depend on what another says in between.
    """
    chains: dict[str, list[int]] = {}
    for index, record in enumerate(records):
        chains.setdefault(record.chain, []).append(index)
    for indexes in chains.values():
        for _, stretch in groupby(indexes, key=lambda index: len(records[index].text)):
            yield list(stretch)
