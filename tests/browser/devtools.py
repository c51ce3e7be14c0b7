"""A tab of a headless Chromium, driven over the DevTools protocol: open pages, fill in forms, take screenshots."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from tests.browser.chromium import FLAGS
from websockets.sync.client import ClientConnection, connect

STEP_TIMEOUT_S = 60.0
_ENDPOINT = b"DevTools listening on "
# Resolves with the first match; a page that is being replaced is asked again by `Tab.wait_for`.
_WAIT = """new Promise(resolve => {
  const look = () => { const found = (%s); if (found) resolve(found); else setTimeout(look, 20); };
  look();
})"""


class DevToolsError(Exception):
    """The browser refused a command, or a script failed; a page that was left meanwhile is the usual reason."""


class Tab:
    """One tab. Its commands return when the browser answered them."""

    def __init__(self, connection: ClientConnection, target: str | None = None) -> None:
        """`target`: a tab that exists already."""
        self._connection = connection
        self._next_id = 0
        self._session = ""
        target = target or self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.command("Page.enable")

    def command(self, method: str, **params: Any) -> Any:
        """Send a command and return its result.

        Raises: DevToolsError.
        """
        self._next_id += 1
        message: dict[str, Any] = {"id": self._next_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(STEP_TIMEOUT_S))
            if answer.get("id") == self._next_id:
                if "error" in answer:
                    raise DevToolsError(answer["error"]["message"])
                return answer["result"]

    def open(self, url: str) -> None:
        """Start to load a page."""
        self.command("Page.navigate", url=url)

    def open_popup(self, url: str) -> "Tab":
        """Open a page in a popup window, as a page does when a person clicks; return its tab."""
        known = self._page_targets()
        opening = f"window.popup = window.open({json.dumps(url)}, 'popup', 'popup'), true"
        self.command("Runtime.evaluate", expression=opening, userGesture=True)
        (target,) = self._page_targets() - known
        return Tab(self._connection, target)

    def _page_targets(self) -> set[str]:
        found = self.command("Target.getTargets")["targetInfos"]
        return {each["targetId"] for each in found if each["type"] == "page"}

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or of the promise that it is.

        Raises: DevToolsError.
        """
        answer = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise DevToolsError(str(answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true in the page that is shown then, and return its value."""
        while True:
            try:
                return self.evaluate(_WAIT % expression)
            except DevToolsError as error:
                # The page was left while the expression was evaluated.
                if not any(text in str(error) for text in ("context", "navigated", "Inspected target")):
                    raise

    @property
    def url(self) -> str:
        return str(self.command("Page.getNavigationHistory")["entries"][-1]["url"])

    @property
    def text(self) -> str:
        """The visible text of the page."""
        return str(self.evaluate("document.body.innerText"))

    def fill(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.command("Input.insertText", text=text)

    def press(self, selector: str) -> None:
        """Click on an element with the mouse, as a person does, and wait until another page is shown."""
        found = json.dumps(selector)
        self.evaluate(f"document.querySelector({found}).scrollIntoView()")
        box = self.evaluate(
            f"(({{x, y, width, height}}) => ({{x: x + width / 2, y: y + height / 2}}))"
            f"(document.querySelector({found}).getBoundingClientRect())"
        )
        self.evaluate("window.isOldPage = true")
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)
        self.wait_for("!window.isOldPage && document.readyState === 'complete'")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(
            base64.b64decode(self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])
        )


@contextmanager
def open_tab(chromium: str, folder: Path) -> Iterator[Tab]:
    """A tab of a new browser with an empty profile, which ends afterwards."""
    command = [chromium, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={folder / 'profile'}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"HOME": str(folder)},
        start_new_session=True,  # so that all of its processes can be ended with it
    )
    assert process.stderr is not None
    reader = Thread(target=process.stderr.read, daemon=True)  # so that the browser can always write
    try:
        lines = iter(process.stderr.readline, b"")
        address = next((line.removeprefix(_ENDPOINT).strip() for line in lines if line.startswith(_ENDPOINT)), None)
        assert address is not None, "Chromium ended"
        reader.start()
        with connect(address.decode(), max_size=None, proxy=None) as connection:
            yield Tab(connection)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if reader.ident is not None:
            reader.join()
        process.stderr.close()
