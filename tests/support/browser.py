"""A real browser, driven over the DevTools protocol: no driver program between, and nothing to download."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.patience import PATIENCE_S

FLAGS = [
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--remote-debugging-port=0",
]


class Browser:
    """One page. What the page reports (scripts, content policy, failed requests) is collected in `problems`."""

    def __init__(self, connection: ClientConnection) -> None:
        self.problems: list[str] = []
        self._connection = connection
        self._next_id = 0
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._call(method, parameters, self._session)

    def go_to(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until the expression is true in the page."""
        until_s = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < until_s, f"never true: {expression}\n{self.problems}"
            time.sleep(0.05)

    def type_text(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def set_size(self, width: int, height: int, *, is_phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if is_phone else 1,
            mobile=is_phone,
        )

    def prefer(self, **features: str) -> None:
        """Media features, such as prefers_color_scheme="dark"."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        self._connection.send(json.dumps(message if session is None else {**message, "sessionId": session}))
        while True:
            heard = json.loads(self._connection.recv(PATIENCE_S))
            if heard.get("id") == self._next_id:
                assert "error" not in heard, (method, heard["error"])
                result: dict[str, Any] = heard["result"]
                return result
            self._note(heard)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.problems.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser of its own, with its profile in `folder`."""
    program = shutil.which("chromium")
    assert program is not None
    command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(folder / "DevToolsActivePort"), max_size=None, proxy=None) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(port_file: Path) -> str:
    """Where the browser listens, as soon as it says so."""
    until_s = time.monotonic() + PATIENCE_S
    while not port_file.exists() or len(lines := port_file.read_text().splitlines()) < 2:
        assert time.monotonic() < until_s, "the browser does not start"
        time.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
