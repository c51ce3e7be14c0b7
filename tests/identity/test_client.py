"""Our client logs in at real authorization servers, for a server in another process that accepts their tokens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import REDIRECT_URI, ProviderProcess

from hubbub import (
    AuthorizationFailed,
    Client,
    Credentials,
    MemoryCredentialStore,
    OAuth,
    OAuthError,
    ServerConfig,
    TokenRequestRefused,
)
from hubbub.oauth.client.oauth_client import OAuthClient

SCOPE = "mcp:tools notes:read"


@pytest.fixture(scope="module")
def oidc_site(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """A server whose metadata names `oidc-provider`."""
    with protect_notes(
        tmp_path_factory.mktemp("oidc"), oidc_provider, oauth={"step_up_scopes": ["notes:write"]}
    ) as site:
        yield site


@pytest.fixture(scope="module")
def authlib_site(
    authlib_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProtectedSite]:
    """A server whose metadata names authlib's authorization server."""
    folder = tmp_path_factory.mktemp("authlib")
    with protect_notes(folder, authlib_provider, oauth={"step_up_scopes": ["notes:write"]}) as site:
        yield site


@pytest.fixture(params=["oidc_provider", "authlib_provider"])
def pair(request: pytest.FixtureRequest) -> tuple[ProviderProcess, ProtectedSite]:
    """Each provider in turn, with the server that accepts its tokens."""
    site = {"oidc_provider": "oidc_site", "authlib_provider": "authlib_site"}[request.param]
    return request.getfixturevalue(request.param), request.getfixturevalue(site)


def browse(provider: ProviderProcess, person: str = "alice") -> Callable[[str], Awaitable[str]]:
    """A redirect function: the person logs in at the provider in a browser that keeps its cookies."""
    browser = provider.new_browser()

    async def log_in(authorization_url: str) -> str:
        page = await asyncio.to_thread(browser.log_in, authorization_url, person, stop_at=REDIRECT_URI)
        return page.url

    return log_in


async def only_credentials(store: MemoryCredentialStore) -> Credentials:
    (key,) = await store.list()
    found = await store.load(key)
    assert found is not None
    return found


def notes(site: ProtectedSite, oauth: OAuth) -> ServerConfig:
    return ServerConfig(id="notes", transport="streamable_http", url=site.url, auth=oauth)


async def call_whoami(site: ProtectedSite, oauth: OAuth) -> Any:
    async with Client(notes(site, oauth)) as client:
        return (await client.call_tool("whoami")).structured_content


# -- a person logs in ---------------------------------------------------------------------


