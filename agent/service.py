"""The process around the pipeline: signals, reloading, the watchdog, the status file and the status page.

| signal | what |
|---|---|
| SIGTERM, SIGINT | stop in order, within a bounded time |
| SIGHUP | read the configuration again: all of it is checked first, and a wrong one changes nothing |

A reload restarts the drivers and publishers that changed. A change to [device], [journal], [archive] or [ship], or to
the set of publishers, restarts the whole pipeline within the process.
"""

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.clock import Clock
from agent.config import Config, load_config
from agent.errors import ConfigError
from agent.keys import DeviceKeys, find_key_file, load_keys, passphrase_from
from agent.logs import set_up_logs
from agent.memory import clear_up_after_start
from agent.page_config import OFF
from agent.pipeline import Pipeline
from agent.service_manager import ALIVE, READY, STOPPING, notify, reloading, watchdog_interval_s
from agent.status import collect_status, write_status
from agent.version import VERSION

if TYPE_CHECKING:
    from firmware_bridge import Questions

__all__ = ["Service", "key_file_of", "open_keys"]

PAGE_CHECK_S: Final = 0.5  # whether the configuration turned something on; the first readings go before it
CLEAR_UP_AFTER_S: Final = 1.0  # when all that this configuration uses is loaded, the page too
LOOK_AGAIN_S: Final = 1.0

log = logging.getLogger(__name__)


def key_file_of(config: Config) -> Path:
    """Named in the configuration, else handed in or named by the environment, else below the data directory."""
    if config.device.key_file is not None:
        return config.device.key_file
    return find_key_file(os.environ, usual=config.device.data_directory / "keys" / "device.keys")


def open_keys(config: Config) -> DeviceKeys:
    """Raises: ConfigError, OSError."""
    return load_keys(
        key_file_of(config),
        lambda: passphrase_from(config.device.passphrase_file, os.environ, prompt="Passphrase: "),
    )


class Service:
    """Runs until it is told to stop."""

    def __init__(self, config: Config, keys: DeviceKeys, clock: Clock) -> None:
        self._config = config
        self._keys = keys
        self._clock = clock
        self._is_stopping = False
        self._stop = asyncio.Event()
        self._pipeline: Pipeline | None = None
        self._reload_wanted = asyncio.Event()

    async def run(self) -> None:
        """Raises whatever ended it but a signal."""
        self._listen_to_signals()
        while not self._is_stopping:
            self._stop = asyncio.Event()
            self._pipeline = Pipeline(self._config, self._keys, self._clock)
            await self._run_pipeline(self._pipeline)
        log.info("stopped")

    async def _run_pipeline(self, pipeline: Pipeline) -> None:
        companions = {
            "announce": self._announce(),
            "reload": self._reload_when_told(pipeline),
            "watchdog": self._feed_watchdog(pipeline),
            "status": self._show_status(pipeline),
            "page": self._show_page(pipeline),
            "links": self._lend_links(pipeline),
            "clear up": _clear_up(),
        }
        await pipeline.run(self._stop, companions)

    async def _announce(self) -> None:
        notify(READY)
        log.info("running; device=%s configuration=%s version=%s", self._config.device.name, self._config.path, VERSION)

    # Signals

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._reload_wanted.set)

    def _end(self, why: str) -> None:
        log.info("stopping; signal=%s", why)
        notify(STOPPING)
        self._is_stopping = True
        self._stop.set()

    # Reloading

    async def _reload_when_told(self, pipeline: Pipeline) -> None:
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            notify(reloading())
            await self._reload(pipeline)
            notify(READY)

    async def _reload(self, pipeline: Pipeline) -> None:
        try:
            config = await asyncio.to_thread(load_config, self._config.path)
        except (ConfigError, OSError) as error:
            log.error("the new configuration is wrong, the old one stays; problem=%s", error)  # noqa: TRY400
            return
        self._config = config
        set_up_logs(config.log)
        if pipeline.can_take(config):
            await pipeline.take(config)
            log.info("configuration changed; configuration=%s", config.path)
        else:
            log.info("configuration changed, restarting the pipeline; configuration=%s", config.path)
            self._stop.set()

    # Watchdog and status

    async def _feed_watchdog(self, pipeline: Pipeline) -> None:
        """Only while the pipeline moves. One look may meet it in an unlucky moment, so the next one follows soon."""
        interval_s = watchdog_interval_s()
        while interval_s is not None:
            is_moving = await pipeline.is_moving()
            if is_moving:
                notify(ALIVE)
            await asyncio.sleep(interval_s if is_moving else min(LOOK_AGAIN_S, interval_s))

    async def _show_status(self, pipeline: Pipeline) -> None:
        while True:
            status = await collect_status(pipeline, self._clock, os.getpid())
            await asyncio.to_thread(write_status, pipeline.config.status_file, status)
            await asyncio.sleep(pipeline.config.status.every_s)

    async def _show_page(self, pipeline: Pipeline) -> None:
        """Imported once the pipeline runs: no reading waits for it, and a device without it saves the memory."""
        while True:
            await asyncio.sleep(PAGE_CHECK_S)
            if pipeline.config.page.listen != OFF:
                from agent.page import serve_page

                await serve_page(pipeline, self._clock)

    async def _lend_links(self, pipeline: Pipeline) -> None:
        """To `headgate firmware`, once there is a microcontroller."""
        while not any(each.driver.KIND == "firmware" for each in pipeline.collectors.values()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(PAGE_CHECK_S)
        from agent.lent_link import lend_links
        from drivers.firmware.driver import FirmwareDriver

        def questions_to(name: str) -> "Questions | None":
            driver = pipeline.collectors[name].driver if name in pipeline.collectors else None
            return driver.questions if isinstance(driver, FirmwareDriver) else None

        await lend_links(pipeline.config.links_socket, questions_to)


async def _clear_up() -> None:
    await asyncio.sleep(CLEAR_UP_AFTER_S)
    clear_up_after_start()
