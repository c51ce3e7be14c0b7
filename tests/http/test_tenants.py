"""A server with tenants: who is admitted, what plain callers may do, and what happens when tenants change."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import websockets
from joserfc import jwk, jws
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server, wait_until
from tests.http.playground import make_server
from tests.http.raw_http import TIMEOUT_S, Response, call, request
from tests.http.tenant_site import TenantSite, run_with_tenants

from hubbub import SettingsError
from hubbub.governance.tenants import Tenants
from hubbub.security.key_usage import read_last_uses
from hubbub.server.http.app import HttpApp
from hubbub.settings import ServeSettings
from hubbub.settings.governance import TenantSettings

ACME = TenantSettings(name="acme")
BETA = TenantSettings(name="beta")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def who(site: TenantSite, key: dict[str, str]) -> Response:
    body, headers = modern_request("tools/call", {"name": "who", "arguments": {}})
    return await site.running.site.post(body, headers | key)


async def test_every_caller_has_a_principal_with_its_tenant_user_and_credential(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        names = []
        for key in (site.ada, *site.others.values()):
            answer = await who(site, key)
            assert answer.status == 200
            names.append(answer.json["result"]["structuredContent"]["principal"])
        assert [name.partition("#")[0] for name in names] == ["acme/ada", "acme/ada", "acme/bob", "beta/ada"]
        assert len(set(names)) == 4


@pytest.mark.requirement("I1")
@pytest.mark.parametrize("path", ["/", "/health", "/mcp/health", "/metrics", "/mcp", "/sse"])
async def test_nobody_is_admitted_without_a_credential_even_on_loopback(tmp_path: Path, path: str) -> None:
    async with run_with_tenants(tmp_path, insecure=True) as site:
        assert (await site.running.site.get(path)).status == 401


@pytest.mark.parametrize("settings", [{}, {"insecure": True}])
def test_a_server_with_tenants_needs_keys_or_tokens(settings: dict[str, Any]) -> None:
    server = make_server()
    server.tenants = Tenants([ACME])
    with pytest.raises(SettingsError, match=r"\[\[tenants\]\] needs callers that authenticate"):
        HttpApp(server, ServeSettings(port=0, **settings))


async def test_metrics_and_problems_concern_all_tenants_so_only_operators_see_them(tmp_path: Path) -> None:
    server = make_server()

    async def problem() -> str:
        return "the disk of beta is full"

    server.health_checks.append(problem)
    async with run_with_tenants(tmp_path, server) as site:
        admin = site.ring.add("admin", tenant="acme", scopes=("hub:admin",))
        operator = site.ring.add("root", scopes=("hub:admin",))
        await wait_until_admitted(site, operator)
        for key in (site.ada, admin):
            assert (await site.running.site.get("/metrics", key)).status == 403
            assert (await site.running.site.get("/mcp/health", key)).json == {"status": "unavailable", "problems": []}
        assert (await site.running.site.get("/metrics", operator)).status == 200
        assert "beta" in (await site.running.site.get("/mcp/health", operator)).json["problems"][0]


async def wait_until_admitted(site: TenantSite, key: dict[str, str]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while (await site.running.site.get("/health", key)).status != 200:
            await asyncio.sleep(0.02)


# -- plain JSON-RPC ---------------------------------------------------------------

PLAIN: list[Any] = [
    call("echo", {"text": "x"}),
    PING,
    {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    [PING],
    [PING, call("echo", {"text": "x"}, id=2)],
]


@pytest.mark.parametrize("body", PLAIN, ids=json.dumps)
async def test_plain_requests_are_refused_unless_the_tenant_allows_them(tmp_path: Path, body: Any) -> None:
    async with run_with_tenants(tmp_path) as site:
        refused = await site.running.site.post(body, site.ada)
        assert refused.status == 400
        assert "send `initialize` first" in refused.json["error"]["message"]
        assert refused.header("set-cookie") is None
        site.tenants.update([TenantSettings(name="acme", allow_plain=True), BETA])
        assert (await site.running.site.post(body, site.ada)).status in (200, 202)
        assert (await site.running.site.post(body, site.others["tenant"])).status == 400


async def test_a_plain_stream_is_refused_unless_the_tenant_allows_it(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        accept = {"Accept": "text/event-stream"}
        assert (await site.running.site.get("/mcp", accept | site.ada)).status == 400
        site.tenants.update([TenantSettings(name="acme", allow_plain=True)])
        async with site.running.site.stream("GET", "/mcp", site.ada) as stream:
            assert stream.status == 200


@pytest.mark.parametrize("body", PLAIN[:3] + PLAIN[4:], ids=json.dumps)
async def test_plain_messages_on_a_websocket_are_refused_until_it_is_initialized(tmp_path: Path, body: Any) -> None:
    async with run_with_tenants(tmp_path) as site:
        address = f"ws://127.0.0.1:{site.running.site.port}/mcp-ws"
        async with websockets.connect(address, additional_headers=site.ada) as socket, asyncio.timeout(TIMEOUT_S):
            await socket.send(json.dumps(body))
            assert "send `initialize` first" in json.loads(await socket.recv())["error"]["message"]
            modern, _ = modern_request("tools/call", {"name": "echo", "arguments": {"text": "x"}}, id=5)
            await socket.send(json.dumps(modern))
            assert json.loads(await socket.recv())["result"]["structuredContent"] == {"echo": "x"}
            site.tenants.update([TenantSettings(name="acme", allow_plain=True)])
            await socket.send(json.dumps(PING))
            assert json.loads(await socket.recv())["result"] == {}


async def test_plain_messages_on_the_old_transport_are_refused(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site, site.running.site.stream("GET", "/sse", site.ada) as stream:
        first = await stream.next()
        assert first is not None
        assert first.data is not None
        assert (await site.running.site.post(PING, site.ada, path=first.data)).status == 202
        assert "send `initialize` first" in (await stream.message())["error"]["message"]


# -- changes while the server runs ------------------------------------------------


async def test_a_removed_tenant_loses_its_sessions_and_streams_and_others_keep_theirs(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        await open_session(site.running.site, headers=site.ada)
        kept = await open_session(site.running.site, headers=site.others["tenant"])
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with site.running.site.stream("POST", "/mcp", headers | site.ada, body) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            site.tenants.update([BETA])
            assert (await who(site, site.ada)).status == 401
            while await stream.next() is not None:
                pass
        await wait_until(lambda: len(site.running.server.broadcaster) == 1)
        assert (await kept.post(request("ping"))).status == 200


async def test_a_revoked_key_ends_the_sessions_of_that_credential_only(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        await open_session(site.running.site, headers=site.ada)
        kept = await open_session(site.running.site, headers=site.others["credential"])
        site.ring.revoke("laptop")
        await wait_until(lambda: len(site.running.server.broadcaster) == 1)
        assert (await kept.post(request("ping"))).status == 200


async def test_the_last_use_of_keys_is_saved_when_the_server_stops(tmp_path: Path) -> None:
    async with run_with_tenants(tmp_path) as site:
        await who(site, site.ada)
        identifier = site.ada["X-API-Key"][3:11]
        assert identifier not in read_last_uses(), "nothing is written on the way of a call"
    assert identifier in read_last_uses()
    assert site.others["user"]["X-API-Key"][3:11] not in read_last_uses()


# -- tokens -----------------------------------------------------------------------


def sign(key: jwk.Key, **changes: Any) -> dict[str, str]:
    now = time.time()
    claims = {"iss": "https://issuer.example", "aud": "mcp", "sub": "ada", "tid": "t-1", "exp": now + 600, "iat": now}
    token = jws.serialize_compact({"alg": "RS256"}, json.dumps(claims | changes), key, algorithms=["RS256"])
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.requirement("L3")
async def test_a_refreshed_token_keeps_its_session_and_another_login_does_not_get_it(tmp_path: Path) -> None:
    key = jwk.RSAKey.generate_key(2048)
    (tmp_path / "key.json").write_text(json.dumps(key.as_dict(private=False)))
    server = make_server()
    server.tenants = Tenants([TenantSettings(name="acme", claims=("t-1",)), TenantSettings(name="beta")])
    settings: dict[str, Any] = {
        "jwt_keys": str(tmp_path / "key.json"),
        "jwt_issuer": "https://issuer.example",
        "jwt_audience": ("mcp",),
        "jwt_tenant_claim": "tid",
    }
    async with run_server(server, **settings) as running:
        session = await open_session(running.site, headers=sign(key, sid="login-1"))
        refreshed = await session.post(request("ping"), sign(key, sid="login-1", exp=time.time() + 900))
        assert refreshed.status == 200
        for changes in ({"sid": "login-2"}, {"sid": "login-1", "sub": "bob"}, {"sid": "login-1", "tid": "beta"}):
            assert (await session.post(request("ping"), sign(key, **changes))).status == 404
        assert (await session.post(request("ping"), sign(key, sid="login-1", tid="t-2"))).status == 401
        both = sign(key, sid="login-1") | {"X-API-Key": "hb_00000000_" + "0" * 48}
        assert (await session.post(request("ping"), both)).status == 400
