"""A tiny identity provider whose answers tests can make wrong."""

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote_plus

from joserfc import jwk, jws


class FaultyProvider:
    """Its answers, which tests change. Everything is right at first."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "authorization_response_iss_parameter_supported": True,
        }
        self.claims: dict[str, Any] = {"iss": self.issuer, "sub": "alice", "aud": "hub"}
        self.userinfo: dict[str, Any] = {}
        self.token_response: dict[str, Any] = {"access_token": "provider-token"}
        self.authorizations: list[str] = []
        self.redeemed = 0
        self.discovered = 0
        self.token_status = 200
        self.hangs = False
        self.released = Event()
        self._algorithm = "ES256"
        self._key = jwk.ECKey.generate_key("P-256", {"kid": "one"})
        self._signing_key = self._key
        self._is_broken = False
        self._echoes = False

    def sign_with_another_key(self) -> None:
        self._signing_key = jwk.ECKey.generate_key("P-256", {"kid": "one"})

    def set_algorithm(self, name: str) -> None:
        self._algorithm = name

    def answer_without_id_token(self, userinfo: dict[str, Any]) -> None:
        self.token_response["id_token"] = ""
        self.userinfo = userinfo

    def break_token_response(self) -> None:
        self._is_broken = True

    def echo_requests(self) -> None:
        """Repeat token requests in the error, as some servers do in debug mode."""
        self._echoes = True

    def answer(self, path: str, authorization: str | None, body: str = "") -> bytes:
        if path == "/.well-known/openid-configuration":
            self.discovered += 1
        if self.hangs:
            self.released.wait()
        if path == "/.well-known/openid-configuration":
            return json.dumps(self.metadata).encode()
        if path == "/jwks":
            return json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()
        if path == "/userinfo":
            return json.dumps(self.userinfo).encode()
        self.redeemed += 1
        if self._echoes:
            echo = f"{(authorization or '').removeprefix('Basic ')} {body}"
            return json.dumps({"error": echo, "error_description": f"{unquote_plus(body)} {echo}"}).encode()
        if authorization is not None:
            self.authorizations.append(authorization)
        return b"<html>" if self._is_broken else json.dumps({"id_token": self._sign(), **self.token_response}).encode()

    def _sign(self) -> str:
        now = int(time.time())
        claims = {"iat": now, "exp": now + 300, **self.claims}
        content = json.dumps({name: value for name, value in claims.items() if value is not None}).encode()
        header = {"alg": self._algorithm, "kid": "one"}
        registry = jws.JWSRegistry(algorithms=["ES256", "none"])
        return jws.serialize_compact(header, content, self._signing_key, registry=registry)


@contextmanager
def serve(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[FaultyProvider]:
    """Run a provider on this machine; `host` is its name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self, request: str = "") -> None:
            body = provider.answer(self.path, self.headers["Authorization"], request)
            self.send_response(provider.token_status if self.path == "/token" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                pass  # the hub did not wait

        def do_POST(self) -> None:
            self.do_GET(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """Disable the request log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    provider = FaultyProvider(f"{'http' if tls is None else 'https'}://{host}:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
