"""An authorization server in the loop of the test: metadata, keys and introspection over real sockets."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from hubbub.security.jose import JwtSigningKey


class TestIssuer:
    """What it answers can be changed while it runs."""

    __test__ = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = {"one": JwtSigningKey.generate()}
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "introspection_endpoint": f"{self.url}/introspect",
        }
        self.metadata_path = "/.well-known/oauth-authorization-server"
        self.opaque: dict[str, dict[str, Any]] = {}
        """What introspection answers, by token."""
        self.requests: list[tuple[str, dict[str, str], str]] = []
        """Paths, headers and bodies."""
        self.status = 200
        self.hangs = False
        self.body: bytes | None = None
        """Sent instead of every document."""

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def sign(self, *, kid: str = "one", key: JwtSigningKey | None = None, **changes: Any) -> str:
        """Sign a token; a claim that is None is left out."""
        now = time.time()
        claims = {"iss": self.url, "sub": "alice", "aud": "", "iat": now, "exp": now + 600, "scope": "mcp"} | changes
        found = {name: value for name, value in claims.items() if value is not None}
        return (key or self.keys[kid]).sign(found, header={"typ": "at+jwt", "kid": kid})

    def _answer(self, path: str, body: str) -> tuple[int, dict[str, Any]]:
        if self.status != 200:
            return self.status, {}
        if path == self.metadata_path:
            return 200, self.metadata
        if path.partition("?")[0] == "/jwks":
            return 200, {"keys": [key.public_jwk() | {"kid": kid} for kid, key in self.keys.items()]}
        if path == "/introspect":
            [token] = parse_qs(body)["token"]
            return 200, self.opaque.get(token, {"active": False})
        return 404, {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            path = lines[0].split(" ")[1]
            pairs = [line.split(": ", 1) for line in lines[1:] if ": " in line]
            headers = {name.lower(): value for name, value in pairs}
            body = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
            self.requests.append((path, headers, body))
            if self.hangs:
                await reader.read()
                return
            status, document = self._answer(path, body)
            data = json.dumps(document).encode() if self.body is None else self.body
            fields = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status} OK\r\n{fields}\r\n\r\n".encode() + data)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def run_issuer(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[TestIssuer]:
    """Run an issuer on this machine until the block ends; `host` is its name."""
    issuer: TestIssuer | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert issuer is not None
        await issuer.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        issuer = TestIssuer(f"{'http' if tls is None else 'https'}://{host}:{server.sockets[0].getsockname()[1]}")
        yield issuer
