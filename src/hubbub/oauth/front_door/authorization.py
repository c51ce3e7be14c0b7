"""From the authorization request of a client to the code: login, consent, redirect.

Between two requests of the browser everything is in a sealed state, which is bound to the browser by a cookie. So a
state that was sent to another person is useless there (login CSRF), and a form cannot be submitted by another site.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from hubbub.errors import ConnectionClosed, HubbubError, StoreFailed
from hubbub.oauth.errors import MetadataError, OAuthError, ServerUnavailable
from hubbub.oauth.front_door import limits, messages, pages
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.client_directory import ClientDirectory
from hubbub.oauth.front_door.clients import Client, hash_secret, is_local_redirect, redirect_target
from hubbub.oauth.front_door.config import FrontDoorConfig
from hubbub.oauth.front_door.key_logins import KeyLogins
from hubbub.oauth.front_door.login_states import ClientRequest, ConsentState, LoginState, PersonState
from hubbub.oauth.front_door.provider import AccountRefused, Provider
from hubbub.oauth.front_door.provider_logins import ProviderLogins
from hubbub.oauth.front_door.records import Authorization, AuthorizationCode, User
from hubbub.oauth.front_door.web import (
    BadParameters,
    BrowserCookie,
    PageError,
    Parameters,
    add_parameters,
    check_origin,
    first,
    hash_browser_cookie,
    read_form,
    read_query,
    redirect,
    respond_page,
)
from hubbub.ports import HttpExchange, Sealer
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.scopes import ADMIN_SCOPE, is_scope
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.rates import Rate

if TYPE_CHECKING:
    from hubbub.store.sql import Database

LOGIN_PATH: Final = "/oauth/login"
CONSENT_PATH: Final = "/oauth/consent"
CALLBACK_PATH: Final = "/oauth/callback"
_LOGIN: Final = "oauth login"
_CONSENT: Final = "oauth consent"
_PERSON: Final = "oauth person"

S = TypeVar("S")
Handler: TypeAlias = "Callable[[AuthorizationFlow, HttpExchange], Awaitable[None]]"
logger = logging.getLogger("hubbub.oauth")


def _wrap_handler(handler: Handler) -> Handler:
    """Wrap a handler: refuse requests of other origins, and show errors as pages."""

    async def serve(flow: AuthorizationFlow, exchange: HttpExchange) -> None:
        try:
            check_origin(exchange, flow.config.issuer)
            await handler(flow, exchange)
        except ConnectionClosed:
            raise
        except PageError as error:
            await flow.respond_with_error(exchange, error)
        except HubbubError as error:
            logger.error("oauth_page_failed", extra={"path": exchange.path, "reason": error.message})
            problem = PageError("This server has a problem at the moment. Try again later.", status=503)
            await flow.respond_with_error(exchange, problem)

    return serve


class AuthorizationFlow:
    """Serves the browser."""

    def __init__(
        self,
        config: FrontDoorConfig,
        *,
        clients: ClientDirectory,
        database: Callable[[], Database],
        sealer: Sealer,
        provider: Provider | None,
        provider_logins: ProviderLogins | None,
        key_logins: KeyLogins,
        has_tenants: bool,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self._clients = clients
        self._database = database
        self._sealer = sealer
        self._provider = provider
        self._provider_logins = provider_logins
        self._key_logins = key_logins
        self._has_tenants = has_tenants
        self._clock = clock
        self._browser = BrowserCookie(config.issuer)
        self._wrong_keys = AttemptLimiter(Rate(limits.WRONG_KEYS_PER_MINUTE, 60, "minute"), clock)
        self._style_url = config.url(pages.STYLE_PATH)

    # -- the request -----------------------------------------------------------------

    @_wrap_handler
    async def authorize(self, exchange: HttpExchange) -> None:
        """Serve the authorization endpoint: check the request, then have the person log in."""
        from hubbub.oauth.front_door.grants import RequestRefused, check_authorization_request

        try:
            parameters = read_query(exchange)
        except BadParameters as error:
            raise PageError(
                f"The app sent an invalid request: {error}. Report this to the developer of the app."
            ) from None
        client = await self._find_client(first(parameters, "client_id"), exchange)
        redirect_uri = first(parameters, "redirect_uri")
        if not client.check_redirect_uri(redirect_uri):
            # Never redirect to it: it could belong to an attacker.
            raise PageError(
                "The app requested a redirect to an address that it has not registered (redirect_uri). "
                "If you came here from a link, do not use it again."
            )
        try:
            check_authorization_request(parameters, client)
            request = self._read_request(parameters, redirect_uri)
        except RequestRefused as error:
            url = self._error_url(redirect_uri, first(parameters, "state"), error.error, str(error))
            if not is_local_redirect(redirect_uri):
                # Anyone can register a client, so this would be an open redirector: RFC 9700 §4.11.
                problem = f"The app {client.name} sent an invalid request: {str(error).rstrip('.')}. {messages.REPORT}"
                raise PageError(problem, return_url=url) from None
            await redirect(exchange, url)
            return
        await self._start_login(exchange, request)

    async def _find_client(self, client_id: str, exchange: HttpExchange) -> Client:
        try:
            client = await self._clients.find(client_id, exchange.client)
        except StoreFailed:
            raise
        except MetadataError as error:
            logger.info("oauth_client_refused", extra={"reason": error.message})
            raise PageError(f"This server could not identify the app: {error.message}.") from None
        except ServerUnavailable:
            raise PageError(
                "This server could not identify the app: its document (client_id) cannot be fetched at the moment. Try "
                "again later.",
                status=503,
            ) from None
        if client is None:
            raise PageError(
                "This server does not know the app (client_id): it has not registered, or its registration has "
                "expired. Remove this server in the app and add it again."
            )
        return client

    def _read_request(self, parameters: Parameters, redirect_uri: str) -> ClientRequest:
        from hubbub.oauth.front_door.grants import RequestRefused

        resource = self.config.find_resource(parameters.get("resource", []))
        if resource is None:
            raise RequestRefused("invalid_target", "resource must be the URL of one endpoint of this server.")
        if len(first(parameters, "state")) > limits.PARAMETER_CHARACTERS:
            raise RequestRefused("invalid_request", "state is too long.")
        scopes = tuple(dict.fromkeys(first(parameters, "scope").split()))
        if len(scopes) > limits.SCOPES or not all(map(is_scope, scopes)):
            raise RequestRefused("invalid_scope", "scope has too many scopes, or malformed ones.")
        return ClientRequest(
            client_id=first(parameters, "client_id"),
            redirect_uri=redirect_uri,
            state=first(parameters, "state") or None,
            scopes=scopes,
            resource=resource,
            code_challenge=first(parameters, "code_challenge"),
            dpop_jkt=first(parameters, "dpop_jkt"),
            requires_consent="consent" in first(parameters, "prompt").split(),
        )

    # -- the login -------------------------------------------------------------------

    async def start_person_login(self, exchange: HttpExchange, return_to: str) -> None:
        """Have the person log in, and return to a page of this server with the parameter `person`.

        Raises: PageError.
        """
        await self._start_login(exchange, None, return_to)

    async def read_person(self, exchange: HttpExchange, sealed: str) -> User | None:
        """Return the person who logged in with this browser; None: not logged in.

        Raises: StoreFailed.
        """
        from hubbub.oauth.front_door import store

        try:
            user = self._open(exchange, _PERSON, sealed, PersonState).user
        except PageError:
            return None
        _ = self._key_logins.generation  # reads the file of keys if it has changed
        if self._key_logins.check_user(user) is None:
            return None
        return None if await self._database().read(lambda c: store.is_revoked(c, user)) else user

    async def _start_login(self, exchange: HttpExchange, request: ClientRequest | None, return_to: str = "") -> None:
        cookie, headers = self._browser.read_or_make(exchange)
        nonce, verifier = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        login = LoginState(request, hash_browser_cookie(cookie), nonce, verifier, return_to)
        state = self._sealer.seal(_LOGIN, msgspec.to_builtins(login), lifetime_s=limits.LOGIN_S)
        if self._provider is None:
            await redirect(exchange, add_parameters(self.config.url(LOGIN_PATH), {"state": state}), headers)
            return
        try:
            url = await self._provider.login_url(state=state, nonce=login.nonce, verifier=login.verifier)
        except OAuthError as error:
            await self._report_provider_failure(exchange, request, error)
            return
        await redirect(exchange, url, headers)

    @_wrap_handler
    async def callback(self, exchange: HttpExchange) -> None:
        """Serve the redirect back from the identity provider."""
        assert self._provider is not None
        try:
            parameters = read_query(exchange)
        except BadParameters as error:
            raise PageError(f"The identity provider sent an invalid response: {error}.") from None
        login = self._open(exchange, _LOGIN, first(parameters, "state"), LoginState)
        try:
            await self._provider.check_response_issuer(first(parameters, "iss") or None)
            if "error" in parameters or "code" not in parameters:
                await self._refuse_login(exchange, login.request, first(parameters, "error"))
                return
            found = await self._provider.finish_login(
                first(parameters, "code"), nonce=login.nonce, verifier=login.verifier
            )
        except OAuthError as error:
            await self._report_provider_failure(exchange, login.request, error)
            return
        user = found.user
        if login.request is not None and self._provider_logins is not None:
            user = await self._provider_logins.start(found)
        await self._continue_login(exchange, login, user)

    async def _continue_login(self, exchange: HttpExchange, login: LoginState, user: User) -> None:
        """Continue after the login: with the consent, or with the page that needed the person's identity."""
        user = msgspec.structs.replace(user, logged_in_at=self._clock())
        if login.request is not None:
            await self._ask_for_consent(exchange, login.request, user)
            return
        person = msgspec.to_builtins(PersonState(login.browser, user))
        sealed = self._sealer.seal(_PERSON, person, lifetime_s=limits.LOGIN_S)
        await redirect(exchange, add_parameters(self.config.url(login.return_to), {"person": sealed}))

    async def _refuse_login(self, exchange: HttpExchange, request: ClientRequest | None, error: str) -> None:
        if error == "access_denied" and request is not None:
            await redirect(exchange, self._error_url(request.redirect_uri, request.state, error, messages.CANCELLED))
            return
        logger.warning("oauth_login_failed", extra={"error": error[:80]})
        raise PageError(messages.PROVIDER_FAILED, status=502)

    async def _report_provider_failure(
        self, exchange: HttpExchange, request: ClientRequest | None, error: OAuthError
    ) -> None:
        """Redirect to a waiting client on this computer; otherwise show a page, as any app can register a client."""
        logger.warning("oauth_provider_failed", extra={"reason": error.message})
        is_account, url, text = isinstance(error, AccountRefused), "", messages.PROVIDER_FAILED
        if request is not None and not is_account:
            code = "temporarily_unavailable" if isinstance(error, ServerUnavailable) else "server_error"
            url = self._error_url(request.redirect_uri, request.state, code, text)
            if is_local_redirect(request.redirect_uri):
                return await redirect(exchange, url)
        text = f"{error.message}." if is_account else text
        raise PageError(text, title="The login did not succeed", status=502, return_url=url)

    @_wrap_handler
    async def login(self, exchange: HttpExchange) -> None:
        """Serve the page that asks for an API key, and its form."""
        try:
            parameters = read_query(exchange) if exchange.method != "POST" else await read_form(exchange)
        except BadParameters as error:
            raise PageError(f"The page sent an invalid request: {error}.") from None
        state = first(parameters, "state")
        login = self._open(exchange, _LOGIN, state, LoginState)
        problem, status = "", 200
        headers: HeaderList = ()
        if exchange.method == "POST":
            wait_s = self._wrong_keys.wait_s(exchange.client)
            user = None if wait_s else self._key_logins.find_user(first(parameters, "key").strip())
            if user is not None:
                await self._continue_login(exchange, login, user)
                return
            if wait_s:
                problem, status = f"Too many wrong keys. Try again in {wait_s} seconds.", 429
                headers = ((b"retry-after", b"%d" % wait_s),)
            else:
                self._wrong_keys.add(exchange.client)
                logger.info("oauth_key_refused", extra={"client": exchange.client})
                problem, status = messages.UNKNOWN_KEY, 403
        request = login.request
        client_name = ""
        if request is not None:
            client_name = (await self._find_client(request.client_id, exchange)).name
        page = pages.login_page(
            server_name=self.config.server_name,
            client_name=client_name,
            action=self.config.url(LOGIN_PATH),
            state=state,
            problem=problem,
            style_url=self._style_url,
        )
        target = "" if request is None else request.redirect_uri
        await respond_page(exchange, page, status=status, form_target=target, headers=headers)

    # -- the consent -----------------------------------------------------------------

    async def _ask_for_consent(self, exchange: HttpExchange, request: ClientRequest, user: User) -> None:
        """Continue after the login: with the consent page, or at once if the person consented before."""
        from hubbub.oauth.front_door import store

        client = await self._find_client(request.client_id, exchange)
        scopes = self._choose_scopes(request, user)
        state = ConsentState(
            request, hash_browser_cookie(self._browser.read(exchange)), user, scopes, secrets.token_urlsafe(16)
        )
        authorization, target = self._authorization(state, client), redirect_target(request.redirect_uri)
        if not request.requires_consent and client.may_skip_consent(request.redirect_uri):
            now = self._clock()
            if await self._database().read(lambda c: store.has_consent(c, authorization, target, now)):
                await self._issue_code(exchange, state, client, answers_page=False)
                return
        sealed = self._sealer.seal(_CONSENT, msgspec.to_builtins(state), lifetime_s=limits.LOGIN_S)
        await redirect(exchange, add_parameters(self.config.url(CONSENT_PATH), {"state": sealed}))

    def _choose_scopes(self, request: ClientRequest, user: User) -> tuple[str, ...]:
        """The scopes that the client gets: what it asked for and the person may grant; by default all but hub:admin."""
        permitted = self.config.permitted_scopes(user)
        requested = request.scopes or sorted(permitted - {ADMIN_SCOPE})
        scopes = tuple(scope for scope in requested if scope in permitted)
        if self._has_tenants and not user.tenant and ADMIN_SCOPE not in scopes:
            raise PageError(
                f"You logged in as an operator, and the app did not ask for the scope {ADMIN_SCOPE}. "
                "Log in as a user of a tenant."
            )
        return scopes

    @_wrap_handler
    async def show_consent(self, exchange: HttpExchange) -> None:
        """Serve the consent page."""
        from hubbub.oauth.front_door import store

        try:
            sealed = first(read_query(exchange), "state")
        except BadParameters:
            sealed = ""
        state = self._open(exchange, _CONSENT, sealed, ConsentState)
        request = state.request
        client = await self._find_client(request.client_id, exchange)
        if await self._database().read(lambda c: store.is_revoked(c, state.user, client.client_id)):
            raise PageError(messages.REVOKED)
        view = pages.ConsentView(
            server_name=self.config.server_name,
            client_name=client.name,
            verified_host=client.verified_host,
            is_configured=client.is_configured,
            user=state.user.name.removeprefix(PRINCIPAL_PREFIX),
            tenant=state.user.tenant,
            scopes=state.scopes,
            redirect_target=redirect_target(request.redirect_uri),
            is_local=is_local_redirect(request.redirect_uri),
            resource=request.resource,
            action=self.config.url(CONSENT_PATH),
            state=sealed,
        )
        page = pages.consent_page(view, self._style_url)
        await respond_page(exchange, page, form_target=request.redirect_uri)

    @_wrap_handler
    async def decide(self, exchange: HttpExchange) -> None:
        """Serve the form of the consent page."""
        from hubbub.oauth.front_door import store

        try:
            form = await read_form(exchange)
        except BadParameters as error:
            raise PageError(f"The page sent an invalid request: {error}.") from None
        state = self._open(exchange, _CONSENT, first(form, "state"), ConsentState)
        request = state.request
        if first(form, "decision") != "allow":
            now = self._clock()
            if not await self._database().write(lambda c: store.answer_consent(c, state.id, "", now)):
                raise PageError(messages.ANSWERED)
            denied = "The user denied the request."
            await redirect(exchange, self._error_url(request.redirect_uri, request.state, "access_denied", denied))
            return
        await self._issue_code(exchange, state, await self._find_client(request.client_id, exchange), answers_page=True)

    async def _issue_code(
        self, exchange: HttpExchange, state: ConsentState, client: Client, *, answers_page: bool
    ) -> None:
        from hubbub.oauth.front_door import store

        request, now = state.request, self._clock()
        _ = self._key_logins.generation  # reads the file of keys if it has changed
        if self._key_logins.check_user(state.user) is None:
            raise PageError(messages.REVOKED)
        authorization = self._authorization(state, client)
        code = AuthorizationCode(
            authorization=authorization,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
            dpop_jkt=request.dpop_jkt,
        )
        text = secrets.token_urlsafe(32)
        code_hash = hash_secret(text).hex()

        def save(connection: Any) -> None:
            if store.is_revoked(connection, state.user, client.client_id):
                raise PageError(messages.REVOKED)
            if answers_page:
                if not store.answer_consent(connection, state.id, code_hash, now):
                    raise PageError(messages.ANSWERED)
                store.save_consent(connection, authorization, redirect_target(request.redirect_uri), now)
            store.save_code(connection, code_hash, code, now)

        await self._database().write(save)
        logger.info(
            "oauth_granted",
            extra={
                "client": client.client_id,
                "user": state.user.name,
                "tenant": state.user.tenant,
                "is_new_consent": answers_page,
            },
        )
        answer = {"code": text, **({} if request.state is None else {"state": request.state})}
        await redirect(exchange, add_parameters(request.redirect_uri, {**answer, "iss": self.config.issuer}))

    def _authorization(self, state: ConsentState, client: Client) -> Authorization:
        provider, max_age_s = self.config.provider, limits.GRANT_MAX_S
        if provider is not None and not state.user.provider_login:
            max_age_s = min(max_age_s, provider.max_login_s)
        return Authorization(
            client_id=client.client_id,
            client_name=client.name,
            user=state.user,
            scopes=state.scopes,
            resource=state.request.resource,
            max_age_s=max_age_s,
        )

    # -- shared ----------------------------------------------------------------------

    def _open(self, exchange: HttpExchange, purpose: str, sealed: str, kind: type[S]) -> S:
        """Open a sealed state, if it belongs to this browser.

        Raises: PageError.
        """
        try:
            state: Any = msgspec.convert(self._sealer.open(purpose, sealed), type=kind)
        except (ValueError, msgspec.ValidationError):
            raise PageError(messages.EXPIRED) from None
        cookie = self._browser.read(exchange)
        if not cookie or not hmac.compare_digest(hash_browser_cookie(cookie), state.browser):
            raise PageError(messages.EXPIRED)
        opened: S = state
        return opened

    def _error_url(self, redirect_uri: str, state: str | None, error: str, description: str) -> str:
        """Return the URL that takes an error to the client. The redirect URI must have been checked."""
        answer = {"error": error, "error_description": description, **({"state": state} if state else {})}
        return add_parameters(redirect_uri, {**answer, "iss": self.config.issuer})

    async def respond_with_error(self, exchange: HttpExchange, error: PageError) -> None:
        """Show the page about an error."""
        page = pages.error_page(
            server_name=self.config.server_name,
            title=error.title,
            message=error.message,
            style_url=self._style_url,
            return_url=error.return_url,
        )
        await respond_page(exchange, page, status=error.status)
