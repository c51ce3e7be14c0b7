"""Who may open a link to log in at a server behind a hub: the hub checks it by the kind of credential of the call."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.http.keyring import Keyring
from tests.identity.hub_site import SECRET, oauth_section, provider_section
from tests.identity.protected_site import ProtectedSite, issuer_table, serve
from tests.identity.provider_process import ProviderProcess
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.identity.test_served_user_logins import home, hub_client, hub_login, notes_section, run_command
from tests.identity.user_hub import text_of
from tests.ports import free_port

from hubbub import Client, ServerConfig
from hubbub.hub.config import CONNECT


def key_file(ring: Keyring) -> str:
    return f"key_file = {json.dumps(os.fspath(ring.path))}\n"


async def connect(client: Client) -> Any:
    return await client.call_tool(CONNECT, {"server": "notes"})


async def new_link(client: Client) -> str:
    result = await connect(client)
    assert not result.is_error, result
    found: Any = result.structured_content
    return str(found["servers"][0]["url"])


def header_client(hub: ProtectedSite, headers: Mapping[str, str]) -> Client:
    return Client(ServerConfig(id="hub", transport="streamable_http", url=hub.url, headers=dict(headers)))


def log_in_with_key(url: str, key: str, person: str) -> Page:
    browser = ScriptedBrowser()
    page = browser.submit(browser.visit(url), {"key": key})
    return browser.log_in(page.url, person) if page.status == 200 else page


async def test_a_hub_with_keys_and_logins_checks_each_caller_by_the_credential_of_the_call(
    tmp_path: Path, oidc_provider: ProviderProcess, notes: ProtectedSite
) -> None:
    """Without tenants, a login at the hub has another name than every key."""
    ring, port = Keyring(tmp_path / "keys.toml"), free_port()
    key = ring.add("laptop")
    registered = oidc_provider.register(
        f"http://127.0.0.1:{port}/oauth/callback", application_type="web", grant_types=["authorization_code"]
    )
    provider = provider_section(oidc_provider, registered)
    # The journal needs tenants.
    oauth = oauth_section(port, tmp_path).partition("[oauth]")[2]
    sections = f"{key_file(ring)}{notes_section(notes)}[oauth]{oauth}{provider}"
    environment = home(tmp_path) | {SECRET: registered["client_secret"]}
    with serve(tmp_path, sections, port=port, environment=environment) as hub:
        async with header_client(hub, key) as caller:
            page = await asyncio.to_thread(log_in_with_key, await new_link(caller), key["X-API-Key"], "alice")
            assert "You are logged in at notes" in page.text, page.text
            assert not (await caller.call_tool("whoami")).is_error

        async def answer(request: Any) -> dict[str, str]:
            page = await asyncio.to_thread(ScriptedBrowser().log_in, request.url, "bob")
            assert "You are logged in at notes" in page.text, page.text
            return {"action": "accept"}

        async with hub_client(hub, hub_login(oidc_provider, "bob"), elicitation=answer) as bob:
            assert not (await connect(bob)).is_error
            assert (await bob.call_tool("whoami")).structured_content["name"].endswith("bob")


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_users_of_other_authorization_servers_log_in_only_if_the_operator_allows_it(
    tmp_path: Path, oidc_provider: ProviderProcess, notes: ProtectedSite, *, is_allowed: bool
) -> None:
    """They have no API key, so they are never asked for one."""
    ring, port = Keyring(tmp_path / "keys.toml"), free_port()
    key = ring.add("laptop")
    oauth = f'[oauth]\npublic_url = "http://127.0.0.1:{port}"\n'
    if is_allowed:
        oauth += "allow_unidentified_logins = true\n"
    sections = key_file(ring) + notes_section(notes) + oauth + issuer_table(oidc_provider)
    with serve(tmp_path, sections, port=port, environment=home(tmp_path)) as hub:
        token = await asyncio.to_thread(oidc_provider.user_token, "alice", hub.url)
        async with header_client(hub, {"Authorization": f"Bearer {token['access_token']}"}) as alice:
            if is_allowed:
                page = await asyncio.to_thread(ScriptedBrowser().visit, await new_link(alice))
                assert "Continue only if you are" in page.text
                assert "API key" not in page.text
            else:
                refused = await connect(alice)
                assert refused.is_error
                assert "allow_unidentified_logins" in text_of(refused)
        async with header_client(hub, key) as caller:
            page = await asyncio.to_thread(ScriptedBrowser().visit, await new_link(caller))
            assert "Your API key for this hub" in page.text


def test_a_hub_that_can_identify_no_user_is_not_started(tmp_path: Path, notes: ProtectedSite) -> None:
    port = free_port()
    oauth = f'[oauth]\npublic_url = "http://127.0.0.1:{port}"\n[[oauth.issuers]]\nissuer = "https://login.example"\n'
    (tmp_path / "hubbub.toml").write_text(notes_section(notes) + oauth)
    for command, code in ((("serve", "--port", str(port)), 2), (("plan",), 1)):
        done = run_command(tmp_path, *command, "--config", "hubbub.toml")
        assert done.returncode == code, done.stderr
        assert "server 'notes': `per_user` needs a way to identify the person" in done.stderr
        assert "allow_unidentified_logins" in done.stderr
