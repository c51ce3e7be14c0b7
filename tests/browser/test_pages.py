"""Pages in a real browser: those of an allowed origin use the server, all others are refused.

One browser opens the same page under three names and tries everything there; the tests look at
what the page found. `page.js` is what it tries.
"""

import json
import queue
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.browser.visiting import VISIT_S, Pages, find_chromium, show, visiting
from tests.http.processes import PLAYGROUND, ServerProcess
from tests.http.wire import request

ALLOWED, LOCAL, STRANGER = "allowed.example", "127.0.0.1", "stranger.example"
USES = ("health", "plain", "legacy", "modern", "progress", "eventSource", "webSocket", "cookies")
Findings = dict[str, Any]
Visit = Callable[[str], Findings]


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser; a machine without one skips the test, saying so."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium here: `make setup` as root on Debian installs it")
    return found


@pytest.fixture(scope="module")
def pages(chromium: str) -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


@pytest.fixture(scope="module")
def process(pages: Pages) -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND), "--allowed-origin", pages.origin(ALLOWED)) as process:
        yield process


@pytest.fixture(scope="module")
def visit(chromium: str, pages: Pages, process: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """What the page finds under a name; it is opened once."""

    @cache
    def visit(name: str) -> Findings:
        folder = tmp_path_factory.mktemp("browser")
        with visiting(chromium, pages.url(name, f"{process.url}/mcp"), folder):
            try:
                findings = json.loads(pages.findings.get(timeout=VISIT_S))
            except queue.Empty:
                pytest.fail("the page found nothing: " + (folder / "chromium.log").read_text(errors="replace"))
        assert findings["origin"] == pages.origin(name)
        return dict(findings)

    return visit


@pytest.fixture(scope="module", params=[ALLOWED, LOCAL])
def welcome(request: pytest.FixtureRequest, visit: Visit) -> Findings:
    """What a page finds that may call: of an origin that was named, and of this machine."""
    return visit(request.param)


def test_a_page_calls_a_tool_without_a_handshake(welcome: Findings) -> None:
    assert welcome["health"] == "healthy"
    assert welcome["plain"] == {"status": 200, "text": json.dumps({"echo": "plain"}, indent=2), "version": "1.0.0"}


def test_a_page_opens_a_session_hears_of_a_change_and_ends_it(welcome: Findings) -> None:
    assert welcome["legacy"] == {
        "hasSession": True,
        "version": "2025-11-25",
        "accepted": 202,
        "called": "added",
        "heard": "notifications/tools/list_changed",
        "ended": 204,
        "afterwards": 404,
    }


def test_a_page_makes_a_modern_call_with_every_header(welcome: Findings) -> None:
    assert welcome["modern"] == {"status": 200, "text": "north: 2"}


def test_a_page_sees_progress_before_the_answer(welcome: Findings) -> None:
    assert welcome["progress"] == [1, 2, "counted to 2"]


def test_a_page_hears_of_a_change_through_an_event_source(welcome: Findings) -> None:
    assert welcome["eventSource"] == "notifications/tools/list_changed"


def test_a_page_calls_a_tool_through_a_websocket(welcome: Findings) -> None:
    assert welcome["webSocket"] == {"protocol": "mcp.v1", "text": json.dumps({"echo": "socket"}, indent=2)}


def test_only_pages_of_the_same_site_get_our_cookie(visit: Visit) -> None:
    assert visit(LOCAL)["cookies"] == {"kept": True, "notSent": True, "readable": ""}
    assert visit(ALLOWED)["cookies"] == {"kept": False, "notSent": True, "readable": ""}


@pytest.mark.parametrize("use", USES)
def test_a_page_of_another_origin_is_refused(visit: Visit, use: str) -> None:
    assert visit(STRANGER)[use]["error"] == "TypeError"


@pytest.mark.parametrize("name", [ALLOWED, LOCAL, STRANGER])
async def test_no_page_reaches_a_tool_by_the_back_door(visit: Visit, process: ServerProcess, name: str) -> None:
    found = visit(name)
    assert found["withoutPreflight"] == "opaque"
    assert found["sandboxed"] == "TypeError"
    tools = (await process.site.post(request("tools/list"))).json["result"]["tools"]
    names = {tool["name"] for tool in tools}
    assert "echo" in names
    assert not names & {"smuggled_tool", "sandboxed_tool"}


def test_a_name_that_only_pretends_to_be_ours_is_refused(chromium: str, process: ServerProcess, tmp_path: Path) -> None:
    # How a page gets round the origin check: its own name is made to lead here, so that it is the same origin.
    rebound = process.url.replace("127.0.0.1", STRANGER)
    assert "healthy" in show(chromium, f"{process.url}/health", tmp_path)
    shown = show(chromium, f"{rebound}/health", tmp_path)
    assert "healthy" not in shown
    assert "error" in shown
