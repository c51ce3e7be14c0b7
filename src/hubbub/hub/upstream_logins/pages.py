"""Pages for a user who logs in at a server: the page that names user and server, the redirect, and the result.

An attacker could send their own link to another person, who logs in, and then call the server with that person's
account. To prevent this, the hub identifies the person, by its own login or an API key, and accepts only the user of
the link. Users with tokens of other authorization servers cannot be identified: the page names the user, if the
operator allows such logins at all. The form can be submitted from that page only.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from html import escape
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from hubbub.errors import HubbubError
from hubbub.hub.session_control import user_name
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser
from hubbub.hub.upstream_logins.upstream_logins import (
    CALLBACK_PATH,
    CONNECT_PATH,
    LinkRefused,
    LoginLink,
    UpstreamLogins,
)
from hubbub.oauth.client.login import PendingLogin
from hubbub.oauth.errors import OAuthError
from hubbub.oauth.front_door import limits as page_limits
from hubbub.oauth.front_door import pages
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.web import (
    BadParameters,
    BrowserCookie,
    PageError,
    check_origin,
    first,
    hash_browser_cookie,
    read_form,
    read_query,
    redirect,
    respond_page,
    serve_style,
)
from hubbub.oauth.metadata import show_url
from hubbub.ports import HttpExchange, Sealer
from hubbub.security.rates import Rate
from hubbub.server.public_routes import PublicRoute

_FORM: Final = "connect form"
_PENDING: Final = "connect login"
_COOKIE_PREFIX: Final = "hubbub-connect-"
_EXPIRED: Final = (
    "This login has expired, has ended already, or began in another browser. Start it again to get a new link"
)
_OTHER_SERVER: Final = (
    "This redirect belongs to the login at another server, so the login was stopped. Start it again; if that does not "
    "help, tell the operator of this hub"
)
_LOGIN_FAILED: Final = (
    "The login at the server did not succeed. Start it again in a few minutes; if that does not help, tell the "
    "operator of this hub, whose log says why."
)
_NOT_IDENTIFIED: Final = (
    "This hub cannot check who you are any more, because its settings have changed. Start the login again to get a "
    "new link"
)
_UNKNOWN_KEY: Final = "This API key is unknown, expired or revoked. Ask the operator of this hub for a new one."

logger = logging.getLogger("hubbub.hub")


class _Pending(NamedTuple):
    """The content of the cookie of a login."""

    link: LoginLink
    login: PendingLogin
    browser: str


class ConnectPages:
    """Serves the browsers of users."""

    def __init__(self, upstream_logins: UpstreamLogins, sealer: Sealer, hub_name: str) -> None:
        self._upstream_logins = upstream_logins
        self._sealer = sealer
        self._hub_name = hub_name
        self._wrong_keys = AttemptLimiter(Rate(page_limits.WRONG_KEYS_PER_MINUTE, 60, "minute"), time.time)

    def routes(self) -> Mapping[str, PublicRoute]:
        """The routes by path."""
        return {
            CONNECT_PATH: PublicRoute(
                {"GET": self._wrap_handler(self._show), "POST": self._wrap_handler(self._continue)}
            ),
            CALLBACK_PATH: PublicRoute({"GET": self._wrap_handler(self._finish)}),
            pages.STYLE_PATH: PublicRoute({"GET": serve_style}),
        }

    # -- the page ----------------------------------------------------------------------------

    async def _show(self, exchange: HttpExchange) -> None:
        link = await self._link(exchange)
        if link.identification == "login":
            person_login = self._upstream_logins.person_login
            if person_login is None:
                raise LinkRefused(_NOT_IDENTIFIED)
            person = await person_login.read_person(exchange, first(read_query(exchange), "person"))
            if person is None:
                await person_login.start_person_login(exchange, exchange.path)
                return
            _check_person(HubUser(*person), link)
        await self._respond_with_form(exchange, link)

    async def _respond_with_form(
        self, exchange: HttpExchange, link: LoginLink, problem: str = "", status: int = 200
    ) -> None:
        cookie, headers = self._browser.read_or_make(exchange)
        form = self._sealer.seal(_FORM, [link.id, hash_browser_cookie(cookie)], lifetime_s=limits.LOGIN_S)
        user = escape(user_name(link.user.principal)) + (f" ({escape(link.user.tenant)})" if link.user.tenant else "")
        server, hub = escape(link.server), escape(self._hub_name)
        warning = pages.problem_alert(problem)
        asks_key = link.identification == "key"
        key = _KEY_FIELD.format(field=pages.key_field(is_wrong=bool(problem))) if asks_key else ""
        body = f"""\
