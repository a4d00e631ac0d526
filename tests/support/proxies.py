"""A proxy that runs for a block, and connections that are cut again and again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from testbed.tcp_proxy import TcpProxy


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


async def flap(proxy: TcpProxy, times: int, passed_bytes: int) -> None:
    """Cut all connections `times` times, each time after clients have sent `passed_bytes` more."""
    for _ in range(times):
        goal = proxy.passed_bytes + passed_bytes
        await proxy.wait_until(lambda goal=goal: proxy.passed_bytes >= goal)  # type: ignore[misc]
        await proxy.cut()
