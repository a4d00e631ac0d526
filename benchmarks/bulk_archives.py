"""Large archives of valid messages, made fast, for benchmarks and tests of scale."""

import hashlib
from pathlib import Path

from protocol.archive.header import Header
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.binding import sign_binding
from protocol.iomessage import EMPTY_CHAIN, ChainLinker, Draft, IoMessage, LinkedTemplate, element_id
from protocol.iomessage.content import encode_binary_content
from protocol.scalars import encode_scalar, scalar_format
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message.chain_writer import ChainWriter
from testbed.corpus.archives import MSG_CHAIN_ID, Device, noise


class BulkChain:
    """One stream of one device, with the readings of its sensors in turns. It continues over several archives."""

    def __init__(self, device: Device, name: str, *, sensors: int = 1) -> None:
        self.device = device
        self.name = name
        self._writer = ChainWriter(device.signer, stream_id=f"{device.address}/{name}", msg_chain_id=MSG_CHAIN_ID)
        names = [name, *(f"{name}-{number}" for number in range(1, sensors))]
        self._templates = [_template(device, sensor) for sensor in names]
        self._linker = ChainLinker(EMPTY_CHAIN)
        self._previous: MessageRef | None = None

    def record(self, at_ms: int, readings: int = 1) -> Record:
        """The next message, with so many readings, one per millisecond up to its own time."""
        first = self._linker.head.position + 1
        numbers = range(first, first + readings)
        binaries = self._linker.link_all(self._draft(number, at_ms - numbers[-1] + number) for number in numbers)
        ref = MessageRef(at_ms, 0)
        text = self._writer.write(encode_binary_content(binaries), ref, self._previous)
        self._previous = ref
        position = self.device.positions
        self.device.positions += readings
        return Record(text, self.name, at_ms, 0, 0, position, at_ms + 5, readings)

    def _draft(self, number: int, at_ms: int) -> Draft:
        template = self._templates[number % len(self._templates)]
        return template, noise(self.name, number).hex()[:43], at_ms, encode_scalar((number % 401) * 0.25), b""


def _template(device: Device, sensor: str) -> LinkedTemplate:
    prototype = IoMessage(
        id="x",
        timestamp=0,
        publisher=element_id(device.address, sensor),
        tag=sensor,
        info_type="temperature",
        info_format=scalar_format("Cel"),
        content_data=b"",
        priority=3,
    )
    return LinkedTemplate(prototype)


def write_bulk_archive(
    folder: Path, chains: list[BulkChain], *, records: int, start_ms: int, step_ms: int = 1000, readings: int = 1
) -> Path:
    """Write an archive of `records` records of so many readings, with the chains of one device in turns.

    Returns its path.
    """
    device = chains[0].device
    binding = sign_binding(device.signer, bytes(device.archive_key.verify_key))
    header = Header(binding=binding, journal_id=device.journal, created_at_ms=start_ms)
    writer = ArchiveWriter(header, sign=lambda data: device.archive_key.sign(data).signature)
    parts = [writer.begin()]
    turns = (divmod(number, len(chains)) for number in range(records))
    parts += [writer.add(chains[chain].record(start_ms + turn * step_ms, readings)) for turn, chain in turns]
    data = b"".join([*parts, writer.finish(device.head.entry(writer.reached))])
    device.head = device.head.append(device.head.entry(writer.reached), hashlib.sha256(data).digest())
    path = folder / f"{hashlib.sha256(data).hexdigest()}.hga"
    path.write_bytes(data)
    return path
