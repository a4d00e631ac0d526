"""Who may see the page, and who may not."""

from pathlib import Path

import pytest

from agent.config.page import PageConfig, read_token
from agent.errors import ConfigError
from agent.service.page.access import Access
from runtime.http import Request

TOKEN = "correct-horse-battery-staple"


def request(**headers: str) -> Request:
    return Request(method="GET", target="/", headers={"host": "localhost", **headers})


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "page.token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def guarded(token_file: Path) -> Access:
    return Access(PageConfig(listen="0.0.0.0:0", token_file=token_file))


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:7080", "LOCALHOST", "localhost.", "127.0.0.1:1", "[::1]", "[::1]:7080"]
)
def test_a_name_of_this_machine_is_known(host: str) -> None:
    assert Access(PageConfig()).knows_host(request(host=host))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:7080",
        "localhost:1:2",
        "@localhost",
        "[::1",
        "0x7f.1",
    ],
)
def test_a_name_that_someone_points_here_is_not(host: str) -> None:
    assert not Access(PageConfig()).knows_host(request(host=host))


def test_names_of_a_proxy_can_be_added(token_file: Path) -> None:
    config = PageConfig(hosts=("Plant.example",))
    assert Access(config).knows_host(request(host="plant.example"))
    assert Access(PageConfig(listen="127.0.0.2:0")).knows_host(request(host="127.0.0.2"))
    assert Access(PageConfig(listen="0.0.0.0:0", token_file=token_file)).knows_host(request(host="anything"))


def test_without_a_token_everybody_on_the_machine_may() -> None:
    assert Access(PageConfig()).allows(request())


def test_the_token_opens_and_nothing_else_does(guarded: Access) -> None:
    assert guarded.allows(request(authorization=f"Bearer {TOKEN}"))
    assert guarded.allows(request(authorization=f"bearer  {TOKEN}"))
    for wrong in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer \xff"):
        assert not guarded.allows(request(authorization=wrong))


def test_the_form_gives_a_cookie_that_opens_and_does_not_tell_the_token(guarded: Access) -> None:
    cookie = guarded.log_in(f"token={TOKEN}".encode())
    assert cookie is not None
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    pair = cookie.partition(";")[0]
    assert guarded.allows(request(cookie=f"other=1; {pair}"))
    assert not guarded.allows(request(cookie=pair[:-1]))
    assert not guarded.allows(request(cookie=f"headgate={TOKEN}"))


@pytest.mark.parametrize("form", [b"", b"token=", b"token=wrong", b"x" * 1000, TOKEN.upper().encode(), b"\xff"])
def test_a_wrong_form_gives_none(guarded: Access, form: bytes) -> None:
    assert guarded.log_in(form) is None


def test_another_token_ends_every_session(guarded: Access, token_file: Path) -> None:
    cookie = guarded.log_in(f"token={TOKEN}".encode())
    assert cookie is not None
    token_file.write_text("another-token-for-the-same-page")
    later = Access(PageConfig(listen="0.0.0.0:0", token_file=token_file))
    assert not later.allows(request(cookie=cookie.partition(";")[0]))


@pytest.mark.parametrize("content", ["", "short", "with spaces in between it", "x" * 257])
def test_a_token_that_is_none_is_refused(token_file: Path, content: str) -> None:
    token_file.write_text(content)
    with pytest.raises(ConfigError, match="16 to 256"):
        read_token(token_file)


def test_a_token_that_others_can_read_is_refused_unless_the_service_manager_gave_it(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(token_file)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(token_file.parent))
    assert len(read_token(token_file)) == len(TOKEN)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none"):
        read_token(tmp_path / "none")
