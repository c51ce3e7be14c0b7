"""Every request gets a response, whatever its handler does."""

import asyncio
import logging
import sys
from typing import Any

import pytest
from tests.server.raw_client import ERAS, MODERN, connect_raw_client

from hubbub import InvalidParams, Server, ToolError


class Unwritable:
    """A value that cannot be encoded as JSON."""


def failing_server() -> Server:
    server = Server("failing")

    @server.tool
    def exhausted() -> str:
        return next(iter(()))

    @server.tool
    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    @server.tool
    async def waits_for_cancelled_work() -> str:
        work = asyncio.ensure_future(asyncio.Event().wait())
        work.cancel()
        await work
        return "never"

    @server.tool
    def leaves() -> str:
        sys.exit(3)

    @server.tool
    async def leaves_from_the_loop() -> str:
        sys.exit("bye")

    @server.tool
    async def names_a_strange_file() -> str:
        raise OSError("no such file: caf\udce9")

    @server.tool
    async def gives_unwritable_data() -> str:
        raise ToolError("no", data=Unwritable())

    @server.tool
    async def returns_broken_text() -> str:
        return "\udce9"

    @server.tool
    async def returns_unwritable_data() -> Any:
        return Unwritable()

    @server.tool
    async def recurses() -> str:
        return await recurses()

    @server.tool
    async def raises_nothing_said() -> str:
        raise ValueError

    @server.resource("broken://text")
    async def broken_text() -> str:
        raise OSError("caf\udce9")

    @server.resource("broken://cancelled")
    async def cancelled() -> str:
        raise asyncio.CancelledError

    @server.prompt
    async def broken_prompt() -> str:
        raise InvalidParams("no", data=Unwritable())

    @server.completion("broken_prompt", "x")
    async def suggest(value: str) -> list[str]:
        raise asyncio.CancelledError

    return server


@pytest.fixture(autouse=True)
def unlogged_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the log: pytest-xdist cannot transfer captured text with a lone surrogate."""
    monkeypatch.setattr(logging.getLogger("hubbub.handlers"), "disabled", True)


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
@pytest.mark.parametrize("tool", [tool.name for tool in failing_server().tools])
async def test_a_tool_that_fails_in_any_way_is_answered_once(dialect: str, tool: str) -> None:
    async with connect_raw_client(failing_server(), dialect) as client:
        answer = await client.ask("tools/call", {"name": tool})
        assert "error" in answer or answer["result"]["isError"] is True
        assert "tools" in await client.result("tools/list")
        assert client.transport.pending_count() == 0


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "broken://text"}),
        ("resources/read", {"uri": "broken://cancelled"}),
        ("prompts/get", {"name": "broken_prompt"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "broken_prompt"}, "argument": {"name": "x", "value": ""}},
        ),
    ],
)
async def test_other_handlers_that_fail_in_any_way_are_answered_with_an_error(
    dialect: str, method: str, params: dict[str, Any]
) -> None:
    async with connect_raw_client(failing_server(), dialect) as client:
        assert isinstance((await client.error(method, params))["code"], int)


async def test_a_tool_that_calls_sys_exit_fails_with_that_reason() -> None:
    async with connect_raw_client(failing_server(), MODERN) as client:
        failure = (await client.call("leaves"))["structuredContent"]["error"]
    assert failure["type"] == "tool_error"
    assert "exit code 3" in failure["message"]


async def test_error_data_that_json_cannot_represent_is_left_out() -> None:
    async with connect_raw_client(failing_server()) as client:
        assert await client.error("tools/call", {"name": "gives_unwritable_data"}) == {"code": -32002, "message": "no"}
        error = await client.error("tools/call", {"name": "names_a_strange_file"})
        assert error == {"code": -32002, "message": "no such file: caf?"}


async def test_an_unexpected_exception_discloses_no_internals_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async with connect_raw_client(failing_server()) as client:
        error = await client.error("tools/call", {"name": "returns_broken_text"})
    assert error == {"code": -32603, "message": "Internal error"}
    assert "tools/call failed" in caplog.text


async def test_an_exception_without_a_message_is_reported_by_its_class() -> None:
    async with connect_raw_client(failing_server()) as client:
        assert (await client.error("tools/call", {"name": "raises_nothing_said"}))["message"] == "ValueError"
