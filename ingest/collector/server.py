"""The collector's process: its listeners, its certificate, its periodic tasks and its stop."""

import asyncio
import logging
import signal
import ssl
import time
from collections.abc import Callable
from dataclasses import replace

from ingest.collector.blocking import Workers
from ingest.collector.errors import ConfigError
from ingest.collector.intake import Intake
from ingest.collector.metrics import Metrics
from ingest.collector.monitoring import MonitoringRoutes
from ingest.collector.routes import Routes
from ingest.collector.settings import Limits, Settings, TlsFiles
from runtime.http import HttpLimits, HttpServer, Service
from runtime.private_files import check_private_file
from runtime.service_manager import ALIVE, READY, STOPPING, notify, watchdog_interval_s
from runtime.stopping import call_on_stop_signals

log = logging.getLogger(__name__)

DISK_THREADS = 8
CHECK_THREADS = 2  # so that manifests, which a hostile device can make large, are in memory one or two at a time
EXPIRY_INTERVAL_S = 3600.0
MAX_MONITORING_CONNECTIONS = 32
BUFFER_BYTES = 128 * 1024
HEADERS = {"Cache-Control": "no-store"}


class Collector:
    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings = settings
        self._intake = intake
        self._disk = Workers(DISK_THREADS, "disk")
        self._checks = Workers(CHECK_THREADS, "check")
        self.metrics = Metrics()
        self._monitoring = MonitoringRoutes(intake, settings.limits, self.metrics, self._disk)
        self._routes = Routes(
            intake,
            settings.limits,
            self.metrics,
            self._disk,
            self._checks,
            monitoring=self._monitoring if settings.monitoring is None else None,
        )
        self._stop = asyncio.Event()
        self._tls = None if settings.tls is None else _tls_context(settings.tls)
        limits = _http_limits(settings.limits)
        self._listeners = [(self._server(self._routes, limits, self._tls), (settings.host, settings.port))]
        if settings.monitoring is not None:  # its own table of connections, which devices cannot fill
            few = MAX_MONITORING_CONNECTIONS
            limits = replace(limits, max_connections=few, max_connections_per_address=few)
            self._listeners.append((self._server(self._monitoring, limits, None), settings.monitoring))

    async def run(self, announce: Callable[[str], None]) -> None:
        """Serve until `stop`. `announce` is called once with the URL for devices, when it listens."""
        try:
            async with asyncio.TaskGroup() as group:
                urls = [await self._start(server, *address) for server, address in self._listeners]
                announce(urls[0])
                for url in urls[1:]:
                    log.info("metrics and health; url=%s", url)
                notify(READY)
                periodic = [group.create_task(self._expire_parts()), group.create_task(self._feed_watchdog())]
                await self._stop.wait()
                notify(STOPPING)
                await asyncio.gather(*(server.stop() for server, _ in self._listeners))
                for task in periodic:
                    task.cancel()
        finally:
            self._disk.close()
            self._checks.close()

    def stop(self) -> None:
        self._stop.set()

    def _server(self, service: Service, limits: HttpLimits, tls: ssl.SSLContext | None) -> HttpServer:
        return HttpServer(service, limits, name="collector", headers=HEADERS, tls=tls, counts=self.metrics.http)

    async def _start(self, server: HttpServer, host: str, port: int) -> str:
        """Returns its URL. Raises: OSError."""
        bound, port = await server.start(host, port)
        is_secure = server is self._listeners[0][0] and self._tls is not None
        return f"{'https' if is_secure else 'http'}://{f'[{bound}]' if ':' in bound else bound}:{port}"

    async def _expire_parts(self) -> None:
        while True:
            try:
                self.metrics.parts_expired += await self._disk.run(self._intake.uploads.expire, time.time())
            except OSError as error:
                log.warning("expired uploads could not be removed; problem=%s", error)
            await asyncio.sleep(EXPIRY_INTERVAL_S)

    async def _feed_watchdog(self) -> None:
        """Report that the collector is alive: the event loop runs and a worker thread answers."""
        interval_s = watchdog_interval_s()
        while interval_s is not None:
            await self._disk.run(self._intake.uploads.free_bytes)
            notify(ALIVE)
            await asyncio.sleep(interval_s)

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT stop it; SIGHUP reloads the certificate."""
        call_on_stop_signals(lambda _: self.stop())
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_certificate)

    def _reload_certificate(self) -> None:
        """A renewed certificate is used from the next connection on; a broken one changes nothing."""
        if self._tls is None or self._settings.tls is None:
            return
        try:
            _load_certificate(self._tls, self._settings.tls)
            log.info("certificate reloaded")
            notify("STATUS=")
        except ConfigError as error:
            log.error(  # noqa: TRY400 - the text says it all
                "certificate not reloaded, the previous one stays in use; problem=%s", error
            )
            notify(f"STATUS=the new certificate was refused, the previous one is in use: {error}")


def _http_limits(limits: Limits) -> HttpLimits:
    return HttpLimits(
        max_connections=limits.max_connections,
        max_connections_per_address=limits.max_connections_per_address,
        buffer_bytes=BUFFER_BYTES,
        head_timeout_s=limits.head_timeout_s,
        body_timeout_s=limits.patience_s,
        min_body_bytes=limits.min_patience_bytes,
        stop_grace_s=limits.shutdown_grace_s,
    )


def _tls_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, files)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        check_private_file(files.key)
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{files.certificate}, {files.key}: cannot be used for TLS: {error}") from error
