import argparse
from pathlib import Path

import pytest

from runtime.local_paths import local_path


@pytest.mark.parametrize("text", ["/var/lib", "tables", "./s3a:", "a/b:c", "/x:y", "C:", "12:30", ""])
def test_a_path_is_a_path(text: str) -> None:
    assert local_path(text) == Path(text)


@pytest.mark.parametrize("text", ["file:/a/b c", "file:///a/b%20c", "FILE://localhost/a/b%20c"])
def test_a_file_uri_is_the_path_that_it_stands_for(text: str) -> None:
    assert local_path(text) == Path("/a/b c")


@pytest.mark.parametrize(
    "text",
    ["s3a://bucket/tables", "S3://b", "hdfs:/x", "hdfs:///x", "abfss://c@a.dfs/x", "gs:b", "http://h/x", "dbfs:/x"],
)
def test_any_other_uri_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="only local files can be used"):
        local_path(text)


@pytest.mark.parametrize("text", ["file:tables", "file://host/a", "file:///a?b", "file:///a#b", "file:"])
def test_a_file_uri_that_is_not_on_this_machine_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="file:///PATH"):
        local_path(text)
