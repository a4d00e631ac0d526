import asyncio
from pathlib import Path

import pytest

from drivers.errors import DeviceError
from drivers.sysfs.driver import build


def test_a_sensor_that_is_removed_while_sensors_are_listed_is_a_failure_of_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(kernel_class: str, root: Path) -> list[object]:
        raise FileNotFoundError(2, "No such file or directory", str(root / kernel_class))

    monkeypatch.setattr("drivers.sysfs.driver.channels_of", gone)
    driver = build("cellar", {"classes": ["iio"], "root": str(tmp_path)})
    with pytest.raises(DeviceError, match="cellar: a sensor was removed"):
        asyncio.run(driver.poll())
