"""Input that no driver could parse: samples for the operator, and events when it begins, continues and ends.

    data/rejected/samples.jsonl     one JSON object per line; begun anew at `MAX_FILE_BYTES`, with one older file beside

The drivers count everything and sample a little (`drivers/rejects.py`); here the samples go to the disk, which is why
the store is bounded twice. It is for inspection, not for replay: it is not synced, and a failing disk costs samples
only.
"""

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.collect import Collector
from agent.events.events import Events
from drivers.rejects import Rejects, Sample
from protocol.lifecycle import REJECTED_INFO_TYPE, RejectedNotice

FOLDER_NAME: Final = "rejected"
MAX_FILE_BYTES: Final = 512 * 1024
CHECK_S: Final = 2.0
REPORT_AGAIN_S: Final = 600.0
OVER_AFTER_S: Final = 300.0  # without rejected input

log = logging.getLogger(__name__)


class RejectedStore:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "samples.jsonl"

    def add(self, device: str, samples: Sequence[Sample]) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            lines = "".join(json.dumps(_as_json(device, sample)) + "\n" for sample in samples)
            if self._file.exists() and self._file.stat().st_size + len(lines) > MAX_FILE_BYTES:
                self._file.replace(self._file.with_suffix(".old"))
            with self._file.open("a", encoding="utf-8") as file:
                file.write(lines)


def _as_json(device: str, sample: Sample) -> dict[str, Any]:
    return {
        "at_ms": sample.at_ms,
        "device": device,
        "sensor": sample.sensor,
        "reason": sample.reason,
        "size_bytes": sample.size_bytes,
        "raw": base64.b64encode(sample.raw).decode(),
    }


def read_samples(folder: Path) -> Iterator[dict[str, Any]]:
    """Oldest first. A line that a crash cut short is left out. Raises: OSError."""
    for name in ("samples.old", "samples.jsonl"):
        with contextlib.suppress(FileNotFoundError), (folder / name).open("rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    found["raw"] = base64.b64decode(found["raw"])
                    yield found


class _Watched(NamedTuple):
    """The counts of one driver's rejected input, seen and reported."""

    rejects: Rejects
    seen: int = 0
    reported: int = 0
    grew_at_s: float = 0.0
    reported_at_s: float = 0.0
    is_rejecting: bool = False


class RejectReports:
    """Watches the drivers' rejects. Each is in exactly one signed notice, once the agent stops at the latest."""

    def __init__(
        self,
        collectors: Mapping[str, Collector],
        store: RejectedStore,
        events: Events,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collectors = collectors
        self._store = store
        self._events = events
        self._clock_s = clock_s
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self.check()

    async def check(self, *, is_last: bool = False) -> None:
        for name, collector in list(self._collectors.items()):
            await self._check(name, collector.driver.rejects, is_last=is_last)

    async def _check(self, name: str, rejects: Rejects, *, is_last: bool) -> None:
        now_s, watched = self._clock_s(), self._watched.get(name)
        if watched is None or watched.rejects is not rejects:  # a new driver of the same name counts from 0
            watched = _Watched(rejects)
        if rejects.total > watched.seen:
            watched = watched._replace(seen=rejects.total, grew_at_s=now_s)
            if samples := rejects.take_samples():
                await asyncio.to_thread(self._store.add, name, samples)
        self._watched[name] = await self._report(name, watched, now_s, is_last=is_last)

    async def _report(self, name: str, watched: _Watched, now_s: float, *, is_last: bool) -> _Watched:
        is_new = watched.seen > watched.reported
        begins = is_new and not watched.is_rejecting
        ends = watched.is_rejecting and now_s - watched.grew_at_s >= OVER_AFTER_S
        if begins:
            log.warning(
                "input could not be parsed, see 'headgate rejected'; device=%s sensor=%s reason=%s count=%d",
                name, *_most(watched.rejects)[0], watched.seen - watched.reported,
            )  # fmt: skip
        elif ends:
            log.info("input can be parsed again; device=%s rejected=%d", name, watched.seen)
        is_due = begins or ends or is_last or now_s - watched.reported_at_s >= REPORT_AGAIN_S
        if is_new and is_due:
            await self._events.report(REJECTED_INFO_TYPE, _notice(name, watched).to_bytes())
            watched = watched._replace(reported=watched.seen, reported_at_s=now_s)
        return watched._replace(is_rejecting=(watched.is_rejecting or begins) and not ends)


def _most(rejects: Rejects) -> tuple[tuple[str, str], int]:
    return max(rejects.counts.items(), key=lambda item: item[1])


def _notice(name: str, watched: _Watched) -> RejectedNotice:
    (sensor, reason), _ = _most(watched.rejects)
    return RejectedNotice(
        device=name, count=watched.seen - watched.reported, total=watched.seen, sensor=sensor, reason=reason
    )
