"""The listener, its connections, and the end of both.

One task group owns every task. At most `max_connections` are open; when all are taken, a newcomer pushes out the one
that has waited longest without a complete request, so silent connections, however many, keep no device out.
"""

import asyncio
import logging
import signal
import ssl
import time
from collections.abc import Callable

from ingest.collector.blocking import Workers
from ingest.collector.connection import BUFFER_BYTES, Answer, ClientGone, Connection
from ingest.collector.errors import ConfigError, Refused
from ingest.collector.intake import Intake
from ingest.collector.metrics import Metrics
from ingest.collector.routes import Routes
from ingest.collector.service_manager import ALIVE, READY, STOPPING, notify, watchdog_interval_s
from ingest.collector.settings import Settings, TlsFiles
from protocol.shipping import Refusal

log = logging.getLogger(__name__)

BACKLOG = 512
DISK_THREADS = 8
CHECK_THREADS = 2  # so that manifests, which a hostile device can make large, are in memory one or two at a time
EXPIRY_INTERVAL_S = 3600.0


class Collector:
    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings = settings
        self._intake = intake
        self._disk = Workers(DISK_THREADS, "disk")
        self._checks = Workers(CHECK_THREADS, "check")
        self.metrics = Metrics()
        self._routes = Routes(intake, settings.limits, self.metrics, self._disk, self._checks)
        self._waiting: dict[Connection, None] = {}  # without a complete request, oldest first
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self._tls = None if settings.tls is None else _tls_context(settings.tls)

    async def run(self, announce: Callable[[str], None]) -> None:
        """Serve until `stop`. `announce` is told the address, once, when it is listened on."""
        try:
            async with asyncio.TaskGroup() as group:
                server = await self._listen(group)
                announce(self._url(server))
                notify(READY)
                helpers = [group.create_task(self._expire_parts()), group.create_task(self._show_life())]
                await self._stop.wait()
                notify(STOPPING)
                server.close()
                await self._finish_requests()
                for task in (*helpers, *self._tasks.values()):
                    task.cancel()
        finally:
            self._disk.close()
            self._checks.close()

    def stop(self) -> None:
        self._stop.set()

    async def _listen(self, group: asyncio.TaskGroup) -> asyncio.Server:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = Connection(reader, writer, self._settings.limits)
            if self._tls is not None:
                connection.hold_back()
            self._tasks[connection] = group.create_task(self._serve(connection))
            self._tasks[connection].add_done_callback(lambda _: self._forget(connection))

        return await asyncio.start_server(
            accept,
            self._settings.host,
            self._settings.port,
            limit=BUFFER_BYTES,
            backlog=BACKLOG,
        )

    async def _serve(self, connection: Connection) -> None:
        self.metrics.connections_accepted += 1
        self.metrics.open_connections += 1
        try:
            if self._make_room():
                await self._secure(connection)
                while await self._serve_request(connection):
                    pass
                self._waiting[connection] = None  # what lingers only to hear its last answer may be pushed out
                await connection.close()
            else:
                await self._secure(connection)
                refused = Refused(Refusal.BUSY, "all connections are at work", retry_after_s=30)
                await self._give(connection, self._routes.refuse(refused), is_head=False)
        except ClientGone:
            pass
        except Exception:
            log.exception("a fault of the collector; only this connection is dropped")
            self.metrics.faults += 1
        finally:
            self.metrics.open_connections -= 1

    def _forget(self, connection: Connection) -> None:
        connection.abort()
        self._waiting.pop(connection, None)
        del self._tasks[connection]

    async def _secure(self, connection: Connection) -> None:
        """TLS begins here and not in the listener, so that a handshake that never ends can be pushed out as well."""
        if self._tls is not None:
            self._waiting[connection] = None
            await connection.secure(self._tls)

    async def _serve_request(self, connection: Connection) -> bool:
        """Whether another may follow."""
        self._waiting[connection] = None
        is_head = False
        try:
            request = await connection.next_request()
            is_head = request.method == "HEAD"
            del self._waiting[connection]
            answer = await self._routes.answer(request, connection)
        except Refused as refused:
            answer = self._routes.refuse(refused)
        await self._give(connection, answer, is_head=is_head)
        return connection.can_go_on and not self._stop.is_set()

    async def _give(self, connection: Connection, answer: Answer, *, is_head: bool) -> None:
        """A client that was refused for who it is, or is no HTTP client at all, has to connect anew."""
        self.metrics.answers[answer.status] += 1
        close = self._stop.is_set() or answer.status in (400, 401, 403, 431)
        await connection.answer(answer, to_head=is_head, close=close)

    def _make_room(self) -> bool:
        """Whether there is room for one more connection, if need be by pushing out the longest silent one."""
        if self.metrics.open_connections <= self._settings.limits.max_connections:
            return True
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._tasks[oldest].cancel()
        self.metrics.connections_pushed_out += 1
        return True

    async def _finish_requests(self) -> None:
        """Those without a request go at once; the others have a little time, and what came in is kept."""
        for connection in self._waiting:
            self._tasks[connection].cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._settings.limits.shutdown_grace_s)

    async def _expire_parts(self) -> None:
        while True:
            try:
                self.metrics.parts_expired += await self._disk.run(self._intake.uploads.expire, time.time())
            except OSError as error:
                log.warning("unfinished uploads could not be looked through; %s", error)
            await asyncio.sleep(EXPIRY_INTERVAL_S)

    async def _show_life(self) -> None:
        """Alive means: the loop turns and a worker thread answers."""
        interval_s = watchdog_interval_s()
        while interval_s is not None:
            await self._disk.run(self._intake.uploads.free_bytes)
            notify(ALIVE)
            await asyncio.sleep(interval_s)

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT stop it; SIGHUP makes it read its certificate again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_certificate)

    def _reload_certificate(self) -> None:
        """A renewed certificate counts from the next connection on; a broken one changes nothing."""
        if self._tls is None or self._settings.tls is None:
            return
        try:
            _load_certificate(self._tls, self._settings.tls)
            log.info("certificate read again")
        except ConfigError as error:
            log.error(  # noqa: TRY400 - the text says it all
                "certificate not read, the old one stays; %s", error
            )

    def _url(self, server: asyncio.Server) -> str:
        host, port = server.sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{port}"


def _tls_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, files)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{files.certificate}, {files.key}: cannot be used for TLS: {error}") from error
