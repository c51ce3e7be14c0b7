"""Requests to authorization servers: JSON documents and forms, through the egress guard, within limits.

Redirects are never followed. URLs that another server named may lead to this machine or to the local network only if
that server is itself there: `egress_for_issuer_urls`, or `egress_for_named_url` if the operator configured that server.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from hubbub.errors import EgressRefused, ResponseTooLarge, TransportError
from hubbub.net.client import UNREACHABLE, HttpClient
from hubbub.net.egress import ANY_ADDRESS, EgressPolicy, egress_policy, normalize_host
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.oauth import limits
from hubbub.oauth.errors import OAuthError, ServerUnavailable, mask_values
from hubbub.oauth.metadata import show_url
from hubbub.protocol.host_origin import DEFAULT_PORTS

_FORM: Final = "application/x-www-form-urlencoded"


class ErrorResponse(msgspec.Struct, frozen=True):
    """The error of a response (RFC 6749 §5.2); empty if there is none that can be read."""

    error: str = ""
    error_description: str = ""

    def mask_sent_values(self, form: Mapping[str, str], headers: Mapping[str, str], secret: str) -> ErrorResponse:
        """Return the error without values of the request, which the server may have repeated."""
        sent = [*form.values(), *(value.removeprefix("Basic ") for value in headers.values()), secret]
        return ErrorResponse(mask_values(self.error, sent), mask_values(self.error_description, sent))


class DocumentResponse(msgspec.Struct, frozen=True):
    """A response, read completely."""

    status: int
    body: bytes
    dpop_nonce: str = ""
    www_authenticate: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300

    @property
    def error(self) -> ErrorResponse:
        """The OAuth error in the body."""
        try:
            return msgspec.json.decode(self.body, type=ErrorResponse)
        except (msgspec.DecodeError, RecursionError):
            return ErrorResponse()


class DocumentClient:
    """Fetches documents and posts forms. One connection for each request, so nothing has to be closed."""

    def __init__(self, egress: EgressPolicy = ANY_ADDRESS, rules: EgressRules = NO_RULES) -> None:
        """`egress`: `ANY_ADDRESS` only for URLs that the operator configured."""
        self._egress = egress
        self._rules = rules

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> DocumentResponse:
        """Fetch a document.

        Raises: OAuthError, if no response arrived.
        """
        return await self.send("GET", url, headers={"Accept": "application/json", **(headers or {})})

    async def post_form(
        self, url: str, form: Mapping[str, str], *, headers: Mapping[str, str] | None = None
    ) -> DocumentResponse:
        """Post a form.

        Raises: OAuthError, if no response arrived.
        """
        return await self.send(
            "POST",
            url,
            headers={"Accept": "application/json", "Content-Type": _FORM, **(headers or {})},
            body=urlencode(form).encode(),
        )

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> DocumentResponse:
        """Send a request and read the response.

        Raises:
            ServerUnavailable: no response arrived.
            OAuthError: the URL must not be requested, or the response is too large.
        """
        shown = show_url(url)
        http_client = HttpClient(self._egress, rules=self._rules)
        try:
            async with asyncio.timeout(limits.REQUEST_TIMEOUT_S):
                response = await http_client.send(method, url, headers=headers, body=body)
                return DocumentResponse(
                    response.status,
                    await response.read(limits.DOCUMENT_BYTES),
                    response.header("DPoP-Nonce"),
                    response.header("WWW-Authenticate"),
                )
        except (EgressRefused, ResponseTooLarge) as error:
            raise OAuthError(f"{shown} cannot be reached: {error.message}") from error
        except TransportError as error:
            reason = error.message.removeprefix(UNREACHABLE)
            raise ServerUnavailable(f"{shown} cannot be reached: {reason}") from error
        except TimeoutError as error:
            raise ServerUnavailable(
                f"{shown} did not answer within {limits.REQUEST_TIMEOUT_S:g} s; try again"
            ) from error
        finally:
            await http_client.close()


def basic_authorization(client_id: str, secret: str) -> dict[str, str]:
    """Return the header that authenticates a client; both parts are form-encoded first (RFC 6749 §2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
    return {"Authorization": f"Basic {b64encode(pair).decode()}"}


def egress_for_named_url(url: str, issuer: str, rules: EgressRules) -> EgressPolicy:
    """Return the policy for a URL in the metadata of an issuer that the operator configured.

    The issuer's own origin may have any address, whatever its name looks like: in many companies `login.example.com` is
    in the local network. So may hosts that the operator allows with their port.
    """
    if origin(url) == origin(issuer) or is_allowed_with_port(url, rules):
        return ANY_ADDRESS
    return egress_for_issuer_urls(issuer)


def is_allowed_with_port(url: str, rules: EgressRules) -> bool:
    """Whether an entry of `allow` names the host of a URL with its port, and not a whole domain."""
    scheme, host, port = origin(url)
    return any(
        entry.port is not None
        and not entry.host.startswith(".")
        and entry.matches(host, port, is_tls=scheme == "https")
        for entry in rules.allow or ()
    )


def origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, the normalized host and the port of a URL that was checked."""
    parts = urlsplit(url)
    return parts.scheme, normalize_host(parts.hostname or ""), parts.port or DEFAULT_PORTS[parts.scheme]


def egress_for_issuer_urls(server_url: str, allow_private_network: bool | None = None) -> EgressPolicy:
    """Return the policy for URLs that a server names: private addresses only if the server's own URL may have them."""
    return egress_policy(urlsplit(server_url).hostname or "", allow_private_network)
