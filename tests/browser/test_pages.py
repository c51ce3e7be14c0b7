"""Pages in a real browser: those of an allowed origin use the server, all others are refused.

One browser opens the same page under three host names; `page.js` tries everything there and the tests check
what it reports.
"""

import json
import queue
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.browser.chromium import PAGE_TIMEOUT_S, PageServer, dump_dom, find_chromium, open_page
from tests.http.raw_http import request
from tests.http.server_process import PLAYGROUND, ServerProcess

ALLOWED, LOCAL, FOREIGN = "allowed.example", "127.0.0.1", "stranger.example"
FEATURES = ("health", "plain", "legacy", "modern", "progress", "eventSource", "webSocket", "cookies")
Findings = dict[str, Any]
RunPage = Callable[[str], Findings]


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser; the test is skipped if none is installed."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium here: `make setup` as root on Debian installs it")
    return found


@pytest.fixture(scope="module")
def pages(chromium: str) -> Iterator[PageServer]:
    pages = PageServer()
    yield pages
    pages.close()


@pytest.fixture(scope="module")
def process(pages: PageServer) -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND), "--allowed-origin", pages.origin(ALLOWED)) as process:
        yield process


@pytest.fixture(scope="module")
def run_page(
    chromium: str, pages: PageServer, process: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> RunPage:
    """Run the page under a host name, once, and return its report."""

    @cache
    def run_page(name: str) -> Findings:
        folder = tmp_path_factory.mktemp("browser")
        with open_page(chromium, pages.url(name, f"{process.url}/mcp"), folder):
            try:
                findings = json.loads(pages.findings.get(timeout=PAGE_TIMEOUT_S))
            except queue.Empty:
                pytest.fail("the page found nothing: " + (folder / "chromium.log").read_text(errors="replace"))
        assert findings["origin"] == pages.origin(name)
        return dict(findings)

    return run_page


@pytest.fixture(scope="module", params=[ALLOWED, LOCAL])
def allowed_findings(request: pytest.FixtureRequest, run_page: RunPage) -> Findings:
    """Reports of pages that may call: from an allowed origin, and from this machine."""
    return run_page(request.param)


def test_a_page_calls_a_tool_without_a_handshake(allowed_findings: Findings) -> None:
    assert allowed_findings["health"] == "healthy"
    assert allowed_findings["plain"] == {
        "status": 200,
        "text": json.dumps({"echo": "plain"}, indent=2),
        "version": "1.0.0",
    }


def test_a_page_opens_a_session_receives_a_change_and_ends_it(allowed_findings: Findings) -> None:
    assert allowed_findings["legacy"] == {
        "hasSession": True,
        "version": "2025-11-25",
        "accepted": 202,
        "called": "added",
        "received": "notifications/tools/list_changed",
        "ended": 204,
        "afterwards": 404,
    }


def test_a_page_makes_a_modern_call_with_every_header(allowed_findings: Findings) -> None:
    assert allowed_findings["modern"] == {"status": 200, "text": "north: 2"}


def test_a_page_receives_progress_before_the_response(allowed_findings: Findings) -> None:
    assert allowed_findings["progress"] == [1, 2, "counted to 2"]


def test_a_page_receives_a_change_through_an_event_source(allowed_findings: Findings) -> None:
    assert allowed_findings["eventSource"] == "notifications/tools/list_changed"


def test_a_page_calls_a_tool_through_a_websocket(allowed_findings: Findings) -> None:
    assert allowed_findings["webSocket"] == {"protocol": "mcp.v1", "text": json.dumps({"echo": "socket"}, indent=2)}


def test_only_pages_of_the_same_site_keep_the_cookie(run_page: RunPage) -> None:
    assert run_page(LOCAL)["cookies"] == {"kept": True, "notSent": True, "readable": ""}
    assert run_page(ALLOWED)["cookies"] == {"kept": False, "notSent": True, "readable": ""}


@pytest.mark.parametrize("use", FEATURES)
def test_a_page_of_another_origin_is_refused(run_page: RunPage, use: str) -> None:
    assert run_page(FOREIGN)[use]["error"] == "TypeError"


@pytest.mark.parametrize("name", [ALLOWED, LOCAL, FOREIGN])
async def test_no_page_calls_a_tool_without_a_preflight_or_from_a_sandbox(
    run_page: RunPage, process: ServerProcess, name: str
) -> None:
    found = run_page(name)
    assert found["withoutPreflight"] == "opaque"
    assert found["sandboxed"] == "TypeError"
    tools = (await process.site.post(request("tools/list"))).json["result"]["tools"]
    names = {tool["name"] for tool in tools}
    assert "echo" in names
    assert not names & {"smuggled_tool", "sandboxed_tool"}


def test_a_host_name_that_resolves_to_loopback_is_refused(
    chromium: str, process: ServerProcess, tmp_path: Path
) -> None:
    # DNS rebinding: the host name of the page resolves to the server, so that the page has the same origin.
    rebound = process.url.replace("127.0.0.1", FOREIGN)
    assert "healthy" in dump_dom(chromium, f"{process.url}/health", tmp_path)
    shown = dump_dom(chromium, f"{rebound}/health", tmp_path)
    assert "healthy" not in shown
    assert "error" in shown
