"""State that a pack stores for each caller stays separate behind a hub."""

from typing import Any

from tests.http.eras import Session, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import call, request
from tests.hub.local_hubs import make_hub

from hubbub import Context, Server


def counting_server(ended: list[str]) -> Server:
    """A server that counts the calls of each caller, and records the scopes that ended."""
    server = Server("counter")
    counts: dict[str, int] = {}

    def forget(scope: str) -> None:
        counts.pop(scope, None)
        ended.append(scope)

    server.on_scope_end(forget)

    @server.tool
    async def count(context: Context) -> str:
        """Count."""
        scope = context.scope or ""
        counts[scope] = counts.get(scope, 0) + 1
        server.resource_updated("count://mine", scope=scope)
        return str(counts[scope])

    @server.resource("count://mine")
    async def mine(context: Context) -> str:
        """Your count."""
        return str(counts.get(context.scope or "", 0))

    return server


async def send_body(session: Session, body: Any) -> Any:
    return (await session.post(body)).json["result"]


async def test_callers_of_a_hub_have_separate_scopes() -> None:
    ended: list[str] = []
    hub = make_hub(counting_server(ended))
    async with run_server(hub.main_front) as here:
        one, two = await open_session(here.site), await open_session(here.site)
        listed = await send_body(one, request("tools/list"))
        (name,) = [tool["name"] for tool in listed["tools"] if tool["name"].endswith("count")]
        (uri,) = [
            entry["uri"]
            for entry in (await send_body(one, request("resources/list")))["resources"]
            if entry["uri"].endswith("mine")
        ]
        for session in (one, two):
            await send_body(session, request("resources/subscribe", {"uri": uri}))
        async with one.listen() as ones, two.listen() as twos:
            counted = [(await send_body(one, call(name)))["content"][0]["text"] for _ in range(2)]
            assert counted == ["1", "2"]
            assert (await send_body(two, call(name)))["content"][0]["text"] == "1"
            assert [(await ones.message())["params"]["uri"] for _ in range(2)] == [uri] * 2
            assert (await twos.message())["params"]["uri"] == uri
            read = await send_body(two, request("resources/read", {"uri": uri}))
            assert read["contents"][0]["text"] == "1"
            await two.end()
            assert [event for event in await twos.rest() if event.data] == []
        assert ended == [two.id]
