"""The official Python SDK's client against our server, in both eras, on stdio and over HTTP."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from tests.interop.http_recorder import ServerAddress
from tests.interop.python_client import DEPRECATED, ERAS, LEGACY, MODERN, ClientRecorder, block_text, connect_sdk_client

RunAsync = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


def client_callbacks(recorder: ClientRecorder) -> dict[str, Any]:
    return {
        "elicitation_callback": recorder.elicit,
        "sampling_callback": recorder.sample,
        "list_roots_callback": recorder.roots,
    }


async def counts(client: Client, **awaited: int) -> dict[str, int]:
    return dict((await client.call_tool("counts", awaited)).structured_content or {})


@pytest.mark.parametrize("mode", ERAS)
def test_the_client_gets_the_server_info(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            assert client.protocol_version == ("2025-11-25" if mode == LEGACY else "2026-07-28")
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("interop", "1.2.3")
            assert client.server_info.title == "Interop fixture"
            assert client.instructions == "Ask for an echo."
            capabilities = client.server_capabilities
            assert capabilities.tools is not None
            assert capabilities.tools.list_changed
            assert capabilities.resources is not None
            assert capabilities.resources.subscribe
            assert capabilities.completions is not None

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_it_lists_tools_with_their_schemas(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools)[:3] == ["echo", "add", "count"]
            assert tools["echo"].description == "Give the text back."
            assert tools["echo"].input_schema["properties"]["text"] == {"type": "string", "description": "What to say."}
            assert tools["echo"].annotations is not None
            assert tools["echo"].annotations.read_only_hint is True
            assert tools["add"].input_schema["required"] == ["a"]
            assert tools["add"].output_schema is not None
            assert tools["add"].output_schema["required"] == ["total", "terms"]
            scalar = tools["count"].output_schema
            assert scalar is not None
            # A bare number is a result only in the modern era; before it is wrapped in an object.
            assert scalar["type"] == ("object" if mode == LEGACY else "integer")

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_tool_results_have_text_and_structured_content(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            await client.list_tools()  # from here on the client checks results against their schemas
            echoed = await client.call_tool("echo", {"text": "grüße 🌍\u2028"})
            assert [block.model_dump(exclude_none=True) for block in echoed.content] == [
                {"type": "text", "text": "grüße 🌍\u2028"}
            ]
            assert not echoed.is_error
            added = await client.call_tool("add", {"a": 2, "b": 3})
            assert added.structured_content == {"total": 5, "terms": [2, 3]}
            number = await client.call_tool("count")
            assert number.structured_content == ({"result": 42} if mode == LEGACY else 42)

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_it_reads_every_kind_of_content(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            text, image, audio, embedded, link = (await client.call_tool("gallery")).content
            assert text.type == "text"
            assert text.text == "all kinds"
            assert image.type == "image"
            assert image.mime_type == "image/png"
            assert base64.b64decode(image.data).startswith(b"\x89PNG")
            assert audio.type == "audio"
            assert base64.b64decode(audio.data).startswith(b"RIFF")
            assert embedded.type == "resource"
            assert embedded.resource.uri == "memo://inside"
            assert isinstance(embedded.resource, types.TextResourceContents)
            assert embedded.resource.text == "inside"
            assert link.type == "resource_link"
            assert link.uri == "memo://static"

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_failed_tool_is_a_result_and_an_unknown_one_is_an_error(
    address: ServerAddress, run_async: RunAsync, mode: str
) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            await client.list_tools()
            failed = await client.call_tool("failing")
            assert failed.is_error
            error: dict[str, Any] = {"type": "tool_error", "message": "the well is dry", "tool": "failing"}
            error |= {"code": "dry_well", "data": {"depth": 7}}
            assert failed.structured_content == {"ok": False, "error": error}
            unfit = await client.call_tool("failing_sum", {"a": 1})
            assert unfit.is_error
            error = {"type": "tool_error", "message": "cannot add 1", "tool": "failing_sum"}
            assert json.loads(block_text(unfit.content[0])) == {"ok": False, "error": error}
            # Some clients check even failures against the tool's output schema, so there is no data to check.
            assert unfit.structured_content is None
            wrong = await client.call_tool("add", {"a": "one"})
            assert wrong.is_error
            assert json.loads(block_text(wrong.content[0]))["error"]["type"] == "validation_error"
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("missing")
            assert unknown.value.code == types.INVALID_PARAMS

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_progress_arrives_in_order_and_before_the_result(
    address: ServerAddress, run_async: RunAsync, mode: str
) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            received: list[tuple[float, float | None, str | None]] = []
            complete = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                received.append((progress, total, message))
                if len(received) == 4:
                    complete.set()

            result = await client.call_tool("slow", {"steps": 4}, progress_callback=progress)
            assert block_text(result.content[0]) == "4 steps"
            await asyncio.wait_for(complete.wait(), 60)
            assert received == [(step, 4, f"step {step}") for step in range(1, 5)]

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_log_messages_have_the_requested_level(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        received: list[types.LoggingMessageNotificationParams] = []

        async def log(params: types.LoggingMessageNotificationParams) -> None:
            received.append(params)

        level: dict[str, Any] = {"log_level": "info"} if mode == MODERN else {}
        async with connect_sdk_client(address, mode, logging_callback=log, **level) as (client, recorder):
            if mode == LEGACY:
                await client.set_logging_level("info")
            await client.call_tool("slow", {"steps": 2})
            await recorder.wait_for(types.LoggingMessageNotification)
            await client.call_tool("echo", {"text": "a turn later"})
            assert [(entry.level, entry.data) for entry in received] == [("info", "did step 1"), ("info", "did step 2")]
            if mode == LEGACY:
                await client.set_logging_level("error")
                await client.call_tool("slow", {"steps": 2})
                await client.call_tool("echo", {"text": "a turn later"})
                assert len(received) == 2

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_cancelled_call_stops_and_the_server_continues(
    address: ServerAddress, run_async: RunAsync, mode: str
) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            waiting = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                waiting.set()

            call = asyncio.create_task(client.call_tool("wait_forever", progress_callback=progress))
            await asyncio.wait_for(waiting.wait(), 60)
            assert (await counts(client))["cancelled"] == 0
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await counts(client, cancelled=1) == {"started": 1, "cancelled": 1, "finished": 0}

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_user_fills_in_a_form(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        person = ClientRecorder()
        async with connect_sdk_client(address, mode, **client_callbacks(person)) as (client, _):
            assert block_text((await client.call_tool("ask_name")).content[0]) == "Ada 1 is 36"
            form = person.requests[0]
            assert form.message == "Who are you?"
            assert form.requested_schema["properties"]["name"] == {"type": "string"}
            assert form.requested_schema["required"] == ["name"]

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_may_decline_an_elicitation(address: ServerAddress, run_async: RunAsync, mode: str, action: Any) -> None:
    async def refuse(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    async def scenario() -> None:
        async with connect_sdk_client(address, mode, elicitation_callback=refuse) as (client, _):
            assert block_text((await client.call_tool("ask_name")).content[0]) == f"nobody ({action})"

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_a_handler_with_two_client_requests_runs_once(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        person = ClientRecorder()
        async with connect_sdk_client(address, mode, **client_callbacks(person)) as (client, _):
            assert block_text((await client.call_tool("interview")).content[0]) == "Ada 1 and Ada 2"
            assert [form.message for form in person.requests] == ["Who are you?", "And your friend?"]
            assert (await counts(client))["started"] == 1

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_sampling_and_roots_requests_are_answered(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        person = ClientRecorder()
        async with connect_sdk_client(address, mode, **client_callbacks(person)) as (client, _):
            assert (
                block_text((await client.call_tool("sample_haiku", {"topic": "frogs"})).content[0]) == "basho: old pond"
            )
            sampling_request = person.requests[0]
            assert sampling_request.messages[0].content.text == "A haiku about frogs"
            assert (sampling_request.max_tokens, sampling_request.system_prompt, sampling_request.temperature) == (
                64,
                "You are a poet",
                0.5,
            )
            roots = (await client.call_tool("list_roots")).structured_content
            assert roots == ({"result": ["file:///home/ada"]} if mode == LEGACY else ["file:///home/ada"])

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_elicitation_without_the_capability_is_an_error(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            if mode == LEGACY:
                failed = await client.call_tool("ask_name")
                assert failed.is_error
                assert "elicitation" in block_text(failed.content[0])
                return
            with pytest.raises(MCPError) as missing:
                await client.call_tool("ask_name")
            assert missing.value.code == -32021
            assert missing.value.error.data == {"requiredCapabilities": {"elicitation": {}}}

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_it_lists_and_reads_resources(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            listed = {entry.uri: entry for entry in (await client.list_resources()).resources}
            assert list(listed) == ["memo://static", "memo://bytes", "memo://watched", "memo://seen"]
            assert listed["memo://static"].title == "A memo"
            assert listed["memo://static"].mime_type == "text/plain"
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == ["memo://people/{name}"]
            text = (await client.read_resource("memo://static")).contents[0]
            assert (text.uri, text.mime_type, block_text(text)) == ("memo://static", "text/plain", "static text")
            blob = (await client.read_resource("memo://bytes")).contents[0]
            assert isinstance(blob, types.BlobResourceContents)
            assert base64.b64decode(blob.blob).startswith(b"\x89PNG")
            assert block_text((await client.read_resource("memo://people/ada")).contents[0]) == "about ada"
            for missing in ("memo://nowhere", "memo://people/nobody"):
                with pytest.raises(MCPError) as error:
                    await client.read_resource(missing)
                assert error.value.code == (-32002 if mode == LEGACY else types.INVALID_PARAMS)
                assert error.value.error.data == {"uri": missing}

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_it_gets_prompts_and_completions(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            (prompt,) = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.title, prompt.description) == ("greeting", "Greeting", "Greet someone.")
            assert [(item.name, item.required) for item in prompt.arguments or []] == [("name", True), ("style", False)]
            got = await client.get_prompt("greeting", {"name": "Ada", "style": "formal"})
            assert [(item.role, block_text(item.content)) for item in got.messages] == [
                ("user", "Greet Ada"),
                ("assistant", "In a formal style"),
            ]
            with pytest.raises(MCPError) as error:
                await client.get_prompt("greeting", {})
            assert error.value.code == types.INVALID_PARAMS
            prompt_reference = types.PromptReference(type="ref/prompt", name="greeting")
            styles = await client.complete(prompt_reference, {"name": "style", "value": "f"})
            assert styles.completion.values == ["formal", "friendly"]
            template_reference = types.ResourceTemplateReference(type="ref/resource", uri="memo://people/{name}")
            names = await client.complete(template_reference, {"name": "name", "value": "a"})
            assert names.completion.values == ["ada", "alan"]

    run_async(scenario())


def test_a_legacy_session_receives_updates_of_subscribed_resources(address: ServerAddress, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, LEGACY) as (client, recorder):
            await client.call_tool("touch_resource")
            await client.subscribe_resource("memo://watched")
            await client.call_tool("touch_resource")
            updated = await recorder.wait_for(types.ResourceUpdatedNotification)
            assert updated.params.uri == "memo://watched"
            assert block_text((await client.read_resource("memo://watched")).contents[0]) == "version 2"
            await client.unsubscribe_resource("memo://watched")
            await client.call_tool("touch_resource")
            await client.call_tool("echo", {"text": "a turn later"})
            assert len(recorder.notifications) == 1

    run_async(scenario())


def test_a_legacy_session_receives_list_changes(address: ServerAddress, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, LEGACY) as (client, recorder):
            await client.call_tool("register_tool", {"name": "hello"})
            await recorder.wait_for(types.ToolListChangedNotification)
            assert (await client.list_tools()).tools[-1].name == "hello"
            assert block_text((await client.call_tool("hello", {"who": "Ada"})).content[0]) == "hello greets Ada"
            await client.call_tool("add_resource", {"name": "new"})
            await recorder.wait_for(types.ResourceListChangedNotification)
            assert (await client.list_resources()).resources[-1].uri == "memo://added/new"
            await client.call_tool("unregister_tool", {"name": "hello"})
            assert "hello" not in {tool.name for tool in (await client.list_tools()).tools}
            kinds = [type(note) for note in recorder.notifications]
            assert kinds.count(types.ToolListChangedNotification) == 2
            assert kinds.count(types.ResourceListChangedNotification) == 1

    run_async(scenario())


def test_a_modern_client_receives_the_subscribed_notifications_and_no_others(
    address: ServerAddress, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, MODERN) as (client, recorder):
            await client.call_tool("register_tool", {"name": "before"})
            async with client.listen(tools_list_changed=True, resource_subscriptions=["memo://watched"]) as received:
                assert received.honored.tools_list_changed is True
                assert received.honored.resource_subscriptions == ["memo://watched"]
                await client.call_tool("add_resource", {"name": "new"})
                await client.call_tool("register_tool", {"name": "hello"})
                assert isinstance(await asyncio.wait_for(anext(received), 60), ToolsListChanged)
                assert (await client.list_tools()).tools[-1].name == "hello"
                await client.call_tool("touch_resource")
                assert await asyncio.wait_for(anext(received), 60) == ResourceUpdated(uri="memo://watched")
                assert block_text((await client.read_resource("memo://watched")).contents[0]) == "version 1"
            await client.call_tool("register_tool", {"name": "after"})
            await client.call_tool("echo", {"text": "a turn later"})
            # Nothing outside the stream: a modern server sends no notifications that were not requested.
            metas = [note.params.meta for note in recorder.notifications if note.params is not None]
            assert [note for note in recorder.notifications if note.params is None] == []
            assert all(meta and "io.modelcontextprotocol/subscriptionId" in meta for meta in metas)

    run_async(scenario())


def test_two_listen_streams_of_one_client_are_independent(address: ServerAddress, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with (
            connect_sdk_client(address, MODERN) as (client, _),
            client.listen(tools_list_changed=True) as tools,
            client.listen(resources_list_changed=True) as resources,
        ):
            await client.call_tool("add_resource", {"name": "new"})
            await client.call_tool("register_tool", {"name": "hello"})
            assert isinstance(await asyncio.wait_for(anext(tools), 60), ToolsListChanged)
            assert isinstance(await asyncio.wait_for(anext(resources), 60), ResourcesListChanged)

    run_async(scenario())


@pytest.mark.parametrize("mode", ERAS)
def test_concurrent_calls_get_their_own_results(address: ServerAddress, run_async: RunAsync, mode: str) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(address, mode) as (client, _):
            texts = [f"text {number}" for number in range(100)]
            answers = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
            assert [block_text(answer.content[0]) for answer in answers] == texts

    run_async(scenario())
