"""Request JSON over HTTP from ActivityWatch or the sidecar, with timeouts, size limits and a code for each failure.

The requests are in `activitywatch_client` and `sidecar_client`. Redirects are errors and never followed.
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

_UNAUTHORIZED_STATUSES: Final = (401, 403)
_NO_HEADERS: Final[Mapping[str, str]] = {}
_SOCKET_BASE: Final = "http://localhost"
"""Base URL of requests over a Unix socket, because HTTP requires a host."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_SURROGATE_LENGTH: Final = len(rb"\ud83d")
_REPLACEMENT_CHARACTER: Final = rb"\ufffd"


class JsonClient:
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

        With `connect`, which opens the connections, `url` is used only in messages.

        Raises: SettingsError.
        """
        self.name = name
        self.url = url if connect is not None else normalize_url(url)
        self._base = _SOCKET_BASE if connect is not None else self.url
        self._advice = advice
        self._key_setting = key_setting
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {_reveal_key(api_key)}"
        host = urlsplit(self._base).hostname or ""
        self._http_client = HttpClient(egress_policy(host), connect_s=limits.CONNECT_TIMEOUT_S, connect=connect)

    async def get(
        self,
        path: str,
        *,
        timeout_s: float,
        limit: int | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        """Return the body of a successful response, of at most `limit` bytes (`limits.RESPONSE_BYTES`).

        Raises: SourceFailure.
        """
        return await self._request("GET", path, None, timeout_s, limit, headers)

    async def post(
        self,
        path: str,
        value: Any,
        *,
        timeout_s: float,
        limit: int | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        """Send a request with a body, bytes unchanged and anything else as JSON, and return the response body.

        Raises: SourceFailure.
        """
        is_json = not isinstance(value, bytes)
        body = msgspec.json.encode(value) if is_json else value
        kind = "application/json" if is_json else "application/octet-stream"
        return await self._request("POST", path, body, timeout_s, limit, {"Content-Type": kind, **headers})

    def timeout_failure(self, timeout_s: float) -> SourceFailure:
        """Return the failure for a request that got no answer within this time."""
        detail = (
            f"{self.name} at {self.url} did not answer within {timeout_s:g} s; "
            "check whether it is overloaded, or restart it"
        )
        return SourceFailure("timeout", detail, url=self.url)

    async def close(self) -> None:
        """Close all connections."""
        await self._http_client.close()

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
        limit: int | None,
        extra_headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        headers = {**self._headers, **extra_headers} if extra_headers else self._headers
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._http_client.send(method, self._base + path, headers=headers, body=body)
                try:
                    return await self._read_body(response, limits.RESPONSE_BYTES if limit is None else limit)
                finally:
                    response.close()
        except TimeoutError:
            raise self.timeout_failure(timeout_s) from None
        except TransportError as error:
            raise self._transport_failure(error) from error

    async def _read_body(self, response: HttpResponse, limit: int) -> bytes:
        body = await response.read(limit)
        if not response.is_success:
            raise self._response_failure(response, body)
        if response.media_type in ("text/html", "application/xhtml+xml"):
            detail = f"{self.url} answered with a web page, so {self.name} does not run there; {self._advice}"
            raise SourceFailure("html_page", detail, url=self.url, status=response.status)
        return body

    def decode(self, body: bytes, kind: Any) -> Any:
        """Decode a body as this type.

        Raises: SourceFailure.
        """
        try:
            return _decode(body, kind)
        except msgspec.ValidationError as error:
            detail = (
                f"{self.name} at {self.url} sent an unexpected response ({error}); "
                f"check whether another program runs there; {self._advice}"
            )
            raise SourceFailure("unexpected", detail, url=self.url) from error
        except (ValueError, RecursionError) as error:
            detail = f"{self.name} at {self.url} sent invalid JSON; check whether another program runs there"
            raise SourceFailure("invalid_json", detail, url=self.url) from error

    def _response_failure(self, response: HttpResponse, body: bytes) -> SourceFailure:
        server_message, status = extract_message(body), response.status
        if status in _UNAUTHORIZED_STATUSES:
            detail = f"{self.name} at {self.url} requires a valid API key; set {self._key_setting}"
            return SourceFailure("unauthorized", detail, url=self.url, status=status)
        if status == 400 and "host header" in server_message.lower():
            detail = (
                f"{self.name} rejected the host name in {self.url}; use 127.0.0.1, localhost, or the name it listens on"
            )
            return SourceFailure("host_refused", detail, url=self.url, status=status)
        if 300 <= status < 400:
            detail = describe_redirect(self.url, status, response.header("Location"))
            return SourceFailure("http_error", f"{self.name} at {self.url}: {detail}", url=self.url, status=status)
        if not server_message and response.media_type == "text/html":
            detail = f"{self.name} at {self.url} answered with a web page (status {status}); {self._advice}"
            return SourceFailure("html_page", detail, url=self.url, status=status)
        return self.status_failure(status, server_message)

    def status_failure(self, status: int, server_message: str) -> SourceFailure:
        """Return the failure for a response with this status, with the server's own message."""
        detail = (
            f"{self.name} at {self.url} answered with status "
            f"{status}{f': {server_message}' if server_message else ''}; "
            "see its log, or restart it"
        )
        return SourceFailure("http_error", detail, url=self.url, status=status)

    def _transport_failure(self, error: TransportError) -> SourceFailure:
        if isinstance(error, EgressRefused):
            return SourceFailure("refused", f"{self.name} at {self.url}: {error.message}", url=self.url)
        if isinstance(error, ResponseTooLarge):
            limit = error.data.get("max_bytes", 0)
            detail = (
                f"{self.name} at {self.url} answered with more than {limit} bytes; "
                "ask for a shorter period, or check whether another program runs there"
            )
            return SourceFailure("too_large", detail, url=self.url, status=error.data.get("status"))
        if error.may_have_executed:
            detail = f"{self.name} at {self.url} closed the connection before the end of its response; see its log"
            return SourceFailure("broken_off", detail, url=self.url)
        detail = f"{self.name} cannot be reached at {self.url}; {self._advice}"
        return SourceFailure("unreachable", detail, url=self.url)


