"""Any bytes, as each device might send them, give readings or damage; nothing escapes and little is kept."""

import contextlib
from collections.abc import Callable

from drivers.framing import Damaged, DelimitedFrames, FixedFrames, Frames
from drivers.mapping import fields_of_json
from drivers.mqtt.driver import PRESETS
from drivers.mqtt.mappings import Sample
from drivers.nmea.driver import NmeaDecoder
from drivers.nmea.sentences import checksum
from drivers.pms5003.driver import FRAME_BYTES, Pms5003Decoder
from drivers.reading import Reading
from drivers.serial_driver import StreamDecoder
from drivers.serial_line.driver import SerialLineDecoder, SerialLineSettings
from drivers.system.proc import parse_cpu, parse_load, parse_memory, parse_traffic, parse_uptime
from runtime.settings import check_settings
from tests.support.driver_samples import PMS5003_FRAME, nmea
from tests.support.firmware_messages import ESPHOME, TASMOTA, ZIGBEE2MQTT
from tests.vectors.mqtt import recorded

_WRITTEN = [("tasmota", TASMOTA), ("zigbee2mqtt", ZIGBEE2MQTT), ("esphome", ESPHOME)]
_TOPICS = [(kind, topic) for kind, messages in _WRITTEN for topic, _, _ in messages]
_QUANTITIES = {"t": {"unit": "Cel"}, "on": {"kind": "boolean"}, "word": {"kind": "text"}}
_LINE_TABLES: list[dict[str, object]] = [
    {"format": "json"},
    {"format": "csv", "columns": ["t", "on", "word"]},
    {"format": "regex", "pattern": "T=(?P<t>[^ ]+)"},
    {"format": "struct", "layout": "<2xfB", "columns": ["t", "on"], "frame_bytes": 7, "sync_hex": "aa55"},
    {"format": "raw", "delimiter_hex": "0d0a", "max_frame_bytes": 16},
]
_LINES = [
    check_settings(SerialLineSettings, {"port": "/dev/x", "quantities": _QUANTITIES, **table}) for table in _LINE_TABLES
]
SEEDS = [
    b"\x00" + PMS5003_FRAME,
    b"\x01" + nmea("GPRMC,123519.00,A,4807.038,N,01131.000,E,022.4,084.4,230325,,"),
    b"\x01" + nmea("GPGGA,123519.00,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,"),
    b"\x01" + nmea("WIMWV,214.8,R,10.0,N,A"),
    b'\x02{"t":21.5,"on":true,"word":"x"}\nT=21.5 \r\n1,on,x\n',
    b"\x03ab\r\n\xaa\x55abc\r\n",
    *(b"\x04" + payload for _, messages in _WRITTEN for _, payload, _ in messages),
    *(b"\x04" + message.payload for message in recorded()),
    b"\x06GPZDA,235959.5,31,12,2025,00,00\nGPGGA,000001,4807.038,N,01131.000,E,1,08,0.9,5,M,,M,,\nWIMWV,1,R,10,N,A",
    b"\x05cpu  100 0 100 800 0 0 0 0\nMemTotal: 1000 kB\n  eth0: 1 2 3 4 5 6 7 8 9\n",
]


def fuzz_one(data: bytes) -> None:
    """The first byte chooses what the rest is."""
    if data:
        _CHECKS[data[0] % len(_CHECKS)](data[1:])


def _read_stream(decoder: StreamDecoder, data: bytes) -> None:
    for start in range(0, len(data), 13):
        events = decoder.feed(data[start : start + 13], 1_742_733_300_000)
        assert all(isinstance(event, Reading | Damaged) for event in events)


def _read_pms(data: bytes) -> None:
    decoder = Pms5003Decoder("s", 0)
    _read_stream(decoder, data)
    assert len(decoder._pending) < FRAME_BYTES


def _read_sentences(data: bytes) -> None:
    """With right checksums, which no mutation finds by itself."""
    lines = (b"$%b*%02X\n" % (line, checksum(line)) for line in data.split(b"\n"))
    _read_stream(NmeaDecoder("s"), b"".join(lines))


def _read_lines(data: bytes) -> None:
    for settings in _LINES:
        _read_stream(SerialLineDecoder("s", settings), data)


def _read_frames(data: bytes) -> None:
    """Feeding at once and byte by byte finds the same frames."""
    kinds: list[tuple[Frames, Frames]] = [
        (DelimitedFrames(b"\r\n", 8), DelimitedFrames(b"\r\n", 8)),
        (FixedFrames(5, b"\xaa\x55"), FixedFrames(5, b"\xaa\x55")),
    ]
    for at_once, slowly in kinds:
        found = [frame for frame in at_once.feed(data) if isinstance(frame, bytes)]
        one_by_one = [frame for at in range(len(data)) for frame in slowly.feed(data[at : at + 1])]
        assert found == [frame for frame in one_by_one if isinstance(frame, bytes)]


def _read_messages(data: bytes) -> None:
    kind, topic = _TOPICS[len(data) % len(_TOPICS)]
    with contextlib.suppress(ValueError):
        fields_of_json(data)
    with contextlib.suppress(ValueError):
        for each in PRESETS[kind]().read(topic, data) or []:
            if isinstance(each, Sample):
                Reading(each.sensor, each.quantity, each.value, each.unit, taken_at_ms=0, mime_type=each.mime_type)


def _read_kernel_files(data: bytes) -> None:
    text = data.decode(errors="replace")
    parse_cpu(text)
    parse_load(text)
    parse_memory(text)
    parse_traffic(text)
    parse_uptime(text)


_CHECKS: list[Callable[[bytes], None]] = [
    _read_pms,
    lambda data: _read_stream(NmeaDecoder("s"), data),
    _read_lines,
    _read_frames,
    _read_messages,
    _read_kernel_files,
    _read_sentences,
]