<p class="server">{hub}</p>
<h1>Log in at {server}?</h1>
{warning}
<p>The next page asks you to log in at <strong>{server}</strong> and to allow {hub} to use it. Programs that call {hub}
as <strong>{user}</strong> can then use {server} with your account there.</p>
<p class="warning">Continue only if you are {user}, and asked for this yourself. If another person sent you this link,
close the page.</p>
<dl>
<div><dt>Your account here</dt><dd>{user}</dd></div>
<div><dt>Server</dt><dd>{server}</dd></div>
<div><dt>Address</dt><dd><code>{escape(show_url(self._upstream_logins.address(link.server)))}</code></dd></div>
</dl>
<form method="post" action="{escape(self._upstream_logins.base_url + exchange.path)}">
<input type="hidden" name="form" value="{escape(form)}">
{key}<div class="actions"><button type="submit" class="primary">Continue</button></div>
</form>"""
        target = self._upstream_logins.address(link.server)  # its authorization server uses no other scheme
        page = pages.make_page(f"Log in at {link.server} – {self._hub_name}", body, self._style_url)
        await respond_page(exchange, page, status=status, form_target=target, headers=headers)

    async def _continue(self, exchange: HttpExchange) -> None:
        """Serve the form: send the browser to the authorization server."""
        link = await self._link(exchange)
        form = await read_form(exchange)
        browser = hash_browser_cookie(self._browser.read(exchange))
        try:
            id, bound_to = self._sealer.open(_FORM, first(form, "form"))
        except (ValueError, TypeError):
            raise LinkRefused(_EXPIRED) from None
        if id != link.id or not hmac.compare_digest(bound_to, browser):
            raise LinkRefused(_EXPIRED)
        if link.identification == "key":
            identify = self._upstream_logins.identify_key
            if identify is None:
                raise LinkRefused(_NOT_IDENTIFIED)
            if wait_s := self._wrong_keys.wait_s(exchange.client):
                await self._respond_with_form(
                    exchange, link, f"Too many wrong keys. Try again in {wait_s} seconds.", 429
                )
                return
            person = identify(first(form, "key").strip().encode("utf-8", "replace"))
            if person is None:
                self._wrong_keys.add(exchange.client)
                await self._respond_with_form(exchange, link, _UNKNOWN_KEY, 403)
                return
            _check_person(HubUser.from_principal(person), link)
        await self._upstream_logins.bind(link, browser)
        url, login = await self._upstream_logins.begin(link)
        # The login contains the scopes, too, and cookies are small.
        record = [msgspec.to_builtins(msgspec.structs.replace(link, scopes=())), msgspec.to_builtins(login), browser]
        sealed = self._sealer.seal(_PENDING, record, lifetime_s=limits.LOGIN_S)
        if len(sealed) > limits.COOKIE_CHARACTERS:
            raise LinkRefused(
                "The client id of this hub at the authorization server or the list of scopes is too long; "
                "ask the operator of the hub to set `client_id` or `scope`"
            )
        await redirect(exchange, url, (self._cookie(login.state, sealed, int(limits.LOGIN_S)),))

    # -- the redirect back -------------------------------------------------------------------

    async def _finish(self, exchange: HttpExchange) -> None:
        state = first(read_query(exchange), "state")
        pending = self._read_pending(exchange, state)
        if exchange.path != CALLBACK_PATH + pending.link.server:
            # The code is of a login at another server; the authorization server of this one must not get it (mix-up).
            logger.warning("login_redirect_of_other_server", extra={"server": pending.link.server})
            raise LinkRefused(_OTHER_SERVER)
        await self._upstream_logins.finish(pending.link, pending.login, exchange.query)
        link = pending.link
        command = f"hubbub logout {self._upstream_logins.base_url}/mcp --upstream {link.server}"
        body = f"""\
