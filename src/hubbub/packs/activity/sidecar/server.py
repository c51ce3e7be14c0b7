"""The two routes of the sidecar, over HTTP. Blocking work in threads: a screen is read once in a while.

Whoever may ask it may see the screen, so it answers only to names of this machine, and never to
a web page, which would send an `Origin`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
import math
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from hubbub import Secret, bounds
from hubbub.packs.activity.settings import PrivacySettings
from hubbub.packs.activity.sidecar.engine import Engine, ParseRequest, Refusal
from hubbub.packs.activity.sidecar.tesseract import LANGUAGE

logger = logging.getLogger("hubbub.sidecar")
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_AT_ONCE: Final = 32
_BEARER: Final = "Bearer "
_DIGITS: Final = 20
"""Of a length that is worth reading."""


class SidecarServer(ThreadingHTTPServer):
    """Listens on one address."""

    daemon_threads = True
    request_queue_size = _AT_ONCE

    def __init__(
        self,
        address: tuple[str, int],
        engine: Engine,
        *,
        takes_anything: bool = False,
        token: Secret | None = None,
    ) -> None:
        """`takes_anything`: whether requests to parse are not looked at, as the original's mock does.

        `token`: what has to be known by whoever wants to see the screen; pictures of their own are read for all.

        Raises: OSError.
        """
        self.engine = engine
        self.token = token
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.takes_anything = takes_anything
        self.own_names = {*_OWN_NAMES, address[0].lower()}
        self.is_open = address[0] in ("0.0.0.0", "::")
        self.reading = threading.Lock()
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take no more connections than there is room for."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody who went away is no news."""
        logger.debug("a connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: SidecarServer
    protocol_version = "HTTP/1.1"
    server_version = "hubbub-sidecar"
    sys_version = ""
    timeout = bounds.SIDECAR_REQUEST_S
    # Head and body leave together: apart, a client that keeps its connection waits 40 ms for the second.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer({"/probe": self.server.engine.probe})

    def do_other(self) -> None:
        self._answer({})

    do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_other

    def do_POST(self) -> None:
        self._answer({"/parse": self._parse})

    def _answer(self, routes: dict[str, Any]) -> None:
        try:
            self._check_caller()
            route = routes.get(self.path.partition("?")[0].rstrip("/"))
            if route is None:
                raise Refusal(404, "not found")
            status, body = 200, route()
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
            self.close_connection = True  # there may be a body that nobody read
        except Exception:
            logger.exception("a request could not be answered")
            status, body = 500, {"ok": False, "error": "parse_failed", "details": "see the log of the sidecar"}
            self.close_connection = True
        self._send(status, body)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request at all is answered in JSON too."""
        self.close_connection = True
        self._send(int(code), Refusal(int(code), "invalid_request", message or "").body)

    def _check_caller(self) -> None:
        host = self.headers.get("Host", "").strip().lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if not self.server.is_open and name not in self.server.own_names:
            raise Refusal(403, "host_refused", "ask for 127.0.0.1 or localhost")
        if self.headers.get("Origin") is not None:
            raise Refusal(403, "origin_refused", "web pages may not look at the screen")

    def _parse(self) -> dict[str, Any]:
        engine = self.server.engine
        engine.require_ready()
        body = self._body()
        request = ParseRequest(None) if self.server.takes_anything else read_request(body)
        if request.picture is None and not self.server.takes_anything:
            self._check_token()
        if not self.server.reading.acquire(timeout=bounds.OCR_S):
            raise Refusal(503, "busy", "another picture is being read; try again later")
        try:
            return engine.parse(request)
        finally:
            self.server.reading.release()

    def _check_token(self) -> None:
        """Other people on this machine can send requests as well, but not read a file that is not theirs."""
        token, given = self.server.token, self.headers.get("Authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), (_BEARER + token.reveal()).encode()):
            raise Refusal(401, "token_required", "whoever wants to see the screen sends HUBBUB_ACTIVITY_SIDECAR_TOKEN")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise Refusal(411, "length_required", "send a Content-Length")
        if len(length) > _DIGITS or int(length) > bounds.SIDECAR_BODY_BYTES:
            raise Refusal(413, "body_too_large", f"at most {bounds.SIDECAR_BODY_BYTES} bytes can be sent")
        return self.rfile.read(int(length))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s", format % args)


def read_request(body: bytes) -> ParseRequest:
    """What a body asks for.

    Raises: Refusal.
    """
    try:
        given = json.loads(body)
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
    """Rules that are not understood must not be left aside."""
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
    lang, score, region = given.get("lang", "eng"), given.get("min_score", 0.0), given.get("region")
    if not isinstance(lang, str) or LANGUAGE.fullmatch(lang) is None:
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
    """JSON as Python reads it has numbers that are none."""
    return type(value) in (int, float) and math.isfinite(value) and abs(value) <= bounds.SIDECAR_PIXELS