async def test_an_unregistered_client_registers_and_logs_in(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    store = MemoryCredentialStore()
    found = await call_whoami(site, OAuth(scope=SCOPE, redirect_handler=browse(provider), store=store))
    assert "alice" in found["name"]
    kept = await only_credentials(store)
    assert kept.registration.source == "dynamic"
    assert kept.issuer == provider.issuer


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_registered_client_logs_in(
    pair: tuple[ProviderProcess, ProtectedSite], method: Literal["client_secret_basic", "client_secret_post"]
) -> None:
    provider, site = pair
    client = provider.register(REDIRECT_URI, token_endpoint_auth_method=method)
    oauth = OAuth(
        client_id=client["client_id"],
        client_secret=client["client_secret"],
        token_endpoint_auth_method=method,
        scope=SCOPE,
        redirect_handler=browse(provider, "bob"),
        redirect_uri=REDIRECT_URI,
    )
    assert "bob" in (await call_whoami(site, oauth))["name"]


async def test_a_wrong_secret_is_an_error_that_does_not_show_it(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    client = provider.register(REDIRECT_URI)
    oauth = OAuth(
        client_id=client["client_id"],
        client_secret="not-the-secret-of-it",
        redirect_handler=browse(provider),
        redirect_uri=REDIRECT_URI,
    )
    with pytest.raises(TokenRequestRefused) as caught:
        await call_whoami(site, oauth)
    assert "invalid_client" in str(caught.value)
    assert "not-the-secret" not in str(caught.value)


async def expire(store: MemoryCredentialStore) -> None:
    """Make the stored access token look as if it had expired."""
    (key,) = await store.list()
    kept = await store.load(key)
    assert kept is not None
    await store.save(key, msgspec.structs.replace(kept, expires_at=kept.obtained_at))


async def test_refresh_tokens_are_rotated(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    store = MemoryCredentialStore()
    first = await call_whoami(site, OAuth(scope=SCOPE, redirect_handler=browse(provider), store=store))
    tokens = [(await only_credentials(store)).refresh_token]
    for _ in range(2):
        await expire(store)
        # It cannot log in again, so the tokens are refreshed.
        assert await call_whoami(site, OAuth(scope=SCOPE, store=store)) == first
        tokens.append((await only_credentials(store)).refresh_token)
    assert len(set(tokens)) == 3


async def test_concurrent_calls_share_one_refresh(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    store = MemoryCredentialStore()
    await call_whoami(site, OAuth(scope=SCOPE, redirect_handler=browse(provider), store=store))
    await expire(store)
    # A second use of the same refresh token would be refused, and revoke the others.
    async with Client(notes(site, OAuth(scope=SCOPE, store=store))) as connected:
        results = await asyncio.gather(*(connected.call_tool("whoami") for _ in range(8)))
    assert len(results) == 8
    await expire(store)
    assert await call_whoami(site, OAuth(scope=SCOPE, store=store))


async def test_a_call_that_needs_more_obtains_more(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    store = MemoryCredentialStore()
    oauth = OAuth(scope=SCOPE, redirect_handler=browse(provider), store=store)
    async with Client(notes(site, oauth)) as connected:
        assert "notes:write" not in (await only_credentials(store)).scopes
        result = await connected.call_tool("write_note", {"text": "milk"})
        assert result.text == "written: milk"
        assert {*SCOPE.split(), "notes:write"} <= set((await only_credentials(store)).scopes)


async def test_a_declined_login_is_an_error(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    browser = provider.new_browser()

    async def refuse(authorization_url: str) -> str:
        return await asyncio.to_thread(browser.refuse, authorization_url, "alice", stop_at=REDIRECT_URI)

    with pytest.raises(AuthorizationFailed, match="access_denied"):
        await call_whoami(site, OAuth(scope=SCOPE, redirect_handler=refuse))


async def test_revoked_tokens_cannot_be_refreshed(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    store = MemoryCredentialStore()
    oauth = OAuth(scope=SCOPE, redirect_handler=browse(provider), store=store)
    await call_whoami(site, oauth)
    kept = await only_credentials(store)
    client = OAuthClient(site.url, oauth)
    assert await client.revoke(kept)
    with pytest.raises(TokenRequestRefused, match="invalid_grant"):
        await client.refresh(kept)


# -- programs -----------------------------------------------------------------------------


async def test_a_program_uses_its_secret(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    client = provider.register()
    oauth = OAuth(
        grant="client_credentials", client_id=client["client_id"], client_secret=client["client_secret"], scope=SCOPE
    )
    assert (await call_whoami(site, oauth))["scopes"] == SCOPE.split()


async def test_a_program_signs_with_its_key(pair: tuple[ProviderProcess, ProtectedSite]) -> None:
    provider, site = pair
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = ECKey.import_key(pem).as_dict(private=False, kid="ours", use="sig", alg="ES256")
    client = provider.register(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [public]})
    oauth = OAuth(
        grant="client_credentials",
        client_id=client["client_id"],
        private_key=pem.decode(),
        private_key_id="ours",
        scope=SCOPE,
    )
    assert (await call_whoami(site, oauth))["scopes"] == SCOPE.split()


# -- DPoP ---------------------------------------------------------------------------------


@pytest.mark.parametrize("needs_nonce", [False, True])
async def test_tokens_are_bound_to_a_key(
    oidc_provider: ProviderProcess, oidc_site: ProtectedSite, needs_nonce: bool
) -> None:
    client = oidc_provider.register(REDIRECT_URI, dpop_bound_access_tokens=True, require_dpop_nonce=needs_nonce)
    store = MemoryCredentialStore()
    oauth = OAuth(
        client_id=client["client_id"],
        client_secret=client["client_secret"],
        scope=SCOPE,
        redirect_handler=browse(oidc_provider),
        redirect_uri=REDIRECT_URI,
        dpop="require",
        store=store,
    )
    assert "alice" in (await call_whoami(oidc_site, oauth))["name"]
    kept = await only_credentials(store)
    assert kept.token_type == "DPoP"
    stolen = await oidc_site.request(kept.access_token)
    assert stolen.status == 401


async def test_a_provider_without_dpop_is_named_if_it_is_required(
    authlib_provider: ProviderProcess, authlib_site: ProtectedSite
) -> None:
    oauth = OAuth(scope=SCOPE, redirect_handler=browse(authlib_provider), dpop="require")
    with pytest.raises(OAuthError, match="DPoP"):
        await call_whoami(authlib_site, oauth)
