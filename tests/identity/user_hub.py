"""A hub with two tenants, and behind it a server at which each user logs in."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.http.in_process_server import RunningServer
from tests.http.keyring import Keyring
from tests.http.tenant_site import run_with_tenants
from tests.identity.protected_site import ProtectedSite
from tests.identity.scripted_browser import Page, ScriptedBrowser

from hubbub import Client, ElicitationRequest, Hub, MemoryCredentialStore, OAuth, ServerConfig, UpstreamConfig
from hubbub.hub.config import CONNECT
from hubbub.hub.front import Front
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import KEY_BYTES, Sealer

NOTES = "notes"
SCOPE = "mcp:tools notes:read"
Key = dict[str, str]
URLS: dict[str, Any] = {"elicitation": {"url": {}}}
"""The capabilities of a client that can open pages."""


def text_of(result: Any) -> str:
    """The text of a tool result."""
    return str(result.content[0].text)


async def connect(client: Client, action: str = "connect", server: str | None = NOTES) -> Any:
    """Call the tool of the hub; return the servers."""
    result = await client.call_tool(CONNECT, {"action": action, **({} if server is None else {"server": server})})
    assert not result.is_error, result
    found: Any = result.structured_content
    return found["servers"]


class UserHub:
    """The hub, its callers, and the people who log in."""

    def __init__(
        self, running: RunningServer, store: MemoryCredentialStore, ring: Keyring, keys: dict[str, Key]
    ) -> None:
        self.running = running
        self.store = store
        self.ring = ring
        self.keys = keys
        """`ada` of the tenant acme; `phone`: the same user; `bob` of acme; `beta`: ada of the tenant beta."""
        assert isinstance(running.server, Front)
        self.gateway = running.server.hub
        self.url = f"http://127.0.0.1:{running.site.port}"
        self.browsers: dict[str, ScriptedBrowser] = {}

    def browser(self, person: str) -> ScriptedBrowser:
        """The browser of a person, who stays logged in at the provider."""
        return self.browsers.setdefault(person, ScriptedBrowser())

    def connect(self, caller: str, person: str, url: str) -> Page:
        """Open the link, show the key of the caller, and log in at the provider as a person; return the last page."""
        key = self.keys[caller]["X-API-Key"]
        browser = self.browser(f"{caller} as {person}")
        page = browser.visit(url)
        assert page.status == 200, page.text
        page = browser.submit(page, {"key": key})
        while page.status == 200 and page.forms:
            page = browser.submit_as(page, person)
        return page

    async def log_in(self, caller: str, person: str) -> None:
        """Log a person in as the user of a key."""
        async with self.client(caller) as client:
            (server,) = await connect(client)
            page = await asyncio.to_thread(self.connect, caller, person, server["url"])
            assert page.status == 200, page.text

    def elicitation(self, caller: str, person: str, seen: list[ElicitationRequest]) -> Callable[..., Any]:
        """The user interface of a client: the person opens the page."""

        async def answer(request: ElicitationRequest) -> dict[str, str]:
            seen.append(request)
            page = await asyncio.to_thread(self.connect, caller, person, request.url)
            assert page.status == 200, page.text
            return {"action": "accept"}

        return answer

    def client(self, caller: str, version: str | None = None, *, capabilities: Any = None, **options: Any) -> Client:
        """A client of the hub, without any way to ask its user unless there is an `elicitation`."""
        config = ServerConfig(
            id="hub",
            transport="streamable_http",
            url=f"{self.url}/mcp",
            headers=self.keys[caller],
            protocol_version=version,
            capabilities=capabilities or {},
        )
        return Client(config, **options)

    def person_client(
        self, caller: str, person: str, version: str | None = None, seen: list[ElicitationRequest] | None = None
    ) -> Client:
        """A client whose user opens the pages that it is asked to open."""
        found = [] if seen is None else seen
        return self.client(caller, version, capabilities=URLS, elicitation=self.elicitation(caller, person, found))


@asynccontextmanager
async def run_two_user_hubs(folder: Path, site: ProtectedSite) -> AsyncIterator[tuple[UserHub, UserHub]]:
    """Serve two hubs that share a database and a sealing key, as two processes of one installation do."""
    sealer = Sealer([os.urandom(KEY_BYTES)])
    stores = [SqlCredentialStore(f"sqlite:///{folder / 'oauth.db'}", sealer) for _ in range(2)]
    folders = [folder / name for name in ("first", "second")]
    for each in folders:
        each.mkdir()
    async with (
        run_user_hub(folders[0], site, store=stores[0]) as first,
        run_user_hub(folders[1], site, store=stores[1]) as second,
    ):
        for hub in (first, second):
            hub.gateway.use_sealer(sealer)
        yield first, second


@asynccontextmanager
async def run_user_hub(folder: Path, site: ProtectedSite, **settings: Any) -> AsyncIterator[UserHub]:
    """Serve the hub; the notes are behind it."""
    store = settings.pop("store", None) or MemoryCredentialStore()
    auth = OAuth(scope=SCOPE, store=store, **settings)
    remote = ServerConfig(id=NOTES, transport="streamable_http", url=site.url, auth=auth)
    hub = Hub([UpstreamConfig(id=NOTES, remote=remote, per_user=True)], name="test hub")
    front = hub.front()
    async with run_with_tenants(folder, front, limits=("off",)) as tenants:
        keys = {
            "ada": tenants.ada,
            "phone": tenants.others["credential"],
            "bob": tenants.others["user"],
            "beta": tenants.others["tenant"],
        }
        running = tenants.running
        front.base_url = f"http://127.0.0.1:{running.site.port}"  # type: ignore[attr-defined]
        yield UserHub(running, store, tenants.ring, keys)
