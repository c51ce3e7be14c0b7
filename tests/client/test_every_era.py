"""Our client with our own server, over every transport and in every revision."""

import asyncio
from typing import Any

import pytest
from msgspec import UNSET
from tests.client.harness import TRANSPORTS_AND_VERSIONS, assert_no_leaks, interop_client
from tests.clock import advance_clock, wait_until

from hubbub import (
    DeadlineExceeded,
    ElicitationAnswer,
    ElicitationRequest,
    Image,
    InputRefused,
    InvalidParams,
    RemoteError,
    SamplingAnswer,
    SamplingRequest,
    Text,
    bounds,
)

every_transport = pytest.mark.parametrize(("transport", "version"), TRANSPORTS_AND_VERSIONS, ids=str)


def join_text(result: Any) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


@every_transport
async def test_a_client_connects_and_calls_tools(transport: str, version: str | None) -> None:
    async with assert_no_leaks(), interop_client(transport, version) as client:
        assert client.era == ("modern" if version is None and transport != "sse" else "legacy")
        if version is not None:
            assert client.protocol_version == version
        assert client.server_info.name == "interop"
        assert client.server_info.version == "1.2.3"
        assert client.instructions == "Ask for an echo."
        assert "tools" in client.server_capabilities
        tools = {tool.name: tool for tool in await client.tools()}
        assert tools["add"].input_schema["properties"]["a"] == {"type": "integer"}
        result = await client.call_tool("echo", {"text": "ünï\n"})
        assert join_text(result) == "ünï\n"
        assert b"content" in bytes(result.raw)


@every_transport
async def test_progress_is_delivered_before_the_result(transport: str, version: str | None) -> None:
    async with interop_client(transport, version) as client:
        steps: list[tuple[float, Any]] = []
        result = await client.call_tool(
            "slow", {"steps": 3}, progress=lambda update: steps.append((update.progress, update.total))
        )
        assert join_text(result) == "3 steps"
        assert steps == [(1, 3), (2, 3), (3, 3)]


@every_transport
async def test_an_elicitation_is_answered_by_the_handler(transport: str, version: str | None) -> None:
    elicitations: list[ElicitationRequest] = []

    async def answer(request: ElicitationRequest) -> ElicitationAnswer:
        elicitations.append(request)
        return ElicitationAnswer("accept", {"name": "Ada", "age": 36})

    if version in ("2024-11-05", "2025-03-26"):
        pytest.skip("these revisions have no elicitation")
    async with interop_client(transport, version, elicitation=answer) as client:
        assert join_text(await client.call_tool("ask_name")) == "Ada is 36"
        assert join_text(await client.call_tool("interview")) == "Ada and Ada"
        assert elicitations[0].message == "Who are you?"
        assert elicitations[0].requested_schema["properties"]["name"]["type"] == "string"


@every_transport
async def test_sampling_and_roots_are_answered_by_their_handlers(transport: str, version: str | None) -> None:
    def sample(request: SamplingRequest) -> SamplingAnswer:
        assert request.max_tokens == 64
        return SamplingAnswer({"type": "text", "text": "frog"}, "tiny")

    async with interop_client(transport, version, sampling=sample, roots=["file:///home/ada"]) as client:
        assert join_text(await client.call_tool("sample_haiku", {"topic": "ponds"})) == "tiny: frog"
        assert "file:///home/ada" in join_text(await client.call_tool("list_roots"))


@every_transport
async def test_resources_prompts_and_completion_work(transport: str, version: str | None) -> None:
    async with interop_client(transport, version) as client:
        assert "memo://static" in [resource.uri for resource in await client.resources()]
        assert [template.uri_template for template in await client.templates()] == ["memo://people/{name}"]
        (contents,) = (await client.read_resource("memo://static")).contents
        assert contents.text == "static text"
        assert [prompt.name for prompt in await client.prompts()] == ["greeting"]
        prompt = await client.get_prompt("greeting", {"name": "Ada"})
        assert prompt.messages[0].content == Text("Greet Ada")
        completion = await client.complete({"type": "ref/prompt", "name": "greeting"}, "style", "f")
        assert completion.completion.values == ["formal", "friendly"]
        await client.ping()
        with pytest.raises(RemoteError):
            await client.read_resource("memo://nowhere")


@every_transport
async def test_concurrent_calls_get_their_own_results(transport: str, version: str | None) -> None:
    async with interop_client(transport, version) as client:
        results = await asyncio.gather(*(client.call_tool("echo", {"text": str(number)}) for number in range(50)))
        assert [join_text(result) for result in results] == [str(number) for number in range(50)]


