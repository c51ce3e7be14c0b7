"""The front door (OAuth authorization server): assembles its parts and serves its routes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub.errors import ConnectionClosed, HubbubError, MessageTooLarge, PackUnavailable, StoreFailed
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth.dpop_proofs import PROOF_ALGORITHMS, DpopProofs, InvalidProof, VerifiedProof
from hubbub.oauth.errors import MetadataError, OAuthError, ServerUnavailable
from hubbub.oauth.front_door import limits, pages
from hubbub.oauth.front_door.access_tokens import LocalTokenVerifier, sign_access_token
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.authorization import CALLBACK_PATH, CONSENT_PATH, LOGIN_PATH, AuthorizationFlow
from hubbub.oauth.front_door.client_assertions import ClientAssertions
from hubbub.oauth.front_door.client_authentication import SecretGuessLimiter, read_client_credentials
from hubbub.oauth.front_door.client_directory import ClientDirectory, ConfiguredClient, TooManyClients
from hubbub.oauth.front_door.client_documents import ClientDocuments
from hubbub.oauth.front_door.clients import AUTH_METHODS, GRANT_TYPES, PRIVATE_KEY_JWT, Client
from hubbub.oauth.front_door.config import FrontDoorConfig
from hubbub.oauth.front_door.grant_events import describe_created, describe_ended
from hubbub.oauth.front_door.key_logins import KeyLogins
from hubbub.oauth.front_door.provider import Provider, ReadSecret, no_secret
from hubbub.oauth.front_door.provider_logins import ProviderLogins
from hubbub.oauth.front_door.records import Grant
from hubbub.oauth.front_door.signing_keys import SigningKeys
from hubbub.oauth.front_door.web import (
    BadParameters,
    Parameters,
    first,
    read_form,
    respond_error,
    respond_json,
    serve_style,
)
from hubbub.oauth.metadata import (
    OPENID_CONFIGURATION_PATH,
    SERVER_METADATA_PATH,
    AuthorizationServerMetadata,
    insert_path,
)
from hubbub.ports import HttpExchange, Sealer
from hubbub.protocol.calls import Principal
from hubbub.security.api_keys import ApiKeys
from hubbub.security.rates import Rate
from hubbub.security.tenant_identity import TenantIdentity
from hubbub.security.verified_tokens import MatchAudience

if TYPE_CHECKING:
    from hubbub.oauth.front_door.grants import TokenContext, TokenResponse
    from hubbub.oauth.front_door.store import GrantInfo
    from hubbub.store.sql import Connection, Database

AUTHORIZE_PATH: Final = "/oauth/authorize"
TOKEN_PATH: Final = "/oauth/token"
REGISTER_PATH: Final = "/oauth/register"
REVOKE_PATH: Final = "/oauth/revoke"
JWKS_PATH: Final = "/oauth/jwks"
_CACHED: Final = ((b"cache-control", b"public, max-age=300"),)
_BASIC_CHALLENGE: Final = ((b"cache-control", b"no-store"), (b"www-authenticate", b'Basic realm="client"'))
_HOUR_S: Final = 3600
_ID_TOKEN_ALGORITHM: Final = "ES256"
_OK: Final = 200

Handler = Callable[[HttpExchange], Awaitable[None]]
logger = logging.getLogger("hubbub.oauth")


class FrontDoor:
    """The authorization server, while `running`.

    Raises: SettingsError, PackUnavailable, if the libraries for its store are missing.
    """

    def __init__(
        self,
        config: FrontDoorConfig,
        *,
        sealer: Sealer,
        identity: TenantIdentity | None = None,
        api_keys: ApiKeys | None = None,
        read_secret: ReadSecret = no_secret,
        clients: Iterable[ConfiguredClient] = (),
        match_audience: MatchAudience = lambda audience: None,
        rules: Callable[[], EgressRules] = lambda: NO_RULES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`api_keys`: the keys with which people log in, without a provider."""
        try:
            from hubbub.store.sql import read_url
        except ImportError as error:
            raise PackUnavailable(
                f"[oauth] front_door needs libraries that are not installed ({error.name}); "
                "install them with: pip install 'hubbub[oauth]'"
            ) from None
        self._config = config
        self._url = read_url(config.database)
        self._clock = clock
        self._open_database: Database | None = None
        self._key_logins = KeyLogins(api_keys, has_tenants=identity is not None)
        self._keys = SigningKeys(self._database, sealer, clock)
        self.tokens = LocalTokenVerifier(
            config.issuer,
            self._keys,
            identity=identity,
            match_audience=match_audience,
            key_logins=self._key_logins,
            clock=clock,
        )
        """Verifies the access tokens of this server."""
        self._clients = ClientDirectory(clients, self._database, ClientDocuments(rules, clock), clock)
        audiences = frozenset((config.issuer, config.url(TOKEN_PATH), config.url(REVOKE_PATH)))
        self._assertions = ClientAssertions(audiences, rules, clock)
        self._proofs = DpopProofs(clock=clock)
        self._registrations = AttemptLimiter(
            Rate(limits.REGISTRATIONS_PER_HOUR, _HOUR_S, "hour"),
            clock,
            total=Rate(limits.ALL_REGISTRATIONS_PER_HOUR, _HOUR_S, "hour"),
        )
        provider: Provider | None = None
        self._provider_logins: ProviderLogins | None = None
        if config.provider is not None:
            redirect_uri = config.url(CALLBACK_PATH)
            provider = Provider(
                config.provider, redirect_uri, read_secret=read_secret, identity=identity, rules=rules, clock=clock
            )
            self._provider_logins = ProviderLogins(
                config, provider, database=self._database, sealer=sealer, clock=clock
            )
        self._secret_guesses = SecretGuessLimiter(clock)
        self._flow = AuthorizationFlow(
            config,
            clients=self._clients,
            database=self._database,
            sealer=sealer,
            provider=provider,
            provider_logins=self._provider_logins,
            key_logins=self._key_logins,
            has_tenants=identity is not None,
            clock=clock,
        )
        self.on_event: Callable[[str, Principal, Mapping[str, str]], None] = lambda event, principal, facts: None
        """Gets what the audit journal records: a grant was created or ended."""
        self._metadata = self._make_metadata()
        self.pages: Mapping[str, Mapping[str, Handler]] = self._page_routes(provider is not None)
        """The routes for browsers, by path and method."""
        self.endpoints: Mapping[str, Mapping[str, Handler]] = {
            **self._metadata_routes(),
            TOKEN_PATH: {"POST": self._serve_token},
            REGISTER_PATH: {"POST": self._serve_registration},
            REVOKE_PATH: {"POST": self._serve_revocation},
            JWKS_PATH: {"GET": self._serve_keys},
        }
        """The routes for clients, which may be pages of any origin."""

    async def start_person_login(self, exchange: HttpExchange, return_to: str) -> None:
        """Have the person in front of the browser log in; see `AuthorizationFlow`."""
        await self._flow.start_person_login(exchange, return_to)

    async def read_person(self, exchange: HttpExchange, sealed: str) -> tuple[str, str] | None:
        """Return the tenant and the name of the person who logged in with this browser; None: not logged in.

        Raises: StoreFailed.
        """
        user = await self._flow.read_person(exchange, sealed)
        return None if user is None else (user.tenant, user.name)

    def _page_routes(self, has_provider: bool) -> dict[str, dict[str, Handler]]:
        flow = self._flow
        login: dict[str, dict[str, Handler]] = {LOGIN_PATH: {"GET": flow.login, "POST": flow.login}}
        if has_provider:
            login = {CALLBACK_PATH: {"GET": flow.callback}}
        return {
            AUTHORIZE_PATH: {"GET": flow.authorize},
            CONSENT_PATH: {"GET": flow.show_consent, "POST": flow.decide},
            pages.STYLE_PATH: {"GET": serve_style},
            **login,
        }

    def _metadata_routes(self) -> dict[str, dict[str, Handler]]:
        """The routes of the metadata, at each well-known path at which clients look.

        If the public URL has a path, a proxy removes it: clients that look at `PATH/.well-known/…` reach the root.
        """
        # Not an OpenID provider, but clients require these members of such a document.
        openid = msgspec.structs.replace(
            self._metadata,
            subject_types_supported=("public",),
            id_token_signing_alg_values_supported=(_ID_TOKEN_ALGORITHM,),
        )
        routes: dict[str, dict[str, Handler]] = {}
        for well_known, metadata in ((SERVER_METADATA_PATH, self._metadata), (OPENID_CONFIGURATION_PATH, openid)):
            handler = partial(_serve_document, msgspec.json.encode(metadata))
            for path in (well_known, urlsplit(insert_path(self._config.issuer, well_known)).path):
                routes[path] = {"GET": handler}
        return routes

    def _make_metadata(self) -> AuthorizationServerMetadata:
        url = self._config.url
        return AuthorizationServerMetadata(
            issuer=self._config.issuer,
            authorization_endpoint=url(AUTHORIZE_PATH),
            token_endpoint=url(TOKEN_PATH),
            registration_endpoint=url(REGISTER_PATH),
            revocation_endpoint=url(REVOKE_PATH),
            jwks_uri=url(JWKS_PATH),
            scopes_supported=self._config.scopes or None,
            response_types_supported=("code",),
            response_modes_supported=("query",),
            grant_types_supported=GRANT_TYPES,
            token_endpoint_auth_methods_supported=(*AUTH_METHODS, PRIVATE_KEY_JWT),
            token_endpoint_auth_signing_alg_values_supported=PROOF_ALGORITHMS,
            revocation_endpoint_auth_methods_supported=(*AUTH_METHODS, PRIVATE_KEY_JWT),
            revocation_endpoint_auth_signing_alg_values_supported=PROOF_ALGORITHMS,
            code_challenge_methods_supported=("S256",),
            dpop_signing_alg_values_supported=PROOF_ALGORITHMS if self._config.dpop else None,
            client_id_metadata_document_supported=True,
            authorization_response_iss_parameter_supported=True,
        )

    def _database(self) -> Database:
        if self._open_database is None:
            raise StoreFailed("the database of [oauth] is closed; the server is not running")
        return self._open_database

    # -- lifecycle --------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the store open while the block runs.

        Raises: SettingsError, if the store belongs to another server; StoreFailed.
        """
        from hubbub.oauth.front_door.owner import claim_database
        from hubbub.oauth.front_door.tables import SCHEMA
        from hubbub.store.sql import open_database

        await claim_database(self._config.database, self._config.issuer)
        self._open_database = await open_database(self._url, SCHEMA)
        task: asyncio.Task[None] | None = None
        try:
            await self._keys.load()
            await self.refresh_ended()
            task = asyncio.create_task(self._watch(), name="oauth")
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            database, self._open_database = self._open_database, None
            await database.close()

    async def _watch(self) -> None:
        """Read which grants other processes ended, and delete what has expired or depends on a key that has ended."""
        waited_s = limits.SWEEP_S
        swept_keys = seen_keys = self._key_logins.generation
        while True:
            try:
                # While a person edits the file, keys may be missing for a moment, so wait until it no longer changes.
                previous_keys, seen_keys = seen_keys, self._key_logins.generation
                if waited_s >= limits.SWEEP_S or swept_keys != seen_keys == previous_keys:
                    swept_keys = seen_keys
                    await self.sweep()
                    waited_s = 0.0
                await self.refresh_ended()
            except HubbubError as error:
                logger.warning("oauth_store_failed", extra={"reason": error.message})
            await asyncio.sleep(limits.REVOCATION_CHECK_S)
            waited_s += limits.REVOCATION_CHECK_S

    async def refresh_ended(self) -> None:
        """Read which grants have ended.

        Raises: StoreFailed.
        """
        from hubbub.oauth.front_door import store

        now = self._clock()
        self.tokens.set_ended(await self._database().read(lambda connection: store.ended_grant_ids(connection, now)))

    async def sweep(self) -> None:
        """Delete what has expired, and end the grants of keys that have ended.

        Raises: StoreFailed.
        """
        from hubbub.oauth.front_door import store

        now, _ = self._clock(), self._key_logins.generation
        check = self._key_logins.check
        self._end(await self._database().write(lambda c: store.sweep(c, check, now)))

    # -- administration --------------------------------------------------------------

    async def list_grants(self, tenant: str | None = None, user: str | None = None) -> list[GrantInfo]:
        """Return the grants of a tenant or a user that have not ended; None stands for all.

        Raises: StoreFailed.
        """
        from hubbub.oauth.front_door import store

        found = await self._database().read(lambda connection: store.list_grants(connection, tenant, user))
        _ = self._key_logins.generation  # reads the file of keys if it has changed
        return [grant for grant in found if self._key_logins.check(grant.key, grant.tenant, grant.user) is not None]

    async def revoke(self, tenant: str | None = None, user: str | None = None, client_id: str | None = None) -> int:
        """End the grants of a tenant, a user or a client, and ask for consent again; return how many ended.

        Codes, and logins that have not reached the consent, end too. None stands for all.

        Raises: StoreFailed.
        """
        from hubbub.oauth.front_door import store

        now = self._clock()

        def revoke(connection: Connection) -> tuple[list[GrantInfo], list[str]]:
            known = store.list_grants(connection, tenant, user)
            return known, store.revoke(connection, tenant, user, client_id, now)

        known, ended = await self._database().write(revoke)
        self._end(ended, {info.grant_id: info for info in known})
        return len(ended)

    def _end(self, grant_ids: Iterable[str], known: Mapping[str, GrantInfo] | None = None) -> None:
        """Refuse the access tokens of grants that ended, and record that."""
        grant_ids = tuple(grant_ids)
        self.tokens.add_ended(grant_ids)
        for grant_id in grant_ids:
            self.on_event(*describe_ended(grant_id, None if known is None else known.get(grant_id)))

    # -- endpoints for clients -------------------------------------------------------

    async def _serve_keys(self, exchange: HttpExchange) -> None:
        await respond_json(exchange, 200, self._keys.jwks(), _CACHED)

    async def _serve_registration(self, exchange: HttpExchange) -> None:
        try:
            body = await exchange.body()
            if len(body) > limits.REGISTRATION_BYTES:
                raise MetadataError(f"the client metadata is larger than {limits.REGISTRATION_BYTES} bytes")
            wait_s = self._registrations.wait_s(exchange.client)
            if wait_s:
                await _respond_later(exchange, "Too many registrations", wait_s)
                return
            self._registrations.add(exchange.client)
            await respond_json(exchange, 201, await self._clients.register(body))
        except TooManyClients as error:
            await respond_error(exchange, "temporarily_unavailable", error.message, 503)
        except MetadataError as error:
            is_redirect = error.message.startswith("redirect_uris")
            code = "invalid_redirect_uri" if is_redirect else "invalid_client_metadata"
            await respond_error(exchange, code, error.message)
        except ConnectionClosed:
            raise
        except HubbubError as error:
            await self._respond_to_failure(exchange, error)

    async def _serve_token(self, exchange: HttpExchange) -> None:
        from hubbub.oauth.front_door.grants import answer_token_request

        async def answer(form: Parameters, headers: Mapping[str, str], client: Client | None) -> TokenResponse:
            proof = self._verify_proof(exchange) if client is not None else None
            if (
                self._provider_logins is not None
                and first(form, "grant_type") == "refresh_token"
                and client is not None
            ):
                ended = await self._provider_logins.check(first(form, "refresh_token"), client.client_id)
                self._end(ended)
            signed: list[Grant] = []
            make = await self._prepare(client, "" if proof is None else proof.key_thumbprint, signed)
            response = await self._database().write(lambda c: answer_token_request(make(c), form, headers))
            if response.status == _OK and first(form, "grant_type") == "authorization_code":
                for grant in signed[-1:]:
                    self.on_event(*describe_created(grant))
            if proof is not None and response.status == _OK:
                # Proofs of refused requests are not remembered, because any client can send these. Two requests at
                # the same time could use one proof, but each needs a code or refresh token of its own.
                with suppress(InvalidProof):
                    self._proofs.remember(proof)
            return response

        await self._serve_form(exchange, answer)

    async def _serve_revocation(self, exchange: HttpExchange) -> None:
        from hubbub.oauth.front_door.grants import answer_revocation_request

        async def answer(form: Parameters, headers: Mapping[str, str], client: Client | None) -> TokenResponse:
            grant_id = await self.tokens.find_grant_id(first(form, "token").encode("utf-8", "replace"))
            make = await self._prepare(client)
            return await self._database().write(lambda c: answer_revocation_request(make(c), form, headers, grant_id))

        await self._serve_form(exchange, answer)

    async def _serve_form(self, exchange: HttpExchange, answer: Answer) -> None:
        """Serve an endpoint for authenticated clients."""
        try:
            form = await read_form(exchange)
            credentials = read_client_credentials(exchange, form)
            client = await self._clients.find(credentials.client_id, exchange.client)
            wait_s = self._secret_guesses.check(client, credentials.secret, exchange.client)
            if wait_s:
                await _respond_later(exchange, "Too many wrong client secrets", wait_s)
                return
            if client is not None and credentials.assertion:
                client = await self._assertions.authenticate(client, credentials.assertion, exchange.client)
                form.setdefault("client_id", [credentials.client_id])
            response = await answer(form, credentials.headers, client)
            self._end(response.ended_grant_ids)
            fields = tuple((name.lower().encode(), value.encode()) for name, value in response.headers)
            fields = tuple(field for field in fields if field[0] != b"content-type")
            await respond_json(exchange, response.status, response.body, fields or ((b"cache-control", b"no-store"),))
        except BadParameters as error:
            await respond_error(exchange, "invalid_request", str(error))
        except ConnectionClosed:
            raise
        except InvalidProof as error:
            await respond_error(exchange, "invalid_dpop_proof", error.message)
        except ServerUnavailable as error:
            await _respond_later(exchange, error.message, error.retry_after_s, 503)
        except OAuthError as error:
            body = {"error": "invalid_client", "error_description": error.message}
            await respond_json(exchange, 401, body, _BASIC_CHALLENGE)
        except HubbubError as error:
            await self._respond_to_failure(exchange, error)

    def _verify_proof(self, exchange: HttpExchange) -> VerifiedProof | None:
        """Verify the DPoP proof of a request; None if it has none.

        Raises: InvalidProof.
        """
        proof = exchange.headers.raw(b"dpop")
        if proof is None or not self._config.dpop:
            return None
        return self._proofs.verify(proof, method=exchange.method, url=self._config.url(exchange.path))

    async def _prepare(self, client: Client | None, jkt: str = "", signed: list[Grant] | None = None) -> MakeContext:
        """Return a function that makes the context of a request in a transaction; `signed` gets grants with a token."""
        from hubbub.oauth.front_door.grants import TokenContext

        kid, key = await self._keys.current()
        now, _ = self._clock(), self._key_logins.generation

        def sign(grant: Grant, scopes: tuple[str, ...]) -> str:
            if signed is not None:
                signed.append(grant)
            return sign_access_token(kid, key, self._config.issuer, grant, scopes, now)

        def find(client_id: str) -> Client | None:
            return client if client is not None and client.client_id == client_id else None

        return lambda connection: TokenContext(
            connection=connection,
            find_client=find,
            sign=sign,
            check_login=self._key_logins.check_user,
            refresh_key=key.derive_secret("refresh tokens"),
            now=now,
            jkt=jkt,
        )

    async def _respond_to_failure(self, exchange: HttpExchange, error: HubbubError) -> None:
        if isinstance(error, MessageTooLarge):
            await respond_error(exchange, "invalid_request", error.message, 413)
            return
        logger.error("oauth_request_failed", extra={"path": exchange.path, "reason": error.message})
        problem = "This server has a problem at the moment; try again later"
        await respond_error(exchange, "temporarily_unavailable", problem, 503)


MakeContext = Callable[[Any], "TokenContext"]
Answer = Callable[[Parameters, Mapping[str, str], Client | None], Awaitable["TokenResponse"]]


async def _serve_document(document: bytes, exchange: HttpExchange) -> None:
    await exchange.respond(200, document, _CACHED)


async def _respond_later(exchange: HttpExchange, reason: str, wait_s: int, status: int = 429) -> None:
    body = {"error": "temporarily_unavailable", "error_description": f"{reason}; try again in {wait_s} s"}
    await respond_json(exchange, status, body, ((b"cache-control", b"no-store"), (b"retry-after", b"%d" % wait_s)))
