"""FastMCP's client against our server, in both eras, on stdio and over HTTP."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged, listen
from mcp.shared.exceptions import MCPDeprecationWarning
from tests.interop.http_recorder import HttpRecorder, ServerAddress

LEGACY, MODERN = "legacy", "auto"
ERAS = [pytest.param(LEGACY, id="2025-11-25"), pytest.param(MODERN, id="2026-07-28")]
RunAsync = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings(f"ignore::{MCPDeprecationWarning.__module__}.{MCPDeprecationWarning.__name__}")


@asynccontextmanager
async def connected(address: ServerAddress, mode: str, **options: Any) -> AsyncIterator[Any]:
    traffic = HttpRecorder()
    if isinstance(address, list):
        transport: Any = StdioTransport(address[0], address[1:], keep_alive=False, log_file=Path("/dev/null"))
    else:
        transport = StreamableHttpTransport(address, httpx_client_factory=traffic.make_client)
    async with Client(transport, mode=mode, timeout=60, **options) as client:
        if isinstance(address, str) and mode == LEGACY:
            await traffic.wait_for("GET")  # before that, a session gets no notifications
        yield client


@pytest.mark.parametrize("mode", ERAS)
def test_it_lists_and_calls_tools(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connected(address, mode) as client:
            assert client.protocol_version == ("2025-11-25" if mode == LEGACY else "2026-07-28")
            assert client.server_info.name == "interop"
            assert [tool.name for tool in await client.list_tools()][:3] == ["echo", "add", "count"]
            assert (await client.call_tool("echo", {"text": "hi"})).content[0].text == "hi"
            added = await client.call_tool("add", {"a": 2, "b": 3})
            # It builds an object from the output schema.
            assert (added.data.total, added.data.terms) == (5, [2, 3])
            image = (await client.call_tool("gallery")).content[1]
            assert base64.b64decode(image.data).startswith(b"\x89PNG")

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_failed_tool_raises_in_the_client(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connected(address, mode) as client:
            with pytest.raises(ToolError, match="the well is dry"):
                await client.call_tool("failing")
            await client.list_tools()
            with pytest.raises(ToolError, match="cannot add 1"):
                await client.call_tool("failing_sum", {"a": 1})

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_progress_arrives_in_order(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connected(address, mode) as client:
            received: list[tuple[float, float | None, str | None]] = []
            has_gone_on = asyncio.Event()

            async def progress(value: float, total: float | None, message: str | None) -> None:
                received.append((value, total, message))
                await client.call_tool("go_on")
                if value == total:
                    has_gone_on.set()

            result = await client.call_tool("paced", {"steps": 3}, progress_handler=progress)
            await has_gone_on.wait()  # a client that is closed during a call fails
            assert result.content[0].text == "3 steps"
            assert received == [(step, 3, f"step {step}") for step in range(1, 4)]

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_cancelled_call_stops(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connected(address, mode) as client:
            waiting = asyncio.Event()

            async def progress(value: float, total: float | None, message: str | None) -> None:
                waiting.set()

            call = asyncio.create_task(client.call_tool("wait_forever", progress_handler=progress))
            await asyncio.wait_for(waiting.wait(), 60)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            seen = (await client.call_tool("counts", {"cancelled": 1})).structured_content
            assert seen == {"started": 1, "cancelled": 1, "finished": 0}

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_elicitation_sampling_and_roots_requests_are_answered(
    address: ServerAddress, run_async: RunAsync, mode: str
) -> None:
    async def elicit(message: str, form: Any, params: Any, context: Any) -> Any:
        assert message == "Who are you?"
        return ElicitResult(action="accept", content=form(name="Ada", age=36))

    async def sample(messages: Any, params: Any, context: Any) -> str:
        assert messages[0].content.text == "A haiku about frogs"
        return "old pond"

    async def scenario() -> None:
        people = {"elicitation_handler": elicit, "sampling_handler": sample, "roots": ["file:///home/ada"]}
        async with connected(address, mode, **people) as client:
            assert (await client.call_tool("ask_name")).content[0].text == "Ada is 36"
            assert (await client.call_tool("sample_haiku", {"topic": "frogs"})).content[0].text.endswith(": old pond")
            assert (await client.call_tool("list_roots")).content[0].text == '["file:///home/ada"]'

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_it_reads_resources_and_gets_prompts(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connected(address, mode) as client:
            uris = [str(entry.uri) for entry in await client.list_resources()]
            assert uris == ["memo://static", "memo://bytes", "memo://watched", "memo://seen"]
            assert (await client.read_resource("memo://people/ada"))[0].text == "about ada"
            assert base64.b64decode((await client.read_resource("memo://bytes"))[0].blob).startswith(b"\x89PNG")
            got = await client.get_prompt("greeting", {"name": "Ada"})
            assert [message.content.text for message in got.messages] == ["Greet Ada", "In a plain style"]
            reference = types.PromptReference(type="ref/prompt", name="greeting")
            assert (await client.complete(reference, {"name": "style", "value": "f"})).values == ["formal", "friendly"]

    run_async(scenario())


def test_a_legacy_session_receives_changes(address: ServerAddress, run_async: RunAsync) -> None:
    async def scenario() -> None:
        received: asyncio.Queue[Any] = asyncio.Queue()

        async def note(message: Any) -> None:
            received.put_nowait(message)

        async with connected(address, LEGACY, message_handler=note) as client:
            await client.call_tool("register_tool", {"name": "hello"})
            assert isinstance(await asyncio.wait_for(received.get(), 60), types.ToolListChangedNotification)
            assert (await client.call_tool("hello", {"who": "Ada"})).content[0].text == "hello greets Ada"
            await client.session.subscribe_resource("memo://watched")
            await client.call_tool("touch_resource")
            updated = await asyncio.wait_for(received.get(), 60)
            assert isinstance(updated, types.ResourceUpdatedNotification)
            assert str(updated.params.uri) == "memo://watched"

    run_async(scenario())


def test_a_modern_client_receives_the_notifications_that_it_subscribed_to(
    address: ServerAddress, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with (
            connected(address, MODERN) as client,
            listen(client.session, tools_list_changed=True, resource_subscriptions=["memo://watched"]) as received,
        ):
            await client.call_tool("register_tool", {"name": "hello"})
            assert isinstance(await asyncio.wait_for(anext(received), 60), ToolsListChanged)
            await client.call_tool("touch_resource")
            assert await asyncio.wait_for(anext(received), 60) == ResourceUpdated(uri="memo://watched")

    run_async(scenario())
