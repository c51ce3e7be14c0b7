"""A server that accepts the tokens of an issuer, reached over real sockets."""

import hashlib
import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.http.in_process_server import run_server
from tests.http.raw_http import Response, Site
from tests.oauth.issuer import TestIssuer, run_issuer

from hubbub import Context, Server
from hubbub.security.jose import JwtSigningKey, new_token_id
from hubbub.settings.oauth import IssuerSettings, OAuthSettings

PUBLIC_URL = "https://hub.example.com"
AUDIENCE = f"{PUBLIC_URL}/mcp"
METADATA_URL = f"{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"


class ProtectedSite(NamedTuple):
    """The server and its issuer."""

    site: Site
    issuer: TestIssuer
    server: Server

    async def call(self, tool: str = "whoami", *, path: str = "/mcp", **headers: str) -> Response:
        """Call a tool; `authorization` and `dpop` are headers."""
        params = {"name": tool, "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return await self.site.post(message, path=path, headers=headers)

    async def whoami(self, token: str, **headers: str) -> str:
        """Return the name of the caller with this bearer token."""
        response = await self.call(authorization=f"Bearer {token}", **headers)
        assert response.status == 200, response
        return str(response.json["result"]["content"][0]["text"])


def make_whoami() -> Server:
    server = Server("notes")

    @server.tool
    async def whoami(context: Context) -> str:
        """Who calls."""
        principal = context.caller.principal
        return f"{principal.name} {' '.join(sorted(principal.scopes))}"

    return server


@asynccontextmanager
async def run_protected(
    server: Server | None = None,
    *,
    issuer_settings: dict[str, Any] | None = None,
    serve: dict[str, Any] | None = None,
    tls: ssl.SSLContext | None = None,
    issuer_host: str = "127.0.0.1",
    **settings: Any,
) -> AsyncIterator[ProtectedSite]:
    """Serve with one issuer."""
    async with run_issuer(tls, issuer_host) as issuer:
        server = make_whoami() if server is None else server
        issuers = (IssuerSettings(issuer=issuer.url, **(issuer_settings or {})),)
        server.oauth = OAuthSettings(**{"public_url": PUBLIC_URL, "issuers": issuers} | settings)
        async with run_server(server, **(serve or {})) as running:
            yield ProtectedSite(running.site, issuer, server)


def prove(key: JwtSigningKey, token: str, *, method: str = "POST", path: str = "/mcp", **changes: Any) -> str:
    """Make a DPoP proof for a request."""
    digest = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    claims = {"htm": method, "htu": PUBLIC_URL + path, "iat": time.time(), "jti": new_token_id(), "ath": digest}
    return key.sign(claims | changes, header={"typ": "dpop+jwt", "jwk": key.public_jwk()})


def parse_challenge(response: Response) -> tuple[str, dict[str, str]]:
    """Split `WWW-Authenticate` into its scheme and parameters."""
    value = response.header("www-authenticate") or ""
    scheme, _, rest = value.partition(" ")
    return scheme, {name: json.loads(text) for name, text in (item.split("=", 1) for item in rest.split(", "))}
