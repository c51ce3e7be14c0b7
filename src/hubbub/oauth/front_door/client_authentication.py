"""How clients authenticate at the token and revocation endpoints, checked before authlib's grants see a request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from hubbub.oauth.errors import OAuthError
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.attempt_limiter import AttemptLimiter
from hubbub.oauth.front_door.clients import Client
from hubbub.oauth.front_door.web import BadParameters, Parameters, first
from hubbub.ports import HttpExchange
from hubbub.security.rates import Rate

_BASIC: Final = "basic"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class ClientCredentials(msgspec.Struct, frozen=True):
    """What a request has of its client."""

    client_id: str
    secret: str
    headers: dict[str, str]
    """The header that authlib reads; it has the same id and secret."""
    assertion: str = ""
    """A signed JWT (`private_key_jwt`)."""


class _Subject(msgspec.Struct, frozen=True):
    sub: str


def read_client_credentials(exchange: HttpExchange, form: Parameters) -> ClientCredentials:
    """Read the id of a client with its secret, from HTTP Basic or from the form, or with its assertion.

    Raises:
        OAuthError: HTTP Basic or the assertion is malformed.
        BadParameters: the request uses more than one method (RFC 6749 §2.3).
    """
    client_id, secret = first(form, "client_id"), first(form, "client_secret")
    scheme, _, value = (exchange.headers.get(b"authorization") or "").partition(" ")
    assertion = first(form, "client_assertion")
    if assertion and (secret or scheme.lower() == _BASIC):
        raise BadParameters("Send client_assertion or a client secret, not both")
    if assertion and first(form, "client_assertion_type") != _ASSERTION_TYPE:
        raise OAuthError(f"client_assertion_type must be {_ASSERTION_TYPE}")
    if scheme.lower() != _BASIC:
        return ClientCredentials(client_id or _read_subject(assertion), secret, {}, assertion)
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise OAuthError("The Authorization header is not valid HTTP Basic") from None
    user, colon, password = text.partition(":")
    user, password = unquote(user), unquote(password)
    if not colon or not user:
        raise OAuthError("The Authorization header must have the client id and the secret")
    if "client_secret" in form or client_id not in ("", user):
        raise BadParameters("Send the client id and secret either by HTTP Basic or in the body, not both")
    pair = f"{quote(user, safe='')}:{quote(password, safe='')}".encode()
    return ClientCredentials(user, password, {"Authorization": f"Basic {base64.b64encode(pair).decode()}"})


def _read_subject(assertion: str) -> str:
    """Return the subject of an unverified assertion, for forms without `client_id` (RFC 7521 §4.2)."""
    if not assertion:
        return ""
    try:
        payload = assertion.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Subject).sub
    except (IndexError, ValueError, RecursionError):
        raise OAuthError("client_assertion is not a JWT with a subject") from None


class SecretGuessLimiter:
    """Limits wrong secrets of the clients in the settings, which an operator chose; others are too long to guess."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._wrong_secrets = AttemptLimiter(Rate(limits.WRONG_SECRETS_PER_MINUTE, 60, "minute"), clock)

    def check(self, client: Client | None, secret: str, address: str) -> int:
        """Count a wrong secret; return in how many seconds this address may try again, 0: the request may continue."""
        if client is None or not client.is_configured or client.secret_hash is None or not secret:
            return 0
        wait_s = self._wrong_secrets.wait_s(address)
        if not wait_s and not client.check_client_secret(secret):
            self._wrong_secrets.add(address)
        return wait_s
