"""Logins of a hub's user at servers behind it, between the link and the redirect back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from tests.client.scripted_server import ScriptedRequest
from tests.http.tenant_site import run_with_tenants
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.oauth.client.protected_server import ProtectedServer, protected_server

from hubbub import Client, Hub, MemoryCredentialStore, OAuth, ServerConfig, UpstreamConfig
from hubbub.hub.config import CONNECT
from hubbub.hub.front import Front
from hubbub.hub.gateway import Gateway
from hubbub.hub.session_control import Logout, SessionControl


class Site:
    """A hub with several servers, and the browser of its user ada."""

    def __init__(self, gateway: Gateway, url: str, public_url: str, key: dict[str, str]) -> None:
        self.gateway = gateway
        self.url = url
        self.public_url = public_url
        self.key = key
        self.browser = ScriptedBrowser()

    async def link(self, server: str) -> str:
        """Get a link to log in at a server."""
        config = ServerConfig(id="hub", transport="streamable_http", url=f"{self.url}/mcp", headers=self.key)
        async with Client(config) as client:
            result: Any = (await client.call_tool(CONNECT, {"server": server})).structured_content
        return str(result["servers"][0]["url"]).replace(self.public_url, self.url)

    async def begin(self, server: str) -> Page:
        """Open a link, show the key, and return the redirect to the authorization server."""
        link = await self.link(server)
        page = await asyncio.to_thread(self.browser.visit, link)
        form = {**page.forms[0].fields, "key": self.key["X-API-Key"]}
        return await asyncio.to_thread(self.browser.send, link, form, {"Origin": self.url})

    async def visit(self, url: str) -> Page:
        return await asyncio.to_thread(self.browser.visit, url)


@asynccontextmanager
async def open_site(folder: Path, servers: dict[str, ProtectedServer], *, path: str = "") -> AsyncIterator[Site]:
    """`path`: that of the public URL, which a proxy removes."""
    upstreams = [
        UpstreamConfig(
            id=name,
            per_user=True,
            remote=ServerConfig(
                id=name, transport="streamable_http", url=server.url, auth=OAuth(store=MemoryCredentialStore())
            ),
        )
        for name, server in servers.items()
    ]
    front = Hub(upstreams, name="test hub").front()
    assert isinstance(front, Front)
    async with run_with_tenants(folder, front, limits=("off",)) as tenants:
        url = f"http://127.0.0.1:{tenants.running.site.port}"
        front.base_url = url + path
        yield Site(front.hub, url, url + path, tenants.ada)


async def test_a_server_does_not_get_a_code_of_another_one(tmp_path: Path) -> None:
    """The mix-up attack, at an authorization server that does not name itself in the redirect."""
    async with protected_server() as honest, protected_server() as evil:
        stolen: list[bytes] = []

        async def steal(request: ScriptedRequest) -> None:
            stolen.append(request.body)
            await request.reply(400, {"error": "invalid_grant"})

        evil.handle["/token"] = steal
        for server in (honest, evil):
            server.metadata["authorization_response_iss_parameter_supported"] = None
            server.redirect_changes = {"iss": None}
        async with open_site(tmp_path, {"honest": honest, "evil": evil}) as site:
            redirect = await honest.log_in((await site.begin("honest")).headers["Location"])
            assert (await site.visit(redirect)).status == 200
            (known,) = honest.authorizations
            # The authorization server of `evil` sends the browser on, with what the hub sent there.
            sent_on = dict(parse_qsl(urlsplit((await site.begin("evil")).headers["Location"]).query))
            assert sent_on["redirect_uri"] not in honest.registrations[0]["redirect_uris"]
            wanted = {**sent_on, "client_id": known["client_id"], "redirect_uri": known["redirect_uri"]}
            redirect = await honest.log_in(f"{honest.metadata['authorization_endpoint']}?{urlencode(wanted)}")
            page = await site.visit(redirect)
        assert page.status == 400
        assert "another server" in page.text
        assert not stolen


async def test_the_cookie_of_a_login_is_for_the_public_path_of_the_hub(tmp_path: Path) -> None:
    async with protected_server() as server, open_site(tmp_path, {"notes": server}, path="/tools") as site:
        sent = await site.begin("notes")
        asked = dict(parse_qsl(urlsplit(sent.headers["Location"]).query))
        assert urlsplit(asked["redirect_uri"]).path == "/tools/oauth/upstream/callback/notes"
        assert "; Path=/tools/oauth/upstream/callback/;" in sent.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "logout",
    [
        Logout(tenant="acme", user="ada"),
        Logout(tenant="acme"),
        Logout(user="ada"),
        Logout(user="acme/ada"),
        Logout(server="notes"),
    ],
)
async def test_a_logout_ends_a_login_that_is_in_progress(tmp_path: Path, logout: Logout) -> None:
    async with protected_server() as server, open_site(tmp_path, {"notes": server}) as site:
        begun, unused = await site.begin("notes"), await site.link("notes")
        control = SessionControl(site.gateway)
        await control.log_out(logout)
        late = await site.visit(await server.log_in(begun.headers["Location"]))
        for page in (late, await site.visit(unused)):
            assert (page.status, "You were logged out" in page.text) == (400, True)
        assert await control.upstream_logins(Logout()) == []
        begun = await site.begin("notes")
        assert (await site.visit(await server.log_in(begun.headers["Location"]))).status == 200
        assert await control.upstream_logins(Logout())


@pytest.mark.parametrize("logout", [Logout(tenant="beta"), Logout(tenant="acme", user="bob"), Logout(server="other")])
async def test_a_logout_of_others_does_not_end_a_login_in_progress(tmp_path: Path, logout: Logout) -> None:
    async with protected_server() as server, open_site(tmp_path, {"notes": server}) as site:
        begun = await site.begin("notes")
        await SessionControl(site.gateway).log_out(logout)
        assert (await site.visit(await server.log_in(begun.headers["Location"]))).status == 200


async def test_a_page_of_another_origin_cannot_start_a_login(tmp_path: Path) -> None:
    """Pages of this machine may call the hub. One could have another person log in for the user of its own key."""
    other = {"Origin": "http://127.0.0.1:1"}
    async with protected_server() as server, open_site(tmp_path, {"notes": server}) as site:
        link = await site.link("notes")
        page = await asyncio.to_thread(site.browser.send, link, None, other)
        assert (page.status, page.forms) == (403, [])
        page = await site.visit(link)
        form = {**page.forms[0].fields, "key": site.key["X-API-Key"]}
        sent = await asyncio.to_thread(site.browser.send, link, form, other)
        assert (sent.status, "Location" in sent.headers) == (403, False)
