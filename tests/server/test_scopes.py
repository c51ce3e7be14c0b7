"""Where a caller's state belongs: which calls share it, who is told of it, and when it ends."""

import asyncio

import pytest
from tests.http.in_process import serving
from tests.http.wire import Site, call, request
from tests.server.conversation import ERAS, LEGACY, MODERN, PLAIN, conversing

from hubbub import Context, Server, ToolError
from hubbub.errors import ResourceNotFound
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.ladder import modern_caller
from hubbub.protocol.model import NO_META
from hubbub.protocol.revisions import NEWEST_MODERN

UPDATED = "notifications/resources/updated"


def scoped_server() -> Server:
    server = Server("scoped")
    server.ended = []
    server.on_scope_end(server.ended.append)

    @server.tool
    async def whoami(context: Context) -> str:
        return str(context.scope)

    @server.tool
    async def touch(context: Context) -> str:
        server.resource_updated("mine://now", scope=context.scope)
        return "touched"

    @server.resource("mine://now")
    async def now() -> str:
        return "now"

    @server.tool
    async def costly(context: Context) -> dict[str, int]:
        context.result_meta["example.com/cost"] = 7
        return {"answer": 42}

    @server.tool(invalid_code="Wrong")
    async def picky(number: int) -> int:
        raise ToolError("never", code="Own")

    @server.resource("things://{name}")
    async def thing(name: str) -> str:
        raise ResourceNotFound(f"things://{name}", "thing not found", code="NotFound")

    return server


async def whoami(site: Site, headers: dict[str, str] | None = None) -> tuple[str, str | None]:
    answer = await site.post(call("whoami"), headers)
    return answer.json["result"]["content"][0]["text"], answer.header("set-cookie")
