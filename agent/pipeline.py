"""The running agent, wired in one place.

    drivers ──► collect ──► queue ──► keep ─────────────────► journal ──┬──► publish ──► far ends
                              ▲       route, wrap, sign,      one       │
              events ─────────┘       commit, acknowledge     thread    └──► archive ──► ship ──► collector
              start, stop, gaps,                                 ▲                          │
              clock, devices                                     └──────── receipts ◄───────┘

One TaskGroup owns every task, by name. The one queue between the sources and the disk is bounded: when the disk is slow
or full, sources are held back. Shutdown follows the flow: stop reading, tell it, commit, give the links a moment to
settle what is under way, close. Each step has a bound, and what is not published by then is in the journal.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agent.batch import Batch
from agent.clock import CeilingFile, ChainReferences, Clock
from agent.collect import Collector
from agent.config import Config
from agent.errors import StorageError
from agent.events import Events, tell_gaps, watch_clock
from agent.journal import DirectoryDisk, Journal
from agent.journal.inspection import look
from agent.journal_thread import JournalFloor, JournalThread, open_journal_id, read_floor
from agent.keep import Keeper
from agent.keys import DeviceKeys
from agent.publish import CursorSource, Delivery, Quarantine
from agent.publisher_config import PublisherConfig, build_publisher
from agent.rekeying import FOLDER_NAME, rekey_when_asked
from agent.routing import Router, StreamRule, expand_stream_id
from agent.token_log import TokenLog
from agent.version import VERSION
from agent.wrap import Wrapper
from drivers import build_driver
from protocol.lifecycle import CONFIGURATION_INFO_TYPE, START_INFO_TYPE, STOP_INFO_TYPE, LifecycleNotice
from protocol.streamr import Signer

if TYPE_CHECKING:
    from agent.archiving import Archiving
    from agent.encryption import StreamEncryption
    from agent.ship import Shipper

__all__ = ["CHANGING", "Pipeline"]

CHANGING: Final = "reload"  # the companion that calls `take`: it ends before anything else does
MAX_QUEUED_BATCHES: Final = 64
TICK_S: Final = 1.0
STOP_READING_S: Final = 5.0
COMMIT_S: Final = 10.0
SETTLE_S: Final = 3.0
SETTLE_CHECK_S: Final = 0.02
ONCE_SETTLE_S: Final = 60.0  # with `run --once`, whose purpose it is
LIFE_SIGN_S: Final = 10.0  # the journal's thread answers within this, or the pipeline does not move

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Link:
    delivery: Delivery
    source: CursorSource


class Pipeline:
    """Everything that one configuration makes run. Opens its files on construction, its ports and sockets in `run`."""

    def __init__(self, config: Config, keys: DeviceKeys, clock: Clock) -> None:
        """Raises: ConfigError, StorageError, OSError."""
        self.config = config
        self.keys = keys
        self.collectors: dict[str, Collector] = {}
        self.links: dict[str, _Link] = {}
        self.shipper: Shipper | None = None
        self.archiving: Archiving | None = None
        self.started_at_ms = clock.now_ms()
        self._settle_s = SETTLE_S
        self._clock = clock
        self._signer = Signer(keys.identity.reveal())
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._queue = asyncio.Queue[Batch](MAX_QUEUED_BATCHES)
        with contextlib.ExitStack() as opened:
            self._open_files(opened)
            opened.pop_all()

    def _open_files(self, opened: contextlib.ExitStack) -> None:
        """`opened`: what to let go of if anything fails, for the configuration before may be asked to go on."""
        config, clock = self.config, self._clock
        config.device.data_directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        disk = DirectoryDisk(config.journal_directory)
        opened.callback(disk.close)
        floor = read_floor(disk)
        self._tokens = TokenLog(config.device.data_directory)
        self._tokens.compare(look(disk))
        settings = config.journal.settings(config.cursors)
        journal = Journal(disk, settings, new_journal_id=secrets.randbits(64) | 1, now_ms=clock.now_ms())
        self.journal = JournalThread(journal, clock)
        self._journal_id = open_journal_id(disk)
        ceiling = CeilingFile(config.device.data_directory / "clock.ceiling")
        opened.callback(ceiling.close)
        self._references = ChainReferences(ceiling, JournalFloor(floor))
        self._encryption = self._open_encryption()
        wrapper = Wrapper(
            self._signer, self._references, max_payload_bytes=settings.max_payload_bytes, locks=self._encryption
        )
        self.keeper = Keeper(
            self._queue,
            self.journal,
            wrapper,
            self._router(config),
            clock,
            self._tokens,
            commit_records=config.journal.commit_records,
            commit_interval_s=config.journal.commit_interval_s,
            on_commit=self._notify_links,
        )
        stream_id = expand_stream_id(config.device.events_stream, self._device_names(config))
        self._events = Events(self._queue, config.device.name, stream_id, clock)
        self._open_archives()

    def _open_encryption(self) -> "StreamEncryption | None":
        encrypted = [rule for rule in self.config.streams if rule.encryption != "none"]
        if not encrypted:
            return None
        from agent.encryption import EncryptionRules, StreamEncryption
        from agent.keys.group_keys import GroupKeyStore

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
        from agent.archiving import Archiving  # what a device does without costs it no memory
        from agent.ship import Shipper

        self.archiving = Archiving(
            config.archive, config.archive_directory, self.journal, self._journal_id, self.keys, self._clock
        )
        if config.ship is not None:
            self.shipper = Shipper(
                config.ship, self.archiving, self.keys, is_idle=self._is_published, chance=random.random
            )

    def _router(self, config: Config) -> Router:
        return Router(config.streams, self._device_names(config))

    def _device_names(self, config: Config) -> dict[str, str]:
        return {"address": self._signer.address, "device": config.device.name}

    # Running

    async def run(self, stop: asyncio.Event, companions: Mapping[str, Coroutine[Any, Any, None]] | None = None) -> None:
        """Until `stop` is set; then in order. `companions` live as long as the pipeline.

        Raises whatever a task died of, after closing what there is.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._start_stages()
                await self._tell(START_INFO_TYPE, "")
                for name, work in (companions or {}).items():
                    self._start(name, work)
                await stop.wait()
                await self._stop_in_order()
        finally:
            await self._close()

    async def run_once(self, seconds: float) -> None:
        """Read for so long, then publish all there is, and end."""
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        self._settle_s = ONCE_SETTLE_S
        await self.run(stop)

    def _start_stages(self) -> None:
        self._start("keep", self.keeper.run())
        self._start("tick", self._tick())
        self._start("events: devices", self._events.pass_on_changes())
        self._start("events: gaps", self._tell_gaps())
        self._start("events: clock", watch_clock(self._events, self._clock))
        if self.archiving is not None:
            self._start("archive", self.archiving.run())
        if self.shipper is not None:
            self._start("ship", self.shipper.run())
        if self._encryption is not None:
            self._start("rekey", rekey_when_asked(self.config.device.data_directory / FOLDER_NAME, self._rekey))
        for name, publisher in self.config.publishers.items():
            self._start_publisher(name, publisher)
        for name, table in self.config.drivers.items():
            self._start_collector(name, table)

    async def _tell_gaps(self) -> None:
        archiving = self.archiving
        await tell_gaps(
            self._events,
            self.journal,
            self._journal_id,
            is_archived=lambda gap: archiving is not None and archiving.is_archived(gap),
            is_receipted=lambda gap: archiving is None or archiving.is_receipted(gap),
        )

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = self._group.create_task(work, name=name)

    def _start_collector(self, name: str, table: Any) -> None:
        driver = build_driver(name, table)
        driver.recall(*self._tokens.recall(name))
        collector = Collector(driver, self._queue, self._events.device_changed)
        self.collectors[name] = collector
        self._start(f"collect: {name}", collector.run())

    def _start_publisher(self, name: str, config: PublisherConfig) -> None:
        source = CursorSource(self.journal.journal.cursor(name), self.journal.call)
        quarantine = Quarantine(self.config.device.data_directory / "quarantine" / f"{name}.jsonl", name)
        publisher = build_publisher(name, config, self._signer, self._encryption)
        delivery = Delivery(publisher, source, quarantine, config.delivery_settings())
        self.links[name] = _Link(delivery, source)
        self._start(f"publish: {name}", delivery.run())

    async def _stop(self, *names: str) -> None:
        """End tasks and wait until they are gone. What one died of, if anything, the group tells."""
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _notify_links(self) -> None:
        for link in self.links.values():
            link.source.notify()

    def _rekey(self, stream_id: str) -> None:
        assert self._encryption is not None
        self._encryption.rekey(stream_id, self._clock.now_ms())

    async def _tick(self) -> None:
        """Positions are saved, and the clock's ceiling raised, also while no reading comes."""
        while True:
            with contextlib.suppress(StorageError):  # the keeper meets the same disk, and tells
                await self.journal.tick()
            await asyncio.sleep(TICK_S)

    async def _tell(self, info_type: str, reason: str) -> None:
        notice = LifecycleNotice(
            version=VERSION,
            configuration=self.config.sha256,
            reason=reason,
        )
        await self._events.tell_lifecycle(info_type, notice)

    # Health

    async def is_moving(self) -> bool:
        """Whether what comes in gets to the disk: the journal's thread answers, and nothing sits in the queue."""
        try:
            async with asyncio.timeout(LIFE_SIGN_S):
                await self.journal.call(lambda: None)
        except TimeoutError:
            return False
        waited_s = time.monotonic() - self.keeper.moved_at_s
        return self._queue.empty() or waited_s < LIFE_SIGN_S + self.config.journal.commit_interval_s

    def _is_published(self) -> bool:
        return all(link.delivery.status.is_up and link.delivery.in_flight == 0 for link in self.links.values())

    # Changing the configuration

    def can_take(self, config: Config) -> bool:
        """Whether the change leaves the journal and everything around it as they are."""
        old = self.config
        fixed = ("device", "journal", "archive", "ship")
        return (
            list(old.publishers) == list(config.publishers)
            and all(getattr(old, name) == getattr(config, name) for name in fixed)
            and _encrypted_rules(old) == _encrypted_rules(config)
        )

    async def take(self, config: Config) -> None:
        """Restart what changed, and leave the rest untouched. Only where `can_take`."""
        old, self.config = self.config, config
        for name in old.drivers.keys() | config.drivers.keys():
            if old.drivers.get(name) != config.drivers.get(name):
                await self._change_collector(name)
        for name, publisher in config.publishers.items():
            if old.publishers[name] != publisher:
                await self._stop(f"publish: {name}")
                await self.journal.call(self.journal.journal.cursor(name).rewind)  # what was under way comes again
                self._start_publisher(name, publisher)
        self.keeper.router = self._router(config)
        await self._tell(CONFIGURATION_INFO_TYPE, "")

    async def _change_collector(self, name: str) -> None:
        if name in self.collectors:
            await self._stop(f"collect: {name}")
            await self._committed_up_to_now(name)
            del self.collectors[name]
        if name in self.config.drivers:
            self._start_collector(name, self.config.drivers[name])

    async def _committed_up_to_now(self, name: str) -> None:
        """Batches are committed in order, so when an empty one is, all before it are."""
        is_done = asyncio.Event()

        async def tell() -> None:
            is_done.set()

        await self._queue.put(Batch(name, (), committed=tell))
        await is_done.wait()

    # Stopping

    async def _stop_in_order(self) -> None:
        if CHANGING in self._tasks:
            await self._stop(CHANGING)
        collecting = [name for name in self._tasks if name.startswith("collect: ")]
        await self._within(STOP_READING_S, "stop reading", self._stop(*collecting))
        self.keeper.is_hurried = True
        await self._within(COMMIT_S, "commit", self._commit_all())
        self._notify_links()
        await self._within(self._settle_s, "settle", self._settle())
        await self._stop(*self._tasks)

    async def _commit_all(self) -> None:
        await self._tell(STOP_INFO_TYPE, "")
        await self._queue.join()

    async def _settle(self) -> None:
        """Until every link that is up, or every link where that is waited for, has published all there is."""
        while await self._unpublished():  # noqa: ASYNC110 - the journal is asked, and it knows no events
            await asyncio.sleep(SETTLE_CHECK_S)

    async def _unpublished(self) -> int:
        now_ms = self._clock.now_ms()
        waiting = (await self.journal.call(lambda: self.journal.journal.stats(now_ms))).cursors
        is_patient = self._settle_s > SETTLE_S
        return sum(waiting[name].depth for name, link in self.links.items() if is_patient or link.delivery.status.is_up)

    async def _within(self, seconds: float, what: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            log.warning("stopping goes on without waiting longer; step=%s waited_s=%.0f", what, seconds)

    async def _close(self) -> None:
        if self.archiving is not None:
            await self.archiving.close()
        try:
            await self.journal.close()
        except StorageError as error:
            log.error("the journal could not be closed in order; problem=%s", error)  # noqa: TRY400 - no traceback
        with contextlib.suppress(StorageError):  # a ceiling that stays high costs nothing
            self._references.close()


def _encrypted_rules(config: Config) -> list[StreamRule]:
    return [rule for rule in config.streams if rule.encryption != "none"]
