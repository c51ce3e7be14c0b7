"""A person logs in: the whole flow, and what must stop it."""

import asyncio
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from tests.client.scripted_server import ScriptedRequest
from tests.oauth.client.protected_server import REDIRECT_URI, ProtectedServer, change, protected_server

from hubbub import (
    AuthorizationFailed,
    Client,
    HttpError,
    IssuerQuirks,
    LoginRequired,
    MemoryCredentialStore,
    MetadataError,
    OAuth,
    SettingsError,
    TokenRequestRefused,
)
from hubbub.oauth import limits
from hubbub.oauth.client.login import PendingLogin
from hubbub.oauth.client.oauth_client import OAuthClient


async def test_a_server_that_asks_for_a_token_gets_one_after_a_login() -> None:
    async with protected_server() as server:
        async with server.client() as client:
            assert [tool.name for tool in await client.tools()] == ["echo"]
        (asked,) = server.authorizations
        (exchanged,) = server.token_requests
    assert asked["resource"] == exchanged["resource"] == server.url
    assert asked["code_challenge_method"] == "S256"
    assert "scope" not in asked
    assert server.registrations[0]["application_type"] == "native"
    assert server.registrations[0]["grant_types"] == ["authorization_code", "refresh_token"]


async def test_without_auth_the_refusal_says_how_to_log_in() -> None:
    async with protected_server() as server:
        client = Client(msgspec.structs.replace(server.config(), auth=None))
        with pytest.raises(HttpError, match=rf"status 401.*hubbub login {server.url}"):
            await client.start()
        await client.close()


async def test_without_a_browser_the_error_says_how_to_log_in() -> None:
    async with protected_server() as server:
        client = server.client(OAuth())
        with pytest.raises(LoginRequired, match=rf"hubbub login {server.url}` and set `store=FileCredentialStore"):
            await client.start()
        await client.close()
        assert server.token_requests == []


async def test_stored_tokens_are_used_without_a_login() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        async with server.client(server.oauth(store=store)):
            pass
        async with server.client(OAuth(store=store)) as client:
            await client.tools()
        assert len(server.authorizations) == 1
        (key,) = await store.list(resource=server.url)
        assert key.issuer == server.origin


async def test_the_tokens_of_one_principal_are_not_used_for_another() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        async with server.client(server.oauth(store=store, principal="ada")):
            pass
        client = server.client(OAuth(store=store, principal="bob"))
        with pytest.raises(LoginRequired):
            await client.start()
        await client.close()


REDIRECTS: dict[str, tuple[dict[str, str | None], str]] = {
    "another issuer": ({"iss": "https://evil.example"}, "names the authorization server https://evil.example"),
    "no issuer although promised": ({"iss": None}, "does not name its authorization server"),
    "another state": ({"state": "x"}, "`state` differs"),
    "no state": ({"state": None}, "`state` differs"),
    "no code": ({"code": None}, "has no code"),
    "an error": ({"error": "access_denied", "error_description": "She\nsaid no"}, r"access_denied \(She said no\)"),
    "an error of another issuer": ({"error": "access_denied", "iss": "https://evil.example"}, "https://evil.example"),
}


@pytest.mark.parametrize("case", REDIRECTS)
async def test_a_redirect_that_cannot_be_trusted_is_refused_before_the_code_is_sent(case: str) -> None:
    changes, message = REDIRECTS[case]
    async with protected_server() as server:
        server.redirect_changes = changes
        error = await fail_to_start(server)
        assert server.token_requests == []
    assert isinstance(error, AuthorizationFailed)
    assert_message(error, message)


async def test_a_redirect_to_another_origin_is_refused() -> None:
    async with protected_server() as server:
        server.redirect_uri = "http://127.0.0.1:2/callback"
        error = await fail_to_start(server)
        assert server.token_requests == []
    assert_message(error, "went to http://127.0.0.1:2/callback, not to http://127.0.0.1:1/callback")


async def test_an_issuer_that_does_not_promise_iss_may_leave_it_out() -> None:
    async with protected_server() as server:
        server.metadata["authorization_response_iss_parameter_supported"] = None
        server.redirect_changes = {"iss": None}
        async with server.client() as client:
            await client.tools()


async def test_a_login_can_be_finished_in_another_process() -> None:
    async with protected_server() as server:
        first = OAuthClient(server.url, OAuth())
        url, pending = await first.begin_login(REDIRECT_URI)
        sealed = msgspec.json.encode(pending)
        redirect = await server.log_in(url)
        second = OAuthClient(server.url, OAuth())
        opened = msgspec.json.decode(sealed, type=PendingLogin)
        credentials = await second.finish_login(opened, urlsplit(redirect).query)
        assert credentials.issuer == server.origin
        assert credentials.access_token in server.valid_tokens