<p class="server">{escape(self._hub_name)}</p>
<h1>You are logged in at {escape(link.server)}</h1>
<p>Calls that waited for this continue now. You can close this page.</p>
<p class="muted">To log out of {escape(link.server)}, call the tool hub.connect with the action disconnect, or run:</p>
<pre tabindex="0"><code>{escape(command)}</code></pre>"""
        page = pages.make_page(f"Logged in – {self._hub_name}", body, self._style_url)
        await respond_page(exchange, page, headers=(self._cookie(state, "", 0),))

    def _read_pending(self, exchange: HttpExchange, state: str) -> _Pending:
        name = _cookie_name(state)
        sealed = ""
        for pair in (exchange.headers.get(b"cookie") or "").split(";"):
            found, _, value = pair.strip().partition("=")
            sealed = value if found == name else sealed
        try:
            pending = msgspec.convert(self._sealer.open(_PENDING, sealed), _Pending)
        except (ValueError, msgspec.ValidationError):
            raise LinkRefused(_EXPIRED) from None
        if not hmac.compare_digest(pending.browser, hash_browser_cookie(self._browser.read(exchange))):
            raise LinkRefused(_EXPIRED)
        return pending

    def _cookie(self, state: str, value: str, seconds: int) -> tuple[bytes, bytes]:
        """`Lax`: the redirect back is a navigation from another site."""
        base = urlsplit(self._upstream_logins.base_url)
        secure = "; Secure" if base.scheme == "https" else ""
        attributes = f"Path={base.path}{CALLBACK_PATH}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", f"{_cookie_name(state)}={value}; {attributes}".encode()

    # -- shared ------------------------------------------------------------------------------

    @property
    def _browser(self) -> BrowserCookie:
        return BrowserCookie(self._upstream_logins.base_url)

    @property
    def _style_url(self) -> str:
        return self._upstream_logins.base_url + pages.STYLE_PATH

    async def _link(self, exchange: HttpExchange) -> LoginLink:
        return await self._upstream_logins.open_link(exchange.path.removeprefix(CONNECT_PATH))

    def _wrap_handler(
        self, handler: Callable[[HttpExchange], Awaitable[None]]
    ) -> Callable[[HttpExchange], Awaitable[None]]:
        async def serve(exchange: HttpExchange) -> None:
            try:
                check_origin(exchange, self._upstream_logins.base_url)
                await handler(exchange)
            except (BadParameters, LinkRefused) as error:
                await self._refuse(exchange, f"{error.message}.", 400)
            except PageError as error:
                await self._refuse(exchange, error.message, error.status)
            except OAuthError as error:
                logger.warning("user_login_failed", extra={"reason": error.message})
                await self._refuse(exchange, _LOGIN_FAILED, 502)
            except HubbubError as error:
                logger.error("connect_page_failed", extra={"reason": error.message})
                await self._refuse(exchange, "This hub has a problem at the moment. Try again later.", 503)

        return serve

    async def _refuse(self, exchange: HttpExchange, message: str, status: int) -> None:
        page = pages.error_page(
            server_name=self._hub_name, title="This login cannot continue", message=message, style_url=self._style_url
        )
        await respond_page(exchange, page, status=status)


_KEY_FIELD: Final = """\
<label for="key">Your API key for this hub</label>
{field}
<p class="muted">The hub needs it to check that this link was made for you. The key is not sent to any other server.</p>
"""


def _check_person(person: HubUser, link: LoginLink) -> None:
    """Raises: LinkRefused, if the link was made for another user."""
    if person != link.user:
        raise LinkRefused(
            "This link was made for another user of this hub. Do not use links that other people sent you"
        )


def _cookie_name(state: str) -> str:
    return _COOKIE_PREFIX + sha256(state.encode("utf-8", "replace")).hexdigest()[:16]
