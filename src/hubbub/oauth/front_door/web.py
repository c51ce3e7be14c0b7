"""Requests from browsers and clients, and responses to them: parameters, pages, redirects, the cookie of a browser."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from hubbub.errors import HubbubError
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.pages import STYLE
from hubbub.ports import HttpExchange
from hubbub.protocol.host_origin import parse_origin
from hubbub.protocol.http_headers import HeaderList

COOKIE_NAME: Final = "hubbub-login"
_COOKIE_S: Final = 86_400
_COOKIE_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_FIELDS: Final = 64
_REPEATABLE: Final = frozenset(("resource",))
_LONG_PARAMETERS: Final = frozenset(("state", "code", "token", "client_assertion"))
"""Parameters that may be as long as the request."""
_NO_STORE: Final = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))
_PAGE_HEADERS: Final[HeaderList] = (
    *_NO_STORE,
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`, with which browsers send `Origin: null` with the form.
    (b"referrer-policy", b"same-origin"),
    # No `cross-origin-opener-policy`: web apps show these pages in a popup, and their own last page needs its opener.
)

Parameters = Mapping[str, list[str]]


class PageError(HubbubError):
    """A login cannot continue; the message is shown to the person at the browser."""

    def __init__(
        self, message: str, *, title: str = "This login cannot continue", status: int = 400, return_url: str = ""
    ) -> None:
        """`return_url`: where the person can return to the app."""
        super().__init__(message)
        self.title = title
        self.status = status
        self.return_url = return_url


class BadParameters(HubbubError):
    """The parameters of a request cannot be read; the message says why."""


def parse_parameters(text: str) -> dict[str, list[str]]:
    """Parse a query or a form.

    Raises: BadParameters, if it is malformed or a parameter occurs twice: two parsers could pick different values.
    """
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise BadParameters("The parameters cannot be read; send them form-encoded, in UTF-8") from None
    for name, values in found.items():
        if len(values) > 1 and name not in _REPEATABLE:
            raise BadParameters(f"The parameter {name[:40]!r} occurs twice")
        if any(len(value) > limits.PARAMETER_CHARACTERS for value in values) and name not in _LONG_PARAMETERS:
            raise BadParameters(f"The parameter {name[:40]!r} is too long")
    # A parameter without a value counts as omitted: RFC 6749 §3.1.
    return {name: values for name, values in found.items() if any(values)}


def read_query(exchange: HttpExchange) -> dict[str, list[str]]:
    """Parse the query of a request.

    Raises: BadParameters.
    """
    if len(exchange.query) > limits.FORM_BYTES:
        raise BadParameters("The request is too long")
    return parse_parameters(exchange.query)


async def read_form(exchange: HttpExchange) -> dict[str, list[str]]:
    """Read the form in the body of a request.

    Raises: BadParameters.
    """
    kind = (exchange.headers.get(b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadParameters("Send the parameters in the body, as application/x-www-form-urlencoded")
    body = await exchange.body()
    if len(body) > limits.FORM_BYTES:
        raise BadParameters("The request is too long")
    return parse_parameters(body.decode("utf-8", "replace"))


def check_origin(exchange: HttpExchange, own_url: str) -> None:
    """Refuse requests of pages of other origins, even those in `allowed_origins`.

    They could read the forms of this browser and submit them. Links and redirects have no `Origin`.

    Raises: PageError.
    """
    origin, own = exchange.headers.get(b"origin"), urlsplit(own_url)
    if origin is not None and parse_origin(origin) != parse_origin(f"{own.scheme}://{own.netloc}"):
        raise PageError("This request was sent by a page of another site. Start the login again.", status=403)


def first(parameters: Parameters, name: str) -> str:
    """Return a parameter; empty if it is missing."""
    return parameters.get(name, [""])[0]


def add_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to a redirect URI, and keep those that it has."""
    separator = "&" if "?" in uri else "?"
    return uri + separator + urlencode(parameters)


# -- responses -----------------------------------------------------------------------


async def respond_json(exchange: HttpExchange, status: int, body: Any, headers: HeaderList = _NO_STORE) -> None:
    """Send JSON."""
    await exchange.respond(status, msgspec.json.encode(body), headers)


async def respond_error(exchange: HttpExchange, error: str, description: str, status: int = 400) -> None:
    """Send an error to a client (RFC 6749 §5.2)."""
    await respond_json(exchange, status, {"error": error, "error_description": description})


async def serve_style(exchange: HttpExchange) -> None:
    """Serve the style sheet of the pages."""
    fields = ((b"cache-control", b"public, max-age=300"), (b"x-content-type-options", b"nosniff"))
    await exchange.respond(200, STYLE, fields, content_type=b"text/css; charset=utf-8")


async def respond_page(
    exchange: HttpExchange, page: bytes, *, status: int = 200, form_target: str = "", headers: HeaderList = ()
) -> None:
    """Send a page that runs nothing, loads only its style sheet, and cannot be framed.

    `form_target`: the redirect URI to which the answer to its form may lead, since browsers apply `form-action` to
    redirects too.
    """
    policy = (
        f"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        f"form-action 'self'{_form_targets(form_target)}"
    )
    fields = (*_PAGE_HEADERS, (b"content-security-policy", policy.encode()), *headers)
    await exchange.respond(status, page, fields, content_type=b"text/html; charset=utf-8")


def _form_targets(redirect_uri: str) -> str:
    if not redirect_uri:
        return ""
    # Clients redirect once more themselves, often to an https page.
    scheme = urlsplit(redirect_uri).scheme
    return " https:" + ("" if scheme == "https" else f" {scheme}:")


async def redirect(exchange: HttpExchange, url: str, headers: HeaderList = ()) -> None:
    """Send the browser elsewhere, with GET."""
    fields = (*_NO_STORE, (b"referrer-policy", b"no-referrer"), *headers, (b"location", url.encode("ascii")))
    await exchange.respond(303, b"", fields)


# -- the browser ---------------------------------------------------------------------


class BrowserCookie:
    """Recognizes a browser by a cookie, so that a login that began in one is not continued in another."""

    def __init__(self, issuer: str) -> None:
        self._is_secure = issuer.startswith("https:")
        # The prefix makes browsers refuse the cookie from other hosts and from pages without TLS.
        self._name = f"__Host-{COOKIE_NAME}" if self._is_secure else COOKIE_NAME

    def read(self, exchange: HttpExchange) -> str:
        """Return the cookie; empty if it is missing."""
        for pair in (exchange.headers.get(b"cookie") or "").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._name:
                return value
        return ""

    def read_or_make(self, exchange: HttpExchange) -> tuple[str, HeaderList]:
        """Return the cookie and the header that sets it."""
        value = self.read(exchange)
        if not _COOKIE_VALUE.fullmatch(value):
            value = secrets.token_urlsafe(32)
        # `Lax`: the identity provider's redirect back is a navigation from another site.
        attributes = f"Path=/; Max-Age={_COOKIE_S}; HttpOnly; SameSite=Lax{'; Secure' if self._is_secure else ''}"
        return value, ((b"set-cookie", f"{self._name}={value}; {attributes}".encode()),)


def hash_browser_cookie(cookie: str) -> str:
    """Return the hash of the cookie that a sealed state contains."""
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
