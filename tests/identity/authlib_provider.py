"""Runs authlib's authorization server with OpenID Connect, on Flask, on a free port of this machine.

    python authlib_provider.py OPTIONS

Options and commands are those of `oidc_provider.mjs`. Authlib leaves the storage, the pages and the document of
metadata to its users; only these are written here.
"""

import json
import os
import secrets
import sys
import threading
import time
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin, grants, list_to_scope, scope_to_list
from authlib.oauth2.rfc6749.errors import InvalidGrantError
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207 import IssuerParameter
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, Response, redirect, request, session
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import BaseWSGIServer, make_server

OPTIONS = json.loads(sys.argv[1])
PEOPLE: dict[str, dict[str, Any]] = OPTIONS["people"]
SCOPES = ["openid", "offline_access", "profile", "email", "mcp:tools", "mcp:admin", "notes:read", "notes:write"]
AUTH_METHODS = ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
GRANT_TYPES = ["authorization_code", "refresh_token", "client_credentials", TOKEN_EXCHANGE]
TOKEN_TTL_S = 600
CODE_TTL_S = 60


class Person:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_user_id(self) -> str:
        return self.name


def claims_of(person: Person) -> dict[str, Any]:
    return {name: PEOPLE[person.name][name] for name in ("email", "tenant", "groups")}


