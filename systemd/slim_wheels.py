"""Repacks the wheels of a package so that it becomes small: libraries without debug symbols or C sources, files stored.

    slim_wheels.py WHEEL …

What is stored in a wheel, the package compresses as a whole, far better than each wheel by itself. RECORD is written
anew, as it has the hash of every file. Without the program `strip` (binutils) libraries stay as they are.
"""

import base64
import csv
import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCES = (".c", ".pxd", ".pyx")  # of libraries that the wheel also holds compiled


def slim_wheel(path: Path) -> None:
    """Replaces the wheel by a smaller one of the same name and content."""
    smaller = path.with_suffix(".new")
    with zipfile.ZipFile(path) as wheel, zipfile.ZipFile(smaller, "w", zipfile.ZIP_STORED) as slim:
        items = [item for item in wheel.infolist() if not item.filename.endswith(SOURCES)]
        contents = {item.filename: _stripped(item.filename, wheel.read(item)) for item in items}
        (record,) = [name for name in contents if name.endswith(".dist-info/RECORD")]
        contents[record] = _record(contents, record)
        for item in items:
            item.compress_type = zipfile.ZIP_STORED
            slim.writestr(item, contents[item.filename])
    smaller.replace(path)


def _stripped(name: str, content: bytes) -> bytes:
    if not name.endswith(".so") or shutil.which("strip") is None:
        return content
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.so"
        library.write_bytes(content)
        done = subprocess.run(["strip", "--strip-unneeded", library], check=False, capture_output=True)  # noqa: S603, S607
        return library.read_bytes() if done.returncode == 0 else content


def _record(contents: dict[str, bytes], record: str) -> bytes:
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name, content in contents.items():
        if name.endswith("/"):
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([name, "", ""] if name == record else [name, f"sha256={digest}", len(content)])
    return rows.getvalue().encode()


if __name__ == "__main__":
    for wheel in sys.argv[1:]:
        slim_wheel(Path(wheel))
