"""The process around the pipeline: signals, reloading, the watchdog, the status file and the status page.

| signal | what |
|---|---|
| SIGTERM, SIGINT | stop in order, within a bounded time |
| SIGHUP | read the configuration again: all of it is checked first, and a wrong one changes nothing |

`headgate reload` requests the same over a socket; the response comes when the new configuration is in use or refused.

A reload restarts the drivers and publishers that changed. A change to [device], [journal], [archive] or [ship], or to
the set of publishers, restarts the whole pipeline within the process.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from agent.clock import Clock
from agent.config.configuration import Config, load_config
from agent.config.files import check_files, key_file_of, log_remarks, open_keys
from agent.config.page import OFF
from agent.errors import ConfigError, StorageError, error_text
from agent.keys import DeviceKeys
from agent.pipeline import RELOAD_TASK, Pipeline
from agent.service.control import control_socket, serve_requests
from agent.service.logs import set_up_logs
from agent.service.memory import release_startup_memory
from agent.service.status import collect_status, write_status
from agent.version import VERSION
from runtime.service_manager import ALIVE, READY, STOPPING, notify, reloading, watchdog_interval_s
from runtime.stopping import call_on_stop_signals

if TYPE_CHECKING:
    from firmware_bridge import DeviceRequests

PAGE_CHECK_S: Final = 0.5  # how often to check whether the configuration turned the page on
RELEASE_MEMORY_AFTER_S: Final = 1.0  # when all modules of this configuration are imported, the page too
RECHECK_S: Final = 1.0

log = logging.getLogger(__name__)


class Service:
    """Runs the pipeline until SIGTERM or SIGINT."""

    def __init__(self, config: Config, keys: DeviceKeys, clock: Clock) -> None:
        self._config = config
        self._keys = keys
        self._clock = clock
        self._is_stopping = False
        self._stop = asyncio.Event()
        self._in_use: tuple[Config, DeviceKeys] | None = None  # of the last pipeline
        self._reload_requested = asyncio.Event()
        self._waiting: list[asyncio.Future[str]] = []  # for the answer to a reload that has not begun …
        self._being_answered: list[asyncio.Future[str]] = []  # … and to the one in flight
        self._shown_refusal = ""  # by `systemctl status`
        self._reload_problem = ""  # why the configuration of the last reload is not in use

    async def run(self) -> None:
        """Run until a signal. Raises any other error that ended it."""
        self._listen_to_signals()
        socket = control_socket(self._config.device.data_directory, os.environ)
        pipeline = self._open_pipeline()  # first: fails if an agent already runs here, whose socket must stay
        control = asyncio.create_task(serve_requests(socket, self._config.path, self.reload), name="control")
        try:
            await self._run_pipeline(pipeline)
            while not self._is_stopping:
                self._stop = asyncio.Event()
                await self._run_pipeline(self._open_pipeline())
        finally:
            control.cancel()
            await asyncio.wait([control])
        log.info("stopped")

    def _open_pipeline(self) -> Pipeline:
        """Open the pipeline with the new configuration or, if that fails, with the previous one.

        Raises: ConfigError, StorageError, OSError, if there is no previous one, or it cannot be opened either.
        """
        try:
            pipeline = Pipeline(self._config, self._keys, self._clock)
        except (ConfigError, StorageError, OSError) as error:
            if self._in_use is None:
                raise
            log.error("new configuration rejected, keeping the previous one; problem=%s", error)  # noqa: TRY400
            self._reload_problem = error_text(error)
            self._config, self._keys = self._in_use
            set_up_logs(self._config.log)
            pipeline = Pipeline(self._config, self._keys, self._clock)
        self._in_use = self._config, self._keys
        return pipeline

    async def _run_pipeline(self, pipeline: Pipeline) -> None:
        companions = {
            "announce": self._announce(),
            RELOAD_TASK: self._reload_on_request(pipeline),
            "watchdog": feed_watchdog(pipeline.is_making_progress, watchdog_interval_s()),
            "status": self._show_status(pipeline),
            "page": self._show_page(pipeline),
            "links": self._share_links(pipeline),
            "release memory": _release_memory(),
        }
        await pipeline.run(self._stop, companions, at_end=partial(self._write_status, pipeline))

    async def _announce(self) -> None:
        self._report_reload()
        log.info("running; device=%s configuration=%s version=%s", self._config.device.name, self._config.path, VERSION)

    # Signals

    def _listen_to_signals(self) -> None:
        call_on_stop_signals(self._end)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_requested.set)

    def _end(self, why: str) -> None:
        log.info("stopping; signal=%s", why)
        notify(STOPPING)
        self._is_stopping = True
        self._stop.set()

    # Reloading

    async def reload(self) -> str:
        """Load the configuration again. The problem, or "" when the new one is in use."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._reload_requested.set()
        return str(await answer)

    async def _reload_on_request(self, pipeline: Pipeline) -> None:
        while True:
            await self._reload_requested.wait()
            self._reload_requested.clear()
            self._being_answered, self._waiting = self._waiting, []
            notify(reloading())
            if await self._reload(pipeline):
                self._report_reload()

    async def _reload(self, pipeline: Pipeline) -> bool:
        """Whether the reload is complete; if not, the pipeline that is opened next completes it."""
        self._reload_problem = ""
        try:
            config, keys = await asyncio.to_thread(self._read_again)
        except (ConfigError, OSError) as error:
            log.error("new configuration is invalid, keeping the previous one; problem=%s", error)  # noqa: TRY400
            self._reload_problem = error_text(error)
            return True
        self._config, self._keys = config, keys
        set_up_logs(config.log)
        if pipeline.can_apply(config):
            self._in_use = config, keys
            if stuck := await pipeline.apply(config):
                self._reload_problem = (
                    f"not stopped or not committed in time, previous settings in use: {', '.join(stuck)}; reload again"
                )
                log.error("new configuration only partly in use; problem=%s", self._reload_problem)
            else:
                log.info("new configuration in use; configuration=%s", config.path)
            return True
        log.info("new configuration in use, restarting the pipeline; configuration=%s", config.path)
        self._stop.set()
        return False

    def _report_reload(self) -> None:
        """Report the result to systemd (`systemctl status` shows a refusal) and to each command that waits."""
        refusal = _refusal(self._reload_problem)
        notify(READY if refusal == self._shown_refusal else f"{READY}\nSTATUS={refusal}")
        self._shown_refusal = refusal
        for answer in self._being_answered:
            if not answer.done():  # the command may have ended
                answer.set_result(self._reload_problem)
        self._being_answered = []

    def _read_again(self) -> tuple[Config, DeviceKeys]:
        """Raises: ConfigError, OSError, if anything is wrong with the configuration or the files it names."""
        config = load_config(self._config.path)
        check_files(config)
        log_remarks(config)
        is_same = key_file_of(config) == key_file_of(self._config)
        return config, self._keys if is_same else open_keys(config)

    # Status

    async def _show_status(self, pipeline: Pipeline) -> None:
        while True:
            await self._write_status(pipeline)
            await asyncio.sleep(pipeline.config.status.every_s)

    async def _write_status(self, pipeline: Pipeline) -> None:
        status = await collect_status(pipeline, self._clock, os.getpid())
        await asyncio.to_thread(write_status, pipeline.config.status_file, status)

    async def _show_page(self, pipeline: Pipeline) -> None:
        """Serve the page. It is imported when the pipeline runs, so no reading waits for it, and only if it is on."""
        while True:
            await asyncio.sleep(PAGE_CHECK_S)
            if pipeline.config.page.listen != OFF:
                from agent.service.page import serve_page

                await serve_page(pipeline, self._clock)

    async def _share_links(self, pipeline: Pipeline) -> None:
        """Share links with `headgate firmware`, once there is a microcontroller."""
        while not any(each.driver.KIND == "firmware" for each in pipeline.collectors.values()):  # noqa: ASYNC110 - a reload may add one
            await asyncio.sleep(PAGE_CHECK_S)
        from agent.service.shared_link import share_links
        from drivers.firmware.driver import FirmwareDriver

        def requests_to(name: str) -> "DeviceRequests | None":
            driver = pipeline.collectors[name].driver if name in pipeline.collectors else None
            return driver.questions if isinstance(driver, FirmwareDriver) else None

        await share_links(pipeline.config.links_socket, requests_to)


def _refusal(problem: str) -> str:
    first_line, *others = problem.splitlines() or [""]
    more = f" (and {len(others)} more lines, see the log)" if others else ""
    return f"configuration rejected, the previous one is in use: {first_line}{more}" if problem else ""


async def _release_memory() -> None:
    await asyncio.sleep(RELEASE_MEMORY_AFTER_S)
    release_startup_memory()


async def feed_watchdog(is_making_progress: Callable[[], Awaitable[bool]], interval_s: float | None) -> None:
    """Notify systemd's watchdog while the pipeline moves. After a failed check the next one follows soon."""
    while interval_s is not None:
        moves = await is_making_progress()
        if moves:
            notify(ALIVE)
        await asyncio.sleep(interval_s if moves else min(RECHECK_S, interval_s))
