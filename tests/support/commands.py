"""Commands of Headgate that run for a block, in a process of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.processes import HeadgateProcess


@contextmanager
def running(*arguments: str) -> Iterator[HeadgateProcess]:
    process = HeadgateProcess(*arguments)
    try:
        yield process
    finally:
        process.close()


def node_arguments(data: Path, *more: str) -> list[str]:
    return ["node", "run", "--listen", "127.0.0.1:0", "--data", str(data), *more]