@dataclass
class Client(ClientMixin):
    info: dict[str, Any]
    metadata: dict[str, Any]

    def get_client_id(self) -> Any:
        return self.info["client_id"]

    def get_default_redirect_uri(self) -> Any:
        return next(iter(self.metadata["redirect_uris"]), None)

    def get_allowed_scope(self, scope: str | None) -> Any:
        allowed = set(scope_to_list(self.metadata.get("scope") or " ".join(SCOPES)))
        return list_to_scope([name for name in scope_to_list(scope or "") or [] if name in allowed])

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.metadata["redirect_uris"]

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(self.info["client_secret"], client_secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return bool(method == self.metadata.get("token_endpoint_auth_method", "client_secret_basic"))

    def check_response_type(self, response_type: str) -> bool:
        return response_type in self.metadata.get("response_types", ["code"])

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


@dataclass
class Code(AuthorizationCodeMixin):
    value: str
    client_id: str
    redirect_uri: str
    scope: str
    person: Person
    resource: str | None
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None
    auth_time: int = field(default_factory=lambda: int(time.time()))

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return self.auth_time

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> list[str]:
        return ["pwd"]


@dataclass
class Token(TokenMixin):
    access_token: str
    refresh_token: str | None
    client: Client
    person: Person | None
    scope: str
    resource: str | None
    expires_at: int
    is_ended: bool = False

    def check_client(self, client: Client) -> bool:
        return bool(client.get_client_id() == self.client.get_client_id())

    def get_scope(self) -> str:
        return self.scope

    def is_expired(self) -> bool:
        return time.time() > self.expires_at

    def is_revoked(self) -> bool:
        return self.is_ended


class Keys:
    def __init__(self) -> None:
        self.rotate()

    def rotate(self) -> None:
        self.current = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256", "kid": secrets.token_hex(8)})

    @property
    def published(self) -> Any:
        return KeySet([self.current]).as_dict(private=False)


CLIENTS: dict[str, Client] = {}
CODES: dict[str, Code] = {}
TOKENS: list[Token] = []
KEYS = Keys()
IS_DOWN = threading.Event()
# The resource of a request without the parameter is that of its grant, which authlib's generator is not given.
GRANTED = threading.local()


def requested_resource() -> str | None:
    return request.values.get("resource") or getattr(GRANTED, "resource", None)


def save_token(token: dict[str, Any], oauth_request: Any) -> None:
    TOKENS.append(
        Token(
            token["access_token"],
            token.get("refresh_token"),
            oauth_request.client,
            oauth_request.user,
            token.get("scope", ""),
            requested_resource(),
            int(time.time()) + token["expires_in"],
        )
    )


class TokenGenerator(JWTBearerTokenGenerator):
    def get_jwks(self) -> Any:
        return KEYS.current

    def get_audiences(self, client: Client, user: Person | None, scope: str) -> Any:
        return requested_resource() or client.get_client_id()

    def get_extra_claims(self, client: Client, grant_type: str, user: Person | None, scope: str) -> dict[str, Any]:
        return {} if user is None else claims_of(user)

    def access_token_generator(self, client: Client, grant_type: str, user: Person | None, scope: str) -> Any:
        if client.info["access_token_format"] == "opaque":
            return secrets.token_urlsafe(32)
        return super().access_token_generator(client, grant_type, user, scope)


class AuthorizationCodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS

    def save_authorization_code(self, code: str, oauth_request: Any) -> None:
        asked = oauth_request.payload.data
        CODES[code] = Code(
            code,
            oauth_request.client.get_client_id(),
            oauth_request.payload.redirect_uri,
            oauth_request.scope,
            oauth_request.user,
            asked.get("resource"),
            asked.get("nonce"),
            asked.get("code_challenge"),
            asked.get("code_challenge_method"),
        )

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        found = CODES.get(code)
        if found is None or found.client_id != client.get_client_id() or found.auth_time + CODE_TTL_S < time.time():
            return None
        GRANTED.resource = found.resource
        return found

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del CODES[authorization_code.value]

    def authenticate_user(self, authorization_code: Code) -> Person:
        return authorization_code.person


class RefreshTokenGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
        found = next((token for token in TOKENS if token.refresh_token == refresh_token), None)
        if found is None or found.is_ended:
            return None
        GRANTED.resource = found.resource
        return found

    def authenticate_user(self, refresh_token: Token) -> Person | None:
        return refresh_token.person

    def revoke_old_credential(self, refresh_token: Token) -> None:
        refresh_token.is_ended = True


class ClientCredentialsGrant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS


class TokenExchangeGrant(grants.BaseGrant, grants.TokenEndpointMixin):
    """RFC 8693 for access tokens of this provider: the client gets one for another resource, in the person's name."""

    GRANT_TYPE = TOKEN_EXCHANGE
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS

    def validate_token_request(self) -> None:
        self.request.client = self.authenticate_token_endpoint_client()
        token = _find_token(self.request.payload.data.get("subject_token", ""), None)
        if token is None or token.is_revoked() or token.is_expired() or token.person is None:
            raise InvalidGrantError("'subject_token' is invalid")
        self.request.user = token.person
        self.validate_requested_scope()

    def create_token_response(self) -> Any:
        scope, person = self.request.payload.scope, self.request.user
        token = self.generate_token(user=person, scope=scope, include_refresh_token=False)
        self.save_token(token)
        return 200, {**token, "issued_token_type": ACCESS_TOKEN_TYPE}, self.TOKEN_RESPONSE_HEADER


class OpenId(OpenIDCode):
    def exists_nonce(self, nonce: str, oauth_request: Any) -> bool:
        return any(code.nonce == nonce for code in CODES.values())

    def resolve_client_private_key(self, client: Client) -> Any:
        return KEYS.current

    def get_client_claims(self, client: Client) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": ISSUER, "aud": [client.get_client_id()], "iat": now, "exp": now + TOKEN_TTL_S}

    def generate_user_info(self, user: Person, scope: str) -> UserInfo:
        return UserInfo(sub=user.name, name=PEOPLE[user.name]["name"], **claims_of(user))


def _find_token(value: str, hint: str | None) -> Token | None:
    return next((token for token in TOKENS if value in (token.access_token, token.refresh_token)), None)


class Introspection(IntrospectionEndpoint):
    CLIENT_AUTH_METHODS = AUTH_METHODS[:2]

    def query_token(self, token_string: str, token_type_hint: str | None) -> Token | None:
        return _find_token(token_string, token_type_hint)

    def check_permission(self, token: Token, client: Client, oauth_request: Any) -> bool:
        return True

    def introspect_token(self, token: Token) -> dict[str, Any]:
        subject = token.client.get_client_id() if token.person is None else token.person.name
        extra = {} if token.person is None else claims_of(token.person)
        facts = {"iss": ISSUER, "sub": subject, "client_id": token.client.get_client_id(), "scope": token.scope}
        return {"token_type": "Bearer", "aud": token.resource, "exp": token.expires_at, **facts, **extra}


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = AUTH_METHODS

    def query_token(self, token_string: str, token_type_hint: str | None) -> Token | None:
        return _find_token(token_string, token_type_hint)

    def revoke_token(self, token: Token, oauth_request: Any) -> None:
        token.is_ended = True


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, oauth_request: Any) -> bool:
        return True

    def get_server_metadata(self) -> dict[str, Any]:
        return metadata()

    def save_client(self, client_info: dict[str, Any], client_metadata: dict[str, Any], oauth_request: Any) -> Client:
        asked = oauth_request.payload.data
        ours = {"access_token_format": "jwt", "access_token_ttl": TOKEN_TTL_S}
        chosen = {name: asked.get(name, default) for name, default in ours.items()}
        client = Client({**client_info, **chosen}, client_metadata)
        CLIENTS[client.get_client_id()] = client
        return client


