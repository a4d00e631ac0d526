"""Private folders for what Spark writes beside the tables, such as pieces of messages.

Left alone, Spark and Java put blocks, uploads, artifacts and unpacked libraries into the system's temporary folder,
some of them readable for everyone. Here they get a folder of mode 0700, below the place that the operator chose for
them or else the system's, and it is removed at the end.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

LOCAL_DIRS: Final = "spark.local.dir"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
PREFIX: Final = "headgate-spark-"
_VARIABLE: Final = "SPARK_LOCAL_DIRS"  # where it is set, Spark prefers it to the option


@contextmanager
def private_options(options: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Options for a session on this machine, with private folders that last as long as the block. Raises: OSError."""
    chosen = os.environ.get(_VARIABLE) or options.get(LOCAL_DIRS) or tempfile.gettempdir()
    with ExitStack() as stack:
        folders = [stack.enter_context(_private_folder(place)) for place in chosen.split(",")]
        stack.enter_context(_variable_set(",".join(folders)))
        temporary = f"-Djava.io.tmpdir={shlex.quote(folders[0])} -Dderby.system.home={shlex.quote(folders[0])}"
        yield {
            "spark.sql.warehouse.dir": f"{folders[0]}/warehouse",
            **options,
            LOCAL_DIRS: ",".join(folders),
            JAVA_OPTIONS: f"{options.get(JAVA_OPTIONS, '')} {temporary}".strip(),
        }


def _private_folder(place: str) -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix=PREFIX, dir=place.strip(), ignore_cleanup_errors=True)


@contextmanager
def _variable_set(folders: str) -> Iterator[None]:
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = folders
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
