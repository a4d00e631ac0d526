"""A collector that is killed in the middle of uploads, again and again, breaks none of its promises."""

import hashlib
import http.client
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.collector.keys import PublicKeys
from protocol.archive.receipt import Receipt
from protocol.shipping import CONTENT_TYPE_PART, UPLOAD_OFFSET, UploadClaim, archive_path
from tests.effort import FIRST_SEED, effort
from tests.support.archives import BINDING, record, write_archive
from tests.support.collector_process import CollectorProcess, collector_process, make_state
from tests.support.collectors import ARCHIVE, Reply, RunningCollector, claim_for, read_reply
from tests.support.device_logs import checkpoint
from tests.support.patience import PATIENCE_S

LOG_FOLDER = claim_for(ARCHIVE).entry.log.hex()
KILLS = effort(test=12, soak=120)
UPLOADERS = 3
ARCHIVES_PER_UPLOADER = effort(test=10, soak=80)
MAX_PART_BYTES = 16_384


class Uploader:
    """A device that keeps at it: asks how far it came, sends the next part, and collects receipts."""

    def __init__(self, number: int, collector_key: bytes) -> None:
        self._chance = random.Random(number)
        self._archives = [self._make_archive() for _ in range(ARCHIVES_PER_UPLOADER)]
        self._claims = [claim_for(data, collector_key=collector_key) for data in self._archives]
        self.receipts: list[bytes] = []
        self.resumed = 0

    def _make_archive(self) -> bytes:
        texts = [self._chance.randbytes(self._chance.randrange(200, 9000)) for _ in range(10)]
        return write_archive([record(number, text=text) for number, text in enumerate(texts)])

    @property
    def is_done(self) -> bool:
        return len(self.receipts) == len(self._archives)

    def work(self, running: CollectorProcess, first_answer: threading.Event) -> None:
        """Until all are there or the collector is gone."""
        client = http.client.HTTPConnection(*running.address, timeout=PATIENCE_S)
        try:
            while not self.is_done:
                number = len(self.receipts)
                self.receipts.append(self._ship(client, self._archives[number], self._claims[number], first_answer))
        except (OSError, http.client.HTTPException):
            return
        finally:
            client.close()

    def _ship(
        self, client: http.client.HTTPConnection, data: bytes, claim: UploadClaim, first_answer: threading.Event
    ) -> bytes:
        offset = self._send(client, "HEAD", claim, b"").offset
        first_answer.set()
        self.resumed += 0 < offset < len(data)
        while True:
            part = data[offset : offset + self._chance.randrange(MAX_PART_BYTES)]
            reply = self._send(client, "PATCH", claim, part, offset)
            if reply.status in (200, 201):
                return reply.body
            assert reply.status == 202, reply
            offset = reply.offset

    def _send(
        self, client: http.client.HTTPConnection, method: str, claim: UploadClaim, body: bytes, offset: int = 0
    ) -> Reply:
        headers = {"Authorization": claim.to_header()}
        if method == "PATCH":
            headers |= {UPLOAD_OFFSET: str(offset), "Content-Type": CONTENT_TYPE_PART}
        client.request(method, archive_path(claim.archive), body or None, headers)
        return read_reply(client.getresponse())


def check_promises(root: Path, public: PublicKeys, uploaders: list[Uploader]) -> None:
    landed = {path.name: path.read_bytes() for path in (root / "landing").iterdir()}
    assert all(name == hashlib.sha256(data).hexdigest() + ".hga" for name, data in landed.items())
    kept = {path.read_bytes() for path in (root / "state" / "receipts").glob("*/*.receipt")}
    for receipt in map(Receipt.from_bytes, kept):
        data = landed[f"{receipt.archive.hex()}.hga"]
        assert receipt.covers(
            archive=hashlib.sha256(data).digest(),
            size_bytes=len(data),
            device=BINDING.address,
            collector_key=public.signing,
        )
    assert all(receipt in kept for uploader in uploaders for receipt in uploader.receipts)


@pytest.mark.slow
def test_no_kill_leaves_a_half_stored_archive_or_an_empty_promise(tmp_path: Path) -> None:
    public = make_state(tmp_path)
    uploaders = [Uploader(number, public.signing) for number in range(UPLOADERS)]
    chance = random.Random(1 + FIRST_SEED)
    kills = 0
    with ThreadPoolExecutor(UPLOADERS) as threads:
        while not all(uploader.is_done for uploader in uploaders):
            with collector_process(tmp_path, "--device-requests-per-s", "100000") as running:
                first_answer = threading.Event()
                at_work = [threads.submit(uploader.work, running, first_answer) for uploader in uploaders]
                first_answer.wait(PATIENCE_S)
                if kills < KILLS:
                    threading.Event().wait(chance.random() * 0.08)  # no event tells where to kill: anywhere
                    running.kill()
                    kills += 1
                for work in at_work:
                    work.result(60)
            check_promises(tmp_path, public, uploaders)
    assert kills >= KILLS // 2
    assert sum(uploader.resumed for uploader in uploaders) > 0
    assert len(list((tmp_path / "landing").iterdir())) == UPLOADERS * ARCHIVES_PER_UPLOADER
    assert list((tmp_path / "landing.uploads").glob("*/*.part")) == []


def test_an_archive_is_durable_before_it_has_its_name_and_the_name_before_the_receipt(
    collector: RunningCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_fdatasync, real_replace, real_link = os.fsync, os.fdatasync, os.replace, os.link

    def shown(path: str | os.PathLike[str]) -> str:
        name = "/".join(Path(path).parts[-2:]) if Path(path).parent.name == LOG_FOLDER else Path(path).name
        return f"{name}/" if Path(path).is_dir() else name

    def fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        steps.append(f"fsync {shown(Path(f'/proc/self/fd/{descriptor}').readlink())}")

    def fdatasync(descriptor: int) -> None:
        real_fdatasync(descriptor)
        steps.append(f"fdatasync {shown(Path(f'/proc/self/fd/{descriptor}').readlink())}")

    def replace(source: Path, target: Path) -> None:
        steps.append(f"rename to {shown(target)}")
        real_replace(source, target)

    def link(source: Path, target: Path) -> None:
        steps.append(f"link to {shown(target)}")
        real_link(source, target)

    collector.patch(ARCHIVE[:10], 0, claim_for(ARCHIVE))
    collector.beat(checkpoint(0, log=claim_for(ARCHIVE).entry.log))  # so that folders are there
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "link", link)
    assert collector.put(ARCHIVE).status == 201
    name = hashlib.sha256(ARCHIVE).hexdigest()
    device = BINDING.address.hex()
    assert steps == [
        f"fsync {name}.part",
        f"rename to {name}.hga",
        "fsync landing/",
        f"fdatasync {LOG_FOLDER}/leaves-000000",
        f"fsync {LOG_FOLDER}/.state.new",
        f"rename to {LOG_FOLDER}/state",
        f"fsync {LOG_FOLDER}/",
        "fsync state/",  # the name of receipts/, before anything is put below it
        "fsync receipts/",
        f"fsync .{name}.receipt.new",
        f"link to {name}.receipt",
        f"fsync {device}/",
    ]
