"""Request JSON over HTTP from ActivityWatch or the sidecar, with timeouts, size limits and a code for each failure.

The requests are in `watch_server` and `sidecar_client`. Redirects are errors and never followed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import EgressRefused, ResponseTooLarge, Secret, SettingsError, TransportError
from hubbub.pack.http import HttpClient, HttpResponse, describe_redirect, egress_policy
from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import SourceFailure

_REFUSED: Final = (401, 403)
_NO_MORE: Final[Mapping[str, str]] = {}
_SOCKET_BASE: Final = "http://localhost"
"""Base URL of requests over a Unix socket, because HTTP requires a host."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_HALF: Final = len(rb"\ud83d")
_UNKNOWN_CHARACTER: Final = rb"\ufffd"


class JsonServer:
    """A client of one server that answers with JSON."""

    def __init__(
        self,
        name: str,
        url: str,
        advice: str,
        *,
        api_key: Secret | None = None,
        key_setting: str = "HUBBUB_ACTIVITY_API_KEY",
        connect: Callable[[], socket.socket] | None = None,
    ) -> None:
        """`name` and `advice` are used in messages: which server failed, and what to do about it.

        With `connect`, which opens the connections, `url` is only shown.

        Raises: SettingsError.
        """
        self.name = name
        self.url = url if connect is not None else base_url(url)
        self._base = _SOCKET_BASE if connect is not None else self.url
        self._advice = advice
        self._key_setting = key_setting
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {_sendable(api_key)}"
        host = urlsplit(self._base).hostname or ""
        self._door = HttpClient(egress_policy(host), connect_s=limits.CONNECT_S, connect=connect)

    async def get(
        self,
        path: str,
        *,
        timeout_s: float,
        limit: int | None = None,
        headers: Mapping[str, str] = _NO_MORE,
    ) -> bytes:
        """Return the body of a successful response, of at most `limit` bytes (`limits.BODY_BYTES`).

        Raises: SourceFailure.
        """
        return await self._ask("GET", path, None, timeout_s, limit, headers)

    async def post(
        self,
        path: str,
        value: Any,
        *,
        timeout_s: float,
        limit: int | None = None,
        headers: Mapping[str, str] = _NO_MORE,
    ) -> bytes:
        """Send a request with a body, bytes unchanged and anything else as JSON, and return the response body.

        Raises: SourceFailure.
        """
        is_json = not isinstance(value, bytes)
        body = msgspec.json.encode(value) if is_json else value
        kind = "application/json" if is_json else "application/octet-stream"
        return await self._ask("POST", path, body, timeout_s, limit, {"Content-Type": kind, **headers})

    def timed_out(self, timeout_s: float) -> SourceFailure:
        """Return the failure for a request that got no answer within this time."""
        told = f"{self.name} at {self.url} did not answer within {timeout_s:g} s; see whether it is busy or hangs"
        return SourceFailure("timeout", told, url=self.url)

    async def close(self) -> None:
        """Close all connections."""
        await self._door.close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
        limit: int | None,
        more: Mapping[str, str] = _NO_MORE,
    ) -> bytes:
        headers = {**self._headers, **more} if more else self._headers
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._door.send(method, self._base + path, headers=headers, body=body)
                try:
                    return await self._read(answer, limits.BODY_BYTES if limit is None else limit)
                finally:
                    answer.close()
        except TimeoutError:
            raise self.timed_out(timeout_s) from None
        except TransportError as error:
            raise self._failure(error) from error

    async def _read(self, answer: HttpResponse, limit: int) -> bytes:
        body = await answer.read(limit)
        if not answer.is_success:
            raise self._refusal(answer, body)
        if answer.media_type in ("text/html", "application/xhtml+xml"):
            told = f"{self.url} answered with a web page: something else than {self.name} runs there; {self._advice}"
            raise SourceFailure("html_page", told, url=self.url, status=answer.status)
        return body

    def decode(self, body: bytes, kind: Any) -> Any:
        """Decode a body as this type.

        Raises: SourceFailure.
        """
        try:
            return _decode(body, kind)
        except msgspec.ValidationError as error:
            told = (
                f"{self.name} at {self.url} answered with something else than was asked for ({error}); "
                f"see whether it is that: {self._advice}"
            )
            raise SourceFailure("unexpected", told, url=self.url) from error
        except (ValueError, RecursionError) as error:
            told = f"{self.name} at {self.url} answered with what is not JSON; see whether it is well"
            raise SourceFailure("invalid_json", told, url=self.url) from error

    def _refusal(self, answer: HttpResponse, body: bytes) -> SourceFailure:
        said, status = message_in(body), answer.status
        if status in _REFUSED:
            told = f"{self.name} at {self.url} wants an API key, or another one: set {self._key_setting}"
            return SourceFailure("unauthorized", told, url=self.url, status=status)
        if status == 400 and "host header" in said.lower():
            told = f"{self.name} refuses the name in {self.url}; use 127.0.0.1 or localhost, or the name it is bound to"
            return SourceFailure("host_refused", told, url=self.url, status=status)
        if 300 <= status < 400:
            told = describe_redirect(self.url, status, answer.header("Location"))
            return SourceFailure("http_error", f"{self.name} at {self.url}: {told}", url=self.url, status=status)
        if not said and answer.media_type == "text/html":
            told = f"{self.name} at {self.url} answered with a web page (status {status}); {self._advice}"
            return SourceFailure("html_page", told, url=self.url, status=status)
        return self.error_status(status, said)

    def error_status(self, status: int, said: str) -> SourceFailure:
        """Return the failure for a response with this status, with the server's own message."""
        told = (
            f"{self.name} at {self.url} answered with status {status}{f': {said}' if said else ''}; "
            "see its log, or start it again"
        )
        return SourceFailure("http_error", told, url=self.url, status=status)

    def _failure(self, error: TransportError) -> SourceFailure:
        if isinstance(error, EgressRefused):
            return SourceFailure("refused", f"{self.name} at {self.url}: {error.message}", url=self.url)
        if isinstance(error, ResponseTooLarge):
            limit = error.data.get("max_bytes", 0)
            told = (
                f"{self.name} at {self.url} answered with more than {limit} bytes; "
                "ask for a shorter period, or see whether something else runs there"
            )
            return SourceFailure("too_large", told, url=self.url, status=error.data.get("status"))
        if error.may_have_executed:
            told = f"{self.name} at {self.url} broke off in the middle of its answer; see whether it is well"
            return SourceFailure("broken_off", told, url=self.url)
        told = f"{self.name} cannot be reached at {self.url}; {self._advice}"
        return SourceFailure("unreachable", told, url=self.url)


