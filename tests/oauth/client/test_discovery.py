"""Where the client finds the authorization server, and what it refuses to believe."""

import asyncio
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until
from tests.oauth.client.protected_server import ProtectedServer, protected_server

from hubbub import MetadataError, OAuth, OAuthError, ServerConfig, SettingsError
from hubbub.net.egress_rules import EgressRules, HostPattern
from hubbub.oauth.client.challenges import Challenge, select_challenge
from hubbub.oauth.client.discovery import DiscoveryResult, canonical_url, discover, is_resource_of
from hubbub.oauth.client.oauth_client import OAuthClient
from hubbub.oauth.documents import DocumentClient, egress_for_issuer_urls

PATH_METADATA = "/.well-known/oauth-protected-resource/mcp"
ROOT_METADATA = "/.well-known/oauth-protected-resource"


async def find(server: ProtectedServer, challenge: Challenge | None = None, **fields: Any) -> DiscoveryResult:
    client = OAuthClient(server.url, OAuth(**fields))
    return await client.discover(select_challenge(server.challenge) if challenge is None else challenge)


def reply_with(status: int, body: Any = b"", **headers: str) -> Any:
    async def handle(request: Any) -> None:
        await request.reply(status, body, **headers)

    return handle


async def test_the_url_of_the_challenge_is_asked_first_then_the_path_then_the_root() -> None:
    async with protected_server() as server:
        server.handle["/named"] = reply_with(404)
        server.handle[PATH_METADATA] = reply_with(404)
        server.handle[ROOT_METADATA] = reply_with(200, server.resource)
        found = await find(server, Challenge("bearer", {"resource_metadata": f"{server.origin}/named"}))
        assert server.paths() == [
            "/named",
            PATH_METADATA,
            ROOT_METADATA,
            "/.well-known/oauth-authorization-server",
        ]
    assert found.resource == server.url


async def test_an_issuer_with_a_path_is_asked_in_the_order_of_the_specification() -> None:
    async with protected_server() as server:
        issuer = f"{server.origin}/tenant"
        server.resource["authorization_servers"] = [issuer]
        last = "/tenant/.well-known/openid-configuration"
        server.handle[last] = reply_with(200, {**server.metadata, "issuer": issuer})
        await find(server)
        assert server.paths()[1:] == [
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            last,
        ]


async def test_a_server_of_2025_03_26_has_its_metadata_at_its_own_origin() -> None:
    async with protected_server() as server:
        server.handle[PATH_METADATA] = reply_with(404)
        found = await find(server, Challenge())
    assert (found.issuer, found.resource) == (server.origin, None)
    assert found.token_endpoint == f"{server.origin}/token"


async def test_a_server_of_2025_03_26_without_metadata_has_default_endpoints() -> None:
    async with protected_server() as server:
        server.handle[PATH_METADATA] = reply_with(404)
        server.handle["/.well-known/oauth-authorization-server"] = reply_with(404)
        found = await find(server, Challenge())
    assert found.metadata.authorization_endpoint == f"{server.origin}/authorize"
    assert found.metadata.registration_endpoint == f"{server.origin}/register"


async def test_the_issuer_of_a_server_of_2025_03_26_may_end_with_a_slash() -> None:
    async with protected_server() as server:
        server.handle[PATH_METADATA] = reply_with(404)
        server.metadata["issuer"] += "/"
        found = await find(server, Challenge())
    assert (found.issuer, found.is_guessed) == (f"{server.origin}/", False)


async def test_pages_in_place_of_metadata_are_skipped() -> None:
    async with protected_server() as server:
        page = reply_with(200, b"<!doctype html><title>An app</title>")
        server.handle[PATH_METADATA] = page
        server.handle[ROOT_METADATA] = reply_with(200, server.resource)
        server.handle["/.well-known/oauth-authorization-server"] = page
        server.handle["/.well-known/openid-configuration"] = reply_with(200, server.metadata)
        found = await find(server, Challenge())
        assert found.resource == server.url
        server.handle["/.well-known/openid-configuration"] = page
        with pytest.raises(MetadataError, match="cannot be read"):
            await find(server, Challenge())


