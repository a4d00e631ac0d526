"""The page in the life of the agent: it opens when it can, and begins again with each new configuration."""

import asyncio
import logging
from typing import Final

from agent.clock import Clock
from agent.config import Config
from agent.errors import ConfigError, in_words
from agent.page.access import Access
from agent.page.history import SAMPLE_S, History
from agent.page.looks import Looks
from agent.page.page import Page
from agent.page.server import HttpServer
from agent.page_config import OFF
from agent.pipeline import Pipeline

__all__ = ["serve_page"]

RETRY_S: Final = 10.0  # after a port was taken, or the token could not be read

log = logging.getLogger(__name__)


async def serve_page(pipeline: Pipeline, clock: Clock) -> None:
    """Until the configuration turns it off. Each new one is served from its beginning, token and all."""
    history, problem = History(), ""
    while (config := pipeline.config).page.listen != OFF:
        try:
            await _serve(pipeline, clock, config, history)
            problem = ""
        except* (ConfigError, OSError) as group:
            told = in_words(group.exceptions[0])
            if told != problem:
                log.warning("no status page, trying again; listen=%s problem=%s", config.page.listen, told)
            problem = told
            await asyncio.sleep(RETRY_S)


async def _serve(pipeline: Pipeline, clock: Clock, config: Config, history: History) -> None:
    """Raises, in a group: ConfigError, OSError."""
    looks = Looks(pipeline, clock)
    async with asyncio.TaskGroup() as group:
        server = HttpServer(Page(Access(config.page), looks, history).answer, group)
        try:
            port = await server.open(config.page.host, config.page.port)
            log.info("status page; url=http://%s:%d/", config.page.listen.rpartition(":")[0], port)
            while pipeline.config is config:
                history.sample({name: each.status for name, each in pipeline.collectors.items()})
                await asyncio.sleep(SAMPLE_S)
        finally:
            server.close()
            looks.close()
