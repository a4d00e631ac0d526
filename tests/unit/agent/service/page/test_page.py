"""Which request gets which answer, without a socket."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.config.page import PageConfig
from agent.service.page import page as page_module
from agent.service.page.access import Access
from agent.service.page.history import History
from agent.service.page.page import ASSETS, MAX_WATCHERS, Page
from runtime.http import Body, Request, Response
from tests.support.statuses import status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.service.page.page import StatusSnapshots

TOKEN = "correct-horse-battery-staple"


class FixedLooks:
    def __init__(self, seen: dict[str, Any] | None) -> None:
        self.seen = seen

    async def latest(self) -> dict[str, Any] | None:
        return self.seen


def make_page(config: PageConfig | None = None, seen: dict[str, Any] | None = None) -> Page:
    return Page(Access(config or PageConfig()), cast("StatusSnapshots", FixedLooks(seen)), History())


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setattr(page_module, "GUESS_DELAY_S", 0.0)
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return make_page(PageConfig(listen="0.0.0.0:0", token_file=path), status())


def ask(page: Page, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
    pieces = [body, b""]

    async def receive() -> bytes:
        return pieces.pop(0)

    request = Request(method=method, target=path, headers={"host": "localhost", **headers}, body=Body(receive))
    return asyncio.run(page.answer(request))


def body_of(response: Response) -> bytes:
    assert isinstance(response.body, bytes)
    return response.body


@pytest.mark.parametrize("path", ["/", *ASSETS, "/status.json", "/history.json", "/metrics", "/healthz", "/readyz"])
def test_everything_there_is_can_be_had(path: str) -> None:
    response = ask(make_page(seen=status()), path)
    assert response.status == HTTPStatus.OK
    assert body_of(response)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/../page.py", "/%2e%2e/page.py", "//", "/page.css/", "/assets/page.css", "/STATUS.JSON", "/."],
)
def test_nothing_else_can(path: str) -> None:
    assert ask(make_page(seen=status()), path).status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_no_client_changes_anything(method: str) -> None:
    response = ask(make_page(seen=status()), "/status.json", method)
    assert response.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert response.headers["Allow"] == "GET, HEAD"


def test_another_name_gets_nothing_at_all() -> None:
    for path in ("/", "/healthz", "/page.js", "/login"):
        assert ask(make_page(seen=status()), path, host="evil.example").status == HTTPStatus.MISDIRECTED_REQUEST


@pytest.mark.parametrize("path", ["/status.json", "/history.json", "/metrics", "/updates", "/nothing"])
def test_without_the_token_there_is_only_the_question_for_it(guarded: Page, path: str) -> None:
    response = ask(guarded, path)
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert b"bench" not in body_of(response)
    assert b'name="token"' in body_of(ask(guarded, "/"))


def test_the_token_opens(guarded: Page) -> None:
    assert ask(guarded, "/metrics", authorization=f"Bearer {TOKEN}").status == HTTPStatus.OK
    response = ask(guarded, "/login", "POST", f"token={TOKEN}".encode())
    assert (response.status, response.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    cookie = response.headers["Set-Cookie"].partition(";")[0]
    assert ask(guarded, "/", cookie=cookie).status == HTTPStatus.OK


def test_a_wrong_token_is_reported(guarded: Page) -> None:
    response = ask(guarded, "/login", "POST", b"token=<script>")
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert b"This is not the token." in body_of(response)
    assert b"<script>" not in body_of(response)
    assert "Set-Cookie" not in response.headers


def test_health_is_open_and_tells_no_secret(guarded: Page) -> None:
    assert body_of(ask(guarded, "/healthz")) == b"alive\n"
    assert body_of(ask(guarded, "/readyz")) == b"ready\n"


@pytest.mark.parametrize(
    ("seen", "reported"),
    [
        (None, b"the journal does not respond\n"),
        (status(is_making_progress=False), b"the pipeline is stalled\n"),
        (status(storage_problem="/secret/path: full"), b"cannot write the journal\n"),
        (
            status(is_making_progress=False, storage_problem="full"),
            b"the pipeline is stalled\ncannot write the journal\n",
        ),
    ],
)
def test_who_is_not_ready_says_why(seen: dict[str, Any] | None, reported: bytes) -> None:
    response = ask(make_page(seen=seen), "/readyz")
    assert (response.status, body_of(response)) == (HTTPStatus.SERVICE_UNAVAILABLE, reported)
    assert ask(make_page(seen=seen), "/healthz").status == HTTPStatus.OK


def test_links_that_are_down_are_no_reason() -> None:
    assert ask(make_page(seen=status()), "/readyz").status == HTTPStatus.OK


@pytest.mark.parametrize("path", ["/status.json", "/metrics"])
def test_a_journal_that_does_not_answer_is_an_answer(path: str) -> None:
    assert ask(make_page(seen=None), path).status == HTTPStatus.SERVICE_UNAVAILABLE


def test_updates_come_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "SAMPLE_S", 0.0)

    async def run() -> list[bytes]:
        page = make_page(seen=status(messages=5))
        response = await page.answer(Request(method="GET", target="/updates", headers={"host": "localhost"}))
        updates = cast("AsyncIterator[bytes]", response.body)
        return [await anext(updates) for _ in range(3)]

    retry, first, second = asyncio.run(run())
    assert retry == b"retry: 2000\n\n"
    assert first == second
    assert first.endswith(b"\n\n")
    assert json.loads(first.removeprefix(b"data: "))["status"]["messages"] == 5


def test_viewers_are_limited_and_one_that_leaves_frees_its_place() -> None:
    async def run() -> None:
        page = make_page(seen=status())
        request = Request(method="GET", target="/updates", headers={"host": "localhost"})
        watching = [cast("Any", (await page.answer(request)).body) for _ in range(MAX_WATCHERS)]
        for each in watching:
            await anext(each)
        assert (await page.answer(request)).status == HTTPStatus.SERVICE_UNAVAILABLE
        await watching[0].aclose()
        assert (await page.answer(request)).status == HTTPStatus.OK

    asyncio.run(run())


def test_the_pages_hold_no_script_or_style_of_their_own() -> None:
    """The content policy would not let them run."""
    for name in ("index.html", "login.html"):
        text = (page_module.FOLDER / name).read_text(encoding="utf-8")
        assert "<style" not in text
        assert "style=" not in text
        assert " on" not in text.replace(" on ", "")
        assert text.count("<script") == text.count('src="/page.js"')
        assert "http://" not in text
        assert "https://" not in text


def test_the_script_never_makes_markup_of_text() -> None:
    script = (page_module.FOLDER / "page.js").read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script
