"""Features of HTTP with the official Python SDK's client: sessions, broken streams, API keys, HTTP+SSE."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from tests.http.server_process import HUBBUB, ServerProcess
from tests.interop.http_recorder import RecordedExchange
from tests.interop.python_client import DEPRECATED, ERAS, LEGACY, MODERN, ClientRecorder, block_text, connect_sdk_client
from tests.interop.relay import open_relay

RunAsync = Callable[..., Any]
SERVER = str(Path(__file__).with_name("server.py"))
KEYS_S = 60.0

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


def list_tools(session: str) -> tuple[dict[str, Any], dict[str, str]]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return body, {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}


# -- sessions ------------------------------------------------------------------


def test_a_legacy_client_uses_one_session_and_ends_it(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(url, LEGACY) as (client, recorder):
            await client.list_tools()
            await client.call_tool("echo", {"text": "hi"})
            first, *others = recorder.http_recorder.exchanges
            session = others[0].session
            assert first == RecordedExchange("POST", 200, None, None)
            assert session is not None
            assert others.count(RecordedExchange("POST", 202, session, None)) == 1
            assert others.count(RecordedExchange("GET", 200, session, None)) == 1
            assert others.count(RecordedExchange("POST", 200, session, None)) == 2
            assert len(others) == 4
        assert recorder.http_recorder.exchanges[-1] == RecordedExchange("DELETE", 204, session, None)
        body, headers = list_tools(session)
        async with httpx2.AsyncClient(trust_env=False) as bare:
            gone = await bare.post(url, json=body, headers=headers)
        assert gone.status_code == 404

    run_async(scenario())


def test_a_session_belongs_to_its_client_alone(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with (
            connect_sdk_client(url, LEGACY) as (first, heard_first),
            connect_sdk_client(url, LEGACY) as (second, heard_second),
        ):
            await first.subscribe_resource("memo://watched")
            await second.call_tool("touch_resource")
            await heard_first.wait_for(types.ResourceUpdatedNotification)
            await second.call_tool("register_tool", {"name": "hello"})
            await heard_second.wait_for(types.ToolListChangedNotification)
            await heard_first.wait_for(types.ToolListChangedNotification)
            assert [type(note) for note in heard_second.notifications] == [types.ToolListChangedNotification]
            sessions = {
                exchange.session
                for recorder in (heard_first, heard_second)
                for exchange in recorder.http_recorder.by_method("GET")
            }
            assert len(sessions) == 2

    run_async(scenario())


def test_a_modern_client_has_no_session(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(url, MODERN) as (client, recorder):
            await client.list_tools()
            await client.call_tool("echo", {"text": "hi"})
            async with client.listen(tools_list_changed=True) as received:
                await client.call_tool("register_tool", {"name": "hello"})
                assert isinstance(await asyncio.wait_for(anext(received), 60), ToolsListChanged)
        assert set(recorder.http_recorder.exchanges) == {RecordedExchange("POST", 200, None, None)}

    run_async(scenario())


def test_clients_of_both_eras_receive_changes_made_by_each_other(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with (
            connect_sdk_client(url, LEGACY) as (old, recorder),
            connect_sdk_client(url, MODERN) as (new, _),
            new.listen(tools_list_changed=True) as received,
        ):
            await old.call_tool("register_tool", {"name": "hello"})
            assert isinstance(await asyncio.wait_for(anext(received), 60), ToolsListChanged)
            await recorder.wait_for(types.ToolListChangedNotification)
            assert block_text((await new.call_tool("hello", {"who": "Ada"})).content[0]) == "hello greets Ada"
            assert block_text((await old.call_tool("hello", {"who": "Ada"})).content[0]) == "hello greets Ada"

    run_async(scenario())


# -- streams that end too early --------------------------------------------------


def test_a_client_reconnects_for_a_result_whose_stream_was_closed(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(url, LEGACY) as (client, recorder):
            received: list[tuple[float, float | None, str | None]] = []
            complete = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                received.append((progress, total, message))
                if len(received) == 2:
                    complete.set()

            result = await client.call_tool("polled", progress_callback=progress)
            assert block_text(result.content[0]) == "fetched"
            await asyncio.wait_for(complete.wait(), 60)
            assert received == [(1, 2, "before"), (2, 2, "after")]
            resumed = [exchange for exchange in recorder.http_recorder.exchanges if exchange.last_event_id is not None]
            assert [(exchange.method, exchange.status) for exchange in resumed] == [("GET", 200)]

    run_async(scenario())


def test_a_call_outlives_its_broken_connection(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with open_relay(url) as (way, relay), connect_sdk_client(way, LEGACY) as (client, recorder):
            received: list[float] = []

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                received.append(progress)
                if progress == 1:
                    assert relay.abort_connections() > 0
                async with httpx2.AsyncClient(trust_env=False) as bare:
                    params = {"name": "go_on", "arguments": {}}
                    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                    assert (await bare.post(url, json=body)).status_code == 200

            result = await client.call_tool("paced", {"steps": 3}, progress_callback=progress)
            assert block_text(result.content[0]) == "3 steps"
            assert received == [1, 2, 3]
            assert [
                exchange for exchange in recorder.http_recorder.by_method("GET") if exchange.last_event_id is not None
            ]

    run_async(scenario())


def test_changes_are_not_lost_while_the_stream_is_broken(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with (
            open_relay(url) as (way, relay),
            connect_sdk_client(way, LEGACY) as (client, recorder),
            connect_sdk_client(url, MODERN) as (other, _),
        ):
            await client.subscribe_resource("memo://watched")
            assert relay.abort_connections() > 0
            await other.call_tool("touch_resource")
            await other.call_tool("register_tool", {"name": "hello"})
            await recorder.http_recorder.wait_for("GET", times=2)
            await recorder.wait_for(types.ToolListChangedNotification)
            kinds = [type(note) for note in recorder.notifications]
            assert kinds == [types.ResourceUpdatedNotification, types.ToolListChangedNotification]
            assert recorder.http_recorder.by_method("GET")[-1].last_event_id is not None

    run_async(scenario())


def test_a_modern_call_ends_with_its_connection(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with open_relay(url) as (way, relay), connect_sdk_client(way, MODERN) as (client, _):
            waiting = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                waiting.set()

            call = asyncio.create_task(client.call_tool("wait_forever", progress_callback=progress))
            await asyncio.wait_for(waiting.wait(), 60)
            assert relay.abort_connections() > 0
            seen = (await client.call_tool("counts", {"cancelled": 1})).structured_content
            assert seen == {"started": 1, "cancelled": 1, "finished": 0}
            call.cancel()
            await asyncio.wait([call])

    run_async(scenario())


# -- settings of the server ------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("response", ["json", "sse"])
def test_the_client_accepts_both_response_modes(run_async: RunAsync, mode: str, response: str) -> None:
    async def scenario(url: str) -> None:
        async with connect_sdk_client(url, mode) as (client, _):
            assert (await client.list_tools()).tools[0].name == "echo"
            added = await client.call_tool("add", {"a": 2, "b": 3})
            assert added.structured_content == {"total": 5, "terms": [2, 3]}
            assert block_text((await client.call_tool("slow", {"steps": 2})).content[0]) == "2 steps"

    with ServerProcess(SERVER, "--response", response) as process:
        run_async(scenario(f"{process.url}/mcp"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two API keys and their key file."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    made = {"file": str(path)}
    for name in ("alice", "bob"):
        command = [str(HUBBUB), "keys", "create", name, "--key-file", str(path)]
        made[name] = subprocess.run(command, capture_output=True, text=True, timeout=KEYS_S, check=True).stdout.strip()
    return made


@pytest.fixture
def locked(keys: dict[str, str]) -> Iterator[str]:
    """The URL of a server that requires an API key."""
    with ServerProcess(SERVER, "--key-file", keys["file"]) as process:
        yield f"{process.url}/mcp"


@pytest.mark.parametrize("mode", ERAS)
def test_with_a_key_everything_works(locked: str, keys: dict[str, str], run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        person = ClientRecorder()
        with_key = {"X-API-Key": keys["alice"]}
        async with connect_sdk_client(locked, mode, with_key, elicitation_callback=person.elicit) as (client, recorder):
            assert (await client.list_tools()).tools[0].name == "echo"
            assert block_text((await client.call_tool("echo", {"text": "hi"})).content[0]) == "hi"
            assert block_text((await client.call_tool("ask_name")).content[0]) == "Ada 1 is 36"
            if mode == LEGACY:
                await client.call_tool("register_tool", {"name": "hello"})
                await recorder.wait_for(types.ToolListChangedNotification)
            else:
                async with client.listen(tools_list_changed=True) as received:
                    await client.call_tool("register_tool", {"name": "hello"})
                    assert isinstance(await asyncio.wait_for(anext(received), 60), ToolsListChanged)

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("headers", [{}, {"X-API-Key": f"hb_00000000_{0:048}"}], ids=["no key", "wrong key"])
def test_without_a_valid_key_the_client_gets_an_error(
    locked: str, run_async: RunAsync, mode: str, headers: dict[str, str]
) -> None:
    async def scenario() -> None:
        refusal = pytest.RaisesExc(MCPError, match="API key" if headers else "X-API-Key")
        with pytest.RaisesGroup(refusal, flatten_subgroups=True):
            async with connect_sdk_client(locked, mode, headers):
                pass

    run_async(scenario())


def test_a_session_cannot_be_used_with_another_key(locked: str, keys: dict[str, str], run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(locked, LEGACY, {"X-API-Key": keys["alice"]}) as (_, recorder):
            body, headers = list_tools(str(recorder.http_recorder.by_method("GET")[0].session))
            async with httpx2.AsyncClient(trust_env=False) as bare:
                for name, status in (("bob", 404), ("alice", 200)):
                    answer = await bare.post(locked, json=body, headers=headers | {"X-API-Key": keys[name]})
                    assert answer.status_code == status

    run_async(scenario())


# -- the oldest transport --------------------------------------------------------


def test_the_http_sse_transport_serves_the_client_too(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        recorder, received = ClientRecorder(), []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            received.append(progress)

        stream = sse_client(url.removesuffix("mcp") + "sse", httpx_client_factory=recorder.http_recorder.make_client)
        people: dict[str, Any] = {"elicitation_callback": recorder.elicit, "sampling_callback": recorder.sample}
        async with Client(
            stream, mode=LEGACY, message_handler=recorder.record_notification, read_timeout_seconds=20, **people
        ) as client:
            assert (await client.list_tools()).tools[0].name == "echo"
            added = await client.call_tool("add", {"a": 2, "b": 3})
            assert added.structured_content == {"total": 5, "terms": [2, 3]}
            assert block_text((await client.call_tool("ask_name")).content[0]) == "Ada 1 is 36"
            assert (
                block_text((await client.call_tool("sample_haiku", {"topic": "frogs"})).content[0]) == "basho: old pond"
            )
            await client.call_tool("slow", {"steps": 3}, progress_callback=progress)
            await client.subscribe_resource("memo://watched")
            await client.call_tool("touch_resource")
            updated = await recorder.wait_for(types.ResourceUpdatedNotification)
            assert updated.params.uri == "memo://watched"
            assert received == [1, 2, 3]

    run_async(scenario())
