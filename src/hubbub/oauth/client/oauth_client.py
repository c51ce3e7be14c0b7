"""Obtains, refreshes and revokes the tokens for one MCP server; `hubbub.oauth.client.authorizer` stores them."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hubbub.errors import SecretUnavailable
from hubbub.net.egress import EgressPolicy
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.client.challenges import Challenge
from hubbub.oauth.client.credentials import ClientRegistration, CredentialKey, Credentials
from hubbub.oauth.client.discovery import DiscoveryResult, canonical_url, discover
from hubbub.oauth.client.dpop import DpopKey
from hubbub.oauth.client.login import (
    PendingLogin,
    check_login_support,
    make_authorization_url,
    new_code_verifier,
    new_state,
    read_redirect,
    select_scopes,
)
from hubbub.oauth.client.machine_grants import Reveal, request_tokens
from hubbub.oauth.client.registration import register_client
from hubbub.oauth.client.settings import OAuth
from hubbub.oauth.client.tokens import TokenEndpoint, TokenResponse
from hubbub.oauth.documents import DocumentClient, egress_for_issuer_urls
from hubbub.oauth.errors import AuthorizationFailed, OAuthError, TokenRequestRefused
from hubbub.oauth.metadata import show_url, valid_scopes
from hubbub.ports import SecretResolver
from hubbub.security.jose import JwtSigningKey
from hubbub.settings.secret import Secret, SecretTemplate

NO_CHALLENGE = Challenge()


async def reveal_secret(secret: Secret) -> str:
    """Default for `reveal`: secrets are not references."""
    return secret.reveal()


async def resolve_secret(secret: Secret, resolver: SecretResolver | None, tenant: str | None = None) -> str:
    """Reveal a secret, with the references that it contains resolved for a tenant.

    Raises: SecretUnavailable.
    """
    if not isinstance(secret, SecretTemplate):
        return secret.reveal()
    if resolver is None:
        name = secret.names[0]
        raise SecretUnavailable(f"The secret {name!r} is not configured; add [secrets.{name}]", name)
    return secret.fill({name: (await resolver.resolve(name, tenant)).reveal() for name in secret.names})


class OAuthClient:
    """The OAuth client of one MCP server."""

    def __init__(
        self,
        server_url: str,
        settings: OAuth,
        *,
        rules: EgressRules | None = None,
        allow_private_network: bool | None = None,
        reveal: Reveal = reveal_secret,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`rules`, `allow_private_network`: as in the `ServerConfig`. `reveal` resolves references to secrets."""
        self.settings = settings
        self.server_url = server_url
        self.resource = canonical_url(server_url)
        self.clock = clock
        self._reveal = reveal
        self.rules = rules or NO_RULES
        self._allows_private_issuer = allow_private_network or None
        policy = egress_for_issuer_urls(server_url, allow_private_network)
        self._documents = DocumentClient(policy, self.rules)
        self._issuer_documents = self._documents_of(settings.issuer) if settings.issuer else self._documents

    def key(self, issuer: str) -> CredentialKey:
        """Return the key of the credentials of an issuer."""
        return CredentialKey(issuer, self.resource, self.settings.principal)

    async def discover(self, challenge: Challenge = NO_CHALLENGE, *, issuer: str | None = None) -> DiscoveryResult:
        """Find the authorization server; `issuer`: the only one to which the configured credentials may be sent.

        Raises: OAuthError.
        """
        return await discover(
            self._documents,
            self.server_url,
            challenge,
            issuer=self.settings.issuer or issuer,
            issuer_documents=self._issuer_documents,
        )

    # -- a person logs in ----------------------------------------------------------------

    async def begin_login(
        self,
        redirect_uri: str,
        challenge: Challenge = NO_CHALLENGE,
        *,
        discovered: DiscoveryResult | None = None,
        more_scopes: tuple[str, ...] = (),
        previous: ClientRegistration | None = None,
    ) -> tuple[str, PendingLogin]:
        """Return the URL that the person has to open, and what `finish_login` needs; keep that secret.

        `more_scopes` are requested too: those that were granted before. `previous`: the stored registration at
        this issuer.

        Raises: OAuthError.
        """
        found = discovered or await self.discover(challenge)
        quirks = self.settings.quirks_of(found.issuer)
        endpoint = check_login_support(found, quirks)
        selected = select_scopes(self.settings.scope, challenge, found)
        scopes = tuple(dict.fromkeys((*more_scopes, *selected)))
        registration = await self._register(found, redirect_uri, scopes, previous)
        dpop_key = self._new_dpop_key(found)
        pending = PendingLogin(
            server_url=self.server_url,
            principal=self.settings.principal,
            issuer=found.issuer,
            requires_issuer=found.metadata.authorization_response_iss_parameter_supported is True,
            registration=registration,
            redirect_uri=redirect_uri,
            state=new_state(),
            code_verifier=new_code_verifier(),
            token_endpoint=found.token_endpoint,
            revocation_endpoint=found.metadata.revocation_endpoint,
            auth_methods=found.metadata.token_endpoint_auth_methods_supported or (),
            resource=None if quirks.omit_resource else found.resource,
            scopes=scopes,
            dpop_key=None if dpop_key is None else dpop_key.to_pem().decode(),
            created_at=self.clock(),
        )
        url = make_authorization_url(endpoint, pending, quirks, "" if dpop_key is None else dpop_key.thumbprint)
        return url, pending

    async def finish_login(self, pending: PendingLogin, redirect: str) -> Credentials:
        """Return the tokens for a redirect: its URL, or only the query.

        Raises: OAuthError.
        """
        code = read_redirect(pending, redirect, self.clock())
        base = Credentials(
            issuer=pending.issuer,
            registration=pending.registration,
            access_token="",
            scopes=pending.scopes,
            requested_scopes=pending.scopes,
            resource=pending.resource,
            token_endpoint=pending.token_endpoint,
            revocation_endpoint=pending.revocation_endpoint,
            auth_methods=pending.auth_methods,
            dpop_key=pending.dpop_key,
        )
        endpoint = await self._endpoint_of(base)
        token = await endpoint.request(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": pending.redirect_uri,
                "code_verifier": pending.code_verifier,
                "resource": pending.resource,
            }
        )
        return self._with_tokens(base, token)

    # -- without a person ------------------------------------------------------------------

    async def request_tokens(
        self,
        challenge: Challenge = NO_CHALLENGE,
        *,
        discovered: DiscoveryResult | None = None,
        more_scopes: tuple[str, ...] = (),
    ) -> Credentials:
        """Obtain tokens with a grant that needs no person.

        Raises: OAuthError.
        """
        found = discovered or await self.discover(challenge)
        dpop_key = self._new_dpop_key(found)
        selected = select_scopes(self.settings.scope, challenge, found)
        quirks = self.settings.quirks_of(found.issuer)
        base = Credentials(
            issuer=found.issuer,
            registration=ClientRegistration(client_id=self.settings.client_id or ""),
            access_token="",
            scopes=tuple(dict.fromkeys((*more_scopes, *selected))),
            resource=None if quirks.omit_resource else found.resource,
            token_endpoint=found.token_endpoint,
            revocation_endpoint=found.metadata.revocation_endpoint,
            auth_methods=found.metadata.token_endpoint_auth_methods_supported or (),
            dpop_key=None if dpop_key is None else dpop_key.to_pem().decode(),
        )
        provider = self.settings.identity_provider
        token = await request_tokens(
            self.settings,
            await self._endpoint_of(base),
            found,
            base.scopes,
            resource=base.resource,
            reveal=self._reveal,
            identity_documents=self._documents_of(provider.token_endpoint or provider.issuer)
            if provider
            else self._documents,
        )
        return self._with_tokens(base, token)

    # -- tokens that exist -----------------------------------------------------------------

    async def refresh(self, credentials: Credentials) -> Credentials:
        """Exchange the refresh token for new tokens.

        Raises:
            TokenRequestRefused: it is not valid any more.
            OAuthError: the authorization server cannot be reached.
        """
        endpoint = await self._endpoint_of(credentials)
        token = await endpoint.request(
            {
                "grant_type": "refresh_token",
                "refresh_token": credentials.refresh_token,
                "resource": credentials.resource,
            }
        )
        return self._with_tokens(credentials, token)

    async def revoke(self, credentials: Credentials) -> bool:
        """Revoke the tokens; return whether the authorization server revoked any.

        Raises: OAuthError.
        """
        if credentials.revocation_endpoint is None:
            return False
        endpoint = await self._endpoint_of(credentials)
        # The refresh token first, because most servers revoke the access tokens with it.
        if credentials.refresh_token is not None:
            await endpoint.revoke(credentials.revocation_endpoint, credentials.refresh_token, "refresh_token")
        try:
            await endpoint.revoke(credentials.revocation_endpoint, credentials.access_token, "access_token")
        except TokenRequestRefused as error:
            # Servers that issue JWTs revoke only refresh tokens (RFC 7009, 2.2.1).
            if error.code != "unsupported_token_type":
                raise
            return credentials.refresh_token is not None
        return True

    def dpop_key(self, credentials: Credentials) -> DpopKey | None:
        """Return the key that the tokens are bound to.

        Raises: OAuthError.
        """
        if credentials.dpop_key is None:
            return None
        try:
            return DpopKey(JwtSigningKey.read(credentials.dpop_key.encode()), self.clock)
        except ValueError:
            raise OAuthError("The stored DPoP key cannot be read; log in again") from None

    # -- parts -----------------------------------------------------------------------------

    def _documents_of(self, url: str) -> DocumentClient:
        policy: EgressPolicy = egress_for_issuer_urls(url, self._allows_private_issuer)
        return DocumentClient(policy, self.rules)

    def _new_dpop_key(self, discovered: DiscoveryResult) -> JwtSigningKey | None:
        is_supported = bool(discovered.metadata.dpop_signing_alg_values_supported)
        match self.settings.dpop:
            case "require":
                return JwtSigningKey.generate()
            case "auto" if is_supported or discovered.requires_dpop:
                return JwtSigningKey.generate()
        return None

    async def _register(
        self,
        discovered: DiscoveryResult,
        redirect_uri: str,
        scopes: tuple[str, ...],
        previous: ClientRegistration | None,
    ) -> ClientRegistration:
        if self.settings.client_id is not None:
            return ClientRegistration(client_id=self.settings.client_id)
        return await register_client(
            self._issuer_documents,
            self.settings,
            discovered,
            redirect_uri=redirect_uri,
            scopes=scopes,
            previous=previous,
            now=self.clock(),
        )

    async def _with_configured_secret(self, registration: ClientRegistration) -> ClientRegistration:
        """Add the configured secret, which is not stored with the tokens, so that it can be changed."""
        secret = self.settings.client_secret
        if registration.source != "configured" or secret is None:
            return registration
        revealed = await self._reveal(secret) if isinstance(secret, Secret) else secret
        method = self.settings.token_endpoint_auth_method
        return msgspec.structs.replace(registration, client_secret=revealed, auth_method=method)

    async def _endpoint_of(self, credentials: Credentials) -> TokenEndpoint:
        return TokenEndpoint(
            documents=self._issuer_documents,
            issuer=credentials.issuer,
            url=credentials.token_endpoint,
            registration=await self._with_configured_secret(credentials.registration),
            supported_methods=credentials.auth_methods,
            signing_key=await self._signing_key(),
            signing_key_id=self.settings.private_key_id,
            dpop=self.dpop_key(credentials),
            clock=self.clock,
        )

    async def _signing_key(self) -> JwtSigningKey | None:
        pem = self.settings.private_key
        if pem is None:
            return None
        text = await self._reveal(pem) if isinstance(pem, Secret) else pem
        try:
            return JwtSigningKey.read(text.encode(), self.settings.private_key_algorithm)
        except ValueError as error:
            raise OAuthError(f"`private_key` cannot be used: {error}") from None

    def _with_tokens(self, base: Credentials, token: TokenResponse) -> Credentials:
        now, shown = self.clock(), show_url(base.issuer)
        kind = token.token_type.lower()
        if kind not in ("bearer", "dpop") or (kind == "dpop" and base.dpop_key is None):
            raise AuthorizationFailed(
                f"The authorization server {shown} issued a token of a type that was not requested; "
                "report this to its operator"
            )
        if kind == "bearer" and self.settings.dpop == "require":
            raise AuthorizationFailed(
                f"The authorization server {shown} did not bind the token to a key; it does not support DPoP, so set "
                "`dpop` to auto or off"
            )
        return msgspec.structs.replace(
            base,
            access_token=token.access_token,
            token_type="DPoP" if kind == "dpop" else "Bearer",
            refresh_token=token.refresh_token or base.refresh_token,
            expires_at=token.expires_at(now),
            scopes=base.scopes if token.scope is None else valid_scopes(token.scope.split()),
            id_token=token.id_token or base.id_token,
            dpop_key=base.dpop_key if kind == "dpop" else None,
            obtained_at=now,
        )
