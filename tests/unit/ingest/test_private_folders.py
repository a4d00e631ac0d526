import os
import stat
from pathlib import Path

import pytest

from ingest.private_folders import private_options


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)


def test_what_spark_writes_goes_to_a_folder_of_its_owner_alone_which_is_gone_at_the_end(tmp_path: Path) -> None:
    given = {"spark.local.dir": str(tmp_path), "spark.driver.extraJavaOptions": "-Xss4m", "spark.ui.enabled": "false"}
    with private_options(given) as options:
        folder = Path(options["spark.local.dir"])
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert options["spark.driver.extraJavaOptions"].split()[:2] == ["-Xss4m", f"-Djava.io.tmpdir={folder}"]
        assert options["spark.sql.warehouse.dir"].startswith(f"{folder}/")
        assert options["spark.ui.enabled"] == "false"
        (folder / "blockmgr").mkdir()
    assert list(tmp_path.iterdir()) == []
    assert "SPARK_LOCAL_DIRS" not in os.environ


def test_each_of_several_places_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    chosen = ",".join(map(str, places))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", chosen)
    with private_options({}) as options:
        folders = options["spark.local.dir"].split(",")
        assert [Path(folder).parent for folder in folders] == places
        assert os.environ["SPARK_LOCAL_DIRS"] == options["spark.local.dir"]
    assert os.environ["SPARK_LOCAL_DIRS"] == chosen


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), private_options({"spark.local.dir": str(tmp_path / "none")}):
        pass