async def test_an_authorization_server_that_was_named_must_have_metadata() -> None:
    async with protected_server() as server:
        server.handle["/.well-known/oauth-authorization-server"] = reply_with(404)
        with pytest.raises(MetadataError, match="has no metadata"):
            await find(server)


async def test_malformed_scopes_are_dropped() -> None:
    async with protected_server() as server:
        server.resource["scopes_supported"] = ["read", "a\n  user      root", "b c", 'd"', "", "e\x1b[2J", "x:y"]
        assert (await find(server)).scopes_supported == ("read", "x:y")


@pytest.mark.parametrize("difference", ["//", "/other", ":1"])
async def test_metadata_of_another_issuer_is_refused(difference: str) -> None:
    async with protected_server() as server:
        server.metadata["issuer"] += difference
        with pytest.raises(MetadataError, match="belongs to another one"):
            await find(server)


@pytest.mark.parametrize(("named", "own"), [("", "/"), ("/", "")])
async def test_a_slash_at_the_end_of_an_issuer_is_ignored(named: str, own: str) -> None:
    """As in the metadata of the MCP servers of Google, whose issuer is `https://accounts.google.com`."""
    async with protected_server() as server:
        server.resource["authorization_servers"] = [server.origin + named]
        server.metadata["issuer"] = server.origin + own
        found = await find(server)
        assert (found.issuer, found.resource) == (server.origin + own, server.url)
        assert (await find(server, issuer=server.origin + own)).issuer == server.origin + own
        assert (await find(server, issuer=server.origin + named)).issuer == server.origin + own


async def test_metadata_of_another_resource_is_refused() -> None:
    async with protected_server() as server:
        server.resource["resource"] = "https://evil.example/mcp"
        with pytest.raises(MetadataError, match=r"another resource, https://evil.example/mcp.*use https://evil.ex"):
            await find(server)
        assert server.paths() == [PATH_METADATA]


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/x",
        "ftp://127.0.0.1/x",
        "https://user:pw@login.example/x",
        "x",
        "https://login.example/caf\u00e9",
        "https://login.example/\u001b[2J",
        "https://login.example/" + "x" * 2048,
    ],
)
async def test_endpoints_must_be_https_or_on_this_machine(name: str, url: str) -> None:
    async with protected_server() as server:
        server.metadata[name] = url
        with pytest.raises(MetadataError, match=f"`{name}` of {server.origin} must be an https URL") as caught:
            await find(server)
        assert "pw" not in str(caught.value)


async def test_a_public_server_cannot_send_requests_to_private_addresses() -> None:
    """The server itself is played by this machine; only the policy is that of a public one."""
    async with protected_server() as server, protected_server() as internal:
        documents = DocumentClient(egress_for_issuer_urls(server.url))
        public = DocumentClient(egress_for_issuer_urls("https://notes.example/mcp"))
        server.resource["authorization_servers"] = [internal.origin]
        with pytest.raises(OAuthError, match="cannot be reached"):
            await discover(documents, server.url, Challenge(), issuer_documents=public)
        assert internal.scripted.requests == []
        with pytest.raises(OAuthError, match="cannot be reached"):
            await OAuthClient("https://203.0.113.7/mcp", OAuth()).discover(
                Challenge("bearer", {"resource_metadata": internal.origin + PATH_METADATA})
            )
        assert internal.scripted.requests == []


async def test_the_egress_rules_of_a_server_hold_for_its_authorization_server() -> None:
    async with protected_server() as server, protected_server() as other:
        server.resource["authorization_servers"] = [other.origin]
        rules = EgressRules(allow=(HostPattern.parse(f"127.0.0.1:{server.scripted.port}"),))
        client = OAuthClient(server.url, OAuth(), rules=rules)
        with pytest.raises(OAuthError, match="cannot be reached"):
            await client.discover()
        assert other.scripted.requests == []


