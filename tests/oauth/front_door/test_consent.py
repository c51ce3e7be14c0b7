"""The consent page: what it says, when it is shown, and who may answer it."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.identity.scripted_browser import Page
from tests.oauth.front_door import door_site
from tests.oauth.front_door.door_site import WEB_REDIRECT_URI, App, open_door

ALLOW = ("decision", "allow")


async def test_the_page_names_the_app_the_scopes_the_redirect_and_the_account(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        client = await door.register(WEB_REDIRECT_URI, client_name='<b>Mail & "Co"</b>')
        page = await App(door, client["client_id"], redirect_uri=WEB_REDIRECT_URI).consent(scope="notes:write")
        assert "&lt;b&gt;Mail &amp; &quot;Co&quot;&lt;/b&gt;" in page.text
        assert "<b>" not in page.text
        assert "<dd>unverified: &lt;b&gt;Mail" in page.text
        assert "Use the permission <code>notes:write</code>" in page.text
        assert page.text.index("<dd>ada</dd>") < page.text.index("<code>notes:write</code>")
        assert "<strong>app.example</strong>" in page.text
        assert "<dd>ada</dd>" in page.text
        assert "Notes &amp; more" in page.text


async def test_the_name_of_an_app_cannot_imitate_its_identity(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        name = "Mail, published by claude.ai"
        client = await door.register(WEB_REDIRECT_URI, client_name=name)
        page = await App(door, client["client_id"], redirect_uri=WEB_REDIRECT_URI).consent()
        assert f"<dd>unverified: {name}</dd>" in page.text


@pytest.mark.parametrize("step", ["login", "consent", "error"])
async def test_pages_cannot_be_framed_run_scripts_or_be_cached(tmp_path: Path, step: str) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.open(**({"client_id": "unknown"} if step == "error" else {}))
        if step == "consent":
            page = await app.log_in(page)
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["X-Frame-Options"] == "DENY"
        assert page.headers["Cache-Control"] == "no-store"
        assert "<script" not in page.text
        assert "style=" not in page.text
        assert (await door.send("/oauth/style.css")).headers["Content-Type"] == "text/css; charset=utf-8"


async def test_a_person_who_cancels_is_sent_back_with_an_error(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.submit(await app.consent(), {}, button=("decision", "deny"))
        assert (page.query["error"], page.query["state"], page.query["iss"]) == ("access_denied", app.state, door.url)
        assert "code" not in page.query


async def test_a_consent_is_remembered_until_the_app_asks_for_more(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        await app.authorize(scope="notes:read")
        assert "code" in (await app.consent(scope="notes:read")).query
        assert "notes:write" in (await app.consent(scope="notes:read notes:write")).text
        await app.authorize(scope="notes:write")
        assert "code" in (await app.consent(scope="notes:read notes:write")).query
        assert (await app.consent(scope="notes:read", prompt="consent")).forms


async def test_a_consent_is_for_one_person_one_app_one_endpoint_and_one_redirect_host(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        client = await door.register(WEB_REDIRECT_URI, "https://other.example/callback")
        app = App(door, client["client_id"], redirect_uri=WEB_REDIRECT_URI)
        await app.authorize()
        assert "code" in (await app.consent()).query
        app.person = "bob"
        assert (await app.consent()).forms
        app.person = "ada"
        assert (await app.consent(resource=f"{door.url}/mcp/other")).forms
        app.redirect_uri = "https://other.example/callback"
        assert (await app.consent()).forms
        other = await door.register(WEB_REDIRECT_URI, client_name="Test client")
        assert (await App(door, other["client_id"], redirect_uri=WEB_REDIRECT_URI, browser=app.browser).consent()).forms


async def test_a_consent_can_be_revoked_and_expires(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        await app.authorize()
        await door.front_door.revoke(user="key:ada")
        await app.authorize()
        assert len(app.pages) == 2
        assert app.pages[1].forms
        door.clock.added_s += 181 * 86_400
        app = await door.app(browser=app.browser)
        assert (await app.consent()).forms


def _form_of(page: Page) -> dict[str, str]:
    return page.forms[0].fields | {"decision": "allow"}


async def test_the_form_counts_only_in_the_browser_in_which_the_login_began(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        victim, attacker = await door.app(), await door.app(person="bob")
        page = await attacker.consent()
        # The attacker's login, continued in the victim's browser: by its link, and by its form.
        await victim.open()
        shown = await victim.send(page.url)
        assert shown.status == 400
        assert "another browser" in shown.text
        sent = await victim.send(f"{door.url}/oauth/consent", _form_of(page), {"Origin": door.url})
        assert (sent.status, "Location" in sent.headers) == (400, False)
        assert (await door.send("/oauth/consent", _form_of(page))).status == 400
        # The login page is bound to its browser too: a link cannot log a person in to another account.
        login = await attacker.open()
        assert (await victim.send(login.url)).status == 400


async def test_a_form_from_another_site_is_refused(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.consent()
        # The second one may call the server, and gets the cookies of this host.
        for origin in ("https://evil.example", "http://127.0.0.1:1"):
            sent = await app.send(f"{door.url}/oauth/consent", _form_of(page), {"Origin": origin})
            assert (sent.status, "Location" in sent.headers) == (403, False)


@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/login", "/oauth/consent"])
async def test_a_page_of_another_origin_cannot_read_the_forms(tmp_path: Path, path: str) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        login = await app.open()
        consent = await app.log_in(login)
        url = {"/oauth/authorize": app.url(), "/oauth/login": login.url, "/oauth/consent": consent.url}[path]
        refused = await app.send(url, headers={"Origin": "http://127.0.0.1:1"})
        assert (refused.status, refused.forms, "Location" in refused.headers) == (403, [], False)
        assert (await app.send(url, headers={"Origin": door.url})).status in (200, 303)


async def test_a_state_is_not_accepted_changed_for_another_step_or_late(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        login = await app.open()
        consent = await app.log_in(login)
        states = [door_site.query(page.url)["state"] for page in (login, consent)]
        paths = ["/oauth/consent", "/oauth/login"]
        for path, state in (*zip(paths, states, strict=True), ("/oauth/consent", states[1][:-2] + "AA")):
            assert (await app.send(f"{door.url}{path}?state={state}")).status == 400
        door.clock.added_s += 901
        assert (await app.send(consent.url)).status == 400
        assert (await app.send(f"{door.url}/oauth/consent", _form_of(consent))).status == 400


async def test_the_title_of_the_consent_page_is_not_only_the_name_of_the_app(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        page = await (await door.app()).consent()
        assert "<title>Allow Test client? - Notes &amp; more</title>" in page.text


async def test_another_process_can_continue_a_login(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as first:
        app = await first.app()
        options: dict[str, Any] = {"keys": first.keys, "ring": first.ring, "issuer": first.url}
        async with open_door(tmp_path, database=database, **options) as second:
            page = await app.consent()
            form = page.forms[0]
            other = form.action.replace(first.url, second.url)
            sent = await app.send(other, _form_of(page), {"Origin": first.url})
            code = door_site.query(sent.headers["Location"])["code"]
            app.door = second
            assert (await app.redeem(code)).status == 200
            assert urlsplit(other).port != urlsplit(form.action).port


async def test_keys_cannot_be_guessed_quickly(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.open()
        for _ in range(12):  # the right key is not limited: many people can share one address
            assert (await app.log_in(page)).forms
        for _ in range(10):
            refused = await app.submit(page, {"key": "hb_00000000_" + "0" * 48})
            assert 'aria-invalid="true" aria-describedby="problem"' in refused.text
            assert 'role="alert" id="problem"' in refused.text
            assert (refused.status, "unknown, expired or revoked" in refused.text) == (403, True)
        limited = await app.log_in(page)
        assert (limited.status, limited.headers["Retry-After"].isdigit()) == (429, True)
        door.clock.added_s += 60
        assert (await app.log_in(page)).forms


async def test_the_cookie_of_a_server_with_https_is_sent_to_its_host_and_over_tls_only(tmp_path: Path) -> None:
    async with open_door(tmp_path, issuer="https://hub.example") as door:
        app = await door.app()
        page = await app.send(app.url(resource="https://hub.example/mcp"))
        assert page.headers["Location"].startswith("https://hub.example/oauth/login?")
        name, _, attributes = page.headers["Set-Cookie"].partition("=")
        assert name == "__Host-hubbub-login"
        assert attributes.split("; ")[1:] == ["Path=/", "Max-Age=86400", "HttpOnly", "SameSite=Lax", "Secure"]
