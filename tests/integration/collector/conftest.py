from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.collectors import RunningCollector, running_collector


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with running_collector(tmp_path) as running:
        yield running