def base_url(text: str) -> str:
    """Return an address without the trailing slashes and `/api/0` that users often include.

    Raises: SettingsError.
    """
    url = text.strip().rstrip("/").removesuffix("/api/0").rstrip("/")
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _no_address(text) from None
    if not is_whole or parts.query or parts.fragment:
        raise _no_address(text)
    if parts.username is not None or parts.password is not None:
        raise SettingsError("an address of a server must not have a name or a password in it")
    # ActivityWatch rejects `[::1]` as a Host header even if it listens there; `localhost` resolves to it too.
    return url.replace("://[::1]", "://localhost", 1)


def _sendable(key: Secret) -> str:
    text = key.reveal()
    if not (text.isascii() and text.isprintable()):
        raise SettingsError("the API key has characters that no request can carry; see whether it was copied whole")
    return text


def _no_address(text: str) -> SettingsError:
    return SettingsError(f"{text!r} is no address of a server; it looks like http://127.0.0.1:5600")


def _decode(body: bytes, kind: Any) -> Any:
    """Decode JSON; replace lone surrogates, which parsers reject and servers send in titles that Windows truncated."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended = _ESCAPE.sub(_whole_character, body)
        if mended == body:
            raise
        return msgspec.json.decode(mended, type=kind)


def _whole_character(found: re.Match[bytes]) -> bytes:
    escape = found[0]
    is_half = len(escape) == _HALF and escape[2:3] in b"dD" and escape[3:4] in b"89abcdefABCDEF"
    return _UNKNOWN_CHARACTER if is_half else escape


def message_in(body: bytes) -> str:
    """Return the error message in a server's JSON body, if there is one."""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    parts = [said["message"]] if "message" in said else [said.get("error"), said.get("details")]
    return ": ".join(part for part in parts if isinstance(part, str))[: limits.QUOTED_CHARACTERS]
