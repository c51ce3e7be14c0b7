"""Access tokens over real sockets: metadata, challenges, issuers, audiences, scopes."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.clock import advance_clock
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.oauth.issuer import run_issuer
from tests.oauth.resource_server.sites import (
    AUDIENCE,
    METADATA_URL,
    PUBLIC_URL,
    ProtectedSite,
    make_whoami,
    parse_challenge,
    run_protected,
)
from tests.oauth.split_dns import issue_trusted, resolve_to_loopback
from tests.security.tokens import RSA, key_set, sign
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from hubbub import HubbubError, Server, SettingsError, bounds
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.resource_server.issuers import Issuer
from hubbub.security.jose import JwtSigningKey, read_key_set
from hubbub.security.jwks import FetchedKeys
from hubbub.server.http.app import HttpApp
from hubbub.settings import ServeSettings
from hubbub.settings.oauth import IssuerSettings, OAuthSettings

WELL_KNOWN = "/.well-known/oauth-protected-resource"


# -- metadata ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (WELL_KNOWN, "/mcp"),
        (f"{WELL_KNOWN}/mcp", "/mcp"),
        (f"{WELL_KNOWN}/mcp/docs", "/mcp/docs"),
        (f"{WELL_KNOWN}/mcp/no-such-view", "/mcp/no-such-view"),
        (f"{WELL_KNOWN}/mcp-ws", "/mcp-ws"),
        (f"{WELL_KNOWN}/sse", "/sse"),
    ],
)
async def test_every_endpoint_has_metadata(path: str, resource: str) -> None:
    async with run_protected(scopes=("mcp",)) as protected:
        response = await protected.site.get(path)
        assert response.status == 200
        assert response.header("content-type") == "application/json"
        assert response.json["resource"] == PUBLIC_URL + resource
        assert response.json["authorization_servers"] == [protected.issuer.url]
        assert response.json["scopes_supported"] == ["mcp"]
        assert response.json["bearer_methods_supported"] == ["header"]
        assert "ES256" in response.json["dpop_signing_alg_values_supported"]


@pytest.mark.parametrize("path", ["/", "/health", "/mcp/a/b", "/mcp/a%22b", "/mcp/health", "/messages", "x"])
async def test_other_paths_have_no_metadata(path: str) -> None:
    async with run_protected() as protected:
        assert (await protected.site.get(WELL_KNOWN + path)).status in (401, 404)


async def test_pages_of_every_origin_can_read_metadata_and_only_those_allowed_can_call() -> None:
    foreign = {"Origin": "https://app.example"}
    async with run_protected() as protected:
        site = protected.site
        response = await site.get(WELL_KNOWN, foreign)
        assert response.status == 200
        assert response.header("access-control-allow-origin") == "*"
        assert response.header("access-control-allow-credentials") is None
        preflight = foreign | {"Access-Control-Request-Method": "GET"}
        assert (await site.request("OPTIONS", WELL_KNOWN, preflight)).status == 200
        assert (await site.request("OPTIONS", "/mcp", preflight)).status == 403
        assert (await protected.call(**foreign)).status == 403
        assert (await site.get(WELL_KNOWN, {"Host": "evil.example"})).status == 403
        assert (await site.request("POST", WELL_KNOWN)).status == 405


async def test_the_public_url_is_an_allowed_host_and_origin() -> None:
    headers = {"Host": "hub.example.com", "Origin": PUBLIC_URL}
    async with run_protected() as protected:
        assert (await protected.call(**headers)).status == 401


async def test_a_public_url_may_have_a_path() -> None:
    async with run_protected(public_url="https://example.com/tools/") as protected:
        for path in (f"{WELL_KNOWN}/mcp", f"{WELL_KNOWN}/tools/mcp", f"{WELL_KNOWN}/tools"):
            assert (await protected.site.get(path)).json["resource"] == "https://example.com/tools/mcp"
        _, parameters = parse_challenge(await protected.call())
        assert parameters["resource_metadata"] == f"https://example.com/tools{WELL_KNOWN}/mcp"
        token = protected.issuer.sign(aud="https://example.com/tools/mcp")
        assert await protected.whoami(token) == "alice mcp"


async def test_metadata_requests_are_limited() -> None:
    async with run_protected(serve={"limits": ("other=2/minute",)}) as protected:
        statuses = [(await protected.site.get(WELL_KNOWN)).status for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_there_is_no_metadata_without_tokens(tmp_path: Path) -> None:
    server = make_whoami()
    server.oauth = OAuthSettings(public_url=PUBLIC_URL)
    ring = Keyring(tmp_path / "keys.toml")
    ring.add("ci")
    async with run_server(server, key_file=str(ring.path)) as running:
        assert (await running.site.get(WELL_KNOWN)).status == 401


# -- challenges -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/docs"])
async def test_a_request_without_a_token_gets_the_address_of_the_metadata(method: str, path: str) -> None:
    async with run_protected(required_scopes=("mcp",), scopes=("mcp", "mcp:write")) as protected:
        response = await protected.site.request(method, path)
        assert response.status == 401
        scheme, parameters = parse_challenge(response)
        assert scheme == "Bearer"
        assert parameters == {"resource_metadata": PUBLIC_URL + WELL_KNOWN + path, "scope": "mcp"}


@pytest.mark.parametrize(
    ("path", "resource"),
    [("/sse", "/sse"), ("/messages", "/sse"), ("/health", "/mcp"), ('/mcp/a"b', "/mcp"), ("/other", "/mcp")],
)
async def test_other_paths_name_the_resource_that_they_belong_to(path: str, resource: str) -> None:
    async with run_protected() as protected:
        _, parameters = parse_challenge(await protected.site.get(path))
        assert parameters["resource_metadata"] == PUBLIC_URL + WELL_KNOWN + resource


async def test_a_websocket_without_a_token_gets_a_challenge_too() -> None:
    async with run_protected() as protected:
        url = f"ws://127.0.0.1:{protected.site.port}/mcp-ws"
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, subprotocols=[Subprotocol("mcp.v1")]):
                pass
        assert refused.value.response.status_code == 401
        assert f"{WELL_KNOWN}/mcp-ws" in refused.value.response.headers["WWW-Authenticate"]
        token = protected.issuer.sign(aud=AUDIENCE)
        async with connect(
            url, subprotocols=[Subprotocol("mcp.v1")], additional_headers={"Authorization": f"Bearer {token}"}
        ) as socket:
            await socket.send('{"jsonrpc":"2.0","id":1,"method":"whoami"}')
            assert "alice" in str(await socket.recv())


async def test_an_invalid_token_is_named_as_such_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with run_protected() as protected:
        response = await protected.call(authorization="Bearer not-a-token")
        assert response.status == 401
        scheme, parameters = parse_challenge(response)
        assert (scheme, parameters["error"]) == ("Bearer", "invalid_token")
        assert parameters["resource_metadata"] == METADATA_URL
        assert b"not-a-token" not in response.body
        assert "not-a-token" not in caplog.text


async def test_an_unknown_api_key_gets_the_address_of_the_metadata(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    good = ring.add("ci")
    async with run_protected(serve={"key_file": str(ring.path)}) as protected:
        assert (await protected.call(**good)).status == 200
        assert await protected.whoami(protected.issuer.sign(aud=AUDIENCE)) == "alice mcp"
        response = await protected.call(**{"X-API-Key": "hub_wrong"})
        assert response.status == 401
        assert parse_challenge(response)[1]["resource_metadata"] == METADATA_URL


# -- tokens -----------------------------------------------------------------------------


async def test_keys_are_found_by_discovery_and_a_token_is_verified_once() -> None:
    async with run_protected() as protected:
        token = protected.issuer.sign(aud=AUDIENCE)
        for _ in range(3):
            assert await protected.whoami(token) == "alice mcp"
        assert protected.issuer.paths == ["/.well-known/oauth-authorization-server", "/jwks"]


async def test_openid_discovery_is_tried_too() -> None:
    async with run_protected() as protected:
        protected.issuer.metadata_path = "/.well-known/openid-configuration"
        assert await protected.whoami(protected.issuer.sign(aud=AUDIENCE)) == "alice mcp"


async def test_the_address_of_the_keys_can_be_configured() -> None:
    async with run_issuer() as other:
        settings = {"jwks_url": f"{other.url}/jwks"}
        async with run_protected(issuer_settings=settings) as protected:
            token = protected.issuer.sign(aud=AUDIENCE, key=other.keys["one"])
            assert await protected.whoami(token) == "alice mcp"
            assert protected.issuer.paths == []


async def test_tokens_of_several_issuers_are_accepted_each_with_its_own_keys() -> None:
    async with run_issuer() as one, run_issuer() as two:
        issuers = (IssuerSettings(issuer=one.url), IssuerSettings(issuer=two.url, audience=("hub",)))
        server = make_whoami()
        server.oauth = OAuthSettings(public_url=PUBLIC_URL, issuers=issuers)
        async with run_server(server) as running:
            protected = ProtectedSite(running.site, one, server)
            assert await protected.whoami(one.sign(aud=AUDIENCE, sub="ada")) == f"{one.url}#ada mcp"
            assert await protected.whoami(two.sign(aud="hub", sub="ada")) == f"{two.url}#ada mcp"
            for wrong in (
                one.sign(aud="hub"),
                two.sign(aud=AUDIENCE),
                one.sign(aud=AUDIENCE, iss=two.url),
                two.sign(aud="hub", iss=one.url),
            ):
                assert (await protected.call(authorization=f"Bearer {wrong}")).status == 401
            document = (await running.site.get(WELL_KNOWN)).json
            assert document["authorization_servers"] == [one.url, two.url]


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "https://other.example.com/mcp"},
        {"aud": f"{AUDIENCE}/"},
        {"aud": f"{PUBLIC_URL}.evil.example/mcp"},
        {"aud": f"{PUBLIC_URL}/health"},
        {"aud": []},
        {"aud": None},
        {"exp": time.time() - 60},
        {"exp": None},
        {"nbf": time.time() + 3600},
        {"iat": time.time() + 3600},
        {"sub": "key:ci"},
        {"cnf": {"x5t#S256": "abc"}},
        {"cnf": {"jkt": 1}},
    ],
)
async def test_a_token_that_is_not_for_this_server_or_this_time_is_refused(changes: dict[str, Any]) -> None:
    async with run_protected() as protected:
        token = protected.issuer.sign(**{"aud": AUDIENCE} | changes)
        response = await protected.call(authorization=f"Bearer {token}")
        assert response.status == 401
        assert parse_challenge(response)[1]["error"] == "invalid_token"


@pytest.mark.parametrize("seconds", [-20, 20])
async def test_clocks_may_differ_a_little(seconds: float) -> None:
    async with run_protected() as protected:
        now = time.time() + seconds
        token = protected.issuer.sign(aud=AUDIENCE, iat=now, nbf=now, exp=now + 10)
        assert await protected.whoami(token) == "alice mcp"


@pytest.mark.parametrize("audience", [AUDIENCE, PUBLIC_URL, f"{PUBLIC_URL}/", ["other", AUDIENCE]])
async def test_a_token_for_the_server_works_at_every_endpoint(audience: object) -> None:
    async with run_protected(make_site_with_views()) as protected:
        token = protected.issuer.sign(aud=audience)
        for path in ("/mcp", "/mcp/docs"):
            assert await protected.whoami(token, path=path) == "alice mcp"


async def test_a_token_for_a_view_works_only_there() -> None:
    async with run_protected(make_site_with_views()) as protected:
        token = protected.issuer.sign(aud=f"{PUBLIC_URL}/mcp/docs")
        for _ in range(2):  # the second time, the token is known
            assert await protected.whoami(token, path="/mcp/docs") == "alice mcp"
            for path in ("/mcp", "/mcp/other"):
                response = await protected.call(path=path, authorization=f"Bearer {token}")
                assert response.status == 401
                assert parse_challenge(response)[1]["error"] == "invalid_token"


def make_site_with_views() -> Server:
    server = make_whoami()
    server.views = {"docs": make_whoami(), "other": make_whoami()}
    return server


async def test_required_scopes_are_named_with_those_that_the_token_has() -> None:
    async with run_protected(required_scopes=("mcp", "mcp:read")) as protected:
        token = protected.issuer.sign(aud=AUDIENCE, scope="mcp profile")
        for _ in range(2):
            response = await protected.call(authorization=f"Bearer {token}")
            assert response.status == 403
            scheme, parameters = parse_challenge(response)
            assert (scheme, parameters["error"]) == ("Bearer", "insufficient_scope")
            assert parameters["scope"] == "mcp mcp:read profile"
            assert parameters["resource_metadata"] == METADATA_URL
        better = protected.issuer.sign(aud=AUDIENCE, scope="mcp mcp:read")
        assert await protected.whoami(better) == "alice mcp mcp:read"


async def test_the_flags_for_one_issuer_get_metadata_with_a_public_url(tmp_path: Path) -> None:

    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(RSA))
    server = make_whoami()
    server.oauth = OAuthSettings(public_url=PUBLIC_URL)
    now = time.time()
    claims = {"iss": "https://issuer.example", "sub": "ada", "exp": now + 60, "aud": AUDIENCE}
    async with run_server(server, jwt_keys=str(keys), jwt_issuer="https://issuer.example") as running:
        assert (await running.site.get(WELL_KNOWN)).json["authorization_servers"] == ["https://issuer.example"]
        for audience, status in ((AUDIENCE, 200), ("mcp", 401)):
            token = sign(claims | {"aud": audience})
            message = {"jsonrpc": "2.0", "id": 1, "method": "whoami"}
            response = await running.site.post(message, {"Authorization": f"Bearer {token}"})
            assert response.status == status


# -- faults -----------------------------------------------------------------------------


async def test_rotated_keys_are_found_again_but_not_at_every_token() -> None:
    now = 0.0
    async with run_issuer() as issuer:
        keys = FetchedKeys(
            issuer.url, Issuer(issuer.url, lambda: NO_RULES).fetch_keys, read_key_set, monotonic=lambda: now
        )
        assert await keys.find("one", "ES256") is not None
        issuer.keys = {"two": JwtSigningKey.generate()}
        issuer.metadata["jwks_uri"] = f"{issuer.url}/jwks?new"
        assert await keys.find("two", "ES256") is None
        assert len(issuer.paths) == 2
        now += bounds.PUBLIC_KEY_FETCH_INTERVAL_S
        assert await keys.find("two", "ES256") is not None
        assert await keys.find("one", "ES256") is None
        assert issuer.paths[-1] == "/jwks?new"


async def test_metadata_of_another_issuer_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with run_protected() as protected:
        protected.issuer.metadata["issuer"] = f"{protected.issuer.url}/"
        response = await protected.call(authorization=f"Bearer {protected.issuer.sign(aud=AUDIENCE)}")
        assert response.status == 503
        assert response.header("retry-after") == "30"
        assert "exactly" in caplog.records[-1].__dict__.get("reason", "") or "jwks_not_fetched" in caplog.text


@pytest.mark.parametrize(
    "jwks_uri", ["http://10.0.0.1/jwks", "http://jwks.example/jwks", "file:///etc/passwd", "", None, 7]
)
async def test_keys_at_an_address_that_the_issuer_must_not_name_are_not_fetched(jwks_uri: object) -> None:
    async with run_protected() as protected:
        protected.issuer.metadata["jwks_uri"] = jwks_uri
        response = await protected.call(authorization=f"Bearer {protected.issuer.sign(aud=AUDIENCE)}")
        assert response.status == 503
        assert "/jwks" not in protected.issuer.paths


async def test_an_issuer_with_a_public_name_may_be_in_the_local_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = issue_trusted(tmp_path, monkeypatch, "login.example.com")
    resolve_to_loopback(monkeypatch)
    async with run_protected(tls=tls, issuer_host="login.example.com") as protected:
        assert await protected.whoami(protected.issuer.sign(aud=AUDIENCE)) == "alice mcp"
        assert "/jwks" in protected.issuer.paths


async def test_a_public_issuer_cannot_name_an_address_of_this_machine() -> None:
    async with run_issuer() as local:
        public = Issuer("https://login.example.com", lambda: NO_RULES)
        with pytest.raises(HubbubError, match="127"):
            await public.fetch(f"{local.url}/jwks", is_configured=False)
        assert local.paths == []
        assert b"keys" in await public.fetch(f"{local.url}/jwks", is_configured=True)


@pytest.mark.parametrize("is_hanging", [False, True])
async def test_while_an_issuer_is_down_its_tokens_cannot_be_checked(is_hanging: bool) -> None:
    async with run_protected() as protected:
        protected.issuer.status = 500
        protected.issuer.hangs = is_hanging
        calling = asyncio.create_task(protected.call(authorization=f"Bearer {protected.issuer.sign(aud=AUDIENCE)}"))
        while not protected.issuer.requests:
            await asyncio.sleep(0)
        if is_hanging:
            advance_clock(bounds.PUBLIC_KEY_FETCH_TIMEOUT_S)
        response = await calling
        assert response.status == 503
        assert "try again" in response.json["error"]["message"]


# -- settings ---------------------------------------------------------------------------


def test_issuers_that_the_egress_rules_forbid_are_refused_at_the_start() -> None:
    server = make_whoami()
    server.egress = EgressRules.parse(("allowed.example",))
    server.oauth = OAuthSettings(public_url=PUBLIC_URL, issuers=(IssuerSettings(issuer="https://forbidden.example"),))
    with pytest.raises(SettingsError, match=r"oauth\.issuers: .*forbidden\.example"):
        HttpApp(server, ServeSettings())


def test_an_issuer_cannot_be_configured_twice(tmp_path: Path) -> None:

    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(RSA))
    server = make_whoami()
    server.oauth = OAuthSettings(public_url=PUBLIC_URL, issuers=(IssuerSettings(issuer="https://a.example"),))
    with pytest.raises(SettingsError, match="jwt_issuer"):
        HttpApp(server, ServeSettings(jwt_keys=str(keys), jwt_issuer="https://a.example"))
