"""A hub from its settings, at which apps log in and call tools."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.http.eras import modern_request
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.hub.upstream_callers import make_caller, request_result
from tests.identity.provider_process import ProviderProcess
from tests.identity.scripted_browser import ScriptedBrowser
from tests.oauth.front_door.door_site import JSON, WEB_REDIRECT_URI, App, Door
from tests.ports import free_port

from hubbub import ClientRegistration, CredentialKey, Credentials, FileCredentialStore, SettingsError
from hubbub.admin.access import local_operator
from hubbub.assembly.assemble import assemble
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.hub.front import Front
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import Sealer
from hubbub.server.http.app import HttpApp
from hubbub.settings import collect_sources

PROGRAM = '''
from hubbub import Context, Server
server = Server("notes")

@server.tool
def whoami(context: Context) -> str:
    """Say who calls."""
    return context.caller.principal.name

@server.tool(scopes=("notes:write",))
def write_note(text: str) -> str:
    """Write a note."""
    return text
'''
SETTINGS = """
http_addr = "127.0.0.1:{port}"
sealing_key_file = "{folder}/sealing.key"
[servers.notes]
target = "{folder}/notes.py:server"
[oauth]
public_url = "http://127.0.0.1:{port}"
scopes = ["notes:read", "notes:write"]
database = "sqlite:///{folder}/oauth.db"
"""
TENANTS = '[[tenants]]\nname = "acme"\n'


class Hub:
    """A running hub."""

    def __init__(self, front: Front, url: str, ring: Keyring, keys: dict[str, str]) -> None:
        self.front = front
        self.url = url
        # Only what a client sees: the front door of this hub is made by its settings.
        self.door = Door(None, url, None, ring, keys)  # type: ignore[arg-type]

    async def request(self, method: str, params: dict[str, Any], token: str | None) -> Any:
        """Send a request of the modern era with a token."""
        body, headers = modern_request(method, params)
        credential = {} if token is None else {"Authorization": f"Bearer {token}"}
        content = json.dumps(body).encode()
        return await asyncio.to_thread(
            ScriptedBrowser().send_body, f"{self.url}/mcp", content, {**JSON, **headers, **credential}
        )

    async def list_tools(self, token: str) -> set[str]:
        page = await self.request("tools/list", {}, token)
        assert page.status == 200, page.text
        names = {tool["name"] for tool in json.loads(page.text)["result"]["tools"]}
        return {name for name in names if not name.startswith("hub.")}

    async def administer(self, tool: str, arguments: dict[str, Any]) -> Any:
        who = replace(make_caller(), principal=local_operator())
        admin = self.front.hub.restricted_views["admin"]
        found = await request_result(admin.peer, "tools/call", {"name": tool, "arguments": arguments}, who)
        return found["structuredContent"]


@asynccontextmanager
async def open_hub(folder: Path, more: str = "front_door = true\n", *, tenants: bool = False) -> AsyncIterator[Hub]:
    (folder / "notes.py").write_text(PROGRAM)
    (folder / "sealing.key").write_text("ab" * 32)
    ring, keys = Keyring(folder / "keys.toml"), {}
    for name, scopes in (("ada", ("notes:write", "notes:read")), ("bob", ("notes:read",)), ("root", ("hub:admin",))):
        tenant = "acme" if tenants else None
        keys[name] = ring.add(name, scopes=scopes, tenant=tenant)["X-API-Key"]
    port = free_port()
    path = folder / "own.toml"
    key_file = "" if "[oauth.provider]" in more else f'key_file = "{ring.path}"\n'
    text = key_file + SETTINGS.format(folder=folder, port=port) + more.replace("PORT", str(port))
    path.write_text(text + (TENANTS if tenants else ""))
    sources = collect_sources({"--config": str(path)}, {})
    settings = read_serve_settings(sources, lambda line: None)
    front = assemble(settings, sources)
    assert isinstance(front, Front)
    given = {"key_file": settings.key_file, "sealing_key_file": settings.sealing_key_file}
    async with run_server(front, http_addr=settings.http_addr, **given):
        yield Hub(front, f"http://127.0.0.1:{port}", ring, keys)


async def discover(hub: Hub) -> dict[str, Any]:
    """Find the authorization server as clients do: from the challenge."""
    refused = await hub.request("tools/list", {}, None)
    assert refused.status == 401
    challenge = refused.headers["Www-Authenticate"]
    resource = challenge.partition('resource_metadata="')[2].partition('"')[0]
    found = json.loads((await hub.door.send(resource.removeprefix(hub.url))).text)
    assert (found["resource"], found["authorization_servers"]) == (f"{hub.url}/mcp", [hub.url])
    metadata: dict[str, Any] = json.loads((await hub.door.send("/.well-known/oauth-authorization-server")).text)
    return metadata


async def test_an_app_finds_the_front_door_logs_in_and_calls_tools(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        metadata = await discover(hub)
        assert metadata["issuer"] == hub.url
        assert metadata["code_challenge_methods_supported"] == ["S256"]
        assert metadata["client_id_metadata_document_supported"] is True
        assert metadata["authorization_response_iss_parameter_supported"] is True
        ada, bob = await hub.door.app(), await hub.door.app(person="bob")
        tokens, others = await ada.tokens(), await bob.tokens()
        assert await hub.list_tools(tokens["access_token"]) == {"whoami", "write_note"}
        assert await hub.list_tools(others["access_token"]) == {"whoami"}
        page = await hub.request("tools/call", {"name": "whoami", "arguments": {}}, tokens["access_token"])
        assert "key:ada" in page.text


@pytest.mark.parametrize(("tenants", "user"), [(False, "ada"), (False, "key:ada"), (True, "ada")])
async def test_a_logout_ends_the_tokens_of_the_user_only(tmp_path: Path, tenants: bool, user: str) -> None:
    async with open_hub(tmp_path, tenants=tenants) as hub:
        ada, bob = await hub.door.app(), await hub.door.app(person="bob")
        tokens, others = await ada.tokens(), await bob.tokens()
        assert await hub.list_tools(tokens["access_token"])
        tenant = {"tenant": "acme"} if tenants else {}
        ended = await hub.administer("hub.sessions.logout", {"user": user, **tenant})
        assert ended["clientGrants"] == 1
        assert (await hub.request("tools/list", {}, tokens["access_token"])).status == 401
        assert (await ada.refresh(tokens["refresh_token"])).status == 400
        assert await hub.list_tools(others["access_token"])
        # The person is asked again, and can log in again.
        assert (await ada.consent()).forms
        assert await hub.list_tools((await ada.tokens())["access_token"])


@pytest.mark.parametrize("tenants", [False, True])
async def test_logins_of_apps_are_listed(tmp_path: Path, tenants: bool) -> None:
    async with open_hub(tmp_path, tenants=tenants) as hub:
        ada, bob = await hub.door.app(), await hub.door.app(person="bob")
        await ada.tokens(scope="notes:read")
        await bob.tokens()
        user = "ada"
        found = await hub.administer("hub.sessions.list", {"user": user})
        (login,) = found["grants"]
        assert (login["user"], login["tenant"], login["client"]) == (user, "acme" if tenants else "", "Test client")
        assert (login["clientId"], login["scopes"], login["resource"]) == (
            ada.client_id, ["notes:read"], f"{hub.url}/mcp"
        )  # fmt: skip
        assert login["started"] <= login["lastUsed"] < login["expires"]
        assert (await hub.administer("hub.sessions.list", {}))["grantsTotal"] == 2
        assert (await hub.administer("hub.sessions.list", {"server": "notes"}))["grants"] == []
        await hub.administer("hub.sessions.logout", {"user": user, **({"tenant": "acme"} if tenants else {})})
        assert (await hub.administer("hub.sessions.list", {"user": user}))["grants"] == []


TICKETS = """front_door = true
[servers.tickets]
url = "http://127.0.0.1:1/mcp"
[servers.tickets.oauth]
per_user = true
"""


async def test_upstream_logins_are_listed_and_end_with_the_key(tmp_path: Path) -> None:
    async with open_hub(tmp_path, TICKETS) as hub:
        store = SqlCredentialStore(f"sqlite:///{tmp_path / 'oauth.db'}", Sealer([bytes.fromhex("ab" * 32)]))
        issuer = "https://issuer.example"
        credentials = Credentials(
            issuer=issuer,
            registration=ClientRegistration(client_id="hub"),
            access_token="secret",
            token_endpoint=f"{issuer}/token",
        )
        for user in ("ada", "bob"):
            key = CredentialKey(issuer, "http://127.0.0.1:1/mcp", f"/key%3A{user}")
            await store.save(key, credentials)
        await store.close()
        expected = [{"tenant": "", "user": user, "server": "tickets"} for user in ("ada", "bob")]
        assert (await hub.administer("hub.sessions.list", {}))["logins"] == expected
        assert (await hub.administer("hub.sessions.list", {"user": "ada"}))["logins"] == expected[:1]
        assert (await hub.administer("hub.sessions.logout", {"user": "eve"}))["knownUsers"] == ["ada", "bob"]
        await hub.administer("hub.keys.revoke", {"name": "ada"})
        assert (await hub.administer("hub.sessions.list", {}))["logins"] == expected[1:]
        assert (await hub.administer("hub.sessions.logout", {"user": "bob"}))["serverLogins"] == 1


async def test_commands_administer_the_hub_with_a_stored_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HUBBUB_CREDENTIALS", "file")
    async with open_hub(tmp_path) as hub:
        command = [sys.executable, "-m", "hubbub", "sessions", "list", "--url", hub.url]
        refused = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert refused.returncode == 2
        assert f"`hubbub login {hub.url}/mcp/admin --scope hub:admin`" in refused.stderr
        app = await hub.door.app(person="root")
        tokens = await app.tokens(scope="hub:admin", resource=f"{hub.url}/mcp/admin")
        credentials = Credentials(
            issuer=hub.url,
            registration=ClientRegistration(client_id=app.client_id),
            access_token=tokens["access_token"],
            token_endpoint=f"{hub.url}/oauth/token",
        )
        await FileCredentialStore().save(CredentialKey(hub.url, f"{hub.url}/mcp/admin"), credentials)
        listed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert (listed.returncode, "Test client" in listed.stdout) == (0, True), listed.stderr


async def test_grants_are_recorded_in_the_journal(tmp_path: Path) -> None:
    async with open_hub(tmp_path, f'front_door = true\n[audit]\nfolder = "{tmp_path}/audit"\n') as hub:
        ada, bob = await hub.door.app(), await hub.door.app(person="bob")
        await ada.tokens(scope="notes:read")
        tokens = await bob.tokens()
        second = json.loads((await bob.refresh(tokens["refresh_token"])).text)  # creates no grant
        await bob.refresh(second["refresh_token"])
        await bob.refresh(tokens["refresh_token"])  # the token was used before
        await hub.administer("hub.sessions.logout", {"user": "ada"})
        found = await hub.administer("hub.audit.search", {"event": "grant.*"})
        records = found["records"]
    created, other, reused, ended = sorted(records, key=lambda record: record["seq"])
    assert [each["event"] for each in (created, other, reused, ended)] == ["grant.created"] * 2 + ["grant.ended"] * 2
    assert (created["user"], created["facts"]["scopes"], other["user"]) == ("ada", "notes:read", "bob")
    assert (created["facts"]["client_id"], created["facts"]["client_name"]) == (ada.client_id, "Test client")
    assert reused["facts"]["grant"] == other["facts"]["grant"]
    assert (ended["user"], ended["facts"]["grant"]) == ("ada", created["facts"]["grant"])
    assert (ended["facts"]["client_id"], ended["facts"]["scopes"]) == (ada.client_id, "notes:read")


async def test_pages_of_other_origins_may_use_the_endpoints_for_clients(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        origin = {"Origin": "https://inspector.example"}
        for path in ("/.well-known/oauth-authorization-server", "/oauth/jwks"):
            page = await hub.door.send(path, headers=origin)
            assert (page.status, page.headers["Access-Control-Allow-Origin"]) == (200, "*")
        page = await hub.door.post_json("/oauth/register", {"redirect_uris": ["https://a.example/"]}, origin)
        assert (page.status, page.headers["Access-Control-Allow-Origin"]) == (201, "*")
        assert (await hub.door.send("/oauth/authorize", headers=origin)).status == 403


CLIENTS = """front_door = true
[[oauth.clients]]
client_id = "desktop"
name = "Desktop"
redirect_uris = ["http://127.0.0.1/callback"]
[[oauth.clients]]
client_id = "reports"
name = "Reports"
redirect_uris = ["https://app.example/callback"]
client_secret = { env = "APP_SECRET" }
"""


async def test_apps_of_the_settings_need_not_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_SECRET", "the secret")
    async with open_hub(tmp_path, CLIENTS) as hub:
        desktop = App(hub.door, "desktop")
        tokens = await desktop.tokens()
        assert await hub.list_tools(tokens["access_token"])
        assert "<dd>set up by the operator of this server: Desktop</dd>" in desktop.pages[0].text
        assert (await desktop.open(redirect_uri="https://app.example/callback")).status == 400
        reports = App(hub.door, "reports", redirect_uri=WEB_REDIRECT_URI)
        code = (await reports.authorize()).query["code"]
        for wrong in (None, "wrong"):
            assert (await reports.redeem(code, client_secret=wrong)).status in (400, 401)
        assert (await reports.redeem(code, client_secret="the secret")).status == 200
        pair = base64.b64encode(b"reports:the secret").decode()
        code = (await reports.authorize()).query["code"]
        page = await reports.redeem(code, client_id=None, headers={"Authorization": f"Basic {pair}"})
        assert page.status == 200


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('redirect_uris = ["http://a.example/"]', "must use https"),
        ('redirect_uris = ["javascript:alert(1)"]', "must use https"),
        ("redirect_uris = []", "redirect_uris"),
        ('redirect_uris = ["https://a.example/"]\nsecret = "x"', "did you mean 'client_secret'"),
    ],
)
async def test_wrong_apps_of_the_settings_are_refused(tmp_path: Path, wrong: str, message: str) -> None:
    section = f'front_door = true\n[[oauth.clients]]\nclient_id = "a"\nname = "A"\n{wrong}\n'
    with pytest.raises(SettingsError, match=message):
        async with open_hub(tmp_path, section):
            pass


async def test_people_log_in_at_the_provider_of_the_settings(oidc_provider: ProviderProcess, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    # The port is known when the settings are written, and the client must be registered before.
    client = oidc_provider.register("http://127.0.0.1:1/oauth/callback")
    secret.write_text(client["client_secret"] + "\n")
    provider = f"""
[oauth.provider]
issuer = "{oidc_provider.issuer}"
client_id = "{client["client_id"]}"
client_secret = {{ file = "{secret}" }}
user_claim = "email"
tenant_claim = "tenant"
scopes = ["openid", "profile", "email"]
scope_claims = ["groups"]
[oauth.provider.scope_map]
engineering = ["notes:write"]
"""
    async with open_hub(tmp_path, provider, tenants=True) as hub:
        app = App(hub.door, (await hub.door.register())["client_id"])
        location = (await app.send(app.url())).headers["Location"]
        assert location.startswith(oidc_provider.issuer)
        assert "scope=openid+profile+email" in location


def test_a_front_door_without_a_way_to_log_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(PROGRAM)
    path = tmp_path / "own.toml"
    path.write_text('[oauth]\npublic_url = "https://hub.example"\nfront_door = true\n')
    sources = collect_sources({"--config": str(path), "TARGET": str(tmp_path / "notes.py")}, {})
    settings = read_serve_settings(sources, lambda line: None)
    server = assemble(settings, sources)
    with pytest.raises(SettingsError, match="needs a way to log in"):
        HttpApp(server, settings)
