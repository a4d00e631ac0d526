"""A disk that is full: a refusal, and the upload goes on when there is room again."""

import http.client
import io
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.archive.receipt import Receipt
from protocol.shipping import archive_path
from tests.support.archives import record, write_archive
from tests.support.collector_process import PROJECT, CollectorProcess, collector_process, make_state, run_command
from tests.support.collectors import Reply, claim_for, head_of, read_reply
from tests.support.patience import PATIENCE_S

DISK_BYTES = 4 * 1024 * 1024
LARGE = write_archive([record(n, text=bytes((n * i) % 251 for i in range(30_000))) for n in range(1, 80)])

pytestmark = [pytest.mark.slow, pytest.mark.needs("unshare", "util-linux")]


@contextmanager
def collector_on_a_small_disk(root: Path) -> Iterator[tuple[CollectorProcess, Path]]:
    """Its landing area is on a file system of 4 MB that only it sees; also gives our way to that."""
    disk = root / "disk"
    with collector_process(root, "--landing", str(disk / "landing"), wrapped_in=small_disk(disk)) as running:
        yield running, Path(f"/proc/{running.process.pid}/root") / disk.relative_to("/")


def small_disk(disk: Path) -> list[str]:
    """The beginning of a command whose process finds a small file system there."""
    disk.mkdir()
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "{disk}" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]


def send(running: CollectorProcess, method: str, path: str, body: bytes, **headers: str) -> Reply:
    client = http.client.HTTPConnection(*running.address, timeout=PATIENCE_S)
    client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    reply = read_reply(client.getresponse())
    client.close()
    return reply


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        write_without_end(file)
    return filler


def write_without_end(file: io.FileIO) -> None:
    while True:
        file.write(b"x" * 65536)


def test_an_upload_that_fills_the_disk_is_refused_and_goes_on_later(tmp_path: Path) -> None:
    claim = claim_for(LARGE, collector_key=make_state(tmp_path).signing)
    path, authorization = archive_path(claim.archive), claim.to_header()
    with collector_on_a_small_disk(tmp_path) as (running, disk):
        with socket.create_connection(running.address, timeout=PATIENCE_S) as link:
            link.sendall(head_of("PUT", claim, len(LARGE), "Expect: 100-continue"))
            assert link.recv(100).startswith(b"HTTP/1.1 100")  # there is room when it begins
            filler = fill(disk)
            link.sendall(LARGE)
            assert link.recv(100).startswith(b"HTTP/1.1 507")
        assert list((disk / "landing").iterdir()) == []
        refused = send(running, "PUT", path, LARGE, Authorization=authorization)
        assert refused.code == "no-space"
        filler.unlink()
        offset = send(running, "HEAD", path, b"", Authorization=authorization).offset
        rest = send(running, "PATCH", path, LARGE[offset:], Authorization=authorization, Upload_Offset=str(offset))
        assert Receipt.from_bytes(rest.body).archive == claim.archive
        (stored,) = (disk / "landing").iterdir()
        assert stored.read_bytes() == LARGE


def test_uploads_on_another_disk_than_the_landing_area_are_refused_at_the_start(tmp_path: Path) -> None:
    make_state(tmp_path)
    elsewhere = ("--landing", str(tmp_path / "disk" / "landing"), "--uploads", str(tmp_path / "uploads"))
    command = [*small_disk(tmp_path / "disk"), *run_command(tmp_path, *elsewhere)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "name a folder of the same file system" in done.stderr