async def test_a_code_cannot_be_used_twice() -> None:
    async with protected_server() as server:
        client = OAuthClient(server.url, OAuth())
        url, pending = await client.begin_login(REDIRECT_URI)
        redirect = await server.log_in(url)
        await client.finish_login(pending, redirect)
        with pytest.raises(TokenRequestRefused, match="invalid_grant") as caught:
            await client.finish_login(pending, redirect)
        assert caught.value.code == "invalid_grant"
        assert dict(parse_qsl(urlsplit(redirect).query))["code"] not in str(caught.value)


async def test_a_code_that_was_stolen_is_useless_without_the_verifier_of_its_login() -> None:
    async with protected_server() as server:
        client = OAuthClient(server.url, OAuth())
        url, _ = await client.begin_login(REDIRECT_URI)
        stolen = dict(parse_qsl(urlsplit(await server.log_in(url)).query))["code"]
        _, mine = await client.begin_login(REDIRECT_URI)
        with pytest.raises(TokenRequestRefused, match="invalid_grant"):
            await client.finish_login(mine, f"code={stolen}&state={mine.state}&iss={server.origin}")


async def test_a_redirect_that_comes_too_late_is_refused() -> None:
    now = [1000.0]
    async with protected_server() as server:
        client = OAuthClient(server.url, OAuth(), clock=lambda: now[0])
        url, pending = await client.begin_login(REDIRECT_URI)
        redirect = await server.log_in(url)
        now[0] += 601
        with pytest.raises(AuthorizationFailed, match="longer than 10 minutes"):
            await client.finish_login(pending, redirect)
        assert server.token_requests == []


async def test_an_authorization_server_without_s256_is_refused() -> None:
    async with protected_server() as server:
        server.metadata["code_challenge_methods_supported"] = ["plain"]
        error = await fail_to_start(server)
        assert server.authorizations == []
    assert isinstance(error, MetadataError)
    assert_message(error, "does not support PKCE with S256")


async def test_an_authorization_server_that_does_not_mention_pkce_is_refused_unless_it_is_known_to_support_it() -> None:
    async with protected_server() as server:
        del server.metadata["code_challenge_methods_supported"]
        error = await fail_to_start(server)
        assert server.authorizations == []
        async with server.client(server.oauth(quirks={server.origin: IssuerQuirks(assume_pkce=True)})):
            pass
        assert len(server.authorizations) == 1
    assert isinstance(error, MetadataError)
    assert_message(error, "set `assume_pkce`")


async def test_scopes_come_from_the_challenge_then_from_the_resource_and_can_be_configured() -> None:
    async with protected_server() as server:
        server.resource["scopes_supported"] = ["read", "write"]
        async with server.client():
            pass
        server.challenge += ', scope="read"'
        async with server.client():
            pass
        async with server.client(server.oauth(scope="admin")):
            pass
        assert [asked["scope"] for asked in server.authorizations] == ["read write", "read", "admin"]


async def test_offline_access_is_requested_only_if_the_authorization_server_lists_it() -> None:
    async with protected_server() as server:
        server.resource["scopes_supported"] = ["read", "offline_access"]
        async with server.client():
            pass
        server.metadata["scopes_supported"] = ["read", "offline_access"]
        async with server.client():
            pass
        without_it, with_it = server.authorizations
    assert (without_it["scope"], without_it.get("prompt")) == ("read", None)
    assert (with_it["scope"], with_it["prompt"]) == ("read offline_access", "consent")


async def test_a_login_at_an_issuer_with_a_slash_at_its_end_is_used_again() -> None:
    """The settings, the MCP server and the authorization server itself may each write it in another way."""
    async with protected_server() as server:
        server.metadata["issuer"] += "/"
        quirks = {server.origin: IssuerQuirks(prompt="login")}
        auth = server.oauth(issuer=server.origin, quirks=quirks, store=MemoryCredentialStore())
        server.redirect_changes = {"iss": f"{server.origin}/"}
        for _ in range(2):
            async with server.client(change(auth)) as client:
                await client.tools()
        (asked,) = server.authorizations
        assert asked["prompt"] == "login"
        server.revoke_tokens()
        server.handle["/token"] = refuse_refresh(server)
        server.redirect_changes = {"iss": server.origin}  # not the issuer of the metadata
        with pytest.raises(AuthorizationFailed, match="names the authorization server"):
            await server.client(change(auth)).start()


