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
from hubbub.packs.activity.sidecar.engine import Engine, ParseRequest, Refusal
from hubbub.packs.activity.sidecar_proof import CHALLENGE_HEADER, NONCE_HEADER, Challenges, Exchange, is_nonce
from hubbub.packs.activity.sidecar_socket import Listener, is_own_peer

logger = logging.getLogger("hubbub.sidecar")
rate_limit_logger(logger.name)
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_DIGITS: Final = 20
"""Digits of a `Content-Length` that is parsed."""


class SidecarServer(ThreadingHTTPServer):
    """Listens on one address, or on a socket."""

    daemon_threads = True

    def __init__(
        self,
        place: tuple[str, int] | Listener,
        engine: Engine,
        *,
        takes_anything: bool = False,
        token: Secret | None = None,
        pause: Pause | None = None,
    ) -> None:
        """`takes_anything`: whether requests to parse are not validated, as in the original's mock.

        `token`: required to read the screen; pictures in a request are read for every caller.
        `pause`: the screen is not read while it lasts.

        Raises: OSError.
        """
        self.engine = engine
        self.token = token
        self.pause = pause
        self.challenges = Challenges()
        self.takes_anything = takes_anything
        self.reading = threading.Lock()
        self.request_queue_size = limits.SIDECAR_REQUESTS
        self._room = threading.BoundedSemaphore(limits.SIDECAR_REQUESTS)
        self._listener = place if isinstance(place, Listener) else None
        host = "localhost" if isinstance(place, Listener) else place[0]
        self.own_names = {*_OWN_NAMES, host.lower()}
        self.is_open = host in ("0.0.0.0", "::")
        if isinstance(place, Listener):
            super().__init__(("", 0), _Handler, bind_and_activate=False)
            self.socket.close()
            self.socket = place.socket
            self.server_activate()
        else:
            self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            super().__init__(place, _Handler)

    @property
    def is_private(self) -> bool:
        """Whether only processes of this user can connect."""
        return self._listener is not None

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection with a timeout, and on TCP without Nagle's algorithm."""
        connection, address = super().get_request()
        connection.settimeout(limits.SIDECAR_REQUEST_S)
        if self.is_private:
            return connection, ("", 0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Reject processes of other users that reach the socket."""
        return not self.is_private or is_own_peer(request)

    def server_close(self) -> None:
        """Stop listening and remove the socket."""
        super().server_close()
        if self._listener is not None:
            self._listener.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Reject connections beyond the limit."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log broken connections only for debugging: a client may disconnect at any time."""
        logger.debug("a connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: SidecarServer
    protocol_version = "HTTP/1.1"
    server_version = "hubbub-sidecar"
    sys_version = ""
    # Headers and body are sent together: sent separately, a keep-alive client waits 40 ms for the body.
    wbufsize = -1

    def do_GET(self) -> None:
        self._answer({"/probe": self._probe})

    def do_other(self) -> None:
        self._answer({})

    do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_other

    def do_POST(self) -> None:
        self._answer({"/parse": self._parse})

    def _answer(self, routes: dict[str, Any]) -> None:
        body: dict[str, Any] | bytes
        try:
            self._check_caller()
            route = routes.get(self.path.partition("?")[0].rstrip("/"))
            if route is None:
                raise Refusal(404, "not found")
            status, body = 200, route()
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
            self.close_connection = True  # there may be an unread body
        except Exception:
            logger.exception("a request could not be answered")
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
        self._send(int(code), Refusal(int(code), "invalid_request", message or "").body)

    def _check_caller(self) -> None:
        host = self.headers.get("Host", "").strip().lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if not self.server.is_open and name not in self.server.own_names:
            raise Refusal(403, "host_refused", "ask for 127.0.0.1 or localhost")
        if self.headers.get("Origin") is not None:
            raise Refusal(403, "origin_refused", "web pages may not look at the screen")

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
        body = self._body()
        if NONCE_HEADER not in self.headers:
            return self._parsed(body, is_known=self.server.token is None)
        exchange, opened = self._open(body)
        try:
            answer = {"status": 200, "body": self._parsed(opened, is_known=True)}
        except Refusal as refusal:
            answer = {"status": refusal.status, "body": refusal.body}
        return exchange.seal("answer", msgspec.json.encode(answer))

    def _parsed(self, body: bytes, *, is_known: bool) -> dict[str, Any]:
        takes_anything = self.server.takes_anything
        request = ParseRequest(None) if takes_anything else read_request(body)
        if request.picture is None and not is_known and not takes_anything:
            raise Refusal(401, "token_required", "prove that you know HUBBUB_ACTIVITY_SIDECAR_TOKEN to see the screen")
        if request.picture is None:
            self._check_pause()
        if not self.server.reading.acquire(timeout=limits.OCR_S):
            raise Refusal(503, "busy", "another picture is being read; try again later")
        try:
            found = self.server.engine.parse(request)
        finally:
            self.server.reading.release()
        if request.picture is None:
            self._check_pause()
        return found

    def _check_pause(self) -> None:
        if self.server.pause is not None and (message := self.server.pause.message()) is not None:
            raise Refusal(503, "paused", message)

    def _open(self, body: bytes) -> tuple[Exchange, bytes]:
        """Decrypt a request and check that its challenge is fresh and unused."""
        nonce, challenge = self.headers.get(NONCE_HEADER, ""), self.headers.get(CHALLENGE_HEADER, "")
        message = "the request was not encrypted with the token, or its challenge is too old; ask /probe for another"
        if self.server.token is None or not (is_nonce(nonce) and is_nonce(challenge)):
            raise Refusal(401, "proof_required", message)
        exchange = Exchange(self.server.token, nonce, challenge)
        try:
            opened = exchange.open("request", body)
        except ValueError:
            raise Refusal(401, "proof_required", message) from None
        if not self.server.challenges.use(challenge):
            raise Refusal(401, "proof_required", message)
        return exchange, opened

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise Refusal(411, "length_required", "send a Content-Length")
        if len(length) > _DIGITS or int(length) > limits.SIDECAR_BODY_BYTES:
            raise Refusal(413, "body_too_large", f"at most {limits.SIDECAR_BODY_BYTES} bytes can be sent")
        return self.rfile.read(int(length))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s", format % args)


def read_request(body: bytes) -> ParseRequest:
    """Parse the body of a request.

    Raises: Refusal.
    """
    try:
        given = msgspec.json.decode(body)  # rejects lone surrogates, which later code could not encode
    except (ValueError, RecursionError):
        raise Refusal(400, "invalid_json") from None
    if not isinstance(given, dict):
        raise Refusal(400, "invalid_json", "the body must be an object")
    options = given.get("parse_options")
    settings = _options(options if isinstance(options, dict) else {})
    text = given.get("base64_image", given.get("image_base64"))
    if text is None and given.get("capture") is True:
        titles = _titles(given.get("private_titles", []))
        return ParseRequest(None, **settings, rules=_rules(given.get("rules")), private_titles=titles)
    if not isinstance(text, str) or not text:
        raise Refusal(400, "missing_base64_image")
    try:
        picture = base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, "invalid_image", "base64_image is not base64") from None
    return ParseRequest(picture, **settings)


def _rules(given: Any) -> PrivacySettings | None:
    """Refuse unknown rules, because ignoring one would disclose what it hides."""
    if given is None:
        return None
    try:
        rules = msgspec.convert(given, PrivacySettings)
    except msgspec.ValidationError:
        raise Refusal(400, "invalid_option", "rules are those of [packs.activity.privacy]") from None
    if unknown := set(given) - set(PrivacySettings.__struct_fields__):
        raise Refusal(400, "invalid_option", f"there is no rule {min(unknown)!r}; is the sidecar older than the pack?")
    return rules


def _titles(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(title, str) for title in given):
        raise Refusal(400, "invalid_option", "private_titles is a list of texts")
    return tuple(given)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    lang, score, region = given.get("lang"), given.get("min_score", 0.0), given.get("region")
    if lang is not None and (not isinstance(lang, str) or LANGUAGE.fullmatch(lang) is None):
        raise Refusal(400, "invalid_option", "lang looks like eng or deu+eng")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise Refusal(400, "invalid_option", "min_score is a number from 0 to 1")
    found: dict[str, Any] = {"lang": lang, "min_score": float(score)}
    if region is not None:
        if not isinstance(region, list) or len(region) != 4 or not all(map(_is_place, region)):
            raise Refusal(400, "invalid_option", "region is [left, top, right, bottom] in pixels")
        found["region"] = tuple(float(item) for item in region)
    return found


def _is_place(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= limits.SIDECAR_PIXELS
