from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.toml_file import MAX_TOML_BYTES, dotted, read_toml


def test_the_table_comes_with_the_bytes_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n")
    assert read_toml(path) == ({"a": 1}, b"a = 1\n")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a = ", "not TOML"),
        (b"\xff", "not TOML"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "not TOML"),
        (b"[a]\nb = [0, 0x" + b"f" * 5000 + b"]", r"a\.b\[1\]: the number does not fit 64 bits"),
        (b"a = 9223372036854775808", "a: the number does not fit 64 bits"),
        (b"#" * (MAX_TOML_BYTES + 1), "larger than"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_name(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=problem) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_the_largest_and_smallest_numbers_of_toml_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = [9223372036854775807, -9223372036854775808]")
    assert read_toml(path)[0] == {"a": [2**63 - 1, -(2**63)]}


@pytest.mark.parametrize(
    ("key", "shown"),
    [("boiler-room_7", "p.boiler-room_7"), ("a b", 'p."a b"'), ("a\nb", r'p."a\nb"'), ("", 'p.""'), ("a.b", 'p."a.b"')],
)
def test_a_key_is_shown_on_one_line_as_toml_writes_it(key: str, shown: str) -> None:
    assert dotted("p", key) == shown


def test_a_long_key_is_cut() -> None:
    assert len(dotted("", "x" * 1000)) < 100
