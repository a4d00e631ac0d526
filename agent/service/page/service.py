"""Runs the status page within the agent: retries to listen, restarts with each new configuration."""

import asyncio
import logging
from typing import Final

from agent.clock import Clock
from agent.config.configuration import Config
from agent.config.page import OFF
from agent.errors import ConfigError, error_text
from agent.pipeline import Pipeline
from agent.service.page.access import Access
from agent.service.page.history import SAMPLE_S, History
from agent.service.page.page import HEADERS, Page
from agent.service.page.snapshots import StatusSnapshots
from runtime.http import HttpLimits, HttpServer

RETRY_S: Final = 10.0  # after a port was taken, or the token could not be read
LIMITS: Final = HttpLimits(
    max_connections=32,
    max_connections_per_address=32,
    max_head_bytes=8 * 1024,
    max_target_bytes=1024,
    max_body_bytes=1024,  # a form with the token
    buffer_bytes=8 * 1024,
    head_timeout_s=15.0,
    body_timeout_s=15.0,
    send_timeout_s=15.0,
    linger_s=15.0,
    stop_grace_s=0.0,  # nobody who watches delays the agent's stop
)

log = logging.getLogger(__name__)


async def serve_page(pipeline: Pipeline, clock: Clock) -> None:
    """Until the configuration turns it off. Each new one is served from its beginning, token and all."""
    history, problem = History(), ""
    while (config := pipeline.config).page.listen != OFF:
        try:
            await _serve(pipeline, clock, config, history)
            problem = ""
        except (ConfigError, OSError) as error:
            told = error_text(error)
            if told != problem:
                log.warning("cannot start the status page, retrying; listen=%s problem=%s", config.page.listen, told)
            problem = told
            await asyncio.sleep(RETRY_S)


async def _serve(pipeline: Pipeline, clock: Clock, config: Config, history: History) -> None:
    """Raises: ConfigError, OSError."""
    snapshots = StatusSnapshots(pipeline, clock)
    server = HttpServer(Page(Access(config.page), snapshots, history), LIMITS, name="status page", headers=HEADERS)
    try:
        _, port = await server.start(config.page.host, config.page.port)
        log.info("status page; url=http://%s:%d/", config.page.listen.rpartition(":")[0], port)
        while pipeline.config is config:
            history.sample({name: each.status for name, each in pipeline.collectors.items()})
            await asyncio.sleep(SAMPLE_S)
    finally:
        await server.stop()
        snapshots.close()
