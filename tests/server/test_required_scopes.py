"""Declaring scopes, and callers on stdio, which have every scope."""

from typing import Any

import pytest
from tests.server.raw_client import DIALECTS, MODERN, PLAIN, connect_raw_client

from hubbub import Caller, DefinitionError, Principal, Server, Tool
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.revisions import NEWEST_MODERN


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_caller_on_stdio_has_every_scope(dialect: str) -> None:
    server = Server("s")

    @server.tool(scopes={"notes:write", "admin"})
    async def write() -> str:
        return "wrote"

    @server.resource("note://secret", scopes=("admin",))
    def secret() -> str:
        return "secret"

    async with connect_raw_client(server, dialect) as client:
        assert [tool["name"] for tool in (await client.result("tools/list"))["tools"]] == ["write"]
        assert (await client.call("write"))["content"][0]["text"] == "wrote"
        assert (await client.result("resources/read", {"uri": "note://secret"}))["contents"][0]["text"] == "secret"


def test_a_caller_needs_all_required_scopes() -> None:
    def caller(*scopes: str) -> Caller:
        return Caller(revision=NEWEST_MODERN, principal=Principal("key:a", frozenset(scopes)))

    required = frozenset({"a", "b"})
    assert caller("a", "b", "c").holds(required)
    assert not caller("a").holds(required)
    assert caller().holds(frozenset())
    assert not Caller(revision=NEWEST_MODERN, principal=ANONYMOUS).holds(required)


async def test_notifications_about_a_scoped_tool_do_not_name_it() -> None:
    server = Server("s")
    async with connect_raw_client(server, PLAIN) as client:
        await client.result("tools/list")

        def open_tool() -> str:
            return ""

        server.tools.register(Tool(open_tool, name="hidden", scopes=("admin",)))
        server.tools.unregister("hidden")
        server.tools.register(open_tool)
        await client.result("tools/list")
        notes = client.notifications("notifications/tools/list_changed")
    assert [note.get("toolName") for note in notes] == [None, None, "open_tool"]


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ("notes:write", r"write `scopes=\('notes:write',\)`"),
        (("two words",), "visible ASCII characters"),
        (("",), "visible"),
    ],
)
def test_invalid_scopes_are_refused(scopes: Any, message: str) -> None:
    server = Server("s")
    for register in (
        server.tool(name="t", scopes=scopes),
        server.prompt(name="p", scopes=scopes),
        server.resource("r://r", scopes=scopes),
    ):
        with pytest.raises(DefinitionError, match=message):
            register(lambda: "")


async def test_a_modern_request_on_stdio_has_every_scope_too() -> None:
    server = Server("s")
    server.tool(name="hidden", scopes=("admin",))(lambda: "seen")
    async with connect_raw_client(server, MODERN) as client:
        assert (await client.call("hidden"))["content"][0]["text"] == "seen"
