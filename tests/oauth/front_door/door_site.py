"""A front door on a port, with a clock that tests set, and a client that logs in at it."""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.interop.external_servers import free_port

from hubbub import Secret, Server
from hubbub.governance.tenants import Tenants
from hubbub.oauth.front_door.config import FrontDoorConfig, ProviderConfig
from hubbub.oauth.front_door.front_door import FrontDoor
from hubbub.ports import HttpExchange
from hubbub.security.api_keys import ApiKeys
from hubbub.security.sealer import Sealer
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.server.public_routes import PublicRoute
from hubbub.settings.governance import TenantSettings

# No server listens there: the browser reads the response from the URL of the redirect.
REDIRECT_URI = "http://127.0.0.1/callback"
WEB_REDIRECT_URI = "https://app.example/callback"
SEALING_KEY = bytes(32)
JSON = {"Content-Type": "application/json"}


class Clock:
    """The time of the front door: the real one, and what tests add."""

    def __init__(self) -> None:
        self.added_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.added_s


class Door:
    """A running front door, seen from outside."""

    def __init__(self, front_door: FrontDoor, url: str, clock: Clock, ring: Keyring, keys: dict[str, str]) -> None:
        self.front_door = front_door
        self.url = url
        self.clock = clock
        self.ring = ring
        self.keys = keys
        """The API keys of people, by name."""

    async def send(
        self, path: str, form: dict[str, str] | None = None, *, headers: dict[str, str] | None = None
    ) -> Page:
        """Make a request without cookies."""
        return await asyncio.to_thread(ScriptedBrowser().send, self.url + path, form, headers)

    async def post_json(self, path: str, content: Any, headers: dict[str, str] | None = None) -> Page:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await asyncio.to_thread(ScriptedBrowser().send_body, self.url + path, body, {**JSON, **(headers or {})})

    async def register(self, *redirect_uris: str, **metadata: Any) -> dict[str, Any]:
        """Register a public client."""
        content = {
            "client_name": "Test client",
            "redirect_uris": redirect_uris or (REDIRECT_URI,),
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        page = await self.post_json("/oauth/register", content)
        assert page.status == 201, page.text
        registered: dict[str, Any] = json.loads(page.text)
        return registered

    async def app(self, **options: Any) -> "App":
        """Register a client and return it with a person's browser."""
        client = await self.register(options.pop("registered_uri", options.get("redirect_uri", REDIRECT_URI)))
        return App(self, client["client_id"], **options)


class App:
    """A client app of a person, with the person's browser."""

    def __init__(
        self,
        door: Door,
        client_id: str,
        *,
        redirect_uri: str = REDIRECT_URI,
        browser: ScriptedBrowser | None = None,
        person: str = "ada",
    ) -> None:
        self.door = door
        self.client_id = client_id
        self.redirect_uri = redirect_uri
        self.browser = browser or ScriptedBrowser()
        self.person = person
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe()
        self.pages: list[Page] = []

    def url(self, **changes: str | None) -> str:
        """The authorization request."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        parameters: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "resource": f"{self.door.url}/mcp",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **changes,
        }
        given = {name: value for name, value in parameters.items() if value is not None}
        return f"{self.door.url}/oauth/authorize?{urlencode(given)}"

    async def open(self, **changes: str | None) -> Page:
        """Open the authorization request in the browser."""
        return await asyncio.to_thread(self.browser.visit, self.url(**changes), stop_at=self.redirect_uri)

    async def send(self, url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Page:
        """Make one request in the browser."""
        return await asyncio.to_thread(self.browser.send, url, form, headers)

    async def submit(self, page: Page, values: dict[str, str], *, button: tuple[str, str] = ("", "")) -> Page:
        return await asyncio.to_thread(self.browser.submit, page, values, button=button, stop_at=self.redirect_uri)

    async def log_in(self, page: Page) -> Page:
        """Log in with the person's key; return what follows: the consent page, or the redirect."""
        return await self.submit(page, {"key": self.door.keys[self.person]})

    async def consent(self, **changes: str | None) -> Page:
        """Open the request and log in; return the consent page."""
        return await self.log_in(await self.open(**changes))

    async def authorize(self, **changes: str | None) -> Page:
        """Log in and allow; return the redirect to the client."""
        page = await self.consent(**changes)
        self.pages.append(page)
        if page.status == 200:
            page = await self.submit(page, {}, button=("decision", "allow"))
        assert page.url.startswith(self.redirect_uri), (page.url, page.text)
        return page

    async def redeem(
        self,
        code: str,
        *,
        headers: dict[str, str] | None = None,
        changes: dict[str, str | None] | None = None,
        **more: str | None,
    ) -> Page:
        """Redeem a code at the token endpoint."""
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            **(changes or {}),
            **more,
        }
        given = {name: value for name, value in form.items() if value is not None}
        return await self.door.send("/oauth/token", given, headers=headers)

    async def refresh(self, token: str, *, headers: dict[str, str] | None = None, **changes: str) -> Page:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id, **changes}
        return await self.door.send("/oauth/token", form, headers=headers)

    async def tokens(self, **changes: str | None) -> dict[str, Any]:
        """Log in; return the token response."""
        page = await self.authorize(**changes)
        response = await self.redeem(page.query["code"])
        assert response.status == 200, response.text
        tokens: dict[str, Any] = json.loads(response.text)
        return tokens


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


