"""`hub.sessions`: lists sessions, and logs users out without affecting others."""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import websockets
from msgspec.structs import replace
from tests.admin.admin_hub import AdminHub, Key, open_admin_hub
from tests.clock import advance_clock, wait_until
from tests.http.eras import modern_request, open_session
from tests.http.raw_http import call
from tests.hub import notebook
from tests.hub.file_hub import SOURCE
from tests.hub.local_hubs import library
from tests.hub.tenant_hub import Key as TenantKey
from tests.hub.tenant_hub import TenantHub, run_tenant_hub
from tests.hub.upstream_callers import make_caller, request_result
from tests.processes import is_running

from hubbub import Server, ToolError, UpstreamConfig
from hubbub.admin.access import local_operator


async def log_out(hub: AdminHub, user: str, **more: object) -> dict[str, int]:
    result: dict[str, int] = await hub.administer("hub.sessions.logout", {"user": user, **more})
    return result


async def test_sessions_with_servers_and_of_clients_are_listed(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        pid = await hub.find_pid(hub.ada)
        await open_session(hub.site, headers=hub.bob)
        found = await hub.administer("hub.sessions.list")
        (with_server,) = found["servers"]
        assert (with_server["server"], with_server["transport"], with_server["pid"]) == ("asker", "stdio", pid)
        assert (with_server["user"].endswith("ada"), with_server["inFlight"]) == (True, 0)
        (of_client,) = found["clients"]
        assert (of_client["user"].endswith("bob"), of_client["kind"], of_client["path"]) == (True, "session", "/mcp")
        assert (of_client["program"], of_client["version"]) == ("test 1", "2025-11-25")
        assert with_server["started"].endswith("Z")


async def test_the_list_can_be_limited_to_a_user_or_server(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        for key in (hub.ada, hub.bob):
            await hub.find_pid(key)
        users = [session["user"] for session in (await hub.administer("hub.sessions.list"))["servers"]]
        assert len(users) == 2
        found = await hub.administer("hub.sessions.list", {"user": users[0]})
        assert ([session["user"] for session in found["servers"]], found["serversTotal"]) == (users[:1], 1)
        assert (await hub.administer("hub.sessions.list", {"server": "unknown"}))["servers"] == []


async def user_of(hub: AdminHub, key: Key) -> str:
    """The name of a user, from the process that serves it."""
    pid = await hub.find_pid(key)
    servers = (await hub.administer("hub.sessions.list"))["servers"]
    return str(next(session["user"] for session in servers if session["pid"] == pid))


async def test_logout_ends_the_sessions_streams_and_process_of_one_user_only(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        user = await user_of(hub, hub.ada)
        pids = [await hub.find_pid(hub.ada), await hub.find_pid(hub.bob)]
        ada, bob = [await open_session(hub.site, headers=key) for key in (hub.ada, hub.bob)]
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with (
            ada.listen() as stream,
            bob.listen(),
            hub.site.stream("POST", "/mcp", headers | hub.ada, body) as changes,
        ):
            ended = await log_out(hub, user)
            assert ended == {"serverSessions": 1, "clientSessions": 2, "serverLogins": 0, "clientGrants": 0}
            while await stream.next() is not None:
                pass
            while await changes.next() is not None:
                pass
            found = await hub.administer("hub.sessions.list")
            assert {session["user"] for session in found["clients"]} == {await user_of(hub, hub.bob)}
        assert not is_running(pids[0])
        assert await hub.find_pid(hub.bob) == pids[1]
        assert (await ada.post(call("pid"))).status == 404
        assert (await bob.post(call("pid"))).status == 200
        assert await hub.find_pid(hub.ada) not in pids


async def test_logout_ends_websockets(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        user = await user_of(hub, hub.ada)
        url = f"ws://127.0.0.1:{hub.site.port}/mcp-ws"
        protocols = [websockets.Subprotocol("mcp.v1")]
        async with (
            websockets.connect(url, subprotocols=protocols, additional_headers=hub.ada) as lost,
            websockets.connect(url, subprotocols=protocols, additional_headers=hub.bob) as kept,
        ):
            await log_out(hub, user)
            with pytest.raises(websockets.ConnectionClosed):
                await lost.recv()
            await (await kept.ping())


async def test_calls_in_flight_finish_before_the_session_ends(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        user = await user_of(hub, hub.ada)
        ada = await open_session(hub.site, headers=hub.ada)
        running = asyncio.create_task(ada.post(call("wait", {"file": str(tmp_path / "go")})))
        upstream = hub.gateway.upstreams["asker"]
        await wait_until(lambda: upstream.state.in_flight == 1)
        ending = asyncio.create_task(log_out(hub, user, drain_s=60))
        await wait_until(lambda: all(session.is_ending for session in upstream.sessions()))
        assert (await ada.post(call("pid"))).status == 404
        assert not ending.done()
        (tmp_path / "go").touch()
        answer = await running
        assert answer.json["result"]["content"][0]["text"] == "waited"
        assert (await ending)["serverSessions"] == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_calls_in_flight_at_a_server_of_this_process_are_cancelled_in_the_end(tmp_path: Path, era: str) -> None:
    server, started, cancelled = Server("slow"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def hang() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    upstreams = (UpstreamConfig(id="slow", server=server), UpstreamConfig(id="books", server=library()))
    async with open_admin_hub(tmp_path, *upstreams) as hub:
        session = await open_session(hub.site, headers=hub.ada)
        user = (await hub.administer("hub.sessions.list"))["clients"][0]["user"]
        work = session.post(call("hang")) if era == "legacy" else hub.call("hang")
        running = asyncio.create_task(work)
        await started.wait()
        ending = asyncio.create_task(log_out(hub, user, drain_s=30))
        await wait_until(lambda: not any(clients.client_sessions() for clients in hub.gateway.client_sessions))
        assert not cancelled.is_set()
        advance_clock(30)
        await ending
        await cancelled.wait()
        with suppress(asyncio.IncompleteReadError):  # its connection may be closed instead of answered
            assert (await running).status in (401, 200)


async def test_an_administrator_can_log_itself_out(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        user = await user_of(hub, hub.root)
        assert (await log_out(hub, user))["serverSessions"] == 1


async def test_logout_with_a_server_keeps_the_sessions_of_clients(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        pid = await hub.find_pid(hub.ada)
        session = await open_session(hub.site, headers=hub.ada)
        assert await hub.administer("hub.sessions.logout", {"server": "other"}) == {
            "serverSessions": 0,
            "clientSessions": 0,
            "serverLogins": 0,
            "clientGrants": 0,
            "knownUsers": ["ada"],
        }
        assert is_running(pid)
        ended = await hub.administer("hub.sessions.logout", {"server": "asker"})
        assert ended == {"serverSessions": 1, "clientSessions": 0, "serverLogins": 0, "clientGrants": 0}
        assert not is_running(pid)
        assert (await session.post(call("pid"))).status == 200


async def test_logout_of_everyone_must_be_asked_for(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        answer = await hub.call("hub.sessions.logout", {}, hub.root, "/mcp/admin")
        assert answer.json["result"]["isError"]
        assert "Give `tenant`, `user` or `server`" in str(answer.json)


async def administer_tenants(hub: TenantHub, tool: str, **arguments: object) -> dict[str, int]:
    """Call a function of administration as the user who runs the hub."""
    who = replace(make_caller(), principal=local_operator())
    view = hub.front.hub.restricted_views["admin"]
    answer = await request_result(view.peer, "tools/call", {"name": tool, "arguments": arguments}, who)
    return dict(answer["structuredContent"])


async def find_pids(hub: TenantHub) -> dict[str, str]:
    """The process of each caller."""
    keys: dict[str, TenantKey] = {name: await hub.other(name) for name in ("tenant", "user", "credential")}
    return {name: await hub.call(key, "notes__pid") for name, key in {"ada": hub.ada, **keys}.items()}


@pytest.mark.requirement("L2")
@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize(
    ("chosen", "ended"),
    [
        ({"tenant": "acme", "user": "ada"}, {"ada", "credential"}),
        ({"tenant": "acme"}, {"ada", "credential", "user"}),
        ({"tenant": "beta", "user": "ada"}, {"tenant"}),
    ],
)
async def test_logout_ends_exactly_the_sessions_of_a_tenant_or_its_user(
    tmp_path: Path, chosen: dict[str, str], ended: set[str]
) -> None:
    section = (
        f"[servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([notebook.__file__])}\n"
        f'prefix = "always"\nenv = {{PYTHONPATH = "{SOURCE}"}}\n'
    )
    async with run_tenant_hub(tmp_path, section) as hub:
        before = await find_pids(hub)
        found = await administer_tenants(hub, "hub.sessions.logout", **chosen)
        assert found["serverSessions"] == len(ended)
        after = await find_pids(hub)
        assert {name for name in before if before[name] != after[name]} == ended


@pytest.mark.usefixtures("own_folders")
async def test_a_user_is_not_logged_out_without_its_tenant(tmp_path: Path) -> None:
    async with run_tenant_hub(tmp_path, "") as hub:
        with pytest.raises(ToolError, match="Give `tenant` too"):
            await administer_tenants(hub, "hub.sessions.logout", user="ada")
