"""Exception groups, KeyboardInterrupt and SystemExit raised by handlers."""

import asyncio
from typing import Any, Never

import pytest
from tests.http.in_process_server import run_server
from tests.http.raw_http import call
from tests.server.raw_client import MODERN, PLAIN, connect_raw_client

from hubbub import ResourceDetails, Server, ToolError


async def refuse(text: str, **more: Any) -> None:
    raise ToolError(text, **more)


async def break_down(text: str) -> None:
    raise RuntimeError(text)


async def test_the_messages_inside_a_task_group_reach_the_caller_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def both() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse("Paris is closed"))
            group.create_task(break_down("Rome has no answer, token=abc"))
        return "never"

    async with connect_raw_client(server, PLAIN) as client:
        error = await client.error("both")
    assert error == {"code": -32002, "message": "Paris is closed; Rome has no answer, token=***"}
    assert "both failed" in caplog.text
    assert "Paris is closed" in caplog.text
    assert "Rome has no answer" in caplog.text


async def test_the_only_error_of_a_task_group_keeps_its_code_and_data() -> None:
    server = Server("s")

    @server.tool
    async def one() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse("closed", code="closed", data={"opens": 9}))
        return "never"

    async with connect_raw_client(server, MODERN) as client:
        result = await client.call("one")
    details = {"type": "tool_error", "message": "closed", "tool": "one", "code": "closed", "data": {"opens": 9}}
    assert result["structuredContent"]["error"] == details


async def test_a_large_exception_group_is_reported_in_part() -> None:
    server = Server("s")

    @server.tool
    async def many() -> str:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError(f"e{number}") for number in range(8)])])

    async with connect_raw_client(server, PLAIN) as client:
        error = await client.error("many")
    assert error["message"] == "e0; e1; e2; e3; e4; and 3 more"


def leaving_server() -> Server:
    server = Server("s")

    @server.tool
    async def interrupts() -> str:
        raise KeyboardInterrupt

    @server.tool
    def interrupts_in_a_thread() -> str:
        raise KeyboardInterrupt

    @server.tool
    async def leaves() -> str:
        raise SystemExit(3)

    @server.tool
    async def works() -> str:
        return "works"

    @server.resource("gone://now")
    async def gone() -> str:
        raise KeyboardInterrupt

    @server.completion("prompt", "argument")
    async def suggest(value: str) -> list[str]:
        raise SystemExit(3)

    class Provider:
        def list_resources(self) -> list[ResourceDetails]:
            return []

        async def get_resource(self, uri: str) -> Never:
            raise KeyboardInterrupt

    server.add_resources(Provider())
    return server


LEAVING = [
    (call("interrupts"), -32002, "The handler was interrupted"),
    (call("interrupts_in_a_thread"), -32002, "The handler was interrupted"),
    (call("leaves"), -32002, "The handler tried to end the process (exit code 3)"),
    ({"method": "resources/read", "params": {"uri": "gone://now"}}, -32603, "The handler was interrupted"),
    ({"method": "resources/read", "params": {"uri": "other://now"}}, -32603, "Internal error"),
    (
        {
            "method": "completion/complete",
            "params": {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "argument", "value": ""}},
        },
        -32603,
        "Internal error",
    ),
]


@pytest.mark.parametrize(("message", "code", "text"), LEAVING)
async def test_keyboard_interrupt_and_system_exit_in_a_handler_end_only_its_call(
    message: dict[str, Any], code: int, text: str
) -> None:
    async with run_server(leaving_server()) as there:
        answer = await there.site.post({"jsonrpc": "2.0", "id": 1} | message)
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert answer.json["error"] == {"code": code, "message": text}
        worked = await there.site.post(call("works"))
        assert worked.json["result"]["content"][0]["text"] == "works"
