"""Which tests one worker of pytest-xdist runs one after the other, and which of these groups begin first.

The tests of a file are one group, because they share fixtures; what cannot share a machine, or is expensive to set up
twice, is a group over several files (`GROUPS`). Without workers only the order changes.
"""

from collections.abc import Iterable
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["GROUPS", "LONGEST", "group_of", "in_order"]

GROUPS: Final = {  # how a test's path begins: its group
    "tests/integration/testbed/test_scenarios.py": "scenarios",
    "tests/integration/testbed/": "testbed",
    "tests/integration/ingest/": "spark",
    "tests/unit/ingest/test_clean.py": "spark",
    "tests/unit/ingest/test_decode.py": "spark",
    "tests/unit/ingest/test_known.py": "spark",
    "tests/unit/ingest/test_rollup.py": "spark",
    "tests/integration/test_service_under_systemd.py": "systemd",
    "tests/integration/test_image.py": "systemd",
    "tests/integration/test_installer.py": "systemd",
    "tests/integration/test_package.py": "systemd",
    "tests/integration/firmware_update/": "qemu",
    "tests/integration/firmware/": "qemu",
    "tests/integration/test_example_firmware.py": "qemu",
    "tests/integration/test_status_page": "browser",
    "tests/fault/test_ingest_survives_kills.py": "spark killed",
    "tests/integration/test_fuzz_targets.py": "fuzz",
}
LONGEST: Final = ("spark", "scenarios", "spark killed", "testbed", "qemu", "systemd", "browser", "fuzz")


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a whole group to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    config.option.loadscopereorder = False  # the order of the tests is the order of their groups
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_order(items)


def group_of(nodeid: str) -> str:
    path = nodeid.split("::")[0]
    return next((group for beginning, group in GROUPS.items() if path.startswith(beginning)), path)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The longest groups first, so that no worker ends long after the others."""
    return sorted(items, key=lambda item: _rank(group_of(item.nodeid)))


def _rank(group: str) -> int:
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)
