"""Spark for one command of an operator: what it has to say goes to its own log, and how it fails becomes one line.

Java and its workers write to the stderr that they were started with: hundreds of lines of stack for a full disk. They
get a file instead, which is gone with them unless the operator named one.
"""

import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.errors import SparkFailed
from ingest.private_folders import private_options
from ingest.session import is_submitted, open_session

MAX_LOG_READ_BYTES: Final = 256 * 1024
_STDERR: Final = 2
_PREFIX_OF_STREAMS: Final = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ")
_WORDS_OF_JAVA: Final = re.compile(r"^(?:Exception in thread \S+ )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b")
_CHATTER: Final = ("WARN", "Using Spark's default")


@contextmanager
def spark_for_command(master: str | None, options: Mapping[str, str], log: Path | None) -> Iterator[SparkSession]:
    """Raises: SparkFailed, NoJava, OSError; KeyboardInterrupt, and then Java is left to end with this process."""
    with _open_log(log) as said, _python_side_is_silent(), _options_for(master, options) as all_options:
        try:
            with _stderr_to(said):
                spark = open_session(master, all_options)
            with _stopped_at_the_end(spark):
                yield spark
        except (PySparkException, Py4JError) as error:
            raise SparkFailed(_from_log(said) if _has_not_started(error) else words_of(error)) from error


@contextmanager
def _options_for(master: str | None, options: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """On this machine with private folders; a cluster has its own, and so has what `spark-submit` has started."""
    if is_submitted() or not (master or "local").startswith("local"):
        yield dict(options)
    else:
        with private_options(options) as all_options:
            yield all_options


@contextmanager
def _stopped_at_the_end(spark: SparkSession) -> Iterator[None]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own would speak to Java in the middle of a word
    try:
        yield
    except Exception:
        with suppress(PySparkException, Py4JError):  # the first error tells more
            spark.stop()
        raise
    spark.stop()


def words_of(error: Exception) -> str:
    """The one line of an error of Spark that tells what is wrong."""
    lines = [line for line in _text_of(error).splitlines() if line.strip()] or [type(error).__name__]
    of_python = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if of_python:  # whatever is not indented after it is what was raised
        lines = [line for line in lines[of_python[-1] + 1 :] if not line[0].isspace()] or lines
    return _PREFIX_OF_STREAMS.sub("", lines[0])


def _text_of(error: Exception) -> str:
    """Of an error in Java what began it, since all the others only pass it on."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    cause = error.java_exception
    while (before := cause.getCause()) is not None:
        cause = before
    return str(cause)


def _has_not_started(error: Exception) -> bool:
    return isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED"


def _from_log(said: IO[bytes]) -> str:
    """Why Java ended before it was there, by what it wrote."""
    said.seek(0)
    text = said.read(MAX_LOG_READ_BYTES).decode(errors="replace")
    lines = [line for line in text.splitlines() if line and not any(word in line for word in _CHATTER)]
    errors = [line for line in lines if _WORDS_OF_JAVA.match(line)]
    return f"Spark did not start: {(errors or lines or ['Java said nothing'])[0]}"


def _open_log(log: Path | None) -> IO[bytes]:
    return tempfile.TemporaryFile() if log is None else log.open("w+b")


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """For processes that are started within."""
    sys.stderr.flush()
    own = os.dup(_STDERR)
    os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(own, _STDERR)
        os.close(own)


@contextmanager
def _python_side_is_silent() -> Iterator[None]:
    """The link to Java logs each error before it raises it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
