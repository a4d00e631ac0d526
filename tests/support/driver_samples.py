"""What the tests of drivers share: recordings, and trees laid out as the kernel does."""

from pathlib import Path

from drivers.nmea.sentences import checksum

# Laid out as the data sheet says: PM 1/2.5/10 are 12, 18 and 21 µg/m³ by factory calibration, 12, 18 and 20 in the air.
PMS5003_FRAME = bytes.fromhex("424d001c000c00120015000c0012001408a6027900660010000600029700") + b"\x03\x4e"


def nmea(body: str) -> bytes:
    return f"${body}*{checksum(body.encode()):02X}\r\n".encode()


def write_tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
