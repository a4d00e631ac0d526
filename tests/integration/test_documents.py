"""Commands in the documents are run, and what they print is what the documents say.

In a ```console block `$ ` begins a command; what follows is its output (stdout and stderr), where a line `…` stands for
any lines, and `exit N` for the exit code if it is not 0. Commands of one document share a folder. `make` is only asked
whether it knows the target: the tests are run by it. A service under `timeout` is ended when it has printed as much as
the document says, however long a busy machine takes to start it.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.processes import ended

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PARTS = ("drivers", "firmware_bridge", "tests/vectors")  # that have documents of their own
LINKED = [*DOCUMENTS, ROOT / "CHANGELOG.md", *sorted(each for part in PARTS for each in (ROOT / part).rglob("*.md"))]
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNDER_TIMEOUT = re.compile(r"timeout --preserve-status (?:--signal=TERM )?\d+ (.*)")


@dataclass
class Step:
    command: str
    output: list[str] = field(default_factory=list)
    exit_code: int = 0


def steps_of(document: Path) -> list[Step]:
    steps: list[Step] = []
    for block in CONSOLE_BLOCK.findall(document.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line.removeprefix("$ ")))
            elif code := re.fullmatch(r"exit (\d+)", line):
                steps[-1].exit_code = int(code[1])
            else:
                steps[-1].output.append(line)
    return steps


def run(step: Step, folder: Path) -> tuple[int, str]:
    """The exit code, and what was printed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = re.sub(r"^make (?=\w)", f"make --dry-run --directory {ROOT} ", step.command)
    service = UNDER_TIMEOUT.fullmatch(command)
    started = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", f"exec {service[1]}" if service else command],
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ended(started) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in step.output] if service else []
        if service:
            process.terminate()
        printed.append(process.stdout.read())
        process.wait()
    return process.returncode, "".join(printed)


def matches(printed: str, expected: list[str]) -> bool:
    pattern = "\n".join(line.replace("[", "[[]") for line in expected).replace("…", "*")
    return fnmatchcase(printed.rstrip("\n"), pattern.rstrip("\n"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_of_a_document_do_what_it_says(document: Path, tmp_path: Path) -> None:
    for step in steps_of(document):
        exit_code, printed = run(step, tmp_path)
        assert exit_code == step.exit_code, f"{step.command}\n{printed}"
        if step.output:
            assert matches(printed, step.output), f"{step.command} printed\n{printed}"


def test_the_readme_names_the_two_commands_and_stays_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {step.command for step in steps_of(ROOT / "README.md")} >= {"make demo", "make test"}
    assert len(readme.splitlines()) < 150


def anchors_of(document: Path) -> set[str]:
    """The names by which the headings of a document are linked to, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", document.read_text(encoding="utf-8")):
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors_of(path), f"{target}#{anchor}"


def test_the_exit_codes_are_documented() -> None:
    from agent.errors import ExitCode

    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", operations, re.MULTILINE)} == set(map(int, ExitCode))


def test_every_make_target_has_one_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE))
    assert phony == set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))


def test_every_command_of_the_table_is_in_the_operations_manual() -> None:
    from agent.cli import COMMANDS

    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"headgate {name}" in operations
