"""Authenticated callers share no session, process or connection with a server behind the hub."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.harness import INTEROP, stdio_config
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.http.raw_http import Site, request
from tests.http.raw_http import call as tool_call
from tests.hub import notebook
from tests.hub.upstream_callers import (
    ELICITATION,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    make_caller,
    request_result,
    result_text,
)
from tests.hub.upstreams import asking_config, interop_upstream, open_upstream

from hubbub import ChangeEvent, Overloaded, ServerConfig, UpstreamConfig, UpstreamUnavailable
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.pack.http import Backoff
from hubbub.protocol.revisions import PLAIN

pytestmark = pytest.mark.requirement("I2")

NOTEBOOK = str(Path(notebook.__file__))
SINGLE = """
import json, sys
from pathlib import Path

taken = Path(sys.argv[1])
is_second = taken.exists()
taken.touch()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if is_second:
        answer = {"error": {"code": -32000, "message": "one licence of host db.internal is in use"}}
    elif message["method"] == "initialize":
        info = {"serverInfo": {"name": "single", "version": "1"}, "capabilities": {"tools": {}}}
        answer = {"result": {"protocolVersion": "2025-11-25", **info}}
    else:
        answer = {"result": {"tools": []}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
versions = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
callers = pytest.mark.parametrize("revision", [LEGACY, MODERN, PLAIN], ids=["legacy", "modern", "plain"])


def notebook_config(version: str) -> ServerConfig:
    return stdio_config(NOTEBOOK, id="notes", protocol_version=version)


def make_principal_caller(principal: str, revision: Any = MODERN, capabilities: Any = None, **fields: Any) -> Any:
    scope = None if revision is MODERN else f"session of {principal}"
    return make_caller(revision, capabilities, principal=principal, **{"scope": scope, **fields})


@versions
@callers
@pytest.mark.parametrize("sessions", ["shared", "own"])
async def test_principals_share_no_process_and_each_gets_its_own_again(
    version: str, revision: Any, sessions: str
) -> None:
    async with open_upstream(notebook_config(version), sessions=sessions) as upstream:
        for name in ("ada", "bob"):
            await call_tool(upstream, "write", {"text": f"of {name}"}, make_principal_caller(name, revision))
        assert result_text(await call_tool(upstream, "read", {}, make_principal_caller("eve", revision))) == ""
        for name in ("ada", "bob"):
            assert (
                result_text(await call_tool(upstream, "read", {}, make_principal_caller(name, revision)))
                == f"of {name}"
            )
            read = await request_result(
                upstream, "resources/read", {"uri": "page://mine"}, make_principal_caller(name, revision)
            )
            assert read["contents"][0]["text"] == f"of {name}"
            prompt = await request_result(
                upstream, "prompts/get", {"name": "about"}, make_principal_caller(name, revision)
            )
            assert f"of {name}" in str(prompt)


@pytest.mark.parametrize(
    ("transport", "version"),
    [("streamable_http", "2026-07-28"), ("streamable_http", "2025-11-25"), ("sse", None), ("websocket", "2025-11-25")],
)
async def test_principals_share_no_session_or_connection_to_a_remote_server(
    transport: str, version: str | None
) -> None:
    async with interop_upstream(transport, version) as upstream:
        for name in ("ada", "bob", "ada"):
            assert result_text(await call_tool(upstream, "echo", {"text": name}, make_principal_caller(name))) == name
        assert upstream.state.sessions == 3  # the default session, which lists, and one for each principal


async def test_anonymous_modern_callers_share_one_process() -> None:
    async with open_upstream(notebook_config("2026-07-28")) as upstream:
        pids = {result_text(await call_tool(upstream, "pid", {}, make_caller(MODERN))) for _ in range(3)}
        assert (len(pids), upstream.state.sessions) == (1, 1)


@pytest.mark.parametrize("capabilities", [{}, ELICITATION], ids=["plain", "askable"])
async def test_concurrent_calls_of_a_modern_principal_use_one_process(capabilities: Any) -> None:
    async with open_upstream(asking_config(), sessions="own") as upstream:
        ada = make_principal_caller("ada", MODERN, capabilities)
        pids = await asyncio.gather(*(call_tool(upstream, "pid", {}, ada) for _ in range(5)))
        assert len({result_text(found) for found in pids}) == 1
        assert result_text(
            await call_tool(upstream, "pid", {}, make_principal_caller("bob", MODERN, capabilities))
        ) != result_text(pids[0])


async def test_a_principal_keeps_its_process_after_a_new_log_level_and_a_cancelled_call() -> None:
    async with open_upstream(asking_config()) as upstream:
        first = result_text(await call_tool(upstream, "pid", {}, make_principal_caller("ada", LEGACY)))
        assert (
            result_text(await call_tool(upstream, "pid", {}, make_principal_caller("ada", LEGACY, level="debug")))
            == first
        )
        hanging = asyncio.create_task(call_tool(upstream, "hang", {}, make_principal_caller("ada", LEGACY)))
        await wait_until(lambda: upstream.state.in_flight == 1)
        hanging.cancel()
        await asyncio.wait([hanging])
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("ada", LEGACY))) == first


