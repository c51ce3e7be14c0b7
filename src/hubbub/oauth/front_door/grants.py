"""Authorization, token and revocation requests, by the rules of authlib's grants. The only module here that imports it.

authlib parses nothing and stores nothing: requests arrive as parameters, and its hooks, which are synchronous, run as
one function in one transaction. So a token request is committed as a whole, also if it is refused: a code is used up,
and a refresh token that was used before ends its grant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Payload,
    OAuth2Request,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge

from hubbub.errors import HubbubError
from hubbub.oauth.front_door import limits, store
from hubbub.oauth.front_door.clients import AUTH_METHODS, Client, hash_secret
from hubbub.oauth.front_door.key_logins import LoginStatus
from hubbub.oauth.front_door.records import Authorization, AuthorizationCode, Grant, RefreshToken, User
from hubbub.store.sql import Connection

_NOMINAL_URL: Final = "https://hub.invalid/oauth"
"""authlib requires an https URL, and uses it for nothing else; TLS is checked elsewhere."""

_KEY_ENDED: Final = "The API key that the person logged in with was revoked, rotated or has expired; log in again."

SignToken = Callable[[Grant, tuple[str, ...]], str]
FindClient = Callable[[str], Client | None]
CheckLogin = Callable[[User], LoginStatus | None]


class RequestRefused(HubbubError):
    """An authorization request that must not lead to a login."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error


class TokenResponse(msgspec.Struct, frozen=True):
    """The response of the token or the revocation endpoint."""

    status: int
    body: Mapping[str, Any]
    headers: tuple[tuple[str, str], ...] = ()
    ended_grant_ids: tuple[str, ...] = ()
    """The grants that this request ended."""


class TokenContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a token request needs besides its parameters."""

    connection: Connection
    find_client: FindClient
    sign: SignToken
    check_login: CheckLogin
    """Whether the API key that a person logged in with is still valid."""
    refresh_key: bytes
    """The key from which the next refresh token is derived."""
    now: float
    jkt: str = ""
    """The thumbprint of the key that the client proved to have; empty without DPoP."""


def check_authorization_request(parameters: Mapping[str, list[str]], client: Client) -> None:
    """Check an authorization request.

    Raises: RequestRefused.
    """
    server = _Server(lambda client_id: client)
    server.register_grant(_CodeGrant, [_RequiredChallenge(required=True)])
    try:
        server.get_consent_grant(_request("GET", parameters, {}))
    except ValueError:
        # authlib refuses to quote a parameter with characters that an error must not contain.
        raise RequestRefused("invalid_request", "A parameter has characters that it must not have.") from None
    except OAuth2Error as error:
        description = str(error.get_error_description() or error.error)
        raise RequestRefused(str(error.error), description) from None


def answer_token_request(
    context: TokenContext, parameters: Mapping[str, list[str]], headers: Mapping[str, str]
) -> TokenResponse:
    """Answer a token request, within a transaction."""
    server = _Server(context.find_client, context)
    server.register_grant(_CodeGrant, [_RequiredChallenge(required=True)])
    server.register_grant(_RefreshGrant)
    response: TokenResponse = server.create_token_response(_request("POST", parameters, headers))
    return response


def answer_revocation_request(
    context: TokenContext, parameters: Mapping[str, list[str]], headers: Mapping[str, str], grant_id: str
) -> TokenResponse:
    """Answer a revocation request, within a transaction. `grant_id`: that of the access token that was sent, if any."""
    server = _Server(context.find_client, context)
    endpoint = _Revocation(server)
    endpoint.grant_id = grant_id
    server.register_endpoint(endpoint)
    response: TokenResponse = server.create_endpoint_response("revocation", _request("POST", parameters, headers))
    return response


class _Payload(OAuth2Payload):  # type: ignore[misc]
    def __init__(self, parameters: Mapping[str, list[str]]) -> None:
        self._lists = parameters

    @property
    def data(self) -> dict[str, str]:
        return {name: values[0] for name, values in self._lists.items()}

    @property
    def datalist(self) -> Mapping[str, list[str]]:
        return self._lists


class _Request(OAuth2Request):  # type: ignore[misc]
    @property
    def args(self) -> dict[str, str]:
        return dict(self.payload.data)

    @property
    def form(self) -> dict[str, str]:
        return dict(self.payload.data)


def _request(method: str, parameters: Mapping[str, list[str]], headers: Mapping[str, str]) -> _Request:
    request = _Request(method, _NOMINAL_URL, headers=dict(headers))
    request.payload = _Payload(parameters)
    return request


class _Server(AuthorizationServer):  # type: ignore[misc]
    def __init__(self, find_client: FindClient, context: TokenContext | None = None) -> None:
        super().__init__()
        self._find_client = find_client
        self._context = context
        self.ended_grant_ids: list[str] = []

    @property
    def context(self) -> TokenContext:
        assert self._context is not None
        return self._context

    def query_client(self, client_id: str) -> Client | None:
        return self._find_client(client_id)

    def create_oauth2_request(self, request: _Request) -> _Request:
        return request

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        pass

    def handle_response(self, status: int, body: Any, headers: Any) -> TokenResponse:
        content = dict(body) if not isinstance(body, str) else {}
        return TokenResponse(status, content, tuple(headers), tuple(self.ended_grant_ids))

    def make_response(self, grant: Grant, scopes: tuple[str, ...], token: RefreshToken) -> dict[str, Any]:
        return {
            "access_token": self.context.sign(grant, scopes),
            "token_type": "DPoP" if grant.jkt else "Bearer",
            "expires_in": int(limits.ACCESS_TOKEN_S),
            "refresh_token": str(token),
            # Also if there are none: without it, clients believe that they got what they asked for (RFC 6749 §5.1).
            "scope": " ".join(scopes),
        }


class _RequiredChallenge(CodeChallenge):  # type: ignore[misc]
    """PKCE by S256 only, of every client."""

    SUPPORTED_CODE_CHALLENGE_METHOD: Final = ["S256"]

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        data = grant.request.payload.data
        if not data.get("code_challenge") or not data.get("code_challenge_method"):
            raise InvalidRequestError("PKCE is required: send code_challenge, and code_challenge_method=S256")
        super().validate_code_challenge(grant, redirect_uri)


class _CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS: Final = list(AUTH_METHODS)

    server: _Server

    def query_authorization_code(self, code: str, client: Client) -> AuthorizationCode | None:
        context = self.server.context
        found, ended = store.take_code(context.connection, hash_secret(code).hex(), client.client_id, context.now)
        self.server.ended_grant_ids += ended
        return found

    def create_token_response(self) -> Any:
        code: AuthorizationCode = self.request.authorization_code
        context = self.server.context
        _check_resource(self.request, code.authorization)
        if code.dpop_jkt and code.dpop_jkt != context.jkt:
            raise InvalidGrantError("The code is bound to another DPoP key.")
        login = context.check_login(code.authorization.user)
        if login is None:
            raise InvalidGrantError(_KEY_ENDED)
        grant, token, ended = store.add_grant(context.connection, code, context.jkt, context.now)
        self.server.ended_grant_ids += ended
        response = self.server.make_response(grant, _select_scopes(code.authorization, login), token)
        return 200, response, self.TOKEN_RESPONSE_HEADER


class _RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS: Final = list(AUTH_METHODS)

    server: _Server

    def authenticate_refresh_token(self, refresh_token: str) -> Grant | None:
        context = self.server.context
        self._token = RefreshToken.parse(refresh_token)
        return None if self._token is None else store.find_grant(context.connection, self._token, context.now)

    def create_token_response(self) -> Any:
        grant: Grant = self.request.refresh_token
        context = self.server.context
        _check_resource(self.request, grant.authorization)
        if grant.jkt != context.jkt:
            raise InvalidGrantError("The refresh token is bound to a DPoP key; send a proof of that key.")
        assert self._token is not None
        login = context.check_login(grant.authorization.user)
        if login is None:
            self.server.ended_grant_ids += store.end_grants(context.connection, [grant.grant_id], context.now)
            raise InvalidGrantError(_KEY_ENDED)
        requested = (self.request.payload.scope or "").split()
        permitted = _select_scopes(grant.authorization, login)
        scopes = tuple(scope for scope in permitted if not requested or scope in requested)
        next_token = store.rotate_token(context.connection, grant, self._token, context.refresh_key, context.now)
        if next_token is None:
            self.server.ended_grant_ids.append(grant.grant_id)
            raise InvalidGrantError("The refresh token was used before, so the grant has ended; log in again.")
        return 200, self.server.make_response(grant, scopes, next_token), self.TOKEN_RESPONSE_HEADER


class _Revocation(RevocationEndpoint):  # type: ignore[misc]
    CLIENT_AUTH_METHODS: Final = list(AUTH_METHODS)
    grant_id = ""

    def check_params(self, request: _Request, client: Client) -> None:
        if "token" not in request.form:
            raise InvalidRequestError("Missing 'token' in request.")

    def query_token(self, token_string: str, token_type_hint: str | None) -> Grant | None:
        context = self.server.context
        token = RefreshToken.parse(token_string)
        if self.grant_id:
            return store.find_grant_by_id(context.connection, self.grant_id, context.now)
        return None if token is None else store.find_grant(context.connection, token, context.now)

    def revoke_token(self, token: Grant, request: _Request) -> None:
        context = self.server.context
        self.server.ended_grant_ids += store.end_grants(context.connection, [token.grant_id], context.now)


def _select_scopes(authorization: Authorization, login: LoginStatus) -> tuple[str, ...]:
    """Return the scopes of the consent that the person may still grant."""
    return tuple(scope for scope in authorization.scopes if login.scopes is None or scope in login.scopes)


def _check_resource(request: _Request, authorization: Authorization) -> None:
    """RFC 8707: a token request may repeat the resource that was authorized, and name no other."""
    resources = request.payload.datalist.get("resource", [])
    if any(resource.rstrip("/") != authorization.resource.rstrip("/") for resource in resources):
        error = InvalidScopeError("The resource is not the one that was authorized.")
        error.error = "invalid_target"
        raise error
