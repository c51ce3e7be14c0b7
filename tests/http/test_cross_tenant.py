"""Nothing that one caller was given can be used by another: of another tenant, another user, or another credential.

Each test first proves that its owner can use it, so that a refusal means something. A refusal is the one that a made-up
value gets, so that it does not even tell whether there is such a thing.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import BOTH_MEDIA_TYPES, Session, modern_request, open_session
from tests.http.playground import make_server
from tests.http.raw_http import TIMEOUT_S, Response, call, request
from tests.http.tenant_site import Key, TenantSite, run_with_tenants
from tests.hub.local_hubs import make_hub, toolbox

from hubbub import Context, Notification, Server

pytestmark = pytest.mark.requirement("I2", "I6")

PARTS = ["credential", "user", "tenant"]
each_part = pytest.mark.parametrize("part", PARTS)
SECRET = "the secret of ada"


def make_front(**settings: Any) -> Server:
    return make_hub(make_server(), toolbox("box", *(f"tool{number}" for number in range(1100))), **settings).main_front


def same(answer: Response, other: Response) -> bool:
    """Whether two responses cannot be distinguished."""
    return (answer.status, answer.body) == (other.status, other.body)


async def modern(site: TenantSite, key: Key, method: str, **params: Any) -> Response:
    body, headers = modern_request(method, params, capabilities={"elicitation": {}})
    return await site.running.site.post(body, headers | key)


# -- sessions -------------------------------------------------------------------------


async def attempt_post(site: TenantSite, headers: Key) -> Response:
    return await site.running.site.post(request("ping"), {"Accept": BOTH_MEDIA_TYPES} | headers)


async def attempt_listen(site: TenantSite, headers: Key) -> Response:
    return await site.running.site.get("/mcp", {"Accept": "text/event-stream"} | headers)


async def attempt_delete(site: TenantSite, headers: Key) -> Response:
    return await site.running.site.request("DELETE", "/mcp", headers)


async def attempt_response(site: TenantSite, headers: Key) -> Response:
    return await site.running.site.post({"jsonrpc": "2.0", "id": 1, "result": {}}, headers)


async def attempt_batch(site: TenantSite, headers: Key) -> Response:
    return await site.running.site.post([request("ping")], headers)


@each_part
@pytest.mark.parametrize("carrier", ["header", "cookie"])
@pytest.mark.parametrize(
    "attempt",
    [attempt_post, attempt_listen, attempt_delete, attempt_response, attempt_batch],
    ids=lambda one: one.__name__,
)
async def test_the_session_of_another_caller_does_not_exist(
    tmp_path: Path, part: str, carrier: str, attempt: Callable[[TenantSite, Key], Awaitable[Response]]
) -> None:
    async with run_with_tenants(tmp_path) as site:
        session = await open_session(site.running.site, headers=site.ada)
        forged = "A" * len(session.id)

        def carry(identifier: str) -> Key:
            return {"Mcp-Session-Id": identifier} if carrier == "header" else {"Cookie": f"mcp_session={identifier}"}

        stolen = await attempt(site, carry(session.id) | site.others[part])
        unknown = await attempt(site, carry(forged) | site.others[part])
        assert stolen.status == 404
        assert same(stolen, unknown)
        assert (await attempt_post(site, carry(session.id) | site.ada)).status == 200, "its owner still has it"


async def test_an_ended_session_is_as_unknown_as_a_forged_one(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        session = await open_session(site.running.site, headers=site.ada)
        assert (await session.end()).status == 204
        ended = await session.post(request("ping"))
        assert ended.status == 404
        assert same(ended, await session.post(request("ping"), {"Mcp-Session-Id": "A" * 24}))


@each_part
async def test_the_call_of_another_session_cannot_be_cancelled(tmp_path: Path, part: str) -> None:
    async with run_with_tenants(tmp_path) as site:
        ada = await open_session(site.running.site, headers=site.ada)
        other = await open_session(site.running.site, headers=site.others[part])
        async with ada.call(call("wait_streaming", {"name": "a"}, id=7, token="t")) as stream:
            assert (await stream.message())["method"] == "notifications/progress"
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await other.post(note)).status == 202
            assert (await other.post(call("open_door", {"name": "a"}))).status == 200
            while "id" not in (message := await stream.message()):
                assert message["method"] == "notifications/progress"
            assert (message["id"], "result" in message) == (7, True)


@each_part
async def test_the_old_transports_stream_of_another_caller_does_not_exist(tmp_path: Path, part: str) -> None:
    async with (
        run_with_tenants(tmp_path, allow_plain=True) as site,
        site.running.site.stream("GET", "/sse", site.ada) as stream,
    ):
        first = await stream.next()
        assert first is not None
        path = str(first.data)
        stolen = await site.running.site.post(request("ping"), site.others[part], path=path)
        unknown = await site.running.site.post(request("ping"), site.others[part], path=path[:-2] + "AA")
        assert stolen.status == 404
        assert same(stolen, unknown)
        assert (await site.running.site.post(request("ping", id=9), site.ada, path=path)).status == 202
        assert (await stream.message())["id"] == 9, "nothing of the other caller came first"


# -- events ---------------------------------------------------------------------------


@each_part
async def test_event_ids_of_another_session_resume_nothing(tmp_path: Path, part: str) -> None:
    server = make_server()

    @server.tool
    async def leak(context: Context) -> str:
        """Send progress that only its caller may see."""
        await context.progress(1, message=SECRET)
        return SECRET

    async with run_with_tenants(tmp_path, server) as site:
        ada = await open_session(site.running.site, headers=site.ada)
        async with ada.call(call("leak", token="t")) as stream:
            events = await stream.rest()
        ids = [str(event.id) for event in events if event.id]
        async with ada.listen(last_event_id=ids[0]) as resumed:
            assert SECRET in json.dumps(await resumed.message()), "its owner can resume"
        other = await open_session(site.running.site, headers=site.others[part])
        for identifier in ids:
            async with other.listen(last_event_id=identifier) as stream:
                assert stream.status == 200
                await other.post(call("add_tool", {"name": f"new-{identifier}"}))
                assert (await stream.message())["method"] == "notifications/tools/list_changed"
            stolen = {"Mcp-Session-Id": ada.id, "Last-Event-ID": identifier}
            assert (await attempt_listen(site, other.headers | stolen)).status == 404


# -- cursors --------------------------------------------------------------------------


def tamper(text: str) -> str:
    return text[:-5] + ("A" if text[-5] != "A" else "B") + text[-4:]


@each_part
@pytest.mark.parametrize("kind", ["hub", "server"])
async def test_a_cursor_of_another_caller_is_as_invalid_as_a_forged_one(tmp_path: Path, part: str, kind: str) -> None:
    server = make_front() if kind == "hub" else toolbox("box", *(f"tool{number}" for number in range(1100)))
    async with run_with_tenants(tmp_path, server) as site:
        cursor = (await modern(site, site.ada, "tools/list")).json["result"]["nextCursor"]
        other_cursor = (await modern(site, site.others[part], "tools/list")).json["result"]["nextCursor"]
        stolen = await modern(site, site.others[part], "tools/list", cursor=cursor)
        assert stolen.json["error"]["code"] == -32602
        assert same(stolen, await modern(site, site.others[part], "tools/list", cursor=tamper(cursor)))
        for key, own in ((site.ada, cursor), (site.others[part], other_cursor)):
            assert (await modern(site, key, "tools/list", cursor=own)).json["result"]["tools"]


# -- request states -------------------------------------------------------------------


@each_part
@pytest.mark.parametrize("kind", ["hub", "server"])
async def test_a_request_state_of_another_caller_is_refused_and_its_owner_can_use_it_once(
    tmp_path: Path, part: str, kind: str
) -> None:
    name = "greet"
    async with run_with_tenants(tmp_path, make_front() if kind == "hub" else make_server()) as site:
        asked = (await modern(site, site.ada, "tools/call", name=name, arguments={})).json["result"]
        (key,) = asked["inputRequests"]
        responses = {key: {"action": "accept", "content": {"name": "Ada"}}}

        async def repeat(caller: Key, state: str) -> Response:
            return await modern(
                site, caller, "tools/call", name=name, arguments={}, inputResponses=responses, requestState=state
            )

        state = asked["requestState"]
        for attempt in (state, tamper(state), "forged"):
            refused = await repeat(site.others[part], attempt)
            assert refused.json["error"]["code"] == -32602
            assert b"Ada" not in refused.body
        answered = await repeat(site.ada, state)
        assert answered.json["result"]["content"][0]["text"] == "Hello, Ada!"
        assert (await repeat(site.ada, state)).json["error"]["code"] == -32602, "a replay"


# -- results --------------------------------------------------------------------------


@each_part
async def test_the_stored_result_of_another_caller_does_not_exist(tmp_path: Path, part: str) -> None:
    async with run_with_tenants(tmp_path, make_front(result_bytes=10_000)) as site:
        large = await modern(site, site.ada, "tools/call", name="big", arguments={"size": 50_000})
        found = re.search(r"hub://results/([\w-]+)", large.body.decode())
        assert found is not None
        identifier = found[1]

        async def read(key: Key, id: str) -> tuple[Response, Response]:
            resource = await modern(site, key, "resources/read", uri=f"hub://results/{id}")
            tool = await modern(site, key, "tools/call", name="hub.read_result", arguments={"id": id})
            return resource, tool

        for answer in await read(site.ada, identifier):
            assert b"xxxx" in answer.body
        forged = identifier[:-1] + ("A" if identifier[-1] != "A" else "B")
        for stolen, unknown in zip(
            await read(site.others[part], identifier), await read(site.others[part], forged), strict=True
        ):
            assert b"xxxx" not in stolen.body
            assert stolen.status == unknown.status
            assert stolen.body.replace(identifier.encode(), b"ID") == unknown.body.replace(forged.encode(), b"ID")


# -- cookies --------------------------------------------------------------------------


@each_part
async def test_the_cookie_of_another_caller_gives_no_access_to_its_state(tmp_path: Path, part: str) -> None:
    server = make_server()
    notes: dict[str | None, str] = {}

    @server.tool
    async def note(context: Context, text: str = "") -> str:
        """Keep a note for the caller, as tools with state do."""
        return notes.setdefault(context.scope, text)

    async with run_with_tenants(tmp_path, server, allow_plain=True) as site:
        first = await site.running.site.post(call("note", {"text": SECRET}), site.ada)
        cookie = {"Cookie": str(first.header("set-cookie")).partition(";")[0]}
        again = await site.running.site.post(call("note"), site.ada | cookie)
        assert SECRET.encode() in again.body, "its owner finds the note"
        stolen = await site.running.site.post(call("note"), site.others[part] | cookie)
        assert stolen.status == 200
        assert SECRET.encode() not in stolen.body


# -- changes --------------------------------------------------------------------------


@each_part
async def test_changes_for_one_principal_reach_no_other(tmp_path: Path, part: str) -> None:
    server = make_server()

    @server.tool
    async def touch_own(context: Context, uri: str) -> str:
        """Report a change to the caller alone, as a hub does for resources of its sessions."""
        server.resource_updated(uri, principal=context.caller.principal.name)
        return "touched"

    async with run_with_tenants(tmp_path, server) as site:
        ada, other = [await open_session(site.running.site, headers=key) for key in (site.ada, site.others[part])]
        async with ada.listen() as mine, other.listen() as theirs:
            for session in (ada, other):
                await subscribe(session, "note://one")
            await ada.post(call("touch_own", {"uri": "note://one"}))
            await ada.post(call("add_tool", {"name": "late"}))
            async with asyncio.timeout(TIMEOUT_S):
                assert (await mine.message())["method"] == "notifications/resources/updated"
                assert (await theirs.message())["method"] == "notifications/tools/list_changed"


@each_part
async def test_notifications_for_one_principal_do_not_reach_plain_streams_of_others(tmp_path: Path, part: str) -> None:
    server = make_server()
    plain = {"Accept": "text/event-stream"}
    async with run_with_tenants(tmp_path, server, allow_plain=True) as site:
        owner = (await modern(site, site.ada, "tools/call", name="who", arguments={})).json["result"][
            "structuredContent"
        ]
        async with (
            site.running.site.stream("GET", "/mcp", plain | site.ada) as mine,
            site.running.site.stream("GET", "/mcp", plain | site.others[part]) as theirs,
        ):
            note = Notification(
                "notifications/elicitation/complete", {"elicitationId": "1"}, principal=owner["principal"]
            )
            server.broadcaster.publish(note)
            server.broadcaster.publish(Notification("notifications/tools/list_changed"))
            async with asyncio.timeout(TIMEOUT_S):
                assert (await mine.message())["method"] == "notifications/elicitation/complete"
                assert (await theirs.message())["method"] == "notifications/tools/list_changed"


async def subscribe(session: Session, uri: str) -> None:
    answer = await session.post(request("resources/subscribe", {"uri": uri}))
    assert answer.status == 200, answer
