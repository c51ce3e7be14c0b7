"""`Context.scope`: which calls share it, who is notified of changes in it, and when it ends."""

import json

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, call, request
from tests.server.raw_client import ERAS, MODERN, connect_raw_client

from hubbub import Context, Principal, ResourceNotFound, Server, ToolError, ToolErrors
from hubbub.protocol.calls import ANONYMOUS, NO_META
from hubbub.protocol.dialect import modern_caller
from hubbub.protocol.revisions import NEWEST_MODERN

UPDATED = "notifications/resources/updated"


class ScopedServer(Server):
    ended: list[str]


def scoped_server() -> ScopedServer:
    server = ScopedServer("scoped")
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

    @server.tool(errors=ToolErrors(invalid_code="Wrong"))
    async def picky(number: int) -> int:
        raise ToolError("never", code="Own")

    @server.resource("things://{name}")
    async def thing(name: str) -> str:
        raise ResourceNotFound(f"things://{name}", "thing not found", code="NotFound")

    return server


async def whoami(site: Site, headers: dict[str, str] | None = None) -> tuple[str, str | None]:
    answer = await site.post(call("whoami"), headers)
    return answer.json["result"]["content"][0]["text"], answer.header("set-cookie")


async def test_a_cookie_is_a_scope_and_another_cookie_is_another() -> None:
    async with run_server(scoped_server()) as here:
        first, cookie = await whoami(here.site)
        assert cookie is not None
        jar = {"Cookie": cookie.partition(";")[0]}
        assert await whoami(here.site, jar) == (first, None)
        other, _ = await whoami(here.site)
        assert other != first


async def test_a_session_is_a_scope_until_it_ends() -> None:
    server = scoped_server()
    async with run_server(server) as here:
        one, two = await open_session(here.site), await open_session(here.site)
        answer = await one.post(call("whoami"))
        scope = json.loads(answer.body)["result"]["content"][0]["text"]
        assert scope == one.id != two.id
        await two.end()
        assert server.ended == [two.id]
        await one.end()
        assert server.ended == [two.id, one.id]


async def test_a_connection_is_a_scope_until_it_closes() -> None:
    server = scoped_server()
    async with connect_raw_client(server, "2025-11-25") as client:
        assert (await client.call("whoami"))["content"][0]["text"] == "process"
        assert server.ended == []
    assert server.ended == ["process"]


async def test_a_failing_scope_end_callback_does_not_stop_the_others() -> None:
    server = Server("ends")
    ended_scopes: list[str] = []
    server.on_scope_end(lambda scope: 1 / 0)
    server.on_scope_end(ended_scopes.append)
    server.end_scope("some")
    server.end_scope(None)
    assert ended_scopes == ["some"]


async def test_the_stateless_era_has_no_scope_without_a_principal() -> None:
    async with connect_raw_client(scoped_server(), MODERN) as client:
        assert (await client.call("whoami"))["content"][0]["text"] == "None"
    assert modern_caller(NO_META, NEWEST_MODERN, ANONYMOUS).state_scope is None
    assert modern_caller(NO_META, NEWEST_MODERN, Principal("ada")).state_scope == "principal:ada"
    assert modern_caller(NO_META, NEWEST_MODERN, Principal("bob")).state_scope == "principal:bob"


async def test_a_change_in_one_scope_is_notified_to_that_scope_only() -> None:
    async with run_server(scoped_server()) as here:
        one, two = await open_session(here.site), await open_session(here.site)
        for session in (one, two):
            await session.post(request("resources/subscribe", {"uri": "mine://now"}))
        async with one.listen() as ones, two.listen() as twos:
            await one.post(call("touch"))
            assert (await ones.message())["params"] == {"uri": "mine://now"}
            here.server.resource_updated("mine://now")
            assert (await ones.message())["method"] == UPDATED
            assert (await twos.message())["method"] == UPDATED
            await two.post(call("touch"))
            assert (await twos.message())["method"] == UPDATED
            await two.end()
            assert [event for event in await twos.rest() if event.data] == []


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_a_handler_adds_to_the_meta_of_its_result(dialect: str) -> None:
    async with connect_raw_client(scoped_server(), dialect) as client:
        result = await client.call("costly")
        meta = result.get("_meta", {})
        assert meta.get("example.com/cost") == (None if dialect == "plain" else 7)
        assert ("io.modelcontextprotocol/serverInfo" in meta) == (dialect == MODERN)


async def test_a_tool_can_set_the_error_code_of_its_invalid_arguments() -> None:
    async with connect_raw_client(scoped_server(), "2025-11-25") as client:
        wrong = json.loads((await client.call("picky", {"number": "x"}))["content"][0]["text"])
        assert (wrong["error"]["type"], wrong["error"]["code"]) == ("validation_error", "Wrong")
        failed = json.loads((await client.call("picky", {"number": 1}))["content"][0]["text"])
        assert failed["error"]["code"] == "Own"


@pytest.mark.parametrize(("dialect", "code"), [("plain", -32001), ("2025-11-25", -32002), (MODERN, -32602)])
async def test_a_missing_resource_may_have_its_own_message_and_code(dialect: str, code: int) -> None:
    async with connect_raw_client(scoped_server(), dialect) as client:
        error = await client.error("resources/read", {"uri": "things://x"})
        assert error == {
            "code": code,
            "message": "thing not found",
            "data": {"uri": "things://x", "code": "NotFound"},
        }


async def test_anonymous_modern_callers_over_http_have_no_scope() -> None:
    async with run_server(scoped_server()) as here:
        body, headers = modern_request("tools/call", {"name": "whoami", "arguments": {}})
        answer = await here.site.post(body, headers)
        assert answer.json["result"]["content"][0]["text"] == "None"