async def test_quirks_change_the_requests_to_one_issuer() -> None:
    async with protected_server() as server:
        quirks = IssuerQuirks(omit_resource=True, prompt="", authorization_params={"audience": "notes"})
        server.metadata["scopes_supported"] = ["read", "offline_access"]
        server.resource["scopes_supported"] = ["read"]
        async with server.client(server.oauth(quirks={server.origin: quirks})):
            pass
        (asked,), (exchanged,) = server.authorizations, server.token_requests
    assert "resource" not in {**asked, **exchanged}
    assert "prompt" not in asked
    assert asked["audience"] == "notes"


async def test_the_challenge_for_a_token_is_found_among_several_headers() -> None:
    async with protected_server() as server:
        server.challenge = f'Negotiate\r\nwww-authenticate: {server.challenge}, scope="read"'
        async with server.client():
            pass
        assert server.authorizations[0]["scope"] == "read"


async def test_a_missing_scope_is_requested_together_with_those_that_were_granted() -> None:
    async with protected_server() as server:
        server.challenge += ', scope="read"'
        server.needed_scopes = {"tools/call": "write"}
        async with server.client() as client:
            await client.tools()
            await client.call_tool("echo", {})
        assert [asked["scope"] for asked in server.authorizations] == ["read", "read write"]
        assert len(server.calls("tools/call")) == 2  # the first was refused


async def test_a_scope_that_is_never_enough_is_requested_once() -> None:
    async with protected_server() as server:
        server.needed_scopes = {"tools/call": "write"}
        server.token_fields = {"scope": "read"}  # less than requested
        issue = server.issue
        server.issue = lambda scope="": issue("read")  # type: ignore[method-assign]
        async with server.client() as client:
            for _ in range(2):
                with pytest.raises(HttpError, match="403"):
                    await client.call_tool("echo", {})
        assert len(server.authorizations) == 2


async def test_a_server_that_names_another_scope_each_time_gets_few_logins() -> None:
    async with protected_server() as server:
        numbers = count()

        async def require_more(request: ScriptedRequest) -> None:
            if request.rpc == "tools/call":
                await request.reply(
                    403, www_authenticate=f'Bearer error="insufficient_scope", scope="s{next(numbers)}"'
                )
            else:
                await server.answer_mcp(request)

        server.handle["/mcp"] = require_more
        async with server.client() as client:
            logins = []
            for _ in range(4):
                before = len(server.authorizations)
                with pytest.raises(HttpError, match="403"):
                    await client.call_tool("echo", {})
                logins.append(len(server.authorizations) - before)
        assert logins == [limits.STEP_UPS_OF_REQUEST, limits.STEP_UPS_OF_REQUEST, 1, 0]


async def test_a_server_that_refuses_every_token_is_not_asked_for_ever() -> None:
    async with protected_server() as server:
        issue = server.issue

        def issue_useless_token(scope: str = "") -> dict[str, Any]:
            answer = issue(scope)
            server.revoke_tokens()
            return answer

        server.issue = issue_useless_token  # type: ignore[method-assign]
        error = await fail_to_start(server)
        assert isinstance(error, HttpError)
        assert error.status == 401
        assert len(server.authorizations) == len(server.token_requests) == 1


async def test_callers_that_wait_for_a_login_share_it() -> None:
    async with protected_server() as server:
        async with server.client() as client:
            server.revoke_tokens()
            server.handle["/token"] = refuse_refresh(server)
            await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(5)))
        assert len(server.authorizations) == 2


async def test_when_the_server_changes_its_authorization_server_nothing_of_the_old_one_is_sent_there() -> None:
    async with protected_server() as server, protected_server() as other:

        async def log_in(url: str) -> str:
            return await (server if url.startswith(server.origin) else other).log_in(url)

        async with server.client(server.oauth(redirect_handler=log_in)) as client:
            server.revoke_tokens()
            server.resource["authorization_servers"] = [other.origin]
            server.valid_tokens = other.valid_tokens
            server.scopes_of = other.scopes_of
            await client.tools()
        (old,), (new,) = server.token_requests, other.token_requests
        sent_there = [request.body for request in other.scripted.requests]
    assert new["grant_type"] == "authorization_code"
    assert len(other.registrations) == 1
    assert not any(old["code"].encode() in body for body in sent_there)


