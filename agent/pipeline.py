"""The running agent, wired in one place.

    drivers ──► collect ──► queue ──► commit ───────────────► journal ──┬──► publish ──► destinations
                              ▲       route, pack, sign,      one       │
              events ─────────┘       store, acknowledge      thread    └──► archive ──► ship ──► collector
              start, stop, gaps,                                 ▲                          │
              clock, devices                                     └──────── receipts ◄───────┘

One TaskGroup owns every task, by name, and no task can delay its end without bound. The queue between the sources and
the disk is bounded: when the disk is slow or full, sources wait. Shutdown follows the flow: stop reading, report it,
commit, give the links a moment to settle what is in flight, close. Each step has a time limit; messages that are not
published by then are in the journal.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agent.clock import CeilingFile, ChainReferences, Clock
from agent.collect import Batch, Collector, nothing_to_do
from agent.commit import Committer
from agent.config.configuration import Config
from agent.config.disk_space import journal_settings
from agent.config.publishers import PublisherConfig, build_publisher
from agent.errors import LinkDown, StorageError
from agent.events.events import Events, report_losses, watch_clock
from agent.events.rejected import FOLDER_NAME as REJECTED_FOLDER
from agent.events.rejected import RejectedStore, RejectReports
from agent.journal import DirectoryDisk, Journal, Record
from agent.journal.lock import DataLock
from agent.journal.thread import JournalThread, durable_view, open_journal_id, read_floor
from agent.journal.token_log import TokenLog
from agent.keys import DeviceKeys
from agent.pack.routing import Router, StreamReaders, StreamRule, expand_stream_id
from agent.pack.wrap import Wrapper
from agent.publish import CursorSource, Quarantine, Sender
from agent.version import VERSION
from drivers import Driver, build_driver
from protocol.ethereum.signer import Signer
from protocol.lifecycle import CONFIGURATION_INFO_TYPE, START_INFO_TYPE, STOP_INFO_TYPE, LifecycleNotice
from runtime.stopping import StoppableTasks

if TYPE_CHECKING:
    from agent.archive.stage import Archiving
    from agent.events.checkpoints import CheckpointEvents
    from agent.pack.encryption import StreamEncryption
    from agent.ship.shipper import Shipper

RELOAD_TASK: Final = "reload"  # the companion that calls `apply`: it ends before all other tasks
MAX_QUEUED_BATCHES: Final = 64
TICK_S: Final = 1.0
STOP_READING_S: Final = 5.0
STOP_PUBLISHING_S: Final = 10.0  # a link is given 5 s to close
COMMIT_S: Final = 10.0
SETTLE_S: Final = 3.0
SETTLE_CHECK_S: Final = 0.02
STOP_SHIPPING_S: Final = 3.0
ONCE_SETTLE_S: Final = 60.0  # with `run --once`, whose purpose it is
ONCE_SHIP_S: Final = 60.0
STALLED_S: Final = 10.0  # the journal's thread responds within this, or the pipeline is stalled

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Link:
    sender: Sender
    source: CursorSource


class Pipeline:
    """All stages of one configuration. Opens its files on construction, its ports and sockets in `run`."""

    def __init__(self, config: Config, keys: DeviceKeys, clock: Clock) -> None:
        """Raises: ConfigError, StorageError, OSError."""
        self.config = config
        self.keys = keys
        self.collectors: dict[str, Collector] = {}
        self.links: dict[str, _Link] = {}
        self.shipper: Shipper | None = None
        self.archiving: Archiving | None = None
        self._checkpoints: CheckpointEvents | None = None
        self.started_at_ms = clock.now_ms()
        self._settle_s = SETTLE_S
        self._is_once = False
        self._clock = clock
        self._signer = Signer(keys.identity.reveal())
        self._queue = asyncio.Queue[Batch](MAX_QUEUED_BATCHES)
        with contextlib.ExitStack() as opened:
            self._open_files(opened)
            opened.pop_all()

    def _open_files(self, opened: contextlib.ExitStack) -> None:
        """`opened`: what to close if anything fails, because the previous configuration may then be opened again."""
        config, clock = self.config, self._clock
        self._lock = DataLock(config.device.data_directory)
        opened.callback(self._lock.close)
        disk = DirectoryDisk(config.journal_directory)
        opened.callback(disk.close)
        floor = read_floor(disk)
        self._tokens = TokenLog(config.device.data_directory)
        settings = journal_settings(config)
        journal = Journal(disk, settings, new_journal_id=secrets.randbits(64) | 1, now_ms=clock.now_ms())
        self._tokens.compare(durable_view(disk, journal))
        self.journal = JournalThread(journal, clock)
        self._journal_id = open_journal_id(disk)
        ceiling = CeilingFile(config.device.data_directory / "clock.ceiling")
        opened.callback(ceiling.close)
        self._references = ChainReferences(ceiling, floor)
        self._encryption = self._open_encryption()
        stream_id = expand_stream_id(config.device.events_stream, self._device_names(config))
        self._events = Events(self._queue, config.device.name, stream_id, clock)
        wrapper = Wrapper(
            self._signer,
            self._references,
            max_payload_bytes=settings.max_payload_bytes,
            encryption=self._encryption.encrypt_for if self._encryption else None,
            report=self._events.of_excursion,
        )
        self.committer = Committer(
            self._queue,
            self.journal,
            wrapper,
            self._router(config),
            clock,
            self._tokens,
            commit_records=config.journal.commit_records,
            commit_interval_s=config.journal.commit_interval_s,
            on_commit=self._notify_links,
            report_refused=self._events.of_refused,
        )
        store = RejectedStore(config.device.data_directory / REJECTED_FOLDER)
        self._rejects = RejectReports(self.collectors, store, self._events)
        self._open_archives()

    def _open_encryption(self) -> "StreamEncryption | None":
        encrypted = [rule for rule in self.config.streams if rule.encryption != "none"]
        if not encrypted:
            return None
        from agent.keys.group_keys import GroupKeyStore
        from agent.pack.encryption import EncryptionRules, StreamEncryption

        names = self._device_names(self.config)
        rules = {
            expand_stream_id(rule.stream, names): EncryptionRules(
                readers=frozenset(reader.lower() for reader in rule.readers),
                rotate_after_messages=rule.rotate_after_messages,
                rotate_after_s=rule.rotate_after_s,
            )
            for rule in encrypted
        }
        store = GroupKeyStore(self.config.device.data_directory / "keys" / "groups", self.keys)
        return StreamEncryption(self._signer, store, rules)

    def _open_archives(self) -> None:
        config = self.config
        if config.archive is None:
            return
        from agent.archive.stage import Archiving  # imported on use: not every device archives
        from agent.events.checkpoints import CheckpointEvents

        self.archiving = Archiving(
            config.archive,
            config.archive_directory,
            self.journal,
            self._journal_id,
            self.keys,
            self._clock,
            configuration=lambda: self.config.sha256,
        )
        self._checkpoints = CheckpointEvents(self._events, self.archiving.checkpoint)
        if config.ship is not None:
            from agent.ship.shipper import Shipper

            self.shipper = Shipper(
                config.ship, self.archiving, self.keys, is_idle=self._is_published, chance=random.random
            )

    def _router(self, config: Config) -> Router:
        return Router(config.streams, self._device_names(config))

    def _device_names(self, config: Config) -> dict[str, str]:
        return {"address": self._signer.address, "device": config.device.name}

    # Running

    async def run(
        self,
        stop: asyncio.Event,
        companions: Mapping[str, Coroutine[Any, Any, None]] | None = None,
        at_end: Callable[[], Coroutine[Any, Any, None]] = nothing_to_do,
    ) -> None:
        """Run until `stop` is set, then stop in order. `companions` run as long as the pipeline; `at_end` can still
        use the journal. Raises the error that ended a task, after closing everything.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks = StoppableTasks(group)
                self._start_stages()
                await self._report(START_INFO_TYPE, "")
                for name, work in (companions or {}).items():
                    self._start(name, work)
                await stop.wait()
                await self._stop_in_order()
                await self._within(STOP_READING_S, "write the last status", at_end())
        finally:
            await self._close()

    async def run_once(self, seconds: float, at_end: Callable[[], Coroutine[Any, Any, None]] = nothing_to_do) -> None:
        """Read for this time, then publish, archive and ship everything, and end."""
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        self._settle_s, self._is_once = ONCE_SETTLE_S, True
        await self.run(stop, at_end=at_end)

    def _start_stages(self) -> None:
        self._start("commit", self.committer.run())
        self._start("tick", self._tick())
        self._start("events: devices", self._events.report_device_changes())
        self._start("events: losses", self._report_losses())
        self._start("events: rejected", self._rejects.run())
        self._start("events: clock", watch_clock(self._events, self._clock))
        if self.archiving is not None and self._checkpoints is not None:
            self._start("archive", self.archiving.run())
            self._start("events: checkpoints", self._checkpoints.run(self.archiving.config.checkpoint_every_s))
        if self.shipper is not None:
            self._start("ship", self.shipper.run())
        if self._encryption is not None:
            from agent.pack.encryption import FOLDER_NAME, rekey_on_request

            self._start("rekey", rekey_on_request(self.config.device.data_directory / FOLDER_NAME, self._rekey))
        for name, publisher in self.config.publishers.items():
            self._start_publisher(name, publisher)
        for name, table in self.config.drivers.items():
            self._start_collector(name, table)

    async def _report_losses(self) -> None:
        archiving = self.archiving
        await report_losses(
            self._events,
            self.journal,
            self._journal_id,
            is_archived=lambda loss: archiving is not None and archiving.is_archived(loss),
            is_receipted=lambda loss: archiving is None or archiving.is_receipted(loss),
        )

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(name, work)

    def _start_collector(self, name: str, table: Any, previous: Driver | None = None) -> None:
        driver = build_driver(name, table)
        driver.recall(*self._tokens.recall(name))
        if previous is not None:
            driver.continue_from(previous)
        collector = Collector(driver, self._queue, self._events.device_changed)
        self.collectors[name] = collector
        self._start(f"collect: {name}", collector.run())

    def _readers_of(self, stream_id: str) -> frozenset[str]:
        """By the present configuration. Called once for each stream and connection."""
        others = [self.config.device.events_stream]
        return StreamReaders(self.config.streams, self._device_names(self.config), others=others).of(stream_id)

    def _start_publisher(self, name: str, config: PublisherConfig) -> None:
        source = CursorSource(self.journal.journal.cursor(name), self.journal.call)
        path = self.config.device.data_directory / "quarantine" / f"{name}.jsonl"
        is_only_copy = self.config.archive is None
        quarantine = Quarantine(path, name, on_removal=partial(self._record_refused, name) if is_only_copy else None)
        publisher = build_publisher(name, config, self._signer, self._encryption, readers_of=self._readers_of)
        sender = Sender(publisher, source, quarantine, config.sender_settings(), on_future=self._references.note_future)
        self.links[name] = _Link(sender, source)
        self._start(f"publish: {name}", sender.run())

    def _record_refused(self, name: str, records: Sequence[Record]) -> None:
        """From any thread but the journal's. Raises: StorageError."""
        now_ms = self._clock.now_ms()
        try:
            self.journal.call_from_thread(lambda: self.journal.journal.record_refused(records, name, now_ms))
        except RuntimeError:  # its thread has ended
            raise StorageError("the journal is closed") from None

    def _notify_links(self) -> None:
        for link in self.links.values():
            link.source.notify()

    def _rekey(self, stream_id: str) -> None:
        assert self._encryption is not None
        self._encryption.rekey(stream_id, self._clock.now_ms())

    async def _tick(self) -> None:
        """Save the journal's positions, also while no reading comes."""
        while True:
            with contextlib.suppress(StorageError):  # the committer reports problems of the disk
                await self.journal.tick()
            await asyncio.sleep(TICK_S)

    async def _report(self, info_type: str, reason: str) -> None:
        notice = LifecycleNotice(version=VERSION, configuration=self.config.sha256, reason=reason)
        await self._events.report_lifecycle(info_type, notice)

    # Health

    async def is_making_progress(self) -> bool:
        """Whether readings reach the disk: the journal's thread responds, and the queue moves."""
        try:
            async with asyncio.timeout(STALLED_S):
                await self.journal.call(lambda: None)
        except TimeoutError:
            return False
        waited_s = time.monotonic() - self.committer.moved_at_s
        return self._queue.empty() or waited_s < STALLED_S + self.config.journal.commit_interval_s

    def _is_published(self) -> bool:
        return all(link.sender.status.is_up and link.sender.in_flight == 0 for link in self.links.values())

    # Changing the configuration

    def can_apply(self, config: Config) -> bool:
        """Whether the change leaves the journal and everything around it as they are."""
        old = self.config
        fixed = ("device", "journal", "archive", "ship")
        return (
            list(old.publishers) == list(config.publishers)
            and all(getattr(old, name) == getattr(config, name) for name in fixed)
            and _encrypted_rules(old) == _encrypted_rules(config)
        )

    async def apply(self, config: Config) -> list[str]:
        """Restart what changed, and leave the rest untouched. Only if `can_apply`.

        Returns the tasks that did not stop, or have readings that were not committed, within their limit: these drivers
        and publishers run with their previous settings, and the next call tries to change them again.
        """
        old, self.config = self.config, config
        stuck_drivers = [
            name
            for name in old.drivers.keys() | config.drivers.keys()
            if old.drivers.get(name) != config.drivers.get(name) and not await self._change_collector(name)
        ]
        stuck_publishers = [
            name
            for name, publisher in config.publishers.items()
            if old.publishers[name] != publisher and not await self._change_publisher(name)
        ]
        self.committer.router = self._router(config)
        if stuck_drivers or stuck_publishers:
            self.config = _with_previous_parts(old, config, stuck_drivers, stuck_publishers)
        else:
            await self._within(COMMIT_S, "report the new configuration", self._report(CONFIGURATION_INFO_TYPE, ""))
        return [f"collect: {name}" for name in stuck_drivers] + [f"publish: {name}" for name in stuck_publishers]

    async def _change_collector(self, name: str) -> bool:
        """Not before all that was read is committed: the source would send it once more, and it would be read again."""
        previous = None
        if (collector := self.collectors.get(name)) is not None:
            if await self._tasks.stop(f"collect: {name}", limit_s=STOP_READING_S):
                return False
            if not await self._within(COMMIT_S, f"commit what {name} has read", self._committed_up_to_now(name)):
                self._start(f"collect: {name}", collector.run())
                return False
            await self._within(STOP_READING_S, f"close {name}", collector.close())
            previous = self.collectors.pop(name).driver
        if name in self.config.drivers:
            self._start_collector(name, self.config.drivers[name], previous)
        return True

    async def _change_publisher(self, name: str) -> bool:
        if await self._tasks.stop(f"publish: {name}", limit_s=STOP_PUBLISHING_S):
            return False
        await self.journal.call(self.journal.journal.cursor(name).rewind)  # what was in flight comes again
        self._start_publisher(name, self.config.publishers[name])
        return True

    async def _committed_up_to_now(self, name: str) -> None:
        """Wait until all batches so far are committed: batches are committed in order, so an empty one is the mark."""
        is_done = asyncio.Event()

        async def set_done() -> None:
            is_done.set()

        await self._queue.put(Batch(name, (), committed=set_done))
        await is_done.wait()

    # Stopping

    async def _stop_in_order(self) -> None:
        await self._tasks.stop(RELOAD_TASK, limit_s=STOP_READING_S)
        collecting = [name for name in self._tasks if name.startswith("collect: ")]
        await self._tasks.stop(*collecting, limit_s=STOP_READING_S)
        self.committer.is_hurried = True
        await self._within(COMMIT_S, "commit", self._commit_all())
        await self._within(STOP_READING_S, "close the sources", self._close_sources())
        self._notify_links()
        await self._within(self._settle_s, "settle", self._settle())
        await self._tasks.stop("ship", limit_s=STOP_SHIPPING_S)
        if self._is_once and self.archiving is not None:
            await self._within(ONCE_SHIP_S, "ship", self._ship_all(self.archiving))
        await self._within(STOP_SHIPPING_S, "send the last checkpoint", self._report_last_checkpoint())
        self._tasks.abandon()

    async def _ship_all(self, archiving: "Archiving") -> None:
        """With `run_once`: archive everything, and ship it if that is configured."""
        await archiving.archive_all()
        if self.shipper is None:
            return
        try:
            await self.shipper.ship_all()
        except (LinkDown, OSError) as error:
            log.error("not all archives were shipped; waiting=%d problem=%s", len(archiving.kept), error)  # noqa: TRY400

    async def _report_last_checkpoint(self) -> None:
        if self.shipper is None:
            return
        try:
            await self.shipper.report_checkpoint()
        except (LinkDown, OSError) as error:
            log.warning("the last checkpoint was not sent; problem=%s", error)

    async def _close_sources(self) -> None:
        """Close after the commit, so that sources get their last acknowledgements."""
        await asyncio.gather(*(collector.close() for collector in self.collectors.values()))

    async def _commit_all(self) -> None:
        await self._rejects.check(is_last=True)
        if self._checkpoints is not None:
            await self._checkpoints.report()
        await self._report(STOP_INFO_TYPE, "")
        await self._queue.join()

    async def _settle(self) -> None:
        """Wait until every link that is up, or with `run_once` every link, has published everything."""
        while await self._unpublished():  # noqa: ASYNC110 - the journal must be polled
            await asyncio.sleep(SETTLE_CHECK_S)

    async def _unpublished(self) -> int:
        now_ms = self._clock.now_ms()
        waiting = (await self.journal.call(lambda: self.journal.journal.stats(now_ms))).cursors
        return sum(
            waiting[name].depth for name, link in self.links.items() if self._is_once or link.sender.status.is_up
        )

    async def _within(self, seconds: float, what: str, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work ended in time."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            log.warning("step timed out, continuing; step=%s waited_s=%.0f", what, seconds)
            return False
        return True

    async def _close(self) -> None:
        await self._within(STOP_READING_S, "close the sources", self._close_sources())  # if anything has failed
        if self.archiving is not None:
            await self.archiving.close()
        try:
            await self.journal.close()
        except StorageError as error:
            log.error("journal not closed cleanly; problem=%s", error)  # noqa: TRY400 - no traceback
        with contextlib.suppress(StorageError):  # a ceiling that stays high costs nothing
            self._references.close()
        self._lock.close()


def _with_previous_parts(old: Config, new: Config, drivers: Sequence[str], publishers: Sequence[str]) -> Config:
    """The new configuration, with the old one's settings of some drivers and publishers."""
    return replace(
        new,
        drivers={**new.drivers, **{name: old.drivers[name] for name in drivers}},
        publishers={**new.publishers, **{name: old.publishers[name] for name in publishers}},
        sha256=old.sha256,
    )


def _encrypted_rules(config: Config) -> list[StreamRule]:
    return [rule for rule in config.streams if rule.encryption != "none"]