async def test_entries_added_by_one_principal_are_listed_to_that_principal_only() -> None:
    async with open_upstream(notebook_config("2025-11-25")) as upstream:
        await upstream.refresh()
        changes: list[ChangeEvent] = []
        upstream.on_change = lambda _, change: changes.append(change)
        await call_tool(upstream, "add_tool", {"name": "secret_plan"}, make_principal_caller("ada"))
        await call_tool(upstream, "pid", {}, make_principal_caller("ada"))
        await upstream.refresh()
        assert "secret_plan" not in [entry.name for entry in upstream.snapshot.tools]


async def test_a_change_on_the_session_of_a_principal_is_notified_to_that_principal() -> None:
    async with open_upstream(notebook_config("2025-11-25")) as upstream:
        changes: list[ChangeEvent] = []
        upstream.on_change = lambda _, change: changes.append(change)
        await call_tool(upstream, "pid", {}, make_principal_caller("ada"))
        for name in ("ada", "bob"):
            await upstream.subscribe("page://mine", name)
        await call_tool(upstream, "write", {"text": "x"}, make_principal_caller("bob"))
        await call_tool(upstream, "write", {"text": "x"}, make_principal_caller("ada"))
        await wait_until(lambda: len([change for change in changes if change.kind == "resource"]) == 2)
        reported = [change.principal for change in changes if change.kind == "resource"]
        assert reported == ["bob", "ada"]


async def test_one_principal_cannot_use_up_the_sessions_of_a_server() -> None:
    async with open_upstream(asking_config(), max_sessions=2, timeout_s=100) as upstream:
        asked, answer = asyncio.Event(), asyncio.Event()
        back = RecordingReturnPath("ada")

        async def hold() -> None:
            asked.set()
            await answer.wait()

        back.before_answer = hold
        first = asyncio.create_task(
            call_tool(upstream, "ask", {"say": "a"}, make_principal_caller("ada", LEGACY, ELICITATION, scope="1"), back)
        )
        await asked.wait()
        waiting = asyncio.create_task(
            call_tool(upstream, "pid", {}, make_principal_caller("ada", LEGACY, ELICITATION, scope="2"))
        )
        await yield_to_loop()
        advance_clock(100)
        with pytest.raises(Overloaded, match="raise max_sessions of the server asker"):
            await waiting
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob", LEGACY, ELICITATION)))
        answer.set()
        assert result_text(await first) == "a: ada"


async def test_a_free_session_goes_to_the_principal_with_the_fewest_sessions() -> None:
    async with open_upstream(asking_config(), max_sessions=6, timeout_s=25) as upstream:
        order: list[str] = []

        def start(name: str, number: int, answer: asyncio.Event) -> asyncio.Task[Any]:
            back = RecordingReturnPath(name)

            async def hold() -> None:
                order.append(name)
                await answer.wait()

            back.before_answer = hold
            asking = make_principal_caller(name, LEGACY, ELICITATION, scope=f"{name} {number}")
            return asyncio.create_task(call_tool(upstream, "ask", {"say": "?"}, asking, back))

        first, last = [asyncio.Event(), asyncio.Event()], asyncio.Event()
        tasks = [start("ada", number, event) for number, event in enumerate([*first, last, last])]
        await wait_until(lambda: len(order) == 4)
        tasks += [start("bob", 0, last), start("cid", 0, last)]
        await wait_until(lambda: len(order) == 6)
        tasks += [start("ada", 4, last), start("bob", 1, last)]
        await wait_until(lambda: upstream.state.in_flight == 8)
        await yield_to_loop()  # both wait for a session now
        for event, task in zip(first, tasks, strict=False):
            event.set()
            await task
        await wait_until(lambda: len(order) == 7)
        assert order[-1] == "bob"
        last.set()
        await asyncio.gather(*tasks)


async def test_a_new_session_replaces_an_idle_one_of_the_same_principal() -> None:
    async with open_upstream(asking_config(), max_sessions=2) as upstream:
        bobs = result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob")))
        await call_tool(upstream, "pid", {}, make_principal_caller("ada"))
        await call_tool(upstream, "pid", {}, make_principal_caller("ada", MODERN, ELICITATION))
        await call_tool(upstream, "pid", {}, make_principal_caller("ada", MODERN, {"sampling": {}}))
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob"))) == bobs


async def test_one_principal_cannot_use_up_the_calls_of_a_server() -> None:
    async with open_upstream(asking_config(), max_calls=2, timeout_s=10) as upstream:
        hanging = [asyncio.create_task(call_tool(upstream, "hang", {}, make_principal_caller("ada"))) for _ in range(4)]
        await wait_until(lambda: upstream.state.waiting == 3)
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob")))
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)


