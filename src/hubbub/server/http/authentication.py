"""Build the gate and authenticators of an HTTP server from its settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from hubbub.errors import SettingsError
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.ports import HttpExchange, Sealer, TenantDirectory
from hubbub.protocol.http_headers import RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import CHALLENGE, Authenticator, EdgeSettings, Gate
from hubbub.security.key_usage import KeyUsage
from hubbub.security.sealer import load_or_create_key, read_key
from hubbub.security.tenant_identity import TenantIdentity, derive_fingerprint_key
from hubbub.server.http.post import ChallengeScopes
from hubbub.server.public_routes import Identification, IdentifiesPeople, PublicRoute
from hubbub.server.responses import respond_refusal
from hubbub.server.server import Server
from hubbub.settings import ServeSettings

if TYPE_CHECKING:
    from hubbub.oauth.front_door.front_door import FrontDoor
    from hubbub.oauth.resource_server.authenticator import AccessTokens
    from hubbub.oauth.resource_server.resource import ProtectedResource
    from hubbub.protocol.calls import Principal
    from hubbub.security.api_keys import ApiKeys
    from hubbub.security.jwks import Fetch
    from hubbub.security.jwt import JwtSettings
    from hubbub.security.verified_tokens import OpaqueTokenVerifier, TokenVerifier
    from hubbub.settings.governance import SecretSource
    from hubbub.settings.oauth import IssuerSettings, OAuthSettings


class Authentication(NamedTuple):
    """The gate of a server, and what else follows from the settings of authentication."""

    gate: Gate
    allowed_origins: tuple[str, ...]
    challenge_scopes: ChallengeScopes | None = None
    """None if callers cannot get more scopes."""
    front_door: FrontDoor | None = None
    """None if the server is not an authorization server."""


def make_authentication(
    settings: ServeSettings, server: Server, key_usage: KeyUsage | None, sealer: Sealer
) -> Authentication:
    """Make the gate, and the public routes of what it needs.

    Raises: SettingsError, if unauthenticated callers on the network could call, or callers would have no tenant.
    """
    identity = _make_identity(settings, server.tenants)
    authenticators: list[Authenticator] = []
    api_keys = None
    if settings.key_file is not None:
        from hubbub.security.api_keys import ApiKeys

        api_keys = ApiKeys(Path(settings.key_file), identity=identity, usage=key_usage)
        authenticators.append(api_keys)
    oauth, challenge, challenge_scopes, front_door = server.oauth, _usual_challenge, None, None
    if oauth is not None and oauth.public_url and (oauth.accepts_tokens or settings.jwt_keys is not None):
        resource = _make_resource(oauth, settings, server)
        if oauth.has_front_door:
            from hubbub.server.http.front_door import make_front_door

            front_door = make_front_door(
                server,
                oauth,
                sealer=sealer,
                identity=identity,
                api_keys=api_keys,
                match_audience=resource.match_audience,
            )
        tokens = _make_access_tokens(oauth, settings, server, resource, identity, front_door)
        authenticators.append(tokens)
        challenge, challenge_scopes = partial(_resource_challenge, resource), tokens.challenge_scopes
    elif settings.jwt_keys is not None:
        from hubbub.security.jwt import make_token_authenticator

        authenticators.append(make_token_authenticator(_jwt_settings(settings, server), _make_fetch(server), identity))
    if isinstance(server, IdentifiesPeople):
        server.identify_key = None if api_keys is None else api_keys.identify
        server.person_login = front_door
        server.identification = partial(_find_identification, server, settings, api_keys, front_door, identity)
    public = urlsplit("" if oauth is None else oauth.public_url)
    public_origins = (f"{public.scheme}://{public.netloc}",) if public.netloc else ()
    allowed_origins = (*settings.allowed_origins, *public_origins)
    edge = EdgeSettings(
        bind_host=settings.bind_host,
        allowed_hosts=(*settings.allowed_hosts, *((public.hostname,) if public.hostname else ())),
        allowed_origins=allowed_origins,
        insecure=settings.insecure,
        requires_client_certificate=settings.tls_client_ca_file is not None,
    )
    gate = Gate(edge, authenticators, identity=identity, challenge=challenge)
    return Authentication(gate, allowed_origins, challenge_scopes, front_door)


async def check_secrets(settings: OAuthSettings) -> None:
    """Read each secret of `[oauth]` once at the start, so that no login fails because of it later.

    Raises: SettingsError, which names the setting and what is wrong, without the value.
    """
    from hubbub.governance.secret_sources import SourceFailed, read_source

    for name, source in _find_secret_sources(settings):
        try:
            await read_source(source)
        except SourceFailed as error:
            raise SettingsError(f"{name} ({source.source_kind}) cannot be read: {error.message}") from None


def _find_secret_sources(settings: OAuthSettings) -> Iterator[tuple[str, SecretSource]]:
    if settings.provider is not None and settings.provider.client_secret is not None:
        yield "oauth.provider.client_secret", settings.provider.client_secret
    for index, issuer in enumerate(settings.issuers):
        if issuer.introspection is not None:
            yield f"oauth.issuers[{index}].introspection.client_secret", issuer.introspection.client_secret
    for index, client in enumerate(settings.clients):
        if client.client_secret is not None:
            yield f"oauth.clients[{index}].client_secret", client.client_secret


def _find_identification(
    server: Server,
    settings: ServeSettings,
    api_keys: ApiKeys | None,
    front_door: FrontDoor | None,
    identity: TenantIdentity | None,
    principal: Principal,
) -> Identification:
    """Return how the person who calls as this principal can be identified: with the credential of the call."""
    if api_keys is not None and api_keys.is_current(principal.name):
        return "key"
    if front_door is None:
        return "none"
    issuers = [] if server.oauth is None else [one.issuer for one in server.oauth.issuers]
    if settings.jwt_keys is not None:
        issuers.append(settings.jwt_issuer)
    # With tenants, a login at this server names tenant and user, whichever authorization server issued the token.
    is_of_others = identity is None and any(principal.name.startswith(f"{issuer}#") for issuer in issuers)
    return "none" if is_of_others else "login"


def _usual_challenge(target: RequestTarget) -> bytes:
    return CHALLENGE


def _resource_challenge(resource: ProtectedResource, target: RequestTarget) -> bytes:
    return resource.challenge(target.path)


def _make_identity(settings: ServeSettings, tenants: TenantDirectory | None) -> TenantIdentity | None:
    if tenants is None:
        return None
    file = settings.sealing_key_file
    key = load_or_create_key() if file is None else read_key(Path(file), "sealing_key_file")
    return TenantIdentity(tenants, derive_fingerprint_key(key))


def _jwt_settings(settings: ServeSettings, server: Server) -> JwtSettings:
    """Raises: SettingsError, if the rules for connections do not allow the URL of the keys."""
    from hubbub.security.jwt import JwtSettings
    from hubbub.security.token_claims import ClaimMapping

    assert settings.jwt_keys is not None
    if settings.jwt_keys.startswith(("https://", "http://")):
        _check_url(server, settings.jwt_keys, "jwt_keys")
    return JwtSettings(
        keys=settings.jwt_keys,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        claims=ClaimMapping(
            tenant=settings.jwt_tenant_claim,
            user=settings.jwt_user_claim,
            scopes=settings.jwt_scope_claims,
            name_prefix=_name_prefix(server, settings.jwt_issuer, has_jwt_keys=True),
        ),
    )


def _check_url(server: Server, url: str, name: str) -> None:
    """Raises: SettingsError."""
    try:
        _egress_rules(server).check_url(url)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error.message}") from None


def _egress_rules(server: Server) -> EgressRules:
    """Read for each request, because the rules may change while the server runs."""
    return server.egress or NO_RULES


def _make_fetch(server: Server) -> Fetch:
    from hubbub.net.fetch import fetch

    return lambda url: fetch(url, _egress_rules(server))


# -- the server as an OAuth resource server -----------------------------------------


def _make_resource(oauth: OAuthSettings, settings: ServeSettings, server: Server) -> ProtectedResource:
    """Make the endpoints of a server as protected resources, and add the routes of their metadata."""
    from hubbub.oauth.metadata import RESOURCE_METADATA_PATH
    from hubbub.oauth.resource_server.resource import ProtectedResource

    authorization_servers = [one.issuer for one in oauth.issuers]
    if settings.jwt_keys is not None and settings.jwt_issuer.startswith("https://"):
        authorization_servers.append(settings.jwt_issuer)
    if oauth.has_front_door:
        authorization_servers.insert(0, oauth.public_url)
    resource = ProtectedResource(oauth, name=server.info.name, authorization_servers=authorization_servers)
    route = PublicRoute({"GET": partial(_serve_metadata, resource)}, any_origin=True)
    server.public_routes |= {RESOURCE_METADATA_PATH: route, f"{RESOURCE_METADATA_PATH}/": route}
    return resource


def _make_access_tokens(
    oauth: OAuthSettings,
    settings: ServeSettings,
    server: Server,
    resource: ProtectedResource,
    identity: TenantIdentity | None,
    front_door: FrontDoor | None,
) -> AccessTokens:
    from hubbub.oauth.resource_server.authenticator import AccessTokens
    from hubbub.security.jwt import JwtVerifier, make_key_source

    jwt_verifiers: dict[str, TokenVerifier] = {}
    opaque_verifiers: list[OpaqueTokenVerifier] = []
    if settings.jwt_keys is not None:
        if not settings.jwt_issuer:
            raise SettingsError("jwt_keys needs another setting: jwt_issuer (`iss` of the tokens)")
        jwt = _jwt_settings(settings, server)
        keys = make_key_source(jwt, _make_fetch(server))
        jwt_verifiers[jwt.issuer] = JwtVerifier(jwt, keys, identity=identity, match_audience=resource.match_audience)
    for one in oauth.issuers:
        if one.issuer in jwt_verifiers:
            raise SettingsError(f"oauth.issuers: {one.issuer} is jwt_issuer, too; remove one of them")
        for url in (one.issuer, one.jwks_url, "" if one.introspection is None else one.introspection.endpoint):
            if url:
                _check_url(server, url, "oauth.issuers")
        _add_verifiers(
            one,
            server,
            resource,
            identity,
            jwt_verifiers,
            opaque_verifiers,
            has_jwt_keys=settings.jwt_keys is not None,
        )
    if front_door is not None:
        jwt_verifiers[front_door.tokens.issuer] = front_door.tokens
    return AccessTokens(oauth, resource, jwt_verifiers, opaque_verifiers)


def _add_verifiers(
    settings: IssuerSettings,
    server: Server,
    resource: ProtectedResource,
    identity: TenantIdentity | None,
    jwt_verifiers: dict[str, TokenVerifier],
    opaque_verifiers: list[OpaqueTokenVerifier],
    *,
    has_jwt_keys: bool,
) -> None:
    from hubbub.governance.secret_sources import read_source
    from hubbub.oauth.resource_server.introspection import IntrospectionVerifier
    from hubbub.oauth.resource_server.issuers import Issuer
    from hubbub.security.jose import read_key_set
    from hubbub.security.jwks import FetchedKeys
    from hubbub.security.jwt import JwtSettings, JwtVerifier
    from hubbub.security.token_claims import ClaimMapping

    issuer = Issuer(settings.issuer, partial(_egress_rules, server))
    claims = ClaimMapping(
        tenant=settings.tenant_claim,
        user=settings.user_claim,
        scopes=settings.scope_claims,
        name_prefix=_name_prefix(server, settings.issuer, has_jwt_keys=has_jwt_keys),
    )
    match_audience = (
        partial(_match_configured_audience, settings.audience) if settings.audience else resource.match_audience
    )
    keys = FetchedKeys(settings.jwks_url or settings.issuer, issuer.fetch_keys, read_key_set)
    jwt = JwtSettings(keys=settings.jwks_url, issuer=settings.issuer, audience=(), claims=claims)
    jwt_verifiers[settings.issuer] = JwtVerifier(jwt, keys, identity=identity, match_audience=match_audience)
    if settings.introspection is not None:
        read_secret = partial(read_source, settings.introspection.client_secret)
        opaque_verifiers.append(
            IntrospectionVerifier(
                issuer, settings.introspection, read_secret, match_audience, claims=claims, identity=identity
            )
        )


def _name_prefix(server: Server, issuer: str, *, has_jwt_keys: bool) -> str:
    """Return what the names of an issuer's users begin with: a subject is unique only at its issuer.

    Nothing if there is only one issuer, so that its users are named by their subjects.
    """
    oauth = server.oauth
    others = 0 if oauth is None else len(oauth.issuers) + oauth.has_front_door
    return f"{issuer}#" if others + has_jwt_keys > 1 else ""


def _match_configured_audience(accepted: tuple[str, ...], audience: frozenset[str]) -> None:
    """Raises: InvalidJwt."""
    from hubbub.security.jose import InvalidJwt

    if audience.isdisjoint(accepted):
        raise InvalidJwt("wrong audience")


async def _serve_metadata(resource: ProtectedResource, exchange: HttpExchange) -> None:
    body = resource.find_metadata(exchange.path)
    if body is None:
        await respond_refusal(exchange, Refusal(404, "No protected resource at this path; use /mcp or a view of it"))
        return
    await exchange.respond(200, body)
