"""A login in a browser: opens the page, and receives its redirect on a loopback port.

Where the browser runs elsewhere, its last page cannot be loaded; the person pastes the address of that page into the
terminal instead.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

from hubbub.errors import SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.redirects import RedirectReceiver
from hubbub.oauth.client.settings import DEFAULT_REDIRECT_URI
from hubbub.oauth.errors import AuthorizationFailed
from hubbub.oauth.metadata import show_url
from hubbub.ports import HttpExchange, WebSocketExchange
from hubbub.protocol.refusal import Refusal
from hubbub.transports.connection_limits import ConnectionLimits
from hubbub.transports.http_server import HttpServer, listen

ReadLine = Callable[[], Awaitable[str | None]]
"""Returns the next line that the person types; None at the end of input."""

_ADDRESS: Final = "127.0.0.1"
_LISTENER_HOSTS: Final = (_ADDRESS, "localhost")
_STYLE: Final = (  # as the pages of the authorization server have it
    ":root{color-scheme:light dark;--page:#f3f4f6;--card:#fff;--text:#15181e;--line:#dcdfe5}"
    "@media(prefers-color-scheme:dark){:root{--page:#101216;--card:#191c22;--text:#eceef2;--line:#30353f}}"
    "*{box-sizing:border-box}"
    "body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;padding:.75rem;"
    'background:var(--page);color:var(--text);font:1rem/1.5 system-ui,"Segoe UI",Roboto,sans-serif}'
    "main{width:100%;max-width:32rem;padding:1rem 1.5rem;background:var(--card);border:1px solid var(--line);"
    "border-radius:.75rem}h1{margin:0 0 .625rem;font-size:1.25rem;line-height:1.25}p{margin:0 0 .75rem}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = (
    (b"content-security-policy", (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ).encode()),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)  # fmt: skip
_PASTED_AROUND: Final = " \t\r\n'\"`<>"
"""What may surround a pasted address."""
_RECEIVED: Final = (
    "Almost done",
    "Hubbub has received the login. You can close this page; the terminal shows the result.",
)
_REFUSED: Final = ("Login refused", "The authorization server refused the login. The terminal shows the reason.")
_CANCELLED: Final = ("Login cancelled", "You cancelled the login. You can close this page.")
_UNKNOWN: Final = (
    "Unknown login",
    "This page does not belong to a login that Hubbub waits for. Start the login again.",
)


class BrowserLogin:
    """Shows authorization pages to the person at this terminal. Implements `RedirectHandler`."""

    def __init__(
        self,
        show: Callable[[str], None],
        *,
        redirect_uri: str | None = None,
        opens_browser: bool = True,
        read_line: ReadLine | None = None,
    ) -> None:
        """`show` writes a line to the person; `read_line`: None if nothing can be pasted.

        Raises: SettingsError, if the redirect URI is not of this machine and nothing can be pasted.
        """
        self._show = show
        self._redirect_uri = redirect_uri or DEFAULT_REDIRECT_URI
        self._opens_browser = opens_browser
        self._read_line = read_line
        self.registered_uris: Sequence[str] = ()
        """Redirect URIs of an earlier registration, which is used again if the port of one is free."""
        parts = urlsplit(self._redirect_uri)
        self._has_listener = parts.scheme == "http" and parts.hostname in _LISTENER_HOSTS
        if not self._has_listener and read_line is None:
            raise SettingsError(
                f"the redirect URI {show_url(self._redirect_uri)} is not on this machine, so the login needs a terminal"
            )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RedirectReceiver]:
        """Listen for redirects until the context ends."""
        if not self._has_listener:
            yield _Receiver(self, self._redirect_uri)
            return
        listener = self._listen()
        receiver = _Receiver(self, _with_port(self._redirect_uri, listener.getsockname()[1]))
        server = _make_server(receiver)
        task = asyncio.create_task(server.serve(listener))
        try:
            yield receiver
        finally:
            server.stop()
            await asyncio.wait([task])

    def _listen(self) -> socket.socket:
        """Listen for the redirect: at a port that is registered already, if one is free.

        Raises: AuthorizationFailed.
        """
        port = urlsplit(self._redirect_uri).port
        if port is None:
            for uri in self.registered_uris:
                known_port = urlsplit(uri).port
                if known_port is not None and _with_port(self._redirect_uri, known_port) == uri:
                    with contextlib.suppress(SettingsError):
                        return listen(_ADDRESS, known_port)
        try:
            return listen(_ADDRESS, port or 0, option="redirect URI")
        except SettingsError as error:
            raise AuthorizationFailed(f"The redirect cannot be received: {error.message}") from None

    async def show_page(self, url: str, redirect: asyncio.Future[str], accept: Callable[[str], bool]) -> str:
        """Show the page at a URL; return the redirect, from the listener or from the terminal."""
        self._show(f"Open this page in a browser to log in:\n\n  {url}\n")
        if self._read_line is not None:
            self._show(
                "If the browser is on another machine, its last page cannot be loaded: paste the address of that page "
                "here, and press Enter."
            )
        if self._opens_browser:
            open_browser(url)
        pasting = (
            None if self._read_line is None else asyncio.create_task(self._paste(self._read_line, redirect, accept))
        )
        try:
            return await redirect
        finally:
            if pasting is not None:
                pasting.cancel()
                await asyncio.wait([pasting])

    async def _paste(self, read_line: ReadLine, redirect: asyncio.Future[str], accept: Callable[[str], bool]) -> None:
        for _ in range(limits.PASTED_LINES):
            line = await read_line()
            if line is None:
                if self._has_listener:
                    self._show("The input has ended; the login can still be completed in a browser on this machine.")
                break
            text = line.strip(_PASTED_AROUND)
            if not text:
                continue
            if accept(text):
                return
            self._show(
                "This is not the address of the last page of this login; copy the whole address, with its `code` and "
                "`state`, and paste it here."
            )
        if not self._has_listener and not redirect.done():
            redirect.set_exception(AuthorizationFailed("No redirect was pasted; start the login again"))


class _Receiver:
    """Waits for one redirect."""

    def __init__(self, login: BrowserLogin, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self.redirect: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._login = login
        self._state = ""

    async def authorize(self, authorization_url: str) -> str:
        """Show the page; return the URL of the redirect."""
        self._state = _first(urlsplit(authorization_url).query, "state")
        return await self._login.show_page(authorization_url, self.redirect, self.accept)

    def accept(self, text: str) -> bool:
        """Take a redirect if it has the `state` of this login, and is the first.

        Any web page can send requests to a port of this machine. They must not end a login, so they are ignored here;
        `finish_login` checks everything else about a redirect.
        """
        try:
            state = _first(urlsplit(text).query or text, "state")
        except ValueError:
            return False
        if not self._state or self.redirect.done() or not hmac.compare_digest(state.encode(), self._state.encode()):
            return False
        self.redirect.set_result(text)
        return True


def has_browser() -> bool:
    """Whether a browser with windows can be opened; browsers in the terminal are never started."""
    if os.environ.get("BROWSER") or sys.platform.startswith(("win", "darwin")):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(url: str) -> None:
    """Open a page in the browser of this person, if there is one."""
    if has_browser():
        # A daemon, because some browsers run until they are closed.
        threading.Thread(target=_open_browser, args=(url,), daemon=True).start()


def _open_browser(url: str) -> None:
    import webbrowser

    try:
        webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # The URL is shown too.


def _with_port(redirect_uri: str, port: int) -> str:
    """Return the redirect URI with the port of the listener, which may differ (RFC 8252, 7.3)."""
    parts = urlsplit(redirect_uri)
    return urlunsplit((parts.scheme, f"{parts.hostname}:{port}", parts.path or "/", parts.query, ""))


def _make_server(receiver: _Receiver) -> HttpServer:
    path = urlsplit(receiver.redirect_uri).path

    async def serve(exchange: HttpExchange) -> None:
        if exchange.method != "GET" or exchange.path != path:
            await _respond(exchange, 404, _UNKNOWN)
        elif not receiver.accept(f"{receiver.redirect_uri.partition('?')[0]}?{exchange.query}"):
            await _respond(exchange, 400, _UNKNOWN)
        else:
            error = _first(exchange.query, "error")
            await _respond(exchange, 200, _CANCELLED if error == "access_denied" else _REFUSED if error else _RECEIVED)

    async def refuse_websocket(exchange: WebSocketExchange) -> None:
        await exchange.refuse(Refusal(404, "This port receives the redirect of a login"))

    connection_limits = ConnectionLimits(
        message_bytes=0,
        head_bytes=limits.REDIRECT_HEAD_BYTES,
        head_s=limits.REDIRECT_READ_S,
        body_s=limits.REDIRECT_READ_S,
        slow_reader_s=limits.REDIRECT_READ_S,
        connections=limits.REDIRECT_CONNECTIONS,
        drain_s=1,
        idle_s=limits.REDIRECT_READ_S,
        pipelined_requests=1,
        unfinished_bytes=limits.REDIRECT_CONNECTIONS * limits.REDIRECT_HEAD_BYTES,
    )
    return HttpServer(serve, refuse_websocket, connection_limits)


def _respond(exchange: HttpExchange, status: int, page: tuple[str, str]) -> Awaitable[None]:
    title, text = page
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} - Hubbub</title><style>{_STYLE}</style><main><h1>{title}</h1><p>{text}</p></main></html>"
    )
    return exchange.respond(status, body.encode(), _HEADERS, content_type=b"text/html; charset=utf-8")


def _first(query: str, name: str) -> str:
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=limits.REDIRECT_PARAMETERS).get(name, [""])[0]
    except ValueError:
        return ""