def normalize_url(text: str) -> str:
    """Return an address without the trailing slashes and `/api/0` that users often include.

    Raises: SettingsError.
    """
    url = text.strip().rstrip("/").removesuffix("/api/0").rstrip("/")
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _address_error(text) from None
    if not is_complete or parts.query or parts.fragment:
        raise _address_error(text)
    if parts.username is not None or parts.password is not None:
        raise SettingsError("the address of a server must not contain a user name or a password; remove them")
    # ActivityWatch rejects `[::1]` as a Host header even if it listens there; `localhost` resolves to it too.
    return url.replace("://[::1]", "://localhost", 1)


def _reveal_key(key: Secret) -> str:
    text = key.reveal()
    if not (text.isascii() and text.isprintable()):
        raise SettingsError("the API key contains characters other than printable ASCII; copy it again")
    return text


def _address_error(text: str) -> SettingsError:
    return SettingsError(f"{text!r} is not the address of a server; write it like http://127.0.0.1:5600")


def _decode(body: bytes, kind: Any) -> Any:
    """Decode JSON; replace lone surrogates, which parsers reject and servers send in titles that Windows truncated."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        repaired = _ESCAPE.sub(_replace_lone_surrogate, body)
        if repaired == body:
            raise
        return msgspec.json.decode(repaired, type=kind)


def _replace_lone_surrogate(found: re.Match[bytes]) -> bytes:
    escape = found[0]
    is_lone_surrogate = len(escape) == _SURROGATE_LENGTH and escape[2:3] in b"dD" and escape[3:4] in b"89abcdefABCDEF"
    return _REPLACEMENT_CHARACTER if is_lone_surrogate else escape


def extract_message(body: bytes) -> str:
    """Return the error message in a server's JSON body, if there is one."""
    try:
        decoded = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(decoded, dict):
        return ""
    parts = [decoded["message"]] if "message" in decoded else [decoded.get("error"), decoded.get("details")]
    return ": ".join(part for part in parts if isinstance(part, str))[: limits.QUOTED_CHARACTERS]
