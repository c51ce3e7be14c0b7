"""The two HTTP routes of the sidecar. Blocking work runs in threads, because the screen is read only occasionally.

Access to the sidecar is access to the screen. So it answers only requests for host names of this machine, and none from
web pages, which would send an `Origin`. On its socket it serves processes of its own user; on a port it sends the
screen, encrypted, only to callers that prove that they know the token.
"""

from __future__ import annotations

import base64
import binascii
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from hubbub import Secret
from hubbub.pack import rate_limit_logger
from hubbub.packs.activity import limits
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import LANGUAGE, PrivacySettings
from hubbub.packs.activity.sidecar.engine import Engine, ParseRequest, SidecarError
from hubbub.packs.activity.sidecar_proof import CHALLENGE_HEADER, NONCE_HEADER, Challenges, Exchange, is_nonce
from hubbub.packs.activity.sidecar_socket import Listener, is_same_user

logger = logging.getLogger("hubbub.sidecar")
rate_limit_logger(logger.name)
_LOCAL_HOST_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_MAX_LENGTH_DIGITS: Final = 20
"""Digits of a `Content-Length` that is parsed."""


class SidecarServer(ThreadingHTTPServer):
    """Listens on one address, or on a socket."""

    daemon_threads = True

    def __init__(
        self,
        bind_address: tuple[str, int] | Listener,
        engine: Engine,
        *,
        takes_anything: bool = False,
        token: Secret | None = None,
        pause: Pause | None = None,
    ) -> None:
        """`takes_anything`: whether requests to parse are not validated, as in the reference sidecar's mock.

        `token`: required to read the screen; pictures in a request are read for every caller.
        `pause`: the screen is not read while it lasts.

        Raises: OSError.
        """
        self.engine = engine
        self.token = token
        self.pause = pause
        self.challenges = Challenges()
        self.takes_anything = takes_anything
        self.engine_lock = threading.Lock()
        self.request_queue_size = limits.SIDECAR_REQUESTS
        self._connection_slots = threading.BoundedSemaphore(limits.SIDECAR_REQUESTS)
        self._listener = bind_address if isinstance(bind_address, Listener) else None
        host = "localhost" if isinstance(bind_address, Listener) else bind_address[0]
        self.allowed_hosts = {*_LOCAL_HOST_NAMES, host.lower()}
        self.is_wildcard = host in ("0.0.0.0", "::")
        if isinstance(bind_address, Listener):
            super().__init__(("", 0), _Handler, bind_and_activate=False)
            self.socket.close()
            self.socket = bind_address.socket
            self.server_activate()
        else:
            self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            super().__init__(bind_address, _Handler)

    @property
    def is_private(self) -> bool:
        """Whether only processes of this user can connect."""
        return self._listener is not None

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection with a timeout, and on TCP without Nagle's algorithm."""
        connection, address = super().get_request()
        connection.settimeout(limits.SIDECAR_REQUEST_TIMEOUT_S)
        if self.is_private:
            return connection, ("", 0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Reject processes of other users that reach the socket."""
        return not self.is_private or is_same_user(request)

    def server_close(self) -> None:
        """Stop listening and remove the socket."""
        super().server_close()
        if self._listener is not None:
            self._listener.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Reject connections beyond the limit."""
        if not self._connection_slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connection_slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log broken connections only for debugging: a client may disconnect at any time."""
        logger.debug("connection closed unexpectedly", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: SidecarServer
    protocol_version = "HTTP/1.1"
    server_version = "hubbub-sidecar"
    sys_version = ""
    # Headers and body are sent together: sent separately, a keep-alive client waits 40 ms for the body.
    wbufsize = -1

    def do_GET(self) -> None:
        self._respond({"/probe": self._probe})

    def do_other(self) -> None:
        self._respond({})

    do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_other

    def do_POST(self) -> None:
        self._respond({"/parse": self._parse})

    def _respond(self, routes: dict[str, Any]) -> None:
        body: dict[str, Any] | bytes
        try:
            self._check_caller()
            route = routes.get(self.path.partition("?")[0].rstrip("/"))
            if route is None:
                raise SidecarError(404, "not found")
            status, body = 200, route()
        except SidecarError as error:
            status, body = error.status, error.body
            self.close_connection = True  # there may be an unread body
        except Exception:
            logger.exception("request failed")
            status, body = 500, {"ok": False, "error": "parse_failed", "details": "see the log of the sidecar"}
            self.close_connection = True
        self._send(status, body)

    def _send(self, status: int, body: dict[str, Any] | bytes) -> None:
        is_sealed = isinstance(body, bytes)
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if is_sealed else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer malformed requests with JSON too."""
        self.close_connection = True
        self._send(int(code), SidecarError(int(code), "invalid_request", message or "").body)

    def _check_caller(self) -> None:
        host = self.headers.get("Host", "").strip().lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if not self.server.is_wildcard and name not in self.server.allowed_hosts:
            raise SidecarError(403, "host_refused", "the Host header must name 127.0.0.1 or localhost")
        if self.headers.get("Origin") is not None:
            raise SidecarError(403, "origin_refused", "web pages must not read the screen; send no Origin header")

    def _probe(self) -> dict[str, Any]:
        """Return the engine's probe; if the request has a nonce, also the proof that this sidecar knows the token."""
        found, nonce = self.server.engine.probe(), self.headers.get(NONCE_HEADER)
        if self.server.token is None or nonce is None or not is_nonce(nonce):
            return found
        challenge = self.server.challenges.issue()
        proof = Exchange(self.server.token, nonce, challenge).proof
        return {**found, "challenge": challenge, "proof": proof}

    def _parse(self) -> dict[str, Any] | bytes:
        self.server.engine.require_ready()
        body = self._read_body()
        if NONCE_HEADER not in self.headers:
            return self._parse_body(body, is_authenticated=self.server.token is None)
        exchange, decrypted = self._decrypt(body)
        try:
            response = {"status": 200, "body": self._parse_body(decrypted, is_authenticated=True)}
        except SidecarError as error:
            response = {"status": error.status, "body": error.body}
        return exchange.seal("answer", msgspec.json.encode(response))

    def _parse_body(self, body: bytes, *, is_authenticated: bool) -> dict[str, Any]:
        takes_anything = self.server.takes_anything
        request = ParseRequest(None) if takes_anything else parse_request(body)
        if request.picture is None and not is_authenticated and not takes_anything:
            message = "to read the screen, send a request that is encrypted with HUBBUB_ACTIVITY_SIDECAR_TOKEN"
            raise SidecarError(401, "token_required", message)
        if request.picture is None:
            self._check_pause()
        if not self.server.engine_lock.acquire(timeout=limits.OCR_TIMEOUT_S):
            raise SidecarError(503, "busy", "another picture is being read; try again later")
        try:
            found = self.server.engine.parse(request)
        finally:
            self.server.engine_lock.release()
        if request.picture is None:
            self._check_pause()
        return found

    def _check_pause(self) -> None:
        if self.server.pause is not None and (message := self.server.pause.message()) is not None:
            raise SidecarError(503, "paused", message)

    def _decrypt(self, body: bytes) -> tuple[Exchange, bytes]:
        """Decrypt a request and check that its challenge is fresh and unused."""
        nonce, challenge = self.headers.get(NONCE_HEADER, ""), self.headers.get(CHALLENGE_HEADER, "")
        message = "the request was not encrypted with the token, or its challenge is too old; get a new one from /probe"
        if self.server.token is None or not (is_nonce(nonce) and is_nonce(challenge)):
            raise SidecarError(401, "proof_required", message)
        exchange = Exchange(self.server.token, nonce, challenge)
        try:
            decrypted = exchange.open("request", body)
        except ValueError:
            raise SidecarError(401, "proof_required", message) from None
        if not self.server.challenges.consume(challenge):
            raise SidecarError(401, "proof_required", message)
        return exchange, decrypted

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise SidecarError(411, "length_required", "send a Content-Length")
        if len(length) > _MAX_LENGTH_DIGITS or int(length) > limits.SIDECAR_BODY_BYTES:
            raise SidecarError(413, "body_too_large", f"the body must have at most {limits.SIDECAR_BODY_BYTES} bytes")
        return self.rfile.read(int(length))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s", format % args)


def parse_request(body: bytes) -> ParseRequest:
    """Parse the body of a request.

    Raises: SidecarError.
    """
    try:
        raw = msgspec.json.decode(body)  # rejects lone surrogates, which later code could not encode
    except (ValueError, RecursionError):
        raise SidecarError(400, "invalid_json") from None
    if not isinstance(raw, dict):
        raise SidecarError(400, "invalid_json", "the body must be an object")
    options = raw.get("parse_options")
    settings = _parse_options(options if isinstance(options, dict) else {})
    text = raw.get("base64_image", raw.get("image_base64"))
    if text is None and raw.get("capture") is True:
        titles = _parse_titles(raw.get("private_titles", []))
        return ParseRequest(None, **settings, rules=_parse_rules(raw.get("rules")), private_titles=titles)
    if not isinstance(text, str) or not text:
        raise SidecarError(400, "missing_base64_image")
    try:
        picture = base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise SidecarError(400, "invalid_image", "base64_image is not valid base64") from None
    return ParseRequest(picture, **settings)


def _parse_rules(raw: Any) -> PrivacySettings | None:
    """Refuse unknown rules, because ignoring one would disclose what it hides."""
    if raw is None:
        return None
    try:
        rules = msgspec.convert(raw, PrivacySettings)
    except msgspec.ValidationError:
        raise SidecarError(400, "invalid_option", "rules must have the settings of [packs.activity.privacy]") from None
    if unknown := set(raw) - set(PrivacySettings.__struct_fields__):
        raise SidecarError(
            400, "invalid_option", f"unknown rule {min(unknown)!r}; restart the sidecar with the version of the pack"
        )
    return rules


def _parse_titles(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(title, str) for title in raw):
        raise SidecarError(400, "invalid_option", "private_titles must be a list of texts")
    return tuple(raw)


def _parse_options(raw: dict[str, Any]) -> dict[str, Any]:
    lang, score, region = raw.get("lang"), raw.get("min_score", 0.0), raw.get("region")
    if lang is not None and (not isinstance(lang, str) or LANGUAGE.fullmatch(lang) is None):
        raise SidecarError(400, "invalid_option", "lang must look like eng or deu+eng")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise SidecarError(400, "invalid_option", "min_score must be a number from 0 to 1")
    found: dict[str, Any] = {"lang": lang, "min_score": float(score)}
    if region is not None:
        if not isinstance(region, list) or len(region) != 4 or not all(map(_is_coordinate, region)):
            raise SidecarError(400, "invalid_option", "region must be [left, top, right, bottom] in pixels")
        found["region"] = tuple(float(item) for item in region)
    return found


def _is_coordinate(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= limits.SIDECAR_PIXELS
