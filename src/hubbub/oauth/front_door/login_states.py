"""What is sealed between two requests of the browser during a login."""

from __future__ import annotations

import msgspec

from hubbub.oauth.front_door.records import User


class ClientRequest(msgspec.Struct, frozen=True, array_like=True):
    """The authorization request of a client, after it was checked."""

    client_id: str
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    resource: str
    code_challenge: str
    dpop_jkt: str
    requires_consent: bool
    """Whether the client requires the consent page (`prompt=consent`) even if the person consented before."""


class LoginState(msgspec.Struct, frozen=True, array_like=True):
    """Between the request and the login."""

    request: ClientRequest | None
    """None: the login is not for a client, but for a page of this server that has to identify the person."""
    browser: str
    nonce: str
    verifier: str
    return_to: str = ""
    """The path of that page."""


class PersonState(msgspec.Struct, frozen=True, array_like=True):
    """Who has logged in for a page of this server."""

    browser: str
    user: User


class ConsentState(msgspec.Struct, frozen=True, array_like=True):
    """Between the login and the consent."""

    request: ClientRequest
    browser: str
    user: User
    scopes: tuple[str, ...]
    id: str
    """Identifies this consent page, which can be answered once."""
