"""Every way a call can fail, in every era, as it reaches the client."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.server.raw_client import ERAS, LEGACY, MODERN, PLAIN, connect_raw_client

from hubbub import Context, RemoteError, Server, Text, ToolError, ToolErrors, ToolResult, View


def make_server() -> Server:
    server = Server("s", profiles={"core": View(exclude=("hidden",))}, profile="core")

    @server.tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool
    async def fails() -> str:
        raise RuntimeError("it broke, password=hunter2")

    @server.tool
    async def refuses() -> str:
        raise ToolError("not today", code="closed", data={"opens": 9})

    @server.tool
    async def says_it_failed() -> ToolResult:
        return ToolResult(content=[Text("own words")], is_error=True)

    @server.tool(errors=ToolErrors(plain_code=-32601))
    async def fixed_code() -> str:
        raise ToolError("no")

    @server.tool(errors=ToolErrors(plain_code=-32601))
    async def fixed_code_of_own_words() -> ToolResult:
        return ToolResult(content=[Text("own words")], is_error=True)

    @server.tool(errors=ToolErrors(as_result=True))
    async def always_a_result(flag: bool) -> ToolResult:
        if flag:
            raise ToolError("no")
        return ToolResult(content=[Text("own words")], structured_content={"own": 1}, is_error=True)

    @server.tool
    async def hidden() -> str:
        return "hidden"

    @server.resource("known:thing")
    async def thing() -> str:
        raise ValueError("it broke, token=abcdefghijk")

    return server


def failure(kind: str, message: str, tool: str, **more: object) -> dict[str, Any]:
    return {"ok": False, "error": {"type": kind, "message": message, "tool": tool, **more}}


VISIBLE = ["add", "fails", "refuses", "says_it_failed", "fixed_code", "fixed_code_of_own_words", "always_a_result"]


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool(era: str) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        error = await client.error("tools/call", {"name": "nope", "arguments": {}})
    assert error == {
        "code": -32000 if era == "plain" else -32602,
        "message": "Tool not found",
        "data": {"toolName": "nope", "availableTools": VISIBLE},
    }


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_resource(era: str) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        error = await client.error("resources/read", {"uri": "no:such"})
    code = {"plain": -32001, "legacy": -32002, "modern": -32602}[era]
    assert error == {"code": code, "message": "Resource not found", "data": {"uri": "no:such"}}


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_prompt(era: str) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        error = await client.error("prompts/get", {"name": "nope"})
    assert error == {"code": -32602, "message": "Prompt not found: nope", "data": {"promptName": "nope"}}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": None}),
        ("tools/call", {"name": 5, "arguments": {}}),
        ("tools/list", {"cursor": 5}),
        ("tools/list", {"cursor": "not one of ours"}),
        ("resources/list", {"cursor": "not one of ours"}),
        ("resources/templates/list", {"cursor": "not one of ours"}),
        ("prompts/list", {"cursor": "not one of ours"}),
        ("resources/read", {}),
        ("resources/read", {"uri": 5}),
        ("prompts/get", {}),
        ("prompts/get", {"name": "x", "arguments": {"a": 5}}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/other", "name": "x"}, "argument": {"name": "a", "value": ""}}),
    ],
)
async def test_wrong_params_of_a_method(era: str, method: str, params: dict[str, Any]) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        assert (await client.error(method, params))["code"] == -32602


@pytest.mark.parametrize(
    ("method", "params"), [("logging/setLevel", {"level": "loud"}), ("logging/setLevel", {}), ("initialize", {}),
                           ("resources/subscribe", {}), ("resources/unsubscribe", {"uri": []})],
)  # fmt: skip
@pytest.mark.parametrize("dialect", [PLAIN, "2025-11-25"])
async def test_wrong_params_of_a_method_of_sessions(dialect: str, method: str, params: dict[str, Any]) -> None:
    async with connect_raw_client(make_server(), dialect) as client:
        assert (await client.error(method, params))["code"] == -32602


@pytest.mark.parametrize("params", [[1], [], "x", 7, True, None])
@pytest.mark.parametrize(("tool", "code"), [("add", -32003), ("with.a_dot", -32003), ("fixed_code", -32602)])
async def test_non_object_params_of_a_tool_called_as_a_method(tool: str, code: int, params: object) -> None:
    server = make_server()
    server.tool(name="with.a_dot")(lambda: "x")
    async with connect_raw_client(server, PLAIN) as client:
        client.send({"jsonrpc": "2.0", "id": 1, "method": tool, "params": params})
        assert (await client.next_message())["error"]["code"] == code


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_method(era: str) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        error = await client.error("no/such")
    assert error == {"code": -32601, "message": "Method not found: no/such"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "missing required argument `a`; allowed arguments: a, b"),
        ({"a": "x"}, "a: expected `int`, got `str`"),
        ({"a": 1, "c": 2}, "unknown argument `c`; allowed arguments: a, b"),
    ],
)
async def test_wrong_arguments_of_a_tool(arguments: dict[str, Any], message: str) -> None:
    params = {"name": "add", "arguments": arguments}
    async with connect_raw_client(make_server(), PLAIN) as client:
        assert await client.error("tools/call", params) == {"code": -32003, "message": message}
    for dialect in (*LEGACY, MODERN):
        async with connect_raw_client(make_server(), dialect) as client:
            result = await client.result("tools/call", params)
            assert result["isError"] is True
            expected = failure("validation_error", message, "add")
            assert json.loads(result["content"][0]["text"]) == expected
            assert result.get("structuredContent", expected) == expected


@pytest.mark.parametrize("arguments", [None, [], "text", 5])
async def test_non_object_arguments(arguments: object) -> None:
    params = {"name": "add", "arguments": arguments}
    async with connect_raw_client(make_server(), PLAIN) as client:
        assert (await client.error("tools/call", params))["code"] == -32003
    async with connect_raw_client(make_server(), MODERN) as client:
        result = await client.result("tools/call", params)
        assert json.loads(result["content"][0]["text"])["error"]["type"] == "validation_error"


async def test_a_tool_that_failed() -> None:
    async with connect_raw_client(make_server(), PLAIN) as client:
        error = await client.error("tools/call", {"name": "fails"})
        assert error == {"code": -32002, "message": "it broke, password=***"}
        assert await client.error("fails") == error
        error = await client.error("tools/call", {"name": "refuses"})
        assert error == {"code": -32002, "message": "not today", "data": {"code": "closed", "data": {"opens": 9}}}
        error = await client.error("tools/call", {"name": "says_it_failed"})
        assert error == {"code": -32002, "message": "own words"}
    for dialect in ("2025-06-18", "2025-11-25", MODERN):
        async with connect_raw_client(make_server(), dialect) as client:
            result = await client.call("fails")
            assert result["isError"] is True
            assert result["structuredContent"] == failure("tool_error", "it broke, password=***", "fails")
            details = (await client.call("refuses"))["structuredContent"]
            assert details == failure("tool_error", "not today", "refuses", code="closed", data={"opens": 9})
            own = await client.call("says_it_failed")
            assert (own["isError"], own["content"]) == (True, [{"type": "text", "text": "own words"}])


async def test_a_tool_that_the_profile_disables() -> None:
    params = {"name": "hidden", "arguments": {}}
    message = "Tool 'hidden' is disabled by the active profile"
    async with connect_raw_client(make_server(), PLAIN) as client:
        assert await client.error("tools/call", params) == {"code": -32003, "message": message}
        assert (await client.error("hidden"))["code"] == -32601
    for era in ("legacy", "modern"):
        async with connect_raw_client(make_server(), ERAS[era]) as client:
            result = await client.result("tools/call", params)
            assert result["structuredContent"] == failure("validation_error", message, "hidden")


async def test_a_tool_can_set_the_form_of_its_failures_for_plain_callers() -> None:
    async with connect_raw_client(make_server(), PLAIN) as client:
        assert await client.error("tools/call", {"name": "fixed_code"}) == {"code": -32601, "message": "no"}
        error = await client.error("tools/call", {"name": "fixed_code_of_own_words"})
        assert error == {"code": -32601, "message": "own words"}
        result = await client.call("always_a_result", {"flag": True})
        assert result["structuredContent"] == failure("tool_error", "no", "always_a_result")
        assert result["isError"] is True
        result = await client.call("always_a_result", {"flag": False})
        assert result == {
            "content": [{"type": "text", "text": "own words"}],
            "structuredContent": {"own": 1},
            "isError": True,
        }


@pytest.mark.parametrize("era", ERAS)
async def test_a_failed_resource_is_reported_as_an_internal_error(era: str) -> None:
    async with connect_raw_client(make_server(), ERAS[era]) as client:
        error = await client.error("resources/read", {"uri": "known:thing"})
    assert error == {"code": -32603, "message": "it broke, token=***"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_that_failed_is_an_internal_error(era: str) -> None:
    server = Server("prompts")

    @server.prompt
    async def breaks() -> str:
        raise ToolError("no words today", code="silent")

    async with connect_raw_client(server, ERAS[era]) as client:
        error = await client.error("prompts/get", {"name": "breaks"})
    assert error == {"code": -32603, "message": "no words today", "data": {"code": "silent"}}


async def test_a_tool_as_a_method_is_for_plain_callers_only() -> None:
    async with connect_raw_client(make_server(), PLAIN) as client:
        assert await client.result("add", {"a": 2}) == 3
        assert (await client.error("add", {"a": "x"}))["code"] == -32003
        client.send({"jsonrpc": "2.0", "id": 1, "method": "add", "params": [2]})
        assert (await client.next_message())["error"]["code"] == -32003
    for era in ("legacy", "modern"):
        async with connect_raw_client(make_server(), ERAS[era]) as client:
            assert (await client.error("add", {"a": 2}))["code"] == -32601


async def test_a_tool_cannot_replace_an_mcp_method() -> None:
    server = Server("s")

    @server.tool(name="ping")
    async def imposter() -> str:
        return "imposter"

    @server.tool(name="tools/list")
    async def second_imposter() -> str:
        return "imposter"

    async with connect_raw_client(server) as client:
        assert await client.result("ping") == {}
        assert "tools" in await client.result("tools/list")
        assert (await client.call("ping"))["content"][0]["text"] == "imposter"


@dataclass
class Name:
    name: str


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return f"Hello {answer.content.name}" if answer.content else answer.action

    @server.tool
    async def passes_on() -> str:
        raise RemoteError(-5, "from far away")

    return server


async def test_a_missing_capability_has_its_own_error_code_in_the_modern_era() -> None:
    async with connect_raw_client(asking_server(), MODERN, {}) as client:
        error = await client.error("tools/call", {"name": "greet"})
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}


@pytest.mark.parametrize("dialect", LEGACY)
async def test_a_missing_capability_is_a_failed_tool_in_a_session(dialect: str) -> None:
    async with connect_raw_client(asking_server(), dialect, {}) as client:
        result = await client.call("greet")
    assert result["isError"] is True
    assert "elicitation" in result["content"][0]["text"]


async def test_a_plain_caller_cannot_receive_client_requests() -> None:
    async with connect_raw_client(asking_server(), PLAIN) as client:
        assert (await client.error("tools/call", {"name": "greet"}))["code"] == -32002


async def test_an_error_response_of_another_server_is_a_failed_tool() -> None:
    async with connect_raw_client(asking_server(), "2025-11-25") as client:
        result = await client.call("passes_on")
    assert result["structuredContent"] == failure("tool_error", "from far away", "passes_on")
