"""Upstreams that crash, hang, flap, flood, change or send invalid responses: only their own calls fail, once."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.hub_harness import HubHarness, http_config, result_text, start_hub, stdio_config, wait_until
from tests.http.eras import modern_request
from tests.http.raw_http import JSON

CALLS = 1000
CONCURRENT_CALLERS = 16
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubHarness]:
    """One hub with a healthy server, a faulty one and a faulty one over HTTP."""
    folder = tmp_path_factory.mktemp("ward")
    with contextlib.ExitStack() as stack:
        servers = {
            "well": stdio_config(folder, "well"),
            "ill": {**stdio_config(folder, "ill"), "timeout_s": 2},
            "far": {**stack.enter_context(http_config(folder, "far")), "timeout_s": 2},
        }
        yield stack.enter_context(start_hub(folder, servers))


def tool_error(result: Any) -> Any:
    """Return the error in the result of a failed tool."""
    assert result["isError"] is True, result
    return result["structuredContent"]["error"]


async def wait_until_recovered(here: HubHarness, server: str) -> None:
    """Wait until calls to a server that failed succeed again."""
    async with asyncio.timeout(60):
        while "isError" in (result := await here.call(f"{server}__echo", text="again")) and result["isError"]:
            await asyncio.sleep(0.1)
    assert result_text(result) == "again"


# -- servers that hang -----------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["ill", "far"])
async def test_a_thousand_calls_finish_while_another_server_hangs(here: HubHarness, server: str) -> None:
    before = here.calls("well")["echo"], here.calls(server)["hang"]
    hanging = asyncio.create_task(here.call(f"{server}__hang"))
    await wait_until(lambda: here.calls(server)["hang"] == before[1] + 1)
    numbers = iter(range(CALLS))

    async def caller() -> None:
        for number in numbers:
            assert result_text(await here.call("well__echo", text=str(number))) == str(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENT_CALLERS):
            group.create_task(caller())
    error = tool_error(await hanging)
    assert "2 s" in error["message"]
    assert here.calls("well")["echo"] == before[0] + CALLS
    assert here.calls(server)["hang"] == before[1] + 1
    await wait_until_recovered(here, server)


async def test_a_call_that_the_caller_cancels_is_cancelled_at_the_server(here: HubHarness) -> None:
    before = here.calls("well")["hang"]
    body, headers = modern_request("tools/call", {"name": "well__hang", "arguments": {}})
    async with here.site.connect() as link:
        await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await wait_until(lambda: here.calls("well")["hang"] == before + 1)
    await wait_until(lambda: "cancelled" in here.journal("well"), lambda: here.journal("well")[-3:])


# -- servers that crash ----------------------------------------------------------------------------


async def test_a_crash_fails_the_calls_in_flight_once_and_the_server_restarts(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    before = here.calls("ill")
    napping = asyncio.create_task(here.call("ill__nap", seconds=600))
    await wait_until(lambda: here.calls("ill")["nap"] == before["nap"] + 1)
    crashed = tool_error(await here.call("ill__crash"))
    assert "ill" in crashed["message"]
    assert "has ended with status 3" in crashed["message"]
    assert "the last words" not in str(crashed)  # the stderr of the server goes to the log only
    assert tool_error(await napping)
    after = here.calls("ill")
    assert (after["crash"], after["nap"]) == (before["crash"] + 1, before["nap"] + 1)
    assert result_text(await here.call("well__echo", text="untouched")) == "untouched"
    await wait_until_recovered(here, "ill")


async def test_a_truncated_response_is_a_failure_and_the_call_is_not_repeated(here: HubHarness) -> None:
    before = here.calls("far")["crash"]
    assert tool_error(await here.call("far__crash"))
    assert here.calls("far")["crash"] == before + 1
    await wait_until_recovered(here, "far")


async def test_many_crashes_leave_no_resources(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    await wait_until_recovered(here, "far")
    files, threads, children = here.resource_counts()
    for _ in range(8):
        await here.call("ill__crash")
        await wait_until_recovered(here, "ill")
    await wait_until(
        lambda: here.resource_counts()[0] <= files + 4 and here.resource_counts()[1:] <= (threads, children),
        lambda: (here.resource_counts(), (files, threads, children)),
    )


# -- servers that send invalid responses ------------------------------------------------------------------


@pytest.mark.parametrize("server", ["ill", "far"])
async def test_a_response_of_100_megabytes_fails_only_its_call(here: HubHarness, server: str) -> None:
    await wait_until_recovered(here, server)
    before, most = here.memory(), 0
    huge = asyncio.create_task(here.call(f"{server}__huge"))
    while not huge.done():
        assert result_text(await here.call("well__echo", text="meanwhile")) == "meanwhile"
        most = max(most, here.memory())
    assert tool_error(await huge)
    assert most - before < 80 * MEGABYTE
    assert here.calls(server)["huge"] == 1
    await wait_until_recovered(here, server)


async def test_garbage_on_stdout_is_skipped(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    assert result_text(await here.call("ill__garbage")) == "garbage"
    assert result_text(await here.call("ill__echo", text="sane")) == "sane"


async def test_garbage_over_http_is_a_failure(here: HubHarness) -> None:
    before = here.calls("far")["garbage"]
    assert tool_error(await here.call("far__garbage"))
    assert here.calls("far")["garbage"] == before + 1
    await wait_until_recovered(here, "far")


# -- servers that flood ----------------------------------------------------------------------------


async def test_a_flood_on_stderr_is_read_and_discarded(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    before = here.memory()
    assert result_text(await here.call("ill__stderr", megabytes=20)) == "stderr"
    assert here.memory() - before < 20 * MEGABYTE


async def test_a_flood_of_notifications_is_accepted_in_bounded_memory(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    before = here.memory()
    assert result_text(await here.call("ill__chatter", times=3000)) == "chatter"
    assert result_text(await here.call("well__echo", text="meanwhile")) == "meanwhile"
    assert here.memory() - before < 20 * MEGABYTE


# -- servers that change ---------------------------------------------------------------------------


async def test_a_tool_list_change_during_a_call_does_not_affect_the_call(here: HubHarness) -> None:
    await wait_until_recovered(here, "ill")
    assert "ill__swap" in await here.tools()
    body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="watch")
    async with here.site.stream("POST", "/mcp", headers, body) as received:
        assert (await received.message())["method"] == "notifications/subscriptions/acknowledged"
        swapping = asyncio.create_task(here.call("ill__swap"))
        assert (await received.message())["method"] == "notifications/tools/list_changed"
        names = await here.tools()
        assert "ill__swapped" in names
        assert "ill__swap" not in names
        assert result_text(await swapping) == "swap"


# -- servers that flap -----------------------------------------------------------------------------


async def test_a_server_that_is_down_has_a_reason_and_a_retry_time_and_stays_listed(tmp_path: Path) -> None:
    servers = {
        "sickly": {**stdio_config(tmp_path, "sickly", "sickly"), "timeout_s": 60},
        "well": stdio_config(tmp_path, "well"),
    }
    with start_hub(tmp_path, servers, {"breaker_failures": 2}) as here:
        assert result_text(await here.call("sickly__echo", text="fine")) == "fine"
        assert "dev.hubbub/stale" not in (await here.tools())["sickly__echo"].get("_meta", {})
        here.break_server("sickly")
        assert tool_error(await here.call("sickly__crash"))
        await until_down(here)
        starts = len(here.processes("sickly"))
        errors = [tool_error(await here.call("sickly__echo", text="lost")) for _ in range(20)]
        assert len(here.processes("sickly")) - starts <= 3
        last = errors[-1]
        assert last["type"] == "upstream_unavailable"
        assert last["data"]["server"] == "sickly"
        assert last["data"]["reason"] == "the program has ended with status 7"
        assert "since" in last["data"]
        assert 0 < last["data"]["retryAfterMs"] < 120_000
        listed = (await here.tools())["sickly__echo"]["_meta"]
        assert listed["dev.hubbub/stale"] is True
        assert listed["dev.hubbub/server"] == "sickly"
        assert listed["dev.hubbub/reason"]
        assert result_text(await here.call("well__echo", text="untouched")) == "untouched"
        assert here.calls("sickly")["echo"] == 1
        here.repair_server("sickly")
        await wait_until_recovered(here, "sickly")
        await until_listed_anew(here, "sickly__echo")


async def until_listed_anew(here: HubHarness, tool: str) -> None:
    """Wait until the hub has refreshed the list of a recovered server, which it does after it connects."""
    async with asyncio.timeout(60):
        while "dev.hubbub/stale" in (await here.tools())[tool].get("_meta", {}):
            await asyncio.sleep(0.05)


async def until_down(here: HubHarness) -> None:
    async with asyncio.timeout(60):
        while tool_error(await here.call("sickly__echo", text="lost"))["type"] != "upstream_unavailable":
            await asyncio.sleep(0.05)


async def test_a_server_that_never_starts_does_not_hide_others(tmp_path: Path) -> None:
    servers = {
        "missing": {"command": str(tmp_path / "no-such-program")},
        "sickly": {**stdio_config(tmp_path, "sickly", "sickly"), "timeout_s": 60},
        "nowhere": {"url": "http://127.0.0.1:9/mcp"},
        "well": stdio_config(tmp_path, "well"),
    }
    (tmp_path / "sickly.journal.sick").touch()
    with start_hub(tmp_path, servers) as here:
        assert [name for name in await here.tools() if name.endswith("__echo")] == ["well__echo"]
        assert result_text(await here.call("well__echo", text="fine")) == "fine"
        answer = await here.request("tools/call", {"name": "missing__echo", "arguments": {}})
        assert "error" in answer.json or answer.json["result"]["isError"] is True
