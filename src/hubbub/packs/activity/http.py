"""JSON over HTTP from one of the two servers: in time, bounded, and with a word for each way to fail.

Knows nothing of what is asked; `watch_server` and `sidecar_client` do. A redirect is followed
once, to the same server: ActivityWatch sends one for a path that lacks its last slash.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from hubbub import Secret, SettingsError, bounds
from hubbub.errors import EgressRefused, TransportError
from hubbub.net.answer import Answer
from hubbub.net.door import Door
from hubbub.net.egress import egress_for
from hubbub.packs.activity.failures import SourceFailure

_MOVED: Final = (307, 308)
_REFUSED: Final = (401, 403)
_QUOTED_CHARACTERS: Final = 300
_NO_MORE: Final[Mapping[str, str]] = {}
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_HALF: Final = len(rb"\ud83d")
_UNKNOWN_CHARACTER: Final = rb"\ufffd"


class JsonServer:
    """One server that answers with JSON."""

    def __init__(
        self,
        name: str,
        url: str,
        advice: str,
        *,
        api_key: Secret | None = None,
        key_setting: str = "HUBBUB_ACTIVITY_API_KEY",
    ) -> None:
        """`name` and `advice` are for people: who does not answer, and what to do about it.

        Raises: SettingsError.
        """
        self.name = name
        self.url = base_url(url)
        self._advice = advice
        self._key_setting = key_setting
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {_sendable(api_key)}"
        host = urlsplit(self.url).hostname or ""
        self._door = Door(egress_for(host), connect_s=bounds.ACTIVITY_CONNECT_S)

    async def get(self, path: str, *, timeout_s: float, limit: int = bounds.ACTIVITY_BODY_BYTES) -> bytes:
        """The body of a successful answer.

        Raises: SourceFailure.
        """
        return await self._ask("GET", path, None, timeout_s, limit)

    async def post(
        self,
        path: str,
        value: Any,
        *,
        timeout_s: float,
        limit: int = bounds.ACTIVITY_BODY_BYTES,
        token: Secret | None = None,
    ) -> bytes:
        """The same for a question that has a body; `token` goes with this one.

        Raises: SourceFailure, SettingsError.
        """
        more = {} if token is None else {"Authorization": f"Bearer {_sendable(token)}"}
        return await self._ask("POST", path, msgspec.json.encode(value), timeout_s, limit, more)

    async def close(self) -> None:
        """Drop every connection."""
        await self._door.close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
        limit: int,
        more: Mapping[str, str] = _NO_MORE,
    ) -> bytes:
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json", **more}
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._send(method, self.url + path, headers, body)
                try:
                    return await self._read(answer, limit)
                finally:
                    answer.close()
        except TimeoutError:
            told = f"{self.name} at {self.url} did not answer within {timeout_s:g} s; see whether it is busy or hangs"
            raise SourceFailure("timeout", told, url=self.url) from None
        except TransportError as error:
            raise self._failure(error) from error

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        answer = await self._door.send(method, url, headers=headers, body=body)
        if answer.status not in _MOVED:
            return answer
        target = _within(url, answer.header("Location"))
        if target is None:
            return answer
        answer.close()
        return await self._door.send(method, target, headers=headers, body=body)

    async def _read(self, answer: Answer, limit: int) -> bytes:
        body = await answer.read(limit)
        if not answer.is_success:
            raise self._refusal(answer, body)
        if answer.media_type in ("text/html", "application/xhtml+xml"):
            told = f"{self.url} answered with a web page: something else than {self.name} runs there; {self._advice}"
            raise SourceFailure("html_page", told, url=self.url, status=answer.status)
        return body

    def decode(self, body: bytes, kind: Any) -> Any:
        """The body as this type.

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

    def _refusal(self, answer: Answer, body: bytes) -> SourceFailure:
        said, status = _message_in(body), answer.status
        if status in _REFUSED:
            told = f"{self.name} at {self.url} wants an API key, or another one: set {self._key_setting}"
            return SourceFailure("unauthorized", told, url=self.url, status=status)
        if status == 400 and "host header" in said.lower():
            told = f"{self.name} refuses the name in {self.url}; use 127.0.0.1 or localhost, or the name it is bound to"
            return SourceFailure("host_refused", told, url=self.url, status=status)
        if not said and answer.media_type == "text/html":
            told = f"{self.name} at {self.url} answered with a web page (status {status}); {self._advice}"
            return SourceFailure("html_page", told, url=self.url, status=status)
        told = (
            f"{self.name} at {self.url} answered with status {status}{f': {said}' if said else ''}; "
            "see its log, or start it again"
        )
        return SourceFailure("http_error", told, url=self.url, status=status)

    def _failure(self, error: TransportError) -> SourceFailure:
        if isinstance(error, EgressRefused):
            return SourceFailure("refused", f"{self.name} at {self.url}: {error.message}", url=self.url)
        if error.code == "HTTP_BODY_TOO_LARGE":
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
    """An address without the slashes and the `/api/0` that people leave at its end.

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
    # ActivityWatch refuses to be called `[::1]`, even where it listens there; `localhost` leads there too.
    return url.replace("://[::1]", "://localhost", 1)


def _within(url: str, location: str) -> str | None:
    """Where a redirect leads, if that is on the same server; some lead nowhere at all."""
    try:
        target = urljoin(url, location)
        return target if urlsplit(target)[:2] == urlsplit(url)[:2] else None
    except ValueError:
        return None


def _sendable(key: Secret) -> str:
    text = key.reveal()
    if not (text.isascii() and text.isprintable()):
        raise SettingsError("the API key has characters that no request can carry; see whether it was copied whole")
    return text


def _no_address(text: str) -> SettingsError:
    return SettingsError(f"{text!r} is no address of a server; it looks like http://127.0.0.1:5600")


def _decode(body: bytes, kind: Any) -> Any:
    """Half characters, which Windows has in titles that were cut, are written by some servers and read by no parser."""
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


def _message_in(body: bytes) -> str:
    """What a server says about its error, if it says so in JSON."""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    parts = [said["message"]] if "message" in said else [said.get("error"), said.get("details")]
    return ": ".join(part for part in parts if isinstance(part, str))[:_QUOTED_CHARACTERS]
