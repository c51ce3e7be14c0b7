"""The context of each caller fills in omitted arguments and is isolated from other callers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, call, request
from tests.packs.tabletop.players import make_tabletop_server, open_player, open_player_and_server
from tests.server.raw_client import MODERN
from websockets.asyncio.client import connect

from hubbub import Server
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.contexts import Choice, Contexts
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.security.api_keys import append_record, generate_key

EMPTY_CONTEXT = {"context": {"campaign_id": None, "session_id": None, "participant_id": None}}


async def test_calls_without_a_campaign_use_the_context(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        other = await player.campaign()
        chosen = await player.call("set_context", campaign_id=campaign)
        assert chosen == {"context": {"campaign_id": campaign}}
        alice = await player.call("participant_create", display_name="Alice", role="player")
        hero = await player.call("actor_create", name="Hero", kind="pc")
        session = await player.call("session_start", name="One")
        assert {alice["campaign_id"], hero["campaign_id"], session["campaign_id"]} == {campaign}
        control = await player.call("actor_control_set", actor_id=hero["id"], controller=alice["id"])
        assert control == await player.call("actor_control_get", actor_id=hero["id"])
        assert await player.call("participant_get", participant_id=alice["id"]) == alice
        assert (await player.call("participant_list"))["participants"] == [alice]
        assert (await player.call("actor_list"))["actors"] == [hero]
        assert (await player.call("session_list"))["sessions"] == [session]
        assert (await player.call("campaign_get"))["id"] == campaign
        assert [event["type"] for event in (await player.call("events_list"))["events"]][:2] == [
            "campaign.created",
            "participant.created",
        ]
        elsewhere = await player.call("participant_create", campaign_id=other, display_name="Bob", role="GM")
        assert elsewhere["campaign_id"] == other
        assert (await player.call("session_end"))["id"] == session["id"]


async def test_ending_the_session_of_the_context_clears_it(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        session = (await player.call("session_start", campaign_id=campaign))["id"]
        await player.call("set_context", campaign_id=campaign, session_id=session)
        meta = await player.meta("duality_action_roll", modifier=1)
        (event,) = (await player.call("events_list", type="roll.action"))["events"]
        assert (event["session_id"], event["seq"]) == (session, meta["dev.hubbub/event_seq"])
        ended = await player.call("session_end")
        assert (ended["id"], ended["status"]) == (session, "ENDED")
        assert (await player.read("context://current"))["context"] == {
            "campaign_id": campaign,
            "session_id": None,
            "participant_id": None,
        }
        await player.call("roll_dice", dice=[{"sides": 6, "count": 1}])
        (event,) = (await player.call("events_list", type="roll.dice"))["events"]
        assert event["session_id"] is None
        assert (await player.failure("session_end"))["code"] == "FailedPrecondition"


async def test_the_session_of_the_context_is_not_used_for_another_campaign(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        here, there = await player.campaign(), await player.campaign()
        mine = (await player.call("session_start", campaign_id=here))["id"]
        theirs = (await player.call("session_start", campaign_id=there))["id"]
        await player.call("set_context", campaign_id=here, session_id=mine)
        await player.call("duality_action_roll", campaign_id=there)
        (event,) = (await player.call("events_list", campaign_id=there, type="roll.action"))["events"]
        assert event["session_id"] is None
        assert (await player.call("session_end", campaign_id=there))["id"] == theirs
        await player.call("duality_action_roll", campaign_id=here)
        (event,) = (await player.call("events_list", type="roll.action"))["events"]
        assert event["session_id"] == mine


async def test_rolls_without_a_campaign_are_not_recorded(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        assert "dev.hubbub/event_seq" not in await player.meta("duality_action_roll")
        failure = await player.failure("duality_action_roll", session_id="sess_x")
        assert failure["code"] == "InvalidArgument"
        assert "campaign_id" in failure["message"]


async def test_fields_omitted_from_set_context_are_cleared(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign = await player.campaign()
        session = (await player.call("session_start", campaign_id=campaign))["id"]
        alice = (await player.call("participant_create", campaign_id=campaign, display_name="A", role="GM"))["id"]
        chosen = {"campaign_id": campaign, "session_id": session, "participant_id": alice}
        assert await player.call("set_context", **chosen) == {"context": chosen}
        assert await player.read("context://current") == {"context": chosen}
        again = await player.call("set_context", campaign_id=campaign, participant_id=None)
        assert again == {"context": {"campaign_id": campaign}}


async def test_an_invalid_context_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path) as player:
        campaign, other = await player.campaign(), await player.campaign()
        session = (await player.call("session_start", campaign_id=other))["id"]
        alice = (await player.call("participant_create", campaign_id=other, display_name="A", role="GM"))["id"]
        await player.call("set_context", campaign_id=campaign)
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("InvalidArgument", {"campaign_id": ""}),
            ("InvalidArgument", {"campaign_id": "  "}),
            ("InvalidArgument", {"campaign_id": campaign, "session_id": ""}),
            ("InvalidArgument", {"campaign_id": campaign, "participant_id": " "}),
            ("InvalidArgument", {"campaign_id": "camp_nowhere", "session_id": ""}),
            ("InvalidArgument", {"campaign_id": campaign, "session_id": session}),
            ("InvalidArgument", {"campaign_id": campaign, "participant_id": alice}),
            ("InvalidArgument", {"campaign_id": 7}),
            ("InvalidArgument", {}),
            ("InvalidArgument", {"campaign_id": campaign, "unknown": 1}),
            ("NotFound", {"campaign_id": "camp_nowhere"}),
            ("NotFound", {"campaign_id": campaign, "session_id": "sess_nowhere"}),
            ("NotFound", {"campaign_id": campaign, "participant_id": "part_nowhere"}),
        ]
        for code, arguments in wrong:
            assert (await player.failure("set_context", **arguments))["code"] == code, arguments
        assert (await player.read("context://current"))["context"]["campaign_id"] == campaign


@pytest.mark.parametrize("dialect", ["plain", "2025-11-25"])
async def test_only_a_caller_without_a_scope_gets_a_context_id(tmp_path: Path, dialect: str) -> None:
    async with open_player_and_server(tmp_path, dialect) as player:
        campaign = await player.campaign()
        assert list(await player.call("set_context", campaign_id=campaign)) == ["context"]
        failure = await player.failure("campaign_get", context_id="made up")
        assert (failure.get("data") or failure)["code"] == "InvalidArgument"


async def test_a_context_id_selects_its_context(tmp_path: Path) -> None:
    async with open_player_and_server(tmp_path, MODERN) as player:
        campaign = await player.campaign()
        session = (await player.call("session_start", campaign_id=campaign))["id"]
        chosen = await player.call("set_context", campaign_id=campaign, session_id=session)
        context_id = chosen["context_id"]
        assert campaign not in context_id
        assert await player.read("context://current") == EMPTY_CONTEXT
        assert (await player.failure("campaign_get"))["code"] == "InvalidArgument"
        assert (await player.call("campaign_get", context_id=context_id))["id"] == campaign
        meta = await player.meta("duality_action_roll", context_id=context_id)
        assert meta["dev.hubbub/event_seq"] == 3
        assert (await player.call("session_end", context_id=context_id))["id"] == session
        for wrong in ("", "x", context_id[:-1], context_id + "A", context_id.swapcase()):
            failure = await player.failure("campaign_get", context_id=wrong)
            assert failure["code"] == "InvalidArgument", wrong


async def test_a_sealed_cursor_is_not_accepted_as_a_context_id(tmp_path: Path) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with server.running(), open_player(server, MODERN) as player:
        sealed = server.sealer.seal("tools", {"campaign_id": await player.campaign()})
        assert (await player.failure("campaign_get", context_id=sealed))["code"] == "InvalidArgument"


# -- isolation between callers ------------------------------------------------------

SendRequest = Callable[[str, Any], Awaitable[Any]]


async def read_context(ask: SendRequest) -> Any:
    contents = (await ask("resources/read", {"uri": "context://current"}))["result"]["contents"]
    return json.loads(contents[0]["text"])


async def call_tool(ask: SendRequest, tool: str, **arguments: Any) -> Any:
    result = (await ask("tools/call", {"name": tool, "arguments": arguments}))["result"]
    return json.loads(result["content"][0]["text"])


@asynccontextmanager
async def by_cookie(site: Site) -> AsyncIterator[SendRequest]:
    jar: dict[str, str] = {}

    async def ask(method: str, params: Any) -> Any:
        answer = await site.post(request(method, params), jar)
        cookie = answer.header("set-cookie")
        if cookie is not None:
            jar["Cookie"] = cookie.partition(";")[0]
        return answer.json

    yield ask


@asynccontextmanager
async def by_session(site: Site) -> AsyncIterator[SendRequest]:
    session = await open_session(site)

    async def ask(method: str, params: Any) -> Any:
        return (await session.post(request(method, params))).json

    yield ask
    await session.end()


@asynccontextmanager
async def by_websocket(site: Site) -> AsyncIterator[SendRequest]:
    async with connect(f"ws://127.0.0.1:{site.port}/mcp-ws") as socket:

        async def ask(method: str, params: Any) -> Any:
            await socket.send(json.dumps(request(method, params)))
            return json.loads(await socket.recv())

        yield ask


@asynccontextmanager
async def by_http_sse(site: Site) -> AsyncIterator[SendRequest]:
    async with site.stream("GET", "/sse") as stream:
        place = await stream.next()
        assert place is not None

        async def ask(method: str, params: Any) -> Any:
            await site.post(request(method, params), path=place.data)
            return await stream.message()

        yield ask


@asynccontextmanager
async def by_modern_post(site: Site) -> AsyncIterator[SendRequest]:
    async def ask(method: str, params: Any) -> Any:
        body, headers = modern_request(method, params)
        return (await site.post(body, headers)).json

    yield ask


SCOPED_TRANSPORTS = [by_cookie, by_session, by_websocket, by_http_sse]


@pytest.mark.parametrize("way", SCOPED_TRANSPORTS)
async def test_a_caller_sees_only_its_own_context(tmp_path: Path, way: Any) -> None:
    server, service = make_tabletop_server(tmp_path)
    async with run_server(server) as here, AsyncExitStack() as stack:
        ones = await stack.enter_async_context(way(here.site))
        strangers = [
            await stack.enter_async_context(other(here.site)) for other in (*SCOPED_TRANSPORTS, by_modern_post)
        ]
        campaign = (await call_tool(ones, "campaign_create", name="Mine", gm_mode="AI"))["id"]
        assert await call_tool(ones, "set_context", campaign_id=campaign) == {"context": {"campaign_id": campaign}}
        assert (await read_context(ones))["context"]["campaign_id"] == campaign
        assert (await call_tool(ones, "campaign_get"))["id"] == campaign
        assert len(service.contexts) == 1
        for stranger in strangers:
            assert await read_context(stranger) == EMPTY_CONTEXT
            response = await stranger("tools/call", {"name": "campaign_get", "arguments": {}})
            assert "error" in response or response["result"]["isError"], response
            assert campaign not in json.dumps(response)


@pytest.mark.parametrize("way", [by_session, by_websocket, by_http_sse])
async def test_a_context_ends_with_its_session(tmp_path: Path, way: Any) -> None:
    server, service = make_tabletop_server(tmp_path)
    async with run_server(server) as here:
        async with way(here.site) as ask:
            campaign = (await call_tool(ask, "campaign_create", name="Mine", gm_mode="AI"))["id"]
            await call_tool(ask, "set_context", campaign_id=campaign)
            assert len(service.contexts) == 1
        async with way(here.site) as ask:
            while len(service.contexts):  # The server notices a closed connection a moment later.
                await ask("tools/list", {})
            assert await read_context(ask) == EMPTY_CONTEXT


async def test_a_context_belongs_to_its_authenticated_principal(tmp_path: Path) -> None:
    keys = {}
    for name in ("ada", "bob"):
        key, record = generate_key(name)
        append_record(tmp_path / "keys.toml", record)
        keys[name] = {"X-API-Key": key}
    server, _ = make_tabletop_server(tmp_path)
    async with run_server(server, key_file=str(tmp_path / "keys.toml")) as here:

        async def ask(who: str, method: str, params: Any) -> Any:
            body, headers = modern_request(method, params)
            return (await here.site.post(body, headers | keys[who])).json

        async def ask_as_ada(method: str, params: Any) -> Any:
            return await ask("ada", method, params)

        async def ask_as_bob(method: str, params: Any) -> Any:
            return await ask("bob", method, params)

        campaign = (await call_tool(ask_as_ada, "campaign_create", name="Hers", gm_mode="AI"))["id"]
        assert await call_tool(ask_as_ada, "set_context", campaign_id=campaign) == {
            "context": {"campaign_id": campaign}
        }
        assert (await read_context(ask_as_ada))["context"]["campaign_id"] == campaign
        assert (await call_tool(ask_as_ada, "campaign_get"))["id"] == campaign
        assert await read_context(ask_as_bob) == EMPTY_CONTEXT
        await check_stolen_cookie(here.site, keys, campaign)


async def check_stolen_cookie(site: Site, keys: dict[str, dict[str, str]], campaign: str) -> None:
    first = await site.post(call("set_context", {"campaign_id": campaign}), keys["ada"])
    cookie = {"Cookie": str(first.header("set-cookie")).partition(";")[0]}
    reading = request("resources/read", {"uri": "context://current"})
    mine = await site.post(reading, keys["ada"] | cookie)
    assert campaign in mine.json["result"]["contents"][0]["text"]
    theirs = await site.post(reading, keys["bob"] | cookie)
    assert json.loads(theirs.json["result"]["contents"][0]["text"]) == EMPTY_CONTEXT


async def test_only_the_owner_is_notified_of_a_context_change(tmp_path: Path) -> None:
    server, _ = make_tabletop_server(tmp_path)
    async with run_server(server) as here:
        one, two = await open_session(here.site), await open_session(here.site)
        for session in (one, two):
            await session.post(request("resources/subscribe", {"uri": "context://current"}))
        made = await one.post(call("campaign_create", {"name": "Mine", "gm_mode": "AI"}))
        campaign = made.json["result"]["structuredContent"]["id"]
        async with one.listen() as ones, two.listen() as twos:
            await one.post(call("set_context", {"campaign_id": campaign}))
            assert (await ones.message())["params"] == {"uri": "context://current"}
            await two.end()
            assert [event for event in await twos.rest() if event.data] == []


async def test_a_modern_principal_is_notified_of_its_context_change(tmp_path: Path) -> None:
    key, record = generate_key("ada")
    append_record(tmp_path / "keys.toml", record)
    server, _ = make_tabletop_server(tmp_path)
    async with run_server(server, key_file=str(tmp_path / "keys.toml")) as here:
        body, headers = modern_request(
            "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["context://current"]}}
        )
        async with here.site.stream("POST", "/mcp", headers | {"X-API-Key": key}, body) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            made, more = modern_request(
                "tools/call", {"name": "campaign_create", "arguments": {"name": "A", "gm_mode": "AI"}}
            )
            answer = await here.site.post(made, more | {"X-API-Key": key})
            campaign = answer.json["result"]["structuredContent"]["id"]
            chosen, more = modern_request("tools/call", {"name": "set_context", "arguments": {"campaign_id": campaign}})
            await here.site.post(chosen, more | {"X-API-Key": key})
            assert (await stream.message())["params"]["uri"] == "context://current"


# -- limits and expiry -----------------------------------------------------------------


def test_the_least_recently_used_context_is_evicted_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONTEXTS", 3)
    contexts = Contexts(Server("x"))
    for name in "abc":
        contexts.save(name, Choice(campaign_id=name))
    assert contexts.find("a") == Choice(campaign_id="a")
    contexts.save("d", Choice(campaign_id="d"))
    assert len(contexts) == 3
    assert contexts.find("b") is None  # the least recently used
    assert contexts.find("a") == Choice(campaign_id="a")


def test_an_unused_context_expires() -> None:
    now = 0.0
    contexts = Contexts(Server("x"), clock=lambda: now)
    contexts.save("a", Choice(campaign_id="a"))
    now = limits.CONTEXT_LIFETIME_S - 1
    assert contexts.find("a") is not None
    now = 2 * limits.CONTEXT_LIFETIME_S - 2
    assert contexts.find("a") is not None
    now = 3 * limits.CONTEXT_LIFETIME_S
    assert contexts.find("a") is None
    assert len(contexts) == 0


def test_a_context_id_is_not_stored_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Contexts(Server("x"))
    monkeypatch.setattr(limits, "CONTEXT_LIFETIME_S", -1.0)
    context_id = contexts.save(None, Choice(campaign_id="a"))
    assert len(contexts) == 0
    with pytest.raises(InvalidArgument):
        contexts.find(None, context_id)


def test_an_owner_with_many_contexts_evicts_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONTEXTS", 16)
    contexts = Contexts(Server("x"))
    contexts.save("quiet", Choice(campaign_id="quiet"), owner="quiet")
    for number in range(100):
        contexts.save(f"loud {number}", Choice(campaign_id="loud"), owner="loud")
    assert contexts.find("quiet") == Choice(campaign_id="quiet")
    assert contexts.find("loud 99") is not None, "the latest are remembered"
    contexts.save("third", Choice(campaign_id="third"), owner="third")
    assert contexts.find("third") is not None, "there is room for others"
    for number in range(30):
        contexts.save(f"caller {number}", Choice(campaign_id="many"), owner=f"owner {number}")
    assert len(contexts) == 16
    assert contexts.find("caller 29") is not None
    for name in ("caller 29", "caller 29"):
        contexts.forget(name)
    assert len(contexts) == 15
