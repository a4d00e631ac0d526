"""The status page of a real agent: as programs ask for it, and in a real browser."""

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testbed.processes import free_port
from tests.support.browser import Browser, browsing
from tests.support.destinations import NodeDestination
from tests.support.npm_packages import CLIENTS, installed
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, wait_until

pytestmark = pytest.mark.slow
in_a_browser = pytest.mark.needs("chromium", "chromium")

PAGE_IS_THERE = "status page; url="
TOKEN = "correct-horse-battery-staple"
HOSTILE = '<img src=x onerror=\\"document.title=1\\">'  # as TOML writes it
HOSTILE_TEXT = '<img src=x onerror="document.title=1">'
STATE = "document.getElementById('state').textContent"
IS_CALM = f"['OK', 'clock not synchronised'].includes({STATE})"  # the machine's own clock is not ours to set
VALUE_OF_TEMPERATURE = "document.querySelector('.sensor .value > span').textContent"


class PageAgent:
    """A real agent with its page, and a node that it publishes to."""

    def __init__(self, folder: Path, extra: str = "", settings: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.folder = folder
        page = f'\n[page]\nlisten = "127.0.0.1:{self.port}"\n{settings}'
        self.agent = Agent.make(folder, rate_hz=10, commit_interval_s=0.1, extra=page + extra)
        text = self.agent.config.read_text()
        hostile = f'{{ quantity = "{HOSTILE}", kind = "walk" }}'
        self.agent.config.write_text(
            text.replace("signals = [", f"signals = [{{ quantity = 'level', kind = 'walk' }}, {hostile}, ")
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """With its page from the beginning, to an end in order."""
        before = self.agent.log().count(PAGE_IS_THERE) if (self.folder / "log").exists() else 0
        with self.agent.start() as process:
            wait_until(lambda: self.agent.log().count(PAGE_IS_THERE) > before, "the page is there")
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body


# As programs see it


def test_programs_get_metrics_health_and_status(tmp_path: Path) -> None:
    agent = PageAgent(tmp_path)
    with agent.running():
        wait_until(lambda: len(agent.agent.lines()) > 20, "it publishes")
        assert agent.get("/healthz") == (200, b"alive\n")
        assert agent.get("/readyz") == (200, b"ready\n")
        status = json.loads(agent.get("/status.json")[1])
        assert status["device"]["name"] == "bench"
        families = text_string_to_metric_families(agent.get("/metrics")[1].decode())
        samples = {sample.name: sample.value for family in families for sample in family.samples}
        assert samples["headgate_agent_readings_committed_total"] > 20
        assert samples["headgate_agent_link_up"] == 1
        assert agent.get("/status.json", Host="evil.example")[0] == 421
        top = subprocess.run(
            agent.agent.command("top", "--once", "--config", str(agent.agent.config)), capture_output=True, check=True
        )
        assert "out              up" in top.stdout.decode()


def test_someone_who_watches_does_not_hold_up_the_end(tmp_path: Path) -> None:
    agent = PageAgent(tmp_path)
    watching = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=PATIENCE_S)
    with agent.running():
        watching.request("GET", "/updates")
        assert watching.getresponse().readline() == b"retry: 2000\n"
    watching.close()


def test_a_tap_shows_what_passes_and_opens_what_is_encrypted(tmp_path: Path) -> None:
    agent = Agent.make(tmp_path, rate_hz=20, commit_interval_s=0.5)  # so a segment outlives any pause of the tap
    chosen = '[[streams]]\nstream = "{address}/secret"\nquantity = "temperature"\n'
    encrypted = 'encryption = "aes"\nrotate_after_messages = 10\n[[streams]]'
    agent.config.write_text(agent.config.read_text().replace("[[streams]]", chosen + encrypted, 1))
    with agent.start() as process:
        wait_until(lambda: len(agent.lines()) > 10, "it publishes")
        tap = subprocess.run(
            agent.command("tap", "--config", str(agent.config), "--json", "--count", "30", "secret"),
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    reported = [json.loads(line) for line in tap.stdout.splitlines()]
    assert [each["event"] for each in reported] == ["reading"] * 30, "keys that came while it looked are found, too"
    assert all(each["encrypted"] and isinstance(each["value"], float) for each in reported)
    positions = [each["io_message"]["chainposition"] for each in reported]
    assert positions == list(range(positions[0], positions[0] + 30)), "each once, in order"


# In a browser


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeDestination]:
    node = NodeDestination(tmp_path_factory.mktemp("node"), "websocket")
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def agent(node: NodeDestination, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageAgent]:
    publisher = f'[publishers.node]\nkind = "websocket"\nurl = "http://{node.url}"\nretry_max_s = 0.5\n'
    agent = PageAgent(tmp_path_factory.mktemp("agent"), extra=publisher)
    with agent.running():
        yield agent


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(agent: PageAgent, browser: Browser) -> Iterator[Browser]:
    """The page, open on a desk; it must not have reported a problem in the end."""
    browser.problems.clear()
    browser.set_size(1280, 900)
    browser.prefer(prefers_color_scheme="light")
    browser.go_to(agent.url)
    browser.wait_for("document.querySelectorAll('.sensor').length === 4")
    yield browser
    assert browser.problems == []


@in_a_browser
def test_values_and_curves_change_without_a_reload(page: Browser) -> None:
    page.run("window.stillTheSame = true")
    before = page.run(VALUE_OF_TEMPERATURE)
    page.wait_for(f"{VALUE_OF_TEMPERATURE} !== {json.dumps(before)}")
    page.wait_for("document.querySelector('.curve').getAttribute('d').split('L').length > 2")
    assert page.run("window.stillTheSame")
    assert page.run("document.title") == "bench · Headgate"


@in_a_browser
def test_a_hostile_name_is_text(page: Browser) -> None:
    names = page.run("[...document.querySelectorAll('.sensor .what')].map((each) => each.textContent)")
    assert names == ["level", HOSTILE_TEXT, "temperature", "valve"]
    assert page.run("document.querySelectorAll('main img').length") == 0


@in_a_browser
def test_a_link_that_goes_down_shows_and_is_read_out_and_comes_back(page: Browser, node: NodeDestination) -> None:
    page.wait_for(IS_CALM)
    node.stop()
    page.wait_for("document.getElementById('said').textContent.includes('link node is down')")
    assert page.run("document.getElementById('state').dataset.mood") == "attention"
    page.wait_for("document.getElementById('problems').textContent.includes('link node is down')")
    page.wait_for("[...document.querySelectorAll('.link .problem')].some((each) => each.textContent.includes(':'))")
    page.wait_for("document.getElementById('events').textContent.includes('link down, buffering')")
    node.start()
    page.wait_for(IS_CALM)
    assert "node" not in page.run("document.getElementById('problems').textContent")


@in_a_browser
@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(page: Browser, width: int) -> None:
    page.set_size(width, 800, is_phone=True)
    page.wait_for(f"innerWidth === {width}")
    assert page.run("document.documentElement.scrollWidth") <= width


@in_a_browser
def test_it_is_dark_where_people_like_it_dark(page: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.prefer(prefers_color_scheme="dark")
    page.wait_for(f"{ground} !== {json.dumps(light)}")
    red, green, blue = (int(part) for part in page.run(ground).removeprefix("rgb(").removesuffix(")").split(","))
    assert max(red, green, blue) < 64


@in_a_browser
def test_nothing_moves_where_people_want_rest(page: Browser) -> None:
    page.prefer(prefers_reduced_motion="reduce")
    page.wait_for("getComputedStyle(document.querySelector('.bar > span')).transitionDuration === '0s'")


@in_a_browser
def test_the_keyboard_goes_to_the_content_first(page: Browser) -> None:
    page.press("Tab", 9)
    assert page.run("document.activeElement.textContent") == "Skip to the content"
    assert page.run("document.activeElement.getBoundingClientRect().left >= 0"), "it can be seen"
    page.press("Enter", 13)
    page.wait_for("document.activeElement.id === 'main'")


@in_a_browser
@pytest.mark.needs("npm", "npm")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_problem(page: Browser, scheme: str, width: int) -> None:
    page.prefer(prefers_color_scheme=scheme)
    page.set_size(width, 900)
    page.run((installed(CLIENTS / "axe") / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = page.run(
        "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map((n) => n.html)]))"
    )
    assert found == []


@in_a_browser
def test_the_policy_stops_what_does_not_belong_to_the_page(agent: PageAgent, browser: Browser) -> None:
    browser.go_to(agent.url)
    browser.run(
        "window.stopped = []; addEventListener('securitypolicyviolation', (e) => stopped.push(e.effectiveDirective))"
    )
    browser.run("fetch('http://127.0.0.1:9/').catch(() => 0)")
    browser.run(
        "document.body.append(Object.assign(document.createElement('img'), { src: 'http://127.0.0.1:9/x.png' }))"
    )
    browser.run("try { document.body.innerHTML = '<b>x</b>' } catch {}")
    browser.wait_for("['connect-src', 'img-src', 'require-trusted-types-for'].every((each) => stopped.includes(each))")


@in_a_browser
def test_a_page_goes_stale_with_its_agent_and_recovers_with_it(tmp_path: Path, browser: Browser) -> None:
    agent = PageAgent(tmp_path)
    with agent.running():
        browser.go_to(agent.url)
        browser.wait_for(IS_CALM)
        browser.run("window.stillTheSame = true")
    browser.wait_for("document.getElementById('state').textContent === 'no answer'")
    assert browser.run("document.body.className") == "is-stale"
    with agent.running():
        browser.wait_for(IS_CALM)
        assert browser.run("document.body.className") == ""
        assert browser.run("window.stillTheSame")


@in_a_browser
def test_the_token_is_asked_for_once(tmp_path: Path, browser: Browser) -> None:
    token = tmp_path / "page.token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    agent = PageAgent(tmp_path / "agent", settings=f'token_file = "{token}"\n')
    with agent.running():
        assert agent.get("/metrics")[0] == 401
        assert agent.get("/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        browser.go_to(agent.url)
        browser.wait_for("document.activeElement.id === 'token'")
        browser.type_text("a wrong one")
        browser.press("Enter", 13)
        browser.wait_for("document.querySelector('[role=alert]')?.textContent === 'This is not the token.'")
        browser.wait_for("document.activeElement.id === 'token'")
        browser.type_text(TOKEN)
        browser.press("Enter", 13)
        browser.wait_for("document.querySelectorAll('.sensor').length === 4")
        assert browser.run("document.cookie") == "", "no script can read it"
        assert browser.run("location.href") == agent.url, "the token is in no address"
        browser.go_to(agent.url)
        browser.wait_for("document.querySelectorAll('.sensor').length === 4")