PEOPLE = {"ada": ("notes:read", "notes:write"), "bob": ("notes:read",), "root": ("hub:admin", "notes:read")}


@asynccontextmanager
async def open_door(
    folder: Path,
    *,
    database: str | None = None,
    port: int = 0,
    tenants: bool = False,
    provider: ProviderConfig | None = None,
    secret: str | None = None,
    keys: dict[str, str] | None = None,
    ring: Keyring | None = None,
    issuer: str | None = None,
    proxied_by: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[Door]:
    """Serve a front door; people log in with API keys unless there is a provider."""
    url = f"http://127.0.0.1:{port or (port := free_port())}"
    clock = Clock()
    identity = None
    if tenants:
        identity = TenantIdentity(Tenants([TenantSettings(name=name) for name in ("acme", "beta")]), bytes(32))
    if ring is None or keys is None:
        ring, keys = Keyring(folder / "keys.toml"), {}
        for name, scopes in PEOPLE.items():
            tenant = None if not tenants or name == "root" else "acme"
            keys[name] = ring.add(name, scopes=scopes, tenant=tenant)["X-API-Key"]
    api_keys = ApiKeys(ring.path, identity=identity, clock=clock, monotonic=clock)
    config = FrontDoorConfig(
        issuer=issuer or url,
        server_name="Notes & more",
        database=database or f"sqlite:///{folder / 'oauth.db'}",
        scopes=("notes:read", "notes:write", "hub:admin"),
        provider=provider,
    )
    front_door = FrontDoor(
        config,
        sealer=Sealer([SEALING_KEY], clock=clock),
        identity=identity,
        api_keys=None if provider is not None else api_keys,
        read_secret=_secret(secret),
        clock=clock,
        **options,
    )
    server = Server("notes")
    for path, handlers in front_door.pages.items():
        server.public_routes[path] = PublicRoute(handlers)
    for path, handlers in front_door.endpoints.items():
        server.public_routes[path] = PublicRoute(handlers, any_origin=True)
    # Like the links of a hub: a page of the server that needs a login, without a client.
    server.public_routes["/person"] = PublicRoute({"GET": lambda exchange: _show_person(front_door, exchange)})
    async with front_door.running(), run_server(server, http_addr=f"127.0.0.1:{port}", proxied_by=proxied_by):
        yield Door(front_door, url, clock, ring, keys)


async def _show_person(front_door: FrontDoor, exchange: HttpExchange) -> None:
    person = await front_door.read_person(exchange, query(f"?{exchange.query}").get("person", ""))
    if person is None:
        await front_door.start_person_login(exchange, exchange.path)
        return
    await exchange.respond(200, person[1].encode(), content_type=b"text/plain")


def _secret(text: str | None) -> Callable[[], Any]:
    async def read() -> Secret | None:
        return None if text is None else Secret(text)

    return read