async def test_a_configured_client_is_not_used_at_another_authorization_server() -> None:
    async with protected_server() as server, protected_server() as other:
        auth = server.oauth(client_id="known", client_secret="a-secret-of-the-first", redirect_handler=server.log_in)
        async with server.client(auth) as client:
            server.revoke_tokens()
            server.resource["authorization_servers"] = [other.origin]
            with pytest.raises(MetadataError, match=f"uses the authorization server {other.origin}"):
                await client.tools()
        assert other.scripted.requests == []


async def test_a_registration_is_used_again_for_the_next_login() -> None:
    async with protected_server() as server:
        async with server.client() as client:
            server.revoke_tokens()
            server.handle["/token"] = refuse_refresh(server)
            await client.tools()
        assert len(server.authorizations) == 2
        assert len(server.registrations) == 1


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client"])
async def test_a_client_that_the_authorization_server_has_forgotten_registers_again(code: str) -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        async with server.client(server.oauth(store=store)):
            pass
        server.revoke_tokens()
        server.handle["/token"] = refuse_refresh(server, code)
        with pytest.raises(LoginRequired):
            await server.client(OAuth(store=store)).start()
        async with server.client(server.oauth(store=store)) as client:
            await client.tools()
    assert [asked["client_id"] for asked in server.authorizations] == ["client-1", "client-2"]


async def test_a_registered_client_is_kept_when_its_secret_is_refused() -> None:
    async with protected_server() as server:
        auth = server.oauth(client_id="known", client_secret="a-secret-by-hand", issuer=server.origin)
        async with server.client(auth):
            pass
        (key,) = await auth.credential_store.list()
        server.revoke_tokens()
        server.handle["/token"] = refuse_refresh(server, "invalid_client")
        with pytest.raises(LoginRequired):
            await server.client(change(auth, redirect_handler=None)).start()
        kept = await auth.credential_store.load(key)
        assert kept is not None
        assert not kept.is_ended


async def test_without_any_registration_the_error_says_what_to_configure() -> None:
    async with protected_server() as server:
        server.metadata["registration_endpoint"] = None
        error = await fail_to_start(server)
    assert_message(error, f"register one there with the redirect URI {REDIRECT_URI}, and set `client_id`")


async def test_a_refused_registration_is_explained() -> None:
    async with protected_server() as server:

        async def refuse(request: Any) -> None:
            await request.reply(403, {"error": "access_denied", "error_description": "Ask\x07 the admin"})

        server.handle["/register"] = refuse
        error = await fail_to_start(server)
    assert_message(error, r"refused to register this client \(status 403: access_denied Ask the admin\)")


async def test_a_client_metadata_document_is_preferred_to_registration_where_it_is_supported() -> None:
    document = "https://client.example/metadata.json"
    async with protected_server() as server:
        server.metadata["client_id_metadata_document_supported"] = True
        async with server.client(server.oauth(client_metadata_url=document)):
            pass
        server.metadata["client_id_metadata_document_supported"] = None
        async with server.client(server.oauth(client_metadata_url=document)):
            pass
        assert [asked["client_id"] for asked in server.authorizations] == [document, "client-1"]


async def test_a_configured_secret_is_not_stored_with_the_tokens() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        auth = server.oauth(client_id="known", client_secret="a:b c", store=store)
        async with server.client(auth):
            pass
        (key,) = await store.list()
        stored = msgspec.json.encode(await store.load(key))
        (headers,) = server.token_headers
    assert b"a:b c" not in stored
    assert headers["authorization"] == "Basic a25vd246YSUzQWIrYw=="  # both parts are form-encoded first


def refuse_refresh(server: ProtectedServer, code: str = "invalid_grant") -> Any:
    """Return a token endpoint that knows no refresh token any more."""

    async def handle(request: Any) -> None:
        if b"grant_type=refresh_token" in request.body:
            await request.reply(400, {"error": code})
        else:
            await server.answer_token_request(request)

    return handle


async def fail_to_start(server: ProtectedServer, **fields: Any) -> Exception:
    """Start a client, and return the error."""
    client = server.client(change(server.oauth(), **fields))
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            await client.start()
        return caught.value
    finally:
        await client.close()


def assert_message(error: Exception, pattern: str) -> None:
    with pytest.raises(type(error), match=pattern):
        raise error


@pytest.mark.parametrize("name", ["prompt", "dpop_jkt", "uri", "state"])
def test_parameters_that_are_set_elsewhere_are_refused(name: str) -> None:
    hint = "use the quirk `prompt`" if name == "prompt" else name
    with pytest.raises(SettingsError, match=hint):
        OAuth(quirks={"*": IssuerQuirks(authorization_params={name: "x"})})
