"""A person in Chromium logs in at the provider and consents at the hub, so that official clients may call its tools."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.browser.chromium import find_chromium
from tests.browser.devtools import Tab, open_tab
from tests.http.keyring import Keyring
from tests.identity.hub_site import open_hub, open_hub_with_keys
from tests.identity.official_clients import Browse, LoginStarted, TypeScriptClient, connect_python_client, start_login
from tests.identity.protected_site import ProtectedSite
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import JUDGES
from tests.identity.scripted_browser import PASSWORD, ScriptedBrowser

ALLOW = "button[value=allow]"
SCREENSHOTS = os.environ.get("SCREENSHOTS")
"""A folder to write pictures of the pages to."""


@pytest.fixture
def chromium() -> str:
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium here")
    return found


@pytest.fixture
def tab(chromium: str, tmp_path: Path) -> Iterator[Tab]:
    """A tab of a browser without cookies."""
    with open_tab(chromium, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def hub(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """A hub whose users log in at `oidc-provider`."""
    with open_hub(tmp_path_factory.mktemp("hub"), oidc_provider) as site:
        yield site


def take_picture(tab: Tab, name: str) -> None:
    if SCREENSHOTS is not None:
        tab.screenshot(Path(SCREENSHOTS) / f"{name}.png")


def browse(tab: Tab, person: str, provider: ProviderProcess, hub: ProtectedSite) -> Browse:
    """Go through the pages of the provider, then those of the hub."""

    def go(url: str) -> None:
        tab.open(url)
        if tab.wait_for("document.readyState === 'complete' && location.href").startswith(provider.issuer):
            tab.fill("input[name=login]", person)
            tab.fill("input[name=password]", PASSWORD)
            tab.press("button[type=submit]")
            assert tab.url.startswith(provider.issuer)
            tab.press("button[type=submit]")
        assert tab.url.startswith(f"{hub.process.url}/oauth/consent")
        take_picture(tab, f"consent-{person}")
        assert "Notes assistant" in tab.text
        assert person in tab.text
        tab.press(ALLOW)
        assert "close this window" in tab.text

    return go


def test_the_consent_page_fits_into_a_small_window(tab: Tab, node: str, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    (key,) = ring.add("alice", tenant="acme", user="alice", scopes=("notes:read", "notes:write")).values()
    shown: list[str] = []

    def go(url: str) -> None:
        tab.command("Emulation.setDeviceMetricsOverride", width=780, height=490, deviceScaleFactor=1, mobile=False)
        tab.open(url)
        tab.fill("input[name=key]", key)
        tab.press("button[type=submit]")
        take_picture(tab, "consent-small")
        shown.append(tab.text)
        assert tab.evaluate(f"document.querySelector('{ALLOW}').getBoundingClientRect().bottom <= innerHeight")
        tab.press(ALLOW)

    with open_hub_with_keys(tmp_path, ring.path) as hub, closing(TypeScriptClient(node, JUDGES, hub.url, go)) as client:
        assert client.list_tools()
    assert "notes:write" in shown[0]


async def test_the_python_client_calls_a_tool_for_the_person_in_the_browser(
    tab: Tab, oidc_provider: ProviderProcess, hub: ProtectedSite
) -> None:
    async with connect_python_client(hub.url, browse(tab, "alice", oidc_provider, hub)) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"read_notes", "write_note"} <= names
        written = (await client.call_tool("write_note", {"text": "milk"})).content
        assert "written: milk" in str(written)


def test_the_typescript_client_shows_another_person_another_list(
    tab: Tab, node: str, oidc_provider: ProviderProcess, hub: ProtectedSite
) -> None:
    go = browse(tab, "bob", oidc_provider, hub)
    with closing(TypeScriptClient(node, JUDGES, hub.url, go)) as client:
        names = set(client.list_tools())
        assert "read_notes" in names
        assert "write_note" not in names
        assert client.call_tool("read_notes")["content"][0]["text"] == "the notes"
        assert "error" in client.call_tool("write_note", text="milk")
        hub.log_out("globex", "bob")
        client.browse = start_login
        with pytest.raises(LoginStarted):
            client.call_tool("read_notes")


def test_a_wrong_key_is_refused_and_the_right_one_logs_in(tab: Tab, node: str, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    (key,) = ring.add("alice", tenant="acme", user="alice", scopes=("notes:read",)).values()

    def go(url: str) -> None:
        tab.open(url)
        tab.fill("input[name=key]", "not-a-key")
        take_picture(tab, "login-key")
        tab.press("button[type=submit]")
        take_picture(tab, "login-wrong-key")
        assert tab.evaluate("document.querySelector('[role=alert]').innerText")
        tab.fill("input[name=key]", key)
        tab.press("button[type=submit]")
        take_picture(tab, "consent-key")
        tab.press(ALLOW)

    with open_hub_with_keys(tmp_path, ring.path) as hub, closing(TypeScriptClient(node, JUDGES, hub.url, go)) as client:
        assert "read_notes" in client.list_tools()


def test_an_app_that_shows_the_login_in_a_popup_gets_the_code(tab: Tab, node: str, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    (key,) = ring.add("alice", tenant="acme", user="alice", scopes=("notes:read",)).values()
    openers: list[bool] = []

    def go(url: str) -> None:
        popup = tab.open_popup(url)
        popup.fill("input[name=key]", key)
        popup.press("button[type=submit]")
        popup.press(ALLOW)
        assert "close this window" in popup.text
        # The page of the app passes the code to the window that opened it.
        openers.append(popup.evaluate("window.opener !== null"))
        assert tab.evaluate("window.popup.closed") is False

    with open_hub_with_keys(tmp_path, ring.path) as hub, closing(TypeScriptClient(node, JUDGES, hub.url, go)) as client:
        assert "read_notes" in client.list_tools()
    assert openers == [True]


def test_a_consent_page_is_of_no_use_in_another_browser(
    tab: Tab, oidc_provider: ProviderProcess, hub: ProtectedSite, node: str
) -> None:
    attacked: list[tuple[int, str]] = []

    def go(url: str) -> None:
        attacker = ScriptedBrowser()
        found = attacker.visit(url)
        while not found.url.startswith(f"{hub.process.url}/oauth/consent"):
            found = attacker.submit_as(found, "bob")
        tab.open(found.url)
        tab.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        take_picture(tab, "other-browser")
        attacked.append((tab.evaluate("document.querySelectorAll('form').length"), tab.text))
        attacker.submit(found, {}, button=("decision", "allow"))

    with closing(TypeScriptClient(node, JUDGES, hub.url, go)):
        pass
    forms, text = attacked[0]
    assert forms == 0, text
