"""The pages on which a user of a hub logs in at a server: a link works only for its own user."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.identity.protected_site import ProtectedSite
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.identity.user_hub import NOTES, URLS, UserHub, run_two_user_hubs, run_user_hub, text_of

from hubbub import CredentialKey, Credentials, MemoryCredentialStore, SettingsError
from hubbub.hub.config import CONNECT
from hubbub.hub.upstream_logins import limits
from hubbub.security.sealer import KEY_BYTES, Sealer


async def new_link(hub: UserHub, caller: str) -> str:
    """A link for the user of a key."""
    async with hub.client(caller) as client:
        result = await client.call_tool(CONNECT, {"server": NOTES})
        found: Any = result.structured_content
        return str(found["servers"][0]["url"])


def key_of(hub: UserHub, caller: str) -> dict[str, str]:
    return {"key": hub.keys[caller]["X-API-Key"]}


def to_provider(hub: UserHub, browser: ScriptedBrowser, url: str, caller: str) -> Page:
    """Open a link and show a key; return the first page of the provider, or the refusal."""
    page = browser.visit(url)
    return browser.submit(page, key_of(hub, caller))


def to_callback(hub: UserHub, browser: ScriptedBrowser, url: str, caller: str, person: str) -> Page:
    """Log in, but stop before the redirect back to the hub is followed."""
    page = to_provider(hub, browser, url, caller)
    return browser.log_in(page.url, person, stop_at=f"{hub.url}/oauth/upstream/callback")


async def assert_nobody_is_logged_in(hub: UserHub) -> None:
    assert await hub.store.list() == []


async def test_a_link_is_refused_to_another_user(
    tmp_path: Path, site: ProtectedSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with run_user_hub(tmp_path, site) as hub:
        url = await new_link(hub, "ada")
        for caller in ("bob", "beta"):
            page = await asyncio.to_thread(to_provider, hub, ScriptedBrowser(), url, caller)
            assert page.status == 400
            assert "another user" in page.text
        for wrong in ("", "hub_wrong"):
            browser = ScriptedBrowser()
            page = await asyncio.to_thread(browser.visit, url)
            page = await asyncio.to_thread(browser.submit, page, {"key": wrong})
            assert page.status == 403
            assert "unknown" in page.text
        logged = str([vars(record) for record in caplog.records])
        assert url.rpartition("/")[2] not in logged
        await assert_nobody_is_logged_in(hub)


async def test_the_page_names_the_user_and_the_server(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url = await new_link(hub, "ada")
        page = await asyncio.to_thread(ScriptedBrowser().visit, url)
        assert page.status == 200
        assert "ada (acme)" in page.text
        assert NOTES in page.text
        assert site.url in page.text
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Cache-Control"] == "no-store"


async def test_a_link_holds_nothing_that_can_be_read_or_changed(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url = await new_link(hub, "ada")
        assert not {"ada", "acme", NOTES} & set(url.rsplit("/", 1)[-1].split("."))
        for wrong in (url[:-2], url[:-1] + ("A" if url[-1] != "A" else "B"), f"{hub.url}/oauth/connect/x"):
            page = await asyncio.to_thread(ScriptedBrowser().visit, wrong)
            assert page.status == 400


async def test_only_one_browser_can_use_a_link(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url, first, second = await new_link(hub, "ada"), ScriptedBrowser(), ScriptedBrowser()
        assert (await asyncio.to_thread(to_provider, hub, first, url, "ada")).status == 200
        page = await asyncio.to_thread(to_provider, hub, second, url, "ada")
        assert page.status == 400
        assert "another browser" in page.text
        # The first one may go back and continue.
        page = await asyncio.to_thread(hub.connect, "ada", "alice", await new_link(hub, "ada"))
        assert page.status == 200


async def test_a_form_cannot_be_sent_from_another_site_or_browser(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url = await new_link(hub, "ada")
        browser = ScriptedBrowser()
        form = (await asyncio.to_thread(browser.visit, url)).forms[0]
        content = {**form.fields, **key_of(hub, "ada")}
        refused = await asyncio.to_thread(browser.send, url, content, {"Origin": "https://evil.example"})
        assert refused.status == 403
        refused = await asyncio.to_thread(ScriptedBrowser().send, url, content, {"Origin": hub.url})
        assert refused.status == 400
        refused = await asyncio.to_thread(browser.send, url, key_of(hub, "ada"), {"Origin": hub.url})
        assert refused.status == 400
        other = await new_link(hub, "beta")
        refused = await asyncio.to_thread(browser.send, other, content, {"Origin": hub.url})
        assert refused.status == 400
        await assert_nobody_is_logged_in(hub)


async def test_a_redirect_is_accepted_once_and_in_the_browser_that_began(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url, browser = await new_link(hub, "ada"), ScriptedBrowser()
        callback = (await asyncio.to_thread(to_callback, hub, browser, url, "ada", "alice")).url
        assert "code=" in callback
        stranger = await asyncio.to_thread(ScriptedBrowser().visit, callback)
        assert stranger.status == 400
        await assert_nobody_is_logged_in(hub)
        cookies = [cookie for cookie in browser.cookies if cookie.name.startswith("hubbub-connect-")]
        assert (await asyncio.to_thread(browser.visit, callback)).status == 200
        assert len(await hub.store.list()) == 1
        for cookie in cookies:
            browser.cookies.set_cookie(cookie)
        replayed = await asyncio.to_thread(browser.visit, callback)
        assert replayed.status == 400
        assert (await asyncio.to_thread(browser.visit, url)).status == 400


async def test_a_redirect_with_another_state_or_issuer_is_refused(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        for name, wrong in (("state", "wrong"), ("iss", "https://evil.example")):
            url, browser = await new_link(hub, "ada"), ScriptedBrowser()
            page = await asyncio.to_thread(to_callback, hub, browser, url, "ada", "alice")
            query = "&".join(f"{key}={wrong if key == name else value}" for key, value in page.query.items())
            refused = await asyncio.to_thread(browser.visit, f"{hub.url}/oauth/upstream/callback/{NOTES}?{query}")
            assert refused.status in (400, 502), refused.text
            await assert_nobody_is_logged_in(hub)


async def test_a_person_who_refuses_at_the_provider_is_not_logged_in(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        asked: list[Any] = []

        def refuse(url: str) -> Page:
            browser = ScriptedBrowser()
            page = to_provider(hub, browser, url, "ada")
            callback = f"{hub.url}/oauth/upstream/callback"
            return browser.visit(browser.refuse(page.url, "alice", stop_at=callback))

        async def answer(request: Any) -> dict[str, str]:
            asked.append(await asyncio.to_thread(refuse, request.url))
            return {"action": "accept"}

        async with hub.client("ada", "2025-11-25", capabilities=URLS, elicitation=answer) as ada:
            refused = await ada.call_tool(CONNECT, {"server": NOTES})
            assert refused.is_error
            assert "access_denied" in text_of(refused)
        assert asked[0].status == 502
        await assert_nobody_is_logged_in(hub)


async def test_a_login_that_cannot_be_stored_ends_the_waiting_call(tmp_path: Path, site: ProtectedSite) -> None:
    class FullStore(MemoryCredentialStore):
        async def save(self, key: CredentialKey, credentials: Credentials) -> None:
            raise SettingsError("/private/credentials.sealed is full")

    async with run_user_hub(tmp_path, site, store=FullStore()) as hub:
        pages: list[Page] = []

        async def answer(request: Any) -> dict[str, str]:
            pages.append(await asyncio.to_thread(hub.connect, "ada", "alice", request.url))
            return {"action": "accept"}

        async with hub.client("ada", "2025-11-25", capabilities=URLS, elicitation=answer) as ada:
            refused = await ada.call_tool(CONNECT, {"server": NOTES})
        assert refused.is_error
        assert "could not complete the login" in text_of(refused)
        assert "/private" not in text_of(refused)
        assert pages[0].status == 503


async def test_links_and_logins_expire(tmp_path: Path, site: ProtectedSite) -> None:
    now = [time.time()]
    async with run_user_hub(tmp_path, site) as hub:
        hub.gateway.use_sealer(Sealer([os.urandom(KEY_BYTES)], clock=lambda: now[0]))
        begun, unused = ScriptedBrowser(), await new_link(hub, "ada")
        callback = await asyncio.to_thread(to_callback, hub, begun, await new_link(hub, "ada"), "ada", "alice")
        now[0] += limits.LOGIN_S + 1
        for browser, url in ((ScriptedBrowser(), unused), (begun, callback.url)):
            page = await asyncio.to_thread(browser.visit, url)
            assert page.status == 400
            assert "expired" in page.text
        await assert_nobody_is_logged_in(hub)


async def test_keys_cannot_be_tried_without_limit(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        url, browser = await new_link(hub, "ada"), ScriptedBrowser()
        page = await asyncio.to_thread(browser.visit, url)
        statuses = []
        for _ in range(12):
            statuses.append((await asyncio.to_thread(browser.submit, page, {"key": "hub_wrong"})).status)
        assert statuses[0] == 403
        assert statuses[-1] == 429


async def test_a_link_is_used_once_and_by_one_browser_at_all_processes(tmp_path: Path, site: ProtectedSite) -> None:
    """Browsers reach either of the hubs."""
    async with run_two_user_hubs(tmp_path, site) as (first, second):
        url, browser = await new_link(first, "ada"), ScriptedBrowser()
        elsewhere = url.replace(first.url, second.url)
        callback = (await asyncio.to_thread(to_callback, first, browser, url, "ada", "alice")).url
        page = await asyncio.to_thread(to_provider, second, ScriptedBrowser(), elsewhere, "ada")
        assert page.status == 400
        assert "another browser" in page.text
        cookies = [cookie for cookie in browser.cookies if cookie.name.startswith("hubbub-connect-")]
        assert (await asyncio.to_thread(browser.visit, callback)).status == 200
        for cookie in cookies:
            browser.cookies.set_cookie(cookie)
        replayed = await asyncio.to_thread(browser.visit, callback.replace(first.url, second.url))
        assert "ended already" in replayed.text
        page = await asyncio.to_thread(ScriptedBrowser().visit, elsewhere)
        assert "used already" in page.text