async def test_documents_are_not_followed_to_other_addresses() -> None:
    async with protected_server() as server, protected_server() as other:
        server.handle[PATH_METADATA] = reply_with(302, location=f"{other.origin}{PATH_METADATA}")
        await find(server, Challenge())
        assert other.scripted.requests == []


async def test_an_authorization_server_that_is_down_is_named() -> None:
    async with protected_server() as server:
        server.resource["authorization_servers"] = ["http://127.0.0.1:1"]
        with pytest.raises(OAuthError, match=r"http://127.0.0.1:1/.well-known/\S+ cannot be reached: Conn") as caught:
            await find(server)
    assert not caught.value.may_have_executed


async def test_a_failing_authorization_server_is_not_taken_for_one_without_metadata() -> None:
    async with protected_server() as server:
        server.handle["/.well-known/oauth-authorization-server"] = reply_with(503)
        with pytest.raises(OAuthError, match="status 503; try again later"):
            await find(server)


async def test_an_authorization_server_that_hangs_is_given_up() -> None:
    async with protected_server() as server:

        async def hang(request: Any) -> None:
            await asyncio.get_running_loop().create_future()

        server.handle["/.well-known/oauth-authorization-server"] = hang
        finding = asyncio.create_task(find(server))
        await wait_until(lambda: len(server.paths()) == 2)
        advance_clock(30)
        with pytest.raises(OAuthError, match="did not answer within 30 s"):
            await finding


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"issuer": 1}', b"[" * 5000])
async def test_documents_that_cannot_be_read_are_refused(body: bytes) -> None:
    async with protected_server() as server:
        server.handle["/.well-known/oauth-authorization-server"] = reply_with(200, body)
        with pytest.raises(MetadataError, match="cannot be read"):
            await find(server)


async def test_a_configured_issuer_is_the_only_one() -> None:
    async with protected_server() as server:
        server.resource["authorization_servers"] = ["https://evil.example", server.origin]
        assert (await find(server, issuer=server.origin)).issuer == server.origin
        with pytest.raises(MetadataError, match=r"not https://login\.example"):
            await find(server, issuer="https://login.example")


@pytest.mark.parametrize(
    ("resource", "is_own"),
    [
        ("https://h.example/a/b", True),
        ("https://h.example/a", True),
        ("https://h.example/a/", True),
        ("https://h.example", True),
        ("https://H.example:443/a", True),
        ("https://h.example/a/b/c", False),
        ("https://h.example/a/bb", False),
        ("https://h.example/aa", False),
        ("http://h.example/a", False),
        ("https://h.example:8443/a", False),
        ("https://h.example.evil/a", False),
        ("https://h.example/a#x", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_a_resource_is_the_server_or_a_path_above_it(resource: str, is_own: bool) -> None:
    assert is_resource_of(resource, "https://h.example/a/b") is is_own


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTPS://H.example:443/", "https://h.example"),
        ("http://h.example:8080/mcp?token=x#y", "http://h.example:8080/mcp"),
        ("https://[2001:db8::1]/mcp/", "https://[2001:db8::1]/mcp/"),
    ],
)
def test_the_identifier_of_a_server_has_no_query(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical


def test_a_config_with_oauth_must_be_remote() -> None:
    with pytest.raises(SettingsError, match="`auth` cannot be used with the transport stdio"):
        ServerConfig(id="s", command="x", auth=OAuth())
    with pytest.raises(SettingsError, match="Authorization"):
        ServerConfig(
            id="s", transport="http", url="https://h.example", auth=OAuth(), headers={"authorization": "Bearer x"}
        )
    with pytest.raises(SettingsError, match="`auth` must be an OAuth, not str"):
        ServerConfig(id="s", transport="http", url="https://h.example", auth="token")  # type: ignore[arg-type]
