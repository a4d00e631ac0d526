"""How the page shows a given status, in a real browser: the page's own files, and one status that never changes."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.service.page.page import ASSETS, FOLDER
from tests.support.browser import Browser, browsing
from tests.support.statuses import link, sensor, status

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium", "chromium")]

DIGEST = "0f1e2d3c" * 8
LONG_PROBLEM = "wss://node.example.org:8890/api/v1/ws: the connection was closed by the destination before it answered"
STATE = "document.getElementById('state').textContent"


def device(driver: str, quantities: list[str], *, state: str = "up") -> dict[str, Any]:
    return {
        "driver": driver,
        "state": state,
        "reason": "",
        "readings": 1_000,
        "counters": {},
        "rejected": {"total": 0, "kinds": []},
        "last": None,
        "sensors": [sensor(quantity, 20.5) for quantity in quantities],
        "has_more_sensors": False,
    }


def busy_status(**changes: Any) -> dict[str, Any]:
    """What a gateway with 24 sensors, its own health and a link that has recovered shows."""
    return status(
        devices={
            "gateway": device("system", [f"figure_{number}" for number in range(12)]),
            "boiler": device("modbus", [f"temperature_{number}" for number in range(12)]),
            "greenhouse": device("mqtt", [f"humidity_{number}" for number in range(12)]),
        },
        links={"out": link(), "node": link(problem=LONG_PROBLEM)},
        events=[
            {"at_ms": 1_000, "level": "INFO", "text": f"archived; file={DIGEST}.hga bytes=91", "times": 3},
            *({"at_ms": n, "level": "WARNING", "text": f"device down; device=d{n}", "times": 1} for n in range(20)),
        ],
        **changes,
    )


@contextmanager
def page_of(shown: dict[str, Any]) -> Iterator[str]:
    """The address of a page that shows this status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/updates":
                event = json.dumps({"status": shown, "problems": []})
                self._answer("text/event-stream", f"retry: 60000\ndata: {event}\n\n".encode(), stays_open=True)
            elif self.path == "/history.json":
                self._answer("application/json", json.dumps({"max_points": 150, "series": []}).encode())
            else:
                name, content_type = ASSETS.get(self.path, ("index.html", "text/html; charset=utf-8"))
                self._answer(content_type, (FOLDER / name).read_bytes())

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, content_type: str, body: bytes, *, stays_open: bool = False) -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body)
            if stays_open:
                ended.wait()

    ended = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@contextmanager
def shown(browser: Browser, what: dict[str, Any], *, width: int = 1280) -> Iterator[Browser]:
    browser.set_size(width, 900, is_phone=width < 500)
    with page_of(what) as url:
        browser.go_to(url)
        browser.wait_for("document.querySelectorAll('.sensor').length > 0")
        yield browser


def test_a_clock_that_is_not_set_is_not_all_well(browser: Browser) -> None:
    calm = {"links": {"out": link()}}
    with shown(browser, status(**calm)) as page:
        assert page.run(STATE) == "OK"
    with shown(browser, status(**calm, clock={"is_synchronised": False, "max_error_ms": 0})) as page:
        assert page.run(STATE) == "clock not synchronised"
        assert page.run("document.getElementById('state').dataset.mood") == "attention"
        assert "clock not synchronised" in page.run("document.getElementById('problems').textContent")


@pytest.mark.parametrize(
    ("changes", "badge", "mood"),
    [
        ({"devices": {"boiler": device("modbus", ["t"], state="silent")}}, "device boiler is silent", "attention"),
        ({"devices": {"boiler": device("modbus", ["t"], state="degraded")}}, "device boiler is degraded", "attention"),
        ({"devices": {"boiler": device("modbus", ["t"], state="down")}}, "device boiler is down", "bad"),
        ({"links": {"out": link(blocked="the node refuses the stream")}}, "link out is blocked", "attention"),
        ({"archives": {**status()["archives"], "problem": "disk full"}}, "archiving fails", "bad"),
        ({"archives": {**status()["archives"], "ship_problem": "refused"}}, "archives are not shipped", "attention"),
        ({"links": {"out": link(is_up=False), "node": link(is_up=False)}}, "2 problems", "attention"),
    ],
)
def test_the_badge_is_ok_only_if_no_problem_is_listed(
    browser: Browser, changes: dict[str, Any], badge: str, mood: str
) -> None:
    with shown(browser, status(**{"links": {"out": link()}, **changes})) as page:
        assert page.run(STATE) == badge
        assert page.run("document.getElementById('state').dataset.mood") == mood
        assert page.run("document.querySelectorAll('#problems > li').length") >= 1


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_no_large_figure_is_broken_within_a_word(browser: Browser, width: int) -> None:
    """A word that is too long for its tile would overflow: `overflow-wrap: normal` does not break it."""
    worst = {"clock": {"is_synchronised": False, "max_error_ms": 0}}
    with shown(browser, busy_status(**worst), width=width) as page:
        figures = "[...document.querySelectorAll('.tiles .large')]"
        assert page.run(f"{figures}.every((each) => getComputedStyle(each).overflowWrap === 'normal')")
        assert page.run(f"{figures}.filter((each) => each.scrollWidth > each.clientWidth).length") == 0


def test_the_last_problem_of_a_link_that_is_up_has_the_whole_row(browser: Browser) -> None:
    with shown(browser, busy_status()) as page:
        row, past = "document.querySelectorAll('.link')[1]", ".querySelector('.past')"
        assert page.run(f"{row}{past}.textContent") == f"last problem: {LONG_PROBLEM}"
        assert page.run(f"{row}{past}.clientWidth / {row}.clientWidth") > 0.85


def test_sensors_come_before_the_gateways_own_figures(browser: Browser) -> None:
    with shown(browser, busy_status()) as page:
        names = page.run("[...document.querySelectorAll('.device h3')].map((each) => each.textContent)")
        assert names == ["boiler", "greenhouse", "gateway"]


def test_a_digest_in_an_event_is_shown_by_its_first_digits(browser: Browser) -> None:
    with shown(browser, status(events=busy_status()["events"][:1])) as page:
        text = page.run("document.getElementById('events').textContent")
        assert "archived (3 times)" in text
        assert "file=0f1e2d3c….hga" in text


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_36_sensors_within_three_screens(browser: Browser, width: int, tmp_path: Path) -> None:
    with shown(browser, busy_status(), width=width) as page:
        page.screenshot(tmp_path / "phone.png")
        assert page.run("document.documentElement.scrollHeight") < 3 * 900
        assert page.run("document.documentElement.scrollWidth") <= width
        assert not page.run("document.querySelector('#events').checkVisibility()")
        page.run("document.querySelector('#events-title').click()")
        page.wait_for("document.querySelector('#events').checkVisibility()")


def test_a_desk_shows_everything_at_once(browser: Browser) -> None:
    with shown(browser, busy_status()) as page:
        assert page.run("[...document.querySelectorAll('details')].every((each) => each.open)")