@pytest.mark.requirement("L5")
async def test_crashes_of_one_principals_process_do_not_affect_other_principals() -> None:
    async with open_upstream(
        asking_config(), breaker_failures=2, backoff=lambda: Backoff((60.0,), jitter=0)
    ) as upstream:
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob")))
        for _ in range(2):
            with pytest.raises(UpstreamUnavailable, match="has ended with status 3"):
                await call_tool(upstream, "exit", {}, make_principal_caller("ada"))
        with pytest.raises(UpstreamUnavailable) as refused:
            await call_tool(upstream, "pid", {}, make_principal_caller("ada"))
        assert refused.value.data["retryAfterMs"] > 1000
        assert result_text(await call_tool(upstream, "pid", {}, make_principal_caller("bob")))
        assert upstream.state.phase == "ready"


async def test_a_server_that_refuses_a_second_session_is_unavailable_for_other_principals(tmp_path: Path) -> None:
    program = tmp_path / "single.py"
    program.write_text(SINGLE)
    config = stdio_config(str(program), str(tmp_path / "taken"), id="single", protocol_version="2025-11-25")
    async with open_upstream(config) as upstream:
        await upstream.refresh()
        with pytest.raises(UpstreamUnavailable, match="it refused the connection") as failed:
            await call_tool(upstream, "any", {}, make_principal_caller("ada"))
        assert "licence of host" not in str(failed.value.data)
        assert failed.value.data["mayHaveExecuted"] is False


@asynccontextmanager
async def keyed_hub(folder: Path) -> AsyncIterator[tuple[Site, dict[str, dict[str, str]]]]:
    """A hub with the notebook server and two API keys."""
    ring = Keyring(folder / "keys.toml")
    keys = {name: ring.add(name) for name in ("ada", "bob")}
    hub = Gateway(HubConfig(upstreams=(UpstreamConfig(id="notes", remote=notebook_config("2025-11-25")),)))
    async with run_server(hub.main_front, key_file=str(ring.path), limits=("off",)) as here:
        yield here.site, keys


async def test_a_change_in_the_process_of_one_key_is_notified_to_its_owner_only(tmp_path: Path) -> None:
    async with keyed_hub(tmp_path) as (site, keys):
        ada, bob = [await open_session(site, headers=key) for key in keys.values()]
        for session in (ada, bob):
            await session.post(tool_call("pid"))
            await session.post(request("resources/subscribe", {"uri": "page://mine"}))
        async with ada.listen() as adas, bob.listen() as bobs:
            await bob.post(tool_call("write", {"text": "mine"}))
            assert (await bobs.message())["params"]["uri"] == "page://mine"
            await ada.post(tool_call("write", {"text": "mine"}))
            assert (await adas.message())["params"]["uri"] == "page://mine"
            for session, stream in ((ada, adas), (bob, bobs)):
                await session.end()
                assert [event for event in await stream.rest() if event.data] == []


async def test_keys_of_a_hub_are_separate_principals_in_every_era(tmp_path: Path) -> None:
    async with keyed_hub(tmp_path) as (site, keys):
        pids: dict[str, set[str]] = {}
        for name, key in keys.items():
            for _ in range(2):
                body, headers = modern_request("tools/call", {"name": "pid", "arguments": {}})
                answer = await site.post(body, headers | key)
                pids.setdefault(name, set()).add(result_text(answer.json["result"]))
            session = await open_session(site, headers=key)
            pids[name].add(result_text((await session.post(tool_call("pid"))).json["result"]))
        assert [len(found) for found in pids.values()] == [1, 1]
        assert not pids["ada"] & pids["bob"]


async def test_revoking_a_key_ends_its_forwarded_calls(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    keys = {name: ring.add(name) for name in ("ada", "bob")}
    remote = stdio_config(str(INTEROP), id="there", protocol_version="2025-11-25")
    hub = Gateway(HubConfig(upstreams=(UpstreamConfig(id="there", remote=remote),)))
    call = {"name": "ask_name", "arguments": {}}
    async with run_server(hub.main_front, key_file=str(ring.path), limits=("off",)) as here:
        asked = {}
        for name, key in keys.items():
            body, headers = modern_request("tools/call", call, capabilities=ELICITATION)
            asked[name] = (await here.site.post(body, headers | key)).json["result"]
            assert asked[name]["resultType"] == "input_required"
        upstream = hub.upstreams["there"]
        assert upstream.state.in_flight == 2
        ring.revoke("ada")
        await wait_until(lambda: upstream.state.in_flight == 1)
        answer = {"action": "accept", "content": {"name": "Bob", "age": 40}}
        answers = dict.fromkeys(asked["bob"]["inputRequests"], answer)
        again = {**call, "inputResponses": answers, "requestState": asked["bob"]["requestState"]}
        body, headers = modern_request("tools/call", again, capabilities=ELICITATION)
        assert result_text((await here.site.post(body, headers | keys["bob"])).json["result"]) == "Bob is 40"
