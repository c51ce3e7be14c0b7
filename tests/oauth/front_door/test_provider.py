"""Logging in at an identity provider: a real one, and one with faults."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.identity.provider_process import ProviderProcess
from tests.identity.providers import StartProvider
from tests.identity.scripted_browser import ScriptedBrowser
from tests.interop.external_servers import free_port
from tests.oauth.front_door import faulty_provider
from tests.oauth.front_door.door_site import WEB_REDIRECT_URI, App, Door, open_door, query
from tests.oauth.front_door.faulty_provider import FaultyProvider
from tests.oauth.split_dns import issue_trusted, resolve_to_loopback

from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.front_door.config import ProviderConfig
from hubbub.security.token_claims import ClaimMapping

CLAIMS = ClaimMapping(tenant="tenant", user="email", scopes=("groups",))
SCOPE_MAP = {"admins": ("hub:admin",), "engineering": ("notes:write",)}


def configure(provider: ProviderProcess, port: int, **options: Any) -> dict[str, Any]:
    """Register the hub at the provider; return the options of its front door."""
    client = provider.register(f"http://127.0.0.1:{port}/oauth/callback")
    config = ProviderConfig(
        issuer=provider.issuer,
        client_id=client["client_id"],
        scopes=("openid", "profile", "email"),
        claims=CLAIMS,
        scope_map=SCOPE_MAP,
    )
    return {"port": port, "provider": config, "secret": client["client_secret"], **options}


async def log_in(app: App, person: str, **changes: str | None) -> Any:
    """Log in at the provider and allow; return the redirect to the app."""
    return await asyncio.to_thread(
        app.browser.log_in, app.url(**changes), person, stop_at=app.redirect_uri, on_page=app.pages.append
    )


async def tokens_of(app: App, person: str, **changes: str | None) -> dict[str, Any]:
    page = await log_in(app, person, **changes)
    response = await app.redeem(page.query["code"])
    assert response.status == 200, response.text
    tokens: dict[str, Any] = json.loads(response.text)
    return tokens


async def test_people_log_in_at_the_provider_and_get_the_scopes_of_their_groups(
    oidc_provider: ProviderProcess, tmp_path: Path, database: str
) -> None:
    async with open_door(tmp_path, database=database, **configure(oidc_provider, free_port())) as door:
        tokens = await tokens_of(await door.app(), "alice")
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.principal.name == "alice@acme.example"
        assert set(verified.principal.scopes) == {"notes:read", "notes:write"}
        tokens = await tokens_of(await door.app(), "alice", scope="notes:read hub:admin")
        assert tokens["scope"] == "notes:read hub:admin"
        tokens = await tokens_of(await door.app(), "bob", scope="notes:read notes:write hub:admin")
        assert tokens["scope"] == "notes:read"


async def test_with_tenants_each_login_is_a_principal_of_the_tenant(
    oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    async with open_door(tmp_path, tenants=True, **configure(oidc_provider, free_port())) as door:
        names = []
        for app in (await door.app(), await door.app()):
            tokens = await tokens_of(app, "alice")
            verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
            assert (verified.principal.tenant, verified.principal.user) == ("acme", "alice@acme.example")
            assert verified.principal.client == app.client_id
            names.append(verified.principal.name)
            refreshed = json.loads((await app.refresh(tokens["refresh_token"])).text)
            assert (await door.front_door.tokens.verify(refreshed["access_token"].encode())).principal.name == names[-1]
        assert names[0] != names[1]
        await door.front_door.revoke(tenant="acme", user="alice@acme.example")
        assert all(map(door.front_door.tokens.is_revoked, names))
        # Bob's tenant is not one of the hub's.
        page = await log_in(await door.app(redirect_uri=WEB_REDIRECT_URI), "bob")
        assert page.status == 502
        assert "means no tenant" in page.text


async def test_the_provider_may_rotate_its_keys_and_go_down(start_oidc_provider: StartProvider, tmp_path: Path) -> None:
    # A provider that rotates its keys forgets the clients that registered themselves.
    port = free_port()
    client = {
        "client_id": "hub",
        "client_secret": "secret",
        "redirect_uris": [f"http://127.0.0.1:{port}/oauth/callback"],
        "grant_types": ["authorization_code"],
    }
    provider = start_oidc_provider(clients=[client])
    config = ProviderConfig(issuer=provider.issuer, client_id="hub", claims=CLAIMS, scopes=("openid", "email"))
    async with open_door(tmp_path, port=port, provider=config, secret="secret") as door:
        await tokens_of(await door.app(), "alice")
        await asyncio.to_thread(provider.rotate_keys)
        door.clock.added_s += 60
        tokens = await tokens_of(await door.app(), "alice")
        await asyncio.to_thread(provider.go_down)
        app = await door.app(redirect_uri=WEB_REDIRECT_URI)
        url = await asyncio.to_thread(app.browser.send, app.url())
        assert url.headers["Location"].startswith(provider.issuer)  # its metadata is still known
        state = query(url.headers["Location"])["state"]
        page = await app.send(f"{door.url}/oauth/callback?code=x&state={state}&iss={provider.issuer}")
        assert (page.status, "tell the operator" in page.text) == (502, True)
        await door.front_door.tokens.verify(tokens["access_token"].encode())
        await asyncio.to_thread(provider.come_up)
        assert await tokens_of(await door.app(), "alice")


async def test_a_callback_counts_only_in_its_browser_and_once(oidc_provider: ProviderProcess, tmp_path: Path) -> None:
    async with open_door(tmp_path, **configure(oidc_provider, free_port())) as door:
        attacker, victim = await door.app(redirect_uri=WEB_REDIRECT_URI), await door.app()
        callback = f"{door.url}/oauth/callback"
        stolen = await asyncio.to_thread(attacker.browser.log_in, attacker.url(), "alice", stop_at=callback)
        await victim.send(victim.url())
        page = await victim.send(stolen.url)
        assert (page.status, "Location" in page.headers) == (400, False)
        assert (await attacker.send(stolen.url)).status == 303
        assert (await attacker.send(stolen.url)).status == 502


async def test_a_person_who_cancels_at_the_provider_returns_with_an_error(
    oidc_provider: ProviderProcess, tmp_path: Path
) -> None:
    async with open_door(tmp_path, **configure(oidc_provider, free_port())) as door:
        app = await door.app()
        state = query((await app.send(app.url())).headers["Location"])["state"]
        page = await app.send(f"{door.url}/oauth/callback?error=access_denied&state={state}&iss={oidc_provider.issuer}")
        answer = query(page.headers["Location"])
        assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", app.state, door.url)


WRONG_NONCES = ("other", "\ud800")
FAULTS: dict[str, Callable[[FaultyProvider], None]] = {
    "wrong nonce": lambda provider: provider.claims.update(nonce="other"),
    "wrong audience": lambda provider: provider.claims.update(aud="other"),
    "two audiences": lambda provider: provider.claims.update(aud=["hub", "other"]),
    "issued to another client": lambda provider: provider.claims.update(azp="other"),
    "wrong issuer": lambda provider: provider.claims.update(iss="https://other.example"),
    "expired": lambda provider: provider.claims.update(exp=1),
    "from the future": lambda provider: provider.claims.update(iat=2**33),
    "expires at no time": lambda provider: provider.claims.update(exp=float("nan")),
    "expires at the end of time": lambda provider: provider.claims.update(exp=10**400),
    "issued at no time": lambda provider: provider.claims.update(iat=float("nan")),
    "nonce that cannot be encoded": lambda provider: provider.claims.update(nonce="\ud800"),
    "without a subject": lambda provider: provider.claims.update(sub=None),
    "reserved name": lambda provider: provider.claims.update(sub="key:ada"),
    "anonymous": lambda provider: provider.claims.update(sub="anonymous"),
    "name of a caller of another issuer": lambda provider: provider.claims.update(sub="https://login.example#alice"),
    "name with a number sign": lambda provider: provider.claims.update(sub="a#b"),
    "name with a slash": lambda provider: provider.claims.update(sub="acme/alice"),
    "name with spaces around": lambda provider: provider.claims.update(sub=" alice"),
    "another key": lambda provider: provider.sign_with_another_key(),
    "no signature": lambda provider: provider.set_algorithm("none"),
    "no token": lambda provider: provider.token_response.update(id_token=""),
    "error": lambda provider: provider.token_response.update(error="invalid_grant"),
    "not JSON": lambda provider: provider.break_token_response(),
    "echo": lambda provider: provider.echo_requests(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_invalid_provider_response_is_refused(tmp_path: Path, fault: str) -> None:
    with faulty_provider.serve() as provider:
        FAULTS[fault](provider)
        config = ProviderConfig(issuer=provider.issuer, client_id="hub")
        async with open_door(tmp_path, provider=config) as door:
            page = await _log_in_at(provider, door)
            assert (page.status, "Location" in page.headers) == (502, False)
            assert "secret-code" not in page.text


@pytest.mark.parametrize("name", ["alice+mcp@acme.example", "auth0|0123", "Ada Lovelace", "ACME\\ada", "Zoë"])
async def test_usual_names_are_accepted(tmp_path: Path, name: str) -> None:
    with faulty_provider.serve() as provider:
        provider.claims["sub"] = name
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            assert (await _log_in_at(provider, door)).status == 303


@pytest.mark.parametrize(("status", "advice"), [(502, "it may be down"), (403, "check how this server is registered")])
async def test_a_page_instead_of_tokens_is_logged_with_its_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, advice: str
) -> None:
    with faulty_provider.serve() as provider:
        provider.break_token_response()
        provider.token_status = status
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            page = await _log_in_at(provider, door)
            assert page.status == 502
            assert "Try again in a few minutes; if that does not help, tell the operator of this server" in page.text
            assert provider.issuer not in page.text.partition("<main>")[2]
            (reason,) = [each.__dict__["reason"] for each in caplog.records if each.msg == "oauth_provider_failed"]
            assert f"answered with status {status}" in reason
            assert advice in reason


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_what_was_sent_to_the_provider_is_on_no_page_and_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with faulty_provider.serve() as provider:
        provider.echo_requests()
        provider.metadata["token_endpoint_auth_methods_supported"] = [method]
        config = ProviderConfig(issuer=provider.issuer, client_id="hub")
        async with open_door(tmp_path, provider=config, secret="the+secret/of the hub") as door:
            page = await _log_in_at(provider, door)
            assert (page.status, "refused the request" in page.text) == (502, False)
            texts = [page.text, *(str(record.__dict__) for record in caplog.records if record.name == "hubbub.oauth")]
            assert any("refused the request" in text for text in texts[1:])
            secrets = ["secret-code", "the+secret", "the%2Bsecret", "aHViOnRoZ"]
            assert not [secret for secret in secrets for text in texts if secret in text]


async def test_a_login_succeeds_without_a_fault(tmp_path: Path) -> None:
    with faulty_provider.serve() as provider:
        config = ProviderConfig(issuer=provider.issuer, client_id="hub")
        async with open_door(tmp_path, provider=config, secret="the secret") as door:
            assert (await _log_in_at(provider, door)).status == 303
            # client_secret_basic, both parts form-encoded
            assert provider.authorizations == ["Basic aHViOnRoZSUyMHNlY3JldA=="]


async def test_claims_that_are_missing_are_read_at_the_userinfo_endpoint(tmp_path: Path) -> None:
    with faulty_provider.serve() as provider:
        provider.userinfo = {"sub": "alice", "email": "alice@acme.example"}
        config = ProviderConfig(issuer=provider.issuer, client_id="hub", claims=ClaimMapping(user="email", scopes=()))
        async with open_door(tmp_path, provider=config) as door:
            assert (await _log_in_at(provider, door)).status == 303
            provider.userinfo = {"sub": "mallory", "email": "alice@acme.example"}
            assert (await _log_in_at(provider, door)).status == 502
            provider.userinfo = {"sub": "alice", "email": "alice@acme.example", "email_verified": False}
            assert (await _log_in_at(provider, door)).status == 502


@pytest.mark.parametrize("issuer", ["", "https://other.example"])
async def test_a_response_of_another_provider_is_refused(tmp_path: Path, issuer: str) -> None:
    """The mix-up attack."""
    with faulty_provider.serve() as provider:
        config = ProviderConfig(issuer=provider.issuer, client_id="hub")
        async with open_door(tmp_path, provider=config) as door:
            assert (await _log_in_at(provider, door, issuer=issuer)).status == 502
            assert provider.redeemed == 0


@pytest.mark.parametrize(
    "changes", [{"issuer": "https://other.example"}, {"token_endpoint": "http://login.example/token"}, {"jwks_uri": ""}]
)
async def test_metadata_of_another_issuer_and_endpoints_without_tls_are_refused(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    with faulty_provider.serve() as provider:
        provider.metadata |= changes
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            app = await door.app(redirect_uri=WEB_REDIRECT_URI)
            page = await app.send(app.url())
            assert (page.status, "Location" in page.headers) == (502, False)


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
async def test_an_endpoint_elsewhere_in_the_local_network_is_not_requested(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with faulty_provider.serve() as provider:
        provider.metadata[name] = "https://10.0.0.1/endpoint"
        config = ProviderConfig(issuer=provider.issuer, client_id="hub", claims=ClaimMapping(user="email", scopes=()))
        async with open_door(tmp_path, provider=config) as door:
            assert (await _log_in_at(provider, door)).status == 502
        assert "egress policy blocks" in str([record.__dict__ for record in caplog.records])


LOGIN_HOST = "login.example.com"


async def test_a_provider_with_a_public_name_may_be_in_the_local_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = issue_trusted(tmp_path, monkeypatch, LOGIN_HOST)
    resolve_to_loopback(monkeypatch)
    with faulty_provider.serve(tls, LOGIN_HOST) as provider:
        provider.userinfo = {"sub": "alice", "email": "alice@acme.example"}
        config = ProviderConfig(issuer=provider.issuer, client_id="hub", claims=ClaimMapping(user="email", scopes=()))
        async with open_door(tmp_path, provider=config) as door:
            page = await _log_in_at(provider, door)
            assert page.status == 303, page.text


async def test_the_operator_can_allow_another_host_of_the_provider_with_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = issue_trusted(tmp_path, monkeypatch, LOGIN_HOST)
    resolve_to_loopback(monkeypatch)
    with faulty_provider.serve(tls, LOGIN_HOST) as issuer, faulty_provider.serve() as other:
        issuer.metadata["userinfo_endpoint"] = other.metadata["userinfo_endpoint"]
        other.userinfo = {"sub": "alice", "email": "alice@acme.example"}
        config = ProviderConfig(issuer=issuer.issuer, client_id="hub", claims=ClaimMapping(user="email", scopes=()))
        rules = NO_RULES
        async with open_door(tmp_path, provider=config, rules=lambda: rules) as door:
            assert (await _log_in_at(issuer, door)).status == 502
            rules = EgressRules.parse([each.issuer.split("/")[2] for each in (issuer, other)])
            assert (await _log_in_at(issuer, door)).status == 303


async def test_a_provider_that_hangs_delays_only_its_own_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.limits.REQUEST_TIMEOUT_S", 0.5)
    with faulty_provider.serve() as provider:
        provider.hangs = True
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            app = await door.app(redirect_uri=WEB_REDIRECT_URI)
            waiting = asyncio.create_task(app.send(app.url()))
            assert (await door.send("/oauth/jwks")).status == 200
            page = await waiting
            assert (page.status, "tell the operator" in page.text) == (502, True)


async def test_logins_that_begin_together_wait_for_one_request(tmp_path: Path) -> None:
    with faulty_provider.serve() as provider:
        provider.hangs = True
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            apps = [await door.app() for _ in range(5)]
            waiting = [asyncio.create_task(app.send(app.url())) for app in apps]
            while not provider.discovered:
                await asyncio.sleep(0.01)
            provider.hangs = False
            provider.released.set()
            assert [page.status for page in await asyncio.gather(*waiting)] == [303] * 5
            assert provider.discovered == 1


async def test_a_provider_that_hangs_later_delays_no_login(tmp_path: Path) -> None:
    with faulty_provider.serve() as provider:
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            app = await door.app()
            assert (await app.send(app.url())).status == 303
            provider.hangs = True
            door.clock.added_s += 3601
            for _ in range(3):
                assert (await app.send(app.url())).status == 303
            provider.released.set()


async def test_after_a_failure_known_metadata_are_used_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with faulty_provider.serve() as provider:
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            app = await door.app()
            assert (await app.send(app.url())).status == 303
            provider.metadata["issuer"] = "https://other.example"
            door.clock.added_s += 3601
            assert (await app.send(app.url())).status == 303
            while "oauth_provider_not_refreshed" not in caplog.messages:
                await asyncio.sleep(0.01)
            door.clock.added_s += 30
            assert (await app.send(app.url())).status == 303
            assert provider.discovered == 2
            door.clock.added_s += 31
            assert (await app.send(app.url())).status == 303
            while provider.discovered < 3:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("status", "code"), [(502, "temporarily_unavailable"), (403, "server_error")])
async def test_an_app_on_this_computer_learns_that_the_provider_failed(tmp_path: Path, status: int, code: str) -> None:
    with faulty_provider.serve() as provider:
        provider.break_token_response()
        provider.token_status = status
        async with open_door(tmp_path, provider=ProviderConfig(issuer=provider.issuer, client_id="hub")) as door:
            app = await door.app()
            page = await _log_in_at(provider, door, app=app)
            assert page.status == 303
            assert page.headers["Location"].startswith(f"{app.redirect_uri}?error={code}&")
            answer = query(page.headers["Location"])
            assert (answer["state"], answer["iss"]) == (app.state, door.url)
            assert "tell the operator" in answer["error_description"]


async def _log_in_at(provider: FaultyProvider, door: Door, issuer: str | None = None, app: App | None = None) -> Any:
    app = app or await door.app(redirect_uri=WEB_REDIRECT_URI, browser=ScriptedBrowser())
    location = (await app.send(app.url())).headers["Location"]
    if provider.claims.get("nonce") not in WRONG_NONCES:
        provider.claims["nonce"] = query(location)["nonce"]
    named = provider.issuer if issuer is None else issuer
    suffix = f"&iss={named}" if named else ""
    return await app.send(f"{door.url}/oauth/callback?code=secret-code&state={query(location)['state']}{suffix}")