@every_transport
async def test_a_call_that_times_out_is_cancelled_at_the_server(transport: str, version: str | None) -> None:
    async with assert_no_leaks(), interop_client(transport, version) as client:
        before = (await client.call_tool("counts")).structured_content
        cancelled = before["cancelled"] if isinstance(before, dict) else 0
        started = asyncio.Event()
        call = asyncio.create_task(client.call_tool("wait_forever", timeout_s=60, progress=lambda _: started.set()))
        await started.wait()
        advance_clock(60)
        with pytest.raises(DeadlineExceeded, match="tools/call"):
            await call
        if before is not UNSET:
            after = await client.call_tool("counts", {"cancelled": cancelled + 1})
            assert not after.is_error
        assert join_text(await client.call_tool("echo", {"text": "still here"})) == "still here"


@every_transport
async def test_a_cancelled_call_is_cancelled_at_the_server(transport: str, version: str | None) -> None:
    async with assert_no_leaks(), interop_client(transport, version) as client:
        before = (await client.call_tool("counts")).structured_content
        started = asyncio.Event()
        call = asyncio.create_task(client.call_tool("wait_forever", progress=lambda _: started.set()))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if isinstance(before, dict):
            assert not (await client.call_tool("counts", {"cancelled": before["cancelled"] + 1})).is_error


@every_transport
async def test_list_changes_are_reported(transport: str, version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        bounds, "SERVER_STREAM_WAIT_S", 20
    )  # the longest wait of a first call for the stream of a legacy session
    changes: list[str] = []
    async with (
        assert_no_leaks(),
        interop_client(transport, version, on_change=lambda change: changes.append(change.kind)) as client,
    ):
        if client.era == "modern":
            await client.listen(tools=True)
        name = f"new_{transport}_{version or 'any'}".replace("-", "_")
        await client.call_tool("register_tool", {"name": name})
        try:
            await wait_until(lambda: "tools" in changes)
            assert name in [tool.name for tool in await client.tools()]
        finally:
            await client.call_tool("unregister_tool", {"name": name})


@every_transport
async def test_a_subscribed_resource_reports_its_update(
    transport: str, version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SERVER_STREAM_WAIT_S", 20)
    changes: list[str] = []
    async with (
        assert_no_leaks(),
        interop_client(transport, version, on_change=lambda change: changes.append(change.uri)) as client,
    ):
        await client.subscribe("memo://watched")
        await client.call_tool("touch_resource")
        await wait_until(lambda: "memo://watched" in changes)
        assert "memo://unwatched" not in changes
        await client.unsubscribe("memo://watched")


@every_transport
async def test_log_messages_are_delivered(transport: str, version: str | None) -> None:
    logged: list[Any] = []
    async with interop_client(transport, version, on_log=lambda message: logged.append(message.data)) as client:
        if "logging" not in client.server_capabilities and client.era == "legacy":
            pytest.skip("this server does not log in this revision")
        await client.set_level("debug")
        await client.call_tool("slow", {"steps": 2})
        await wait_until(lambda: len(logged) >= 2)
        assert "did step 1" in str(logged[0])


@pytest.mark.parametrize("transport", ["stdio", "streamable_http"])
async def test_an_elicitation_without_a_handler_is_a_typed_error(transport: str) -> None:
    async with assert_no_leaks(), interop_client(transport, None) as client:
        with pytest.raises((InputRefused, RemoteError)):
            await client.call_tool("ask_name")
        assert join_text(await client.call_tool("echo", {"text": "on"})) == "on"


async def test_a_stream_closed_by_the_server_is_resumed() -> None:
    async with assert_no_leaks(), interop_client("streamable_http", "2025-11-25") as client:
        steps: list[Any] = []
        result = await client.call_tool("polled", progress=lambda update: steps.append(update.message))
        assert join_text(result) == "fetched"
        assert steps == ["before", "after"]


async def test_content_of_every_kind_is_decoded() -> None:
    async with interop_client("stdio", None) as client:
        content = (await client.call_tool("gallery")).content or []
        kinds = [type(block).__name__ for block in content]
        assert {"Text", "Image", "Audio", "EmbeddedResource", "ResourceLink"} <= set(kinds)
        picture = next(b for b in (await client.call_tool("gallery")).content or [] if isinstance(b, Image))
        assert picture.data.startswith(b"\x89PNG")


async def test_invalid_calls_are_refused_before_anything_is_sent() -> None:
    async with interop_client("stdio", None) as client:
        with pytest.raises(InvalidParams, match="name of the tool"):
            await client.call_tool("  ")
