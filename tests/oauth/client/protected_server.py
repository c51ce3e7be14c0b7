"""An MCP server and its authorization server on one port, over real HTTP; a test changes what it is about.

No authorization server in `tests/identity` can be made to misbehave, which is what these tests need.
"""

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from tests.client.scripted_server import ScriptedRequest, ScriptedServer, legacy_handler, scripted_server

from hubbub import Authorizer, Client, OAuth, ServerConfig

REDIRECT_URI = "http://127.0.0.1:1/callback"
Form = dict[str, str]
serve_mcp = legacy_handler(session=None)


class ProtectedServer:
    """The server, and what it was asked."""

    def __init__(self, scripted: ScriptedServer) -> None:
        self.scripted = scripted
        self.origin = f"http://127.0.0.1:{scripted.port}"
        self.url = f"{self.origin}/mcp"
        self.resource: dict[str, Any] = {"resource": self.url, "authorization_servers": [self.origin]}
        self.metadata: dict[str, Any] = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.challenge = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        self.token_fields: dict[str, Any] = {"expires_in": 3600}
        self.redirect_changes: dict[str, str | None] = {}
        """Parameters that the redirect has instead of the right ones; None: leaves one out."""
        self.redirect_uri: str | None = None
        """Where it redirects to, instead of where the client asked for."""
        self.valid_tokens: set[str] = set()
        self.codes: dict[str, Form] = {}
        self.handle: dict[str, Callable[[ScriptedRequest], Awaitable[None]]] = {}
        """Replaces the handler of a path."""
        self.needed_scopes: dict[str, str] = {}
        """By MCP method, the scope that it needs."""
        self.scopes_of: dict[str, set[str]] = {}
        self.authorizations: list[Form] = []
        self.token_requests: list[Form] = []
        self.token_headers: list[dict[str, str]] = []
        self.registrations: list[dict[str, Any]] = []

    async def log_in(self, url: str) -> str:
        """What a browser does in which the person consents: return the URL of the redirect."""
        assert url.startswith(self.metadata["authorization_endpoint"] + "?")
        request = dict(parse_qsl(urlsplit(url).query))
        self.authorizations.append(request)
        code = secrets.token_urlsafe(16)
        self.codes[code] = request
        answer = {"code": code, "state": request["state"], "iss": self.origin}
        changed = {**answer, **self.redirect_changes}
        query = urlencode({name: value for name, value in changed.items() if value is not None})
        return f"{self.redirect_uri or request['redirect_uri']}?{query}"

    def oauth(self, **fields: Any) -> OAuth:
        """Settings of a client whose person consents to everything."""
        return OAuth(**{"redirect_handler": self.log_in, "redirect_uri": REDIRECT_URI, **fields})

    def config(self, auth: OAuth | Authorizer | None = None, **fields: Any) -> ServerConfig:
        pinned = {"protocol_version": "2025-11-25"}
        auth = self.oauth() if auth is None else auth
        return ServerConfig(**{"id": "s", "transport": "http", "url": self.url, "auth": auth, **pinned, **fields})

    def client(self, auth: OAuth | Authorizer | None = None, **fields: Any) -> Client:
        return Client(self.config(auth, **fields))

    def paths(self) -> list[str]:
        """The paths that were requested, MCP left out."""
        return [request.path for request in self.scripted.requests if request.path != "/mcp"]

    def calls(self, method: str) -> list[ScriptedRequest]:
        """The MCP requests of a method that carried a valid token."""
        return [
            request
            for request in self.scripted.requests
            if request.path == "/mcp" and request.rpc == method and self._token_of(request) in self.scopes_of
        ]

    def revoke_tokens(self) -> None:
        """Make every access token invalid."""
        self.valid_tokens.clear()

    def issue(self, scope: str = "") -> dict[str, Any]:
        """Make an answer of the token endpoint."""
        token = secrets.token_urlsafe(16)
        self.valid_tokens.add(token)
        self.scopes_of[token] = set(scope.split())
        refresh = secrets.token_urlsafe(16)
        fields = {"access_token": token, "token_type": "Bearer", "refresh_token": refresh, "scope": scope}
        return {**{name: value for name, value in fields.items() if value}, **self.token_fields}

    async def answer(self, request: ScriptedRequest) -> None:
        path = urlsplit(request.path).path
        if path in self.handle:
            return await self.handle[path](request)
        match path:
            case "/mcp":
                await self.answer_mcp(request)
            case "/.well-known/oauth-protected-resource/mcp":
                await request.reply(200, self.resource)
            case "/.well-known/oauth-authorization-server":
                await request.reply(200, {name: value for name, value in self.metadata.items() if value is not None})
            case "/register":
                self.registrations.append(json.loads(request.body))
                await request.reply(201, {**self.registrations[-1], "client_id": f"client-{len(self.registrations)}"})
            case "/token":
                await self.answer_token_request(request)
            case "/revoke":
                self.token_requests.append(dict(parse_qsl(request.body.decode())))
                await request.reply(200)
            case _:
                await request.reply(404)

    async def answer_mcp(self, request: ScriptedRequest) -> None:
        """Answer an MCP request that has a valid token with enough scopes."""
        token = self._token_of(request)
        if token not in self.valid_tokens:
            return await request.reply(401, www_authenticate=self.challenge)
        needed = self.needed_scopes.get(request.rpc)
        if needed is not None and needed not in self.scopes_of[token]:
            challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
            return await request.reply(403, www_authenticate=challenge)
        await serve_mcp(request)

    async def answer_token_request(self, request: ScriptedRequest) -> None:
        """Exchange a code, or issue tokens for any other grant."""
        form = dict(parse_qsl(request.body.decode()))
        self.token_requests.append(form)
        self.token_headers.append(request.headers)
        scope = form.get("scope", "")
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge:
                return await request.reply(400, {"error": "invalid_grant"})
            scope = asked.get("scope", "")
        await request.reply(200, self.issue(scope))

    def _token_of(self, request: ScriptedRequest) -> str:
        return request.headers.get("authorization", "").partition(" ")[2]


@asynccontextmanager
async def protected_server() -> AsyncIterator[ProtectedServer]:
    """Serve until the block ends."""
    started: asyncio.Future[ProtectedServer] = asyncio.get_running_loop().create_future()

    async def handle(request: ScriptedRequest) -> None:
        await started.result().answer(request)

    async with scripted_server(handle) as scripted:
        server = ProtectedServer(scripted)
        started.set_result(server)
        yield server


def change(auth: OAuth, **fields: Any) -> OAuth:
    """Return the settings with other fields."""
    return msgspec.structs.replace(auth, **fields)