class ClientAssertion(JWTBearerClientAssertion):
    CLIENT_AUTH_METHOD = "private_key_jwt"
    USED: ClassVar[set[str]] = set()

    def get_audiences(self) -> list[str]:
        return [ISSUER, f"{ISSUER}/token"]

    def validate_jti(self, claims: dict[str, Any], jti: str) -> bool:
        is_new = jti not in self.USED
        self.USED.add(jti)
        return is_new

    def resolve_client_public_key(self, client: Client) -> Any:
        return KeySet.import_key_set(client.metadata["jwks"])


class Issuer(IssuerParameter):
    def get_issuer(self) -> str:
        return ISSUER


def metadata() -> dict[str, Any]:
    return {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
        "introspection_endpoint": f"{ISSUER}/introspect",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "end_session_endpoint": f"{ISSUER}/logout",
        "jwks_uri": f"{ISSUER}/jwks",
        "scopes_supported": SCOPES,
        "response_types_supported": ["code"],
        "grant_types_supported": GRANT_TYPES,
        "token_endpoint_auth_methods_supported": AUTH_METHODS,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "EdDSA", "Ed25519"],
        "code_challenge_methods_supported": ["S256"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "authorization_response_iss_parameter_supported": True,
    }


app = Flask("authlib_provider")
app.secret_key = secrets.token_bytes(32)


@app.before_request
def _forget_the_last_grant() -> None:
    GRANTED.resource = None


@app.get("/.well-known/openid-configuration")
@app.get("/.well-known/oauth-authorization-server")
def _metadata() -> dict[str, Any]:
    return metadata()


@app.get("/jwks")
def _jwks() -> Any:
    return KEYS.published


def _page(title: str, form: str) -> str:
    head = f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1>'
    return f'{head}<form method="post">{form}</form></html>'


@app.route("/login", methods=["GET", "POST"])
def _login() -> Any:
    name = request.form.get("username", "")
    if request.method == "POST" and name in PEOPLE:
        session["person"] = name
        return redirect(f"/authorize?{request.query_string.decode()}")
    fields = '<input name="username"><input name="password" type="password"><button>Sign in</button>'
    return Response(_page("Sign in", fields), 200 if request.method == "GET" else 403)


@app.route("/authorize", methods=["GET", "POST"])
def _authorize() -> Any:
    name = session.get("person")
    if name is None:
        return redirect(f"/login?{request.query_string.decode()}")
    person = Person(name)
    try:
        grant = server.get_consent_grant(end_user=person)
    except OAuth2Error as error:
        return server.handle_error_response(request, error)
    if request.method == "GET":
        client = escape(grant.client.metadata.get("client_name") or "A client")
        button = '<button name="answer" value="yes">Allow</button><button name="answer" value="no">Deny</button>'
        return _page(f"{client} asks for access", button)
    is_allowed = request.form.get("answer") == "yes"
    return server.create_authorization_response(grant=grant, grant_user=person if is_allowed else None)


@app.get("/logout")
def _logout() -> Any:
    session.clear()
    return redirect(request.args.get("post_logout_redirect_uri", "/login"))


@app.post("/token")
def _token() -> Any:
    return server.create_token_response()


@app.post("/<any(register, introspect, revoke):name>")
def _endpoint(name: str) -> Any:
    endpoints = {"register": "client_registration", "introspect": "introspection", "revoke": "revocation"}
    return server.create_endpoint_response(endpoints[name])


def listen() -> BaseWSGIServer:
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    # A provider that is down ends each connection at once; its port stays taken, so that no other program gets it.
    vars(listening)["verify_request"] = lambda *_: not IS_DOWN.is_set()
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return listening


def answer(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # it refuses HTTP without it, on this machine too
server = AuthorizationServer(app, query_client=CLIENTS.get, save_token=save_token)
listening = listen()
ISSUER = f"http://127.0.0.1:{listening.port}"
server.register_token_generator(
    "default",
    TokenGenerator(
        ISSUER,
        refresh_token_generator=lambda **_: secrets.token_urlsafe(32),
        expires_generator=lambda client, grant_type: client.info["access_token_ttl"],
    ),
)
server.register_client_auth_method("private_key_jwt", ClientAssertion())
server.register_extension(Issuer())
server.register_grant(AuthorizationCodeGrant, [CodeChallenge(required=True), OpenId()])
server.register_grant(RefreshTokenGrant)
server.register_grant(ClientCredentialsGrant)
server.register_grant(TokenExchangeGrant)
for endpoint in (Introspection, Revocation, Registration):
    server.register_endpoint(endpoint)

answer({"issuer": ISSUER})
for line in sys.stdin:
    match json.loads(line)["command"]:
        case "rotate_keys":
            KEYS.rotate()
        case "go_down":
            IS_DOWN.set()
        case "come_up":
            IS_DOWN.clear()
    answer({"done": True})
