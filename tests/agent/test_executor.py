"""Executors of MCP tools and of an application's own tools return an envelope for every outcome."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.agent.fakes import ScriptedClient

from hubbub import (
    ConnectionClosed,
    DeadlineExceeded,
    HttpError,
    Image,
    InputRefused,
    MessageTooLarge,
    Overloaded,
    RemoteError,
    RoutingExecutor,
    SessionLost,
    SettingsError,
    Snapshot,
    Text,
    ToolEntry,
    ToolError,
    ToolResult,
    bounds,
)
from hubbub.agent.executor import FunctionExecutor, McpExecutor
from hubbub.agent.tool_adapter import adapt_tools

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def snapshot(client: Any, **entry: Any) -> Snapshot:
    adapted = adapt_tools(
        {"srv": [ToolEntry("do.it", **{"input_schema": {"type": "object"}, **entry})]}, bounds.TOOL_KEY_CHARACTERS
    )
    return Snapshot(adapted.definitions, adapted.mapping, {"srv": client} if client else {})


async def call(outcome: Any, arguments: Mapping[str, Any] | None = None, **entry: Any) -> Any:
    return await McpExecutor(snapshot(ScriptedClient(outcome), **entry)).call("mcp_srv__do_it", arguments or {})


async def test_a_result_is_an_envelope_with_its_text() -> None:
    result = ToolResult(content=[Text("hello"), Image(b"123", "image/png")], structured_content={"n": 1})
    assert await call(result) == {
        "ok": True,
        "tool_name": "mcp_srv__do_it",
        "data": {
            "mcp": {
                "server_id": "srv",
                "remote_tool_name": "do.it",
                "content": [
                    {"type": "text", "text": "hello"},
                    {"type": "image", "mimeType": "image/png", "bytes": 3},
                ],
                "structured_content": {"n": 1},
            },
            "text": 'hello\n[image: image/png, 3 bytes]\n\nstructuredContent:\n{"n":1}',
        },
        "warnings": [{"code": "BINARY_TRUNCATED", "message": "Binary data was replaced by its type and size"}],
        "errors": [],
    }


async def test_requested_images_are_separate_and_have_no_warning() -> None:
    tiff, broken = Image(b"456", "image/tiff"), {"type": "image", "mimeType": "image/png", "data": "no base64!"}
    result = ToolResult(content=[Image(b"123", "image/png"), tiff, broken])  # type: ignore[list-item]
    executor = McpExecutor(snapshot(ScriptedClient(result)), images=True)
    found = await executor.call("mcp_srv__do_it", {})
    assert found["data"]["images"] == [{"mimeType": "image/png", "data": "MTIz"}]
    assert "MTIz" not in str(found["data"]["mcp"])
    assert [warning["code"] for warning in found["warnings"]] == ["BINARY_TRUNCATED"]  # of the two other images
    assert found["data"]["text"].startswith("[image: image/png, 3 bytes]")


async def test_images_beyond_the_limit_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TOOL_IMAGES", 1)
    result = ToolResult(content=[Image(b"123", "image/png"), Image(b"456", "image/png")])
    found = await McpExecutor(snapshot(ScriptedClient(result)), images=True).call("mcp_srv__do_it", {})
    assert found["data"]["images"] == [{"mimeType": "image/png", "data": "MTIz"}]
    assert [warning["code"] for warning in found["warnings"]] == ["BINARY_TRUNCATED"]


async def test_the_server_is_called_with_its_own_tool_name_and_the_timeout_of_the_executor() -> None:
    client = ScriptedClient()
    await McpExecutor(snapshot(client), timeout_s=3.0).call("mcp_srv__do_it", {"a": 1})
    assert client.calls == [("do.it", {"a": 1}, 3.0)]


async def test_a_tool_that_reports_an_error_fails_with_its_data() -> None:
    envelope = await call(ToolResult(content=[Text("no such city")], is_error=True))
    assert envelope["ok"] is False
    assert [error["code"] for error in envelope["errors"]] == ["MCP_TOOL_ERROR"]
    assert envelope["data"]["text"] == "no such city"


async def test_missing_content_is_an_empty_list() -> None:
    envelope = await call(ToolResult())
    assert envelope["ok"] is True
    assert envelope["data"]["mcp"]["content"] == []
    assert envelope["data"]["text"] == ""


async def test_an_unknown_name_is_an_error() -> None:
    envelope = await McpExecutor(snapshot(ScriptedClient())).call("mcp_srv__other", {})
    assert [error["code"] for error in envelope["errors"]] == ["MCP_TOOL_NOT_FOUND"]


async def test_a_server_that_is_not_connected_is_an_error() -> None:
    envelope = await McpExecutor(snapshot(None)).call("mcp_srv__do_it", {})
    (error,) = envelope["errors"]
    assert (error["code"], error["retryable"], error["may_have_executed"]) == ("MCP_SERVER_NOT_FOUND", True, False)


@pytest.mark.parametrize(
    ("error", "code", "retryable", "may_have_executed"),
    [
        (DeadlineExceeded("The answer", 1.0), "MCP_TIMEOUT", False, True),
        (SessionLost(), "MCP_SESSION_NOT_FOUND", True, False),
        (HttpError("no", 500), "MCP_TRANSPORT_ERROR", False, True),
        (HttpError("no", 404), "MCP_TRANSPORT_ERROR", True, False),
        (ConnectionClosed("gone"), "MCP_TRANSPORT_ERROR", False, True),
        (RemoteError(-32602, "no such tool"), "MCP_RPC_ERROR", False, False),
        (RemoteError(-32603, "it broke"), "MCP_RPC_ERROR", False, True),
        (InputRefused("nobody answers"), "MCP_INPUT_REFUSED", False, True),
        (MessageTooLarge("The answer", 10), "MCP_INVALID_RESPONSE", False, True),
        (Overloaded("calls", 1), "MCP_OVERLOADED", True, False),
        (KeyError("x"), "INTERNAL_ERROR", False, True),
    ],
)
async def test_every_failure_says_whether_it_is_retryable_and_may_have_run(
    error: Exception, code: str, retryable: bool, may_have_executed: bool
) -> None:
    envelope = await call(error)
    (problem,) = envelope["errors"]
    assert (problem["code"], problem["retryable"], problem["may_have_executed"]) == (code, retryable, may_have_executed)
    assert envelope["ok"] is False
    assert envelope["data"]["mcp"] == {"server_id": "srv", "remote_tool_name": "do.it"}


async def test_the_code_of_a_server_error_is_kept() -> None:
    assert (await call(RemoteError(-32602, "no")))["errors"][0]["rpc_code"] == -32602


async def test_secrets_and_escapes_in_error_messages_are_masked() -> None:
    envelope = await call(RemoteError(-1, "\x1b[31mAuthorization: Bearer abcdefghijklmnop\u202e" + "x" * 5000))
    message = envelope["errors"][0]["message"]
    assert "abcdefghijklmnop" not in message
    assert message.isprintable()
    assert len(message) <= 400


async def test_a_call_is_never_repeated() -> None:
    client = ScriptedClient(SessionLost())
    await McpExecutor(snapshot(client)).call("mcp_srv__do_it", {})
    assert len(client.calls) == 1


async def test_a_large_result_is_truncated_with_both_warnings() -> None:
    client = ScriptedClient(ToolResult(content=[Text("x" * 5000)]))
    envelope = await McpExecutor(snapshot(client), max_bytes=1024).call("mcp_srv__do_it", {})
    assert [warning["code"] for warning in envelope["warnings"]] == ["CONTENT_TRUNCATED", "TEXT_TRUNCATED"]
    assert len(envelope["data"]["text"]) <= 512


def test_a_limit_that_is_too_small_is_refused() -> None:
    with pytest.raises(SettingsError):
        McpExecutor(Snapshot(), max_bytes=100)


async def test_arguments_that_do_not_match_the_schema_are_not_sent() -> None:
    client = ScriptedClient()
    executor = McpExecutor(snapshot(client, input_schema=NUMBER))
    envelope = await executor.call("mcp_srv__do_it", {"n": "one"})
    (error,) = envelope["errors"]
    assert (error["code"], error["may_have_executed"]) == ("ARGUMENT_ERROR", False)
    assert "n:" in error["message"]
    assert client.calls == []
    assert (await executor.call("mcp_srv__do_it", {"n": 1}))["ok"]


async def test_arguments_of_an_invalid_schema_are_not_checked() -> None:
    assert (await call(None, {"n": 1}, input_schema={"type": "object", "properties": {"n": {"type": "nonsense"}}}))[
        "ok"
    ]


@pytest.mark.parametrize(("structured", "is_warned"), [({"n": 1}, False), ({"n": "x"}, True), (None, True)])
async def test_a_result_that_does_not_match_its_schema_has_a_warning(structured: Any, is_warned: bool) -> None:
    result = ToolResult(content=[], structured_content=structured)
    envelope = await call(result, output_schema=NUMBER)
    assert envelope["ok"] is True
    assert [warning["code"] for warning in envelope["warnings"]] == ["STRUCTURED_CONTENT_INVALID"] * is_warned


async def test_cancelling_a_call_raises() -> None:
    class Hanging(ScriptedClient):
        async def call_tool(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.Event().wait()

    task = asyncio.ensure_future(McpExecutor(snapshot(Hanging())).call("mcp_srv__do_it", {}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- the application's own tools --------------------------------------------------------


async def test_any_value_of_a_function_becomes_an_envelope() -> None:
    async def function(name: str, arguments: Mapping[str, Any]) -> Any:
        return [name, arguments["a"]]

    assert await FunctionExecutor(function).call("now", {"a": 1}, call_id="c") == {
        "ok": True,
        "tool_name": "now",
        "data": {"value": ["now", 1]},
        "warnings": [],
        "errors": [],
    }


async def test_an_envelope_of_a_function_is_kept() -> None:
    async def function(name: str, arguments: Mapping[str, Any]) -> Any:
        return {"ok": False, "data": {"a": 1}, "errors": [{"code": "MINE", "message": "no"}], "warnings": None}

    envelope = await FunctionExecutor(function).call("now", {})
    assert (envelope["ok"], envelope["data"], envelope["warnings"]) == (False, {"a": 1}, [])
    assert envelope["errors"] == [{"code": "MINE", "message": "no"}]


async def test_the_id_of_a_call_is_passed_to_functions_that_accept_it() -> None:
    seen: list[str | None] = []

    def with_id(name: str, arguments: Mapping[str, Any], *, call_id: str) -> None:
        seen.append(call_id)

    def without_id(name: str, arguments: Mapping[str, Any]) -> None:
        seen.append(None)

    for function in (with_id, without_id):
        assert (await FunctionExecutor(function).call("now", {}, call_id="c1"))["ok"]
    assert seen == ["c1", None]


async def test_a_synchronous_function_does_not_block_the_event_loop() -> None:
    import threading

    assert (await FunctionExecutor(lambda name, arguments: threading.get_ident()).call("now", {}))["data"] != {
        "value": threading.get_ident()
    }


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("no such day"), "ARGUMENT_ERROR", "no such day"),
        (ToolError("the disk is full"), "TOOL_ERROR", "the disk is full"),
        (RuntimeError("token=abcdefghijkl"), "INTERNAL_ERROR", "RuntimeError: token=***"),
    ],
)
async def test_an_exception_of_a_function_is_an_error_envelope(error: Exception, code: str, message: str) -> None:
    async def function(name: str, arguments: Mapping[str, Any]) -> Any:
        raise error

    (problem,) = (await FunctionExecutor(function).call("now", {}))["errors"]
    assert (problem["code"], problem["message"]) == (code, message)


async def test_a_name_without_a_route_is_not_implemented() -> None:
    envelope = await RoutingExecutor({}).call("now", {})
    assert [error["code"] for error in envelope["errors"]] == ["TOOL_NOT_IMPLEMENTED"]
