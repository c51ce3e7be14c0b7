"""A pool of connections to HTTP servers, reused for later requests.

Each socket is created by the `Guard` that was given, which checks host and address. All connections
share one TLS context, created with the first connection that needs it, because creating one
takes longer than connecting.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import os
import re
import socket
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from hubbub import bounds
from hubbub.net.connection import Connection, broken_error
from hubbub.net.egress import normalize_host
from hubbub.net.egress_rules import Proxy
from hubbub.net.response import HttpResponse

Opened = TypeVar("Opened")
MakeSocket = Callable[[tuple[Any, ...]], socket.socket]
_TARGET_PATTERN: Final = re.compile(r"[!-~]*")
_CONNECT_PENDING: Final = (errno.EINPROGRESS, errno.EALREADY)
_MAX_CLOSE_TURNS: Final = 100
"""Iterations of the event loop within which dropped connections are closed."""


class Origin(NamedTuple):
    """The server that a connection leads to."""

    host: str
    port: int
    is_tls: bool


class ParsedUrl(NamedTuple):
    """The origin of a URL, and the constant start of its requests."""

    origin: Origin
    head_prefix: str
    """Path and protocol, then the headers that all requests have in common."""


class Guard(Protocol):
    """Checks each connection before it is made; its methods raise an OSError to refuse it."""

    proxy: Proxy | None

    def check_origin(self, host: str, port: int, *, is_tls: bool) -> None:
        """Check a server before its name is looked up."""

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Check all addresses that a name resolves to."""

    def make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for a connection to one address of a server."""

    def make_proxy_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for a connection to one address of the proxy."""


class ConnectionPool:
    """Connections to the servers of the requested URLs, usually one server."""

    def __init__(self, guard: Guard, connect_s: float, connect: Callable[[], socket.socket] | None = None) -> None:
        self._guard = guard
        self._connect_s = connect_s
        self._custom_connect = connect
        self._idle: dict[Origin, list[Connection]] = {}
        self._connections: dict[Connection, Origin] = {}
        self._open_timeouts: set[asyncio.Timeout] = set()
        self._waiters: deque[asyncio.Future[bool]] = deque()
        """Requests that wait for a connection; the result is False if the pool was closed."""
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._tls: Any = None
        self._is_closed = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, idle_s: float | None
    ) -> HttpResponse:
        """Send a request and return the response once its head arrived.

        Raises:
            OSError, TimeoutError, ValueError: the server cannot be reached, or the request is not valid.
            TransportError: it does not respond.
        """
        parsed = parse_url(url)
        request = _join_request(encode_head(method, parsed, headers), body)
        connection = self._take_idle(parsed) or await self._wait_for_capacity(parsed)
        response = (
            connection.send(request, idle_s)
            if connection is not None
            else await self._send_on_new_connection(parsed.origin, request, idle_s)
        )
        try:
            await response.head()
        except BaseException:
            response.close()
            raise
        return response

    def send_nowait(
        self, url: str, head: bytes, body: bytes, idle_s: float | None, on_ready: Callable[[HttpResponse], None]
    ) -> HttpResponse | None:
        """Send a request over a free connection, with a head of `encode_head`; return None if there is none."""
        connection = self._take_idle(parse_url(url))
        return None if connection is None else connection.send(_join_request(head, body), idle_s, on_ready)

    async def connect(self, url: str, protocol: asyncio.Protocol) -> None:
        """Open a connection for a protocol other than HTTP, which the pool does not keep; the caller sets the deadline.

        Raises:
            OSError, TimeoutError, ValueError: the server cannot be reached.
        """
        loop, origin = asyncio.get_running_loop(), parse_url(url).origin
        deadline = loop.time() + self._connect_s
        connected_socket = await self._connect(origin, deadline)
        tls = {"ssl": self._tls_context(), "server_hostname": origin.host} if origin.is_tls else {}
        try:
            await self._await_until(deadline, loop.create_connection(lambda: protocol, sock=connected_socket, **tls))
        except BaseException:
            connected_socket.close()
            raise

    async def close(self) -> None:
        """Drop every connection; requests that wait for one fail, and so do later ones."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self._idle.clear()
        while self._waiters:
            self._wake_next(may_connect=False)
        for connection in list(self._connections):
            connection.abort()
        for opening in self._open_timeouts:
            if not opening.expired():
                opening.reschedule(0)
        for _ in range(_MAX_CLOSE_TURNS):
            if not self._connections:
                return
            await asyncio.sleep(0)

    def _take_idle(self, parsed: ParsedUrl) -> Connection | None:
        """Take a free connection: the last used, as the server is least likely to be closing that one."""
        idle = self._idle.get(parsed.origin)
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    async def _wait_for_capacity(self, parsed: ParsedUrl) -> Connection | None:
        """Wait while too many are open; return a connection that became free, or None if a new one may be opened."""
        while len(self._connections) >= bounds.IN_FLIGHT:
            waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                if not await waiter:
                    raise _closed_error()
            except asyncio.CancelledError:
                if not waiter.cancelled():  # its turn came at the same moment: pass it on
                    self._wake_next()
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            if (connection := self._take_idle(parsed)) is not None:
                return connection
            self._drop_idle()
        return None

    async def _send_on_new_connection(self, origin: Origin, request: bytes, idle_s: float | None) -> HttpResponse:
        """Send over a new connection. Without TLS the request is written before yielding to the event loop."""
        if self._is_closed:
            raise _closed_error()
        connection = Connection(self._release, self._remove)
        self._connections[connection] = origin
        deadline = asyncio.get_running_loop().time() + self._connect_s
        try:
            connected_socket = await self._connect(origin, deadline)
            try:
                if connection.is_closed:
                    raise _closed_error()
                return await self._send_first_request(connection, connected_socket, deadline, request, idle_s)
            except BaseException:
                if connection.was_opened:  # closes the socket; otherwise the loop would wait for it forever
                    connection.abort()
                else:
                    connected_socket.close()
                raise
        except BaseException as error:
            self._remove(connection)
            if isinstance(error, TimeoutError) and connection.is_closed:
                raise _closed_error() from None
            raise

    async def _send_first_request(
        self,
        connection: Connection,
        connected_socket: socket.socket,
        deadline: float,
        request: bytes,
        idle_s: float | None,
    ) -> HttpResponse:
        loop, origin = asyncio.get_running_loop(), self._connections[connection]
        if origin.is_tls:
            tls = {"ssl": self._tls_context(), "server_hostname": origin.host}
            await self._await_until(deadline, loop.create_connection(lambda: connection, sock=connected_socket, **tls))
            return connection.send(request, idle_s)
        # From here on no deadline, and only this error: other errors would mean that nothing was sent.
        response = connection.send(request[_write_now(connected_socket, request) :], idle_s)
        try:
            await loop.create_connection(lambda: connection, sock=connected_socket)
        except OSError as error:
            raise broken_error(type(error).__name__) from error
        return response

    async def _connect(self, origin: Origin, deadline: float) -> socket.socket:
        if self._custom_connect is not None:
            return self._custom_connect()
        guard = self._guard
        guard.check_origin(origin.host, origin.port, is_tls=origin.is_tls)
        if guard.proxy is None:
            return await self._connect_to(origin.host, origin.port, deadline, guard.make_socket)
        proxy = guard.proxy
        connected_socket = await self._connect_to(proxy.host, proxy.port, deadline, guard.make_proxy_socket)
        try:
            from hubbub.net.proxy_tunnel import open_tunnel

            await self._await_until(deadline, open_tunnel(connected_socket, origin.host, origin.port))
        except BaseException:
            connected_socket.close()
            raise
        return connected_socket

    async def _connect_to(self, host: str, port: int, deadline: float, make_socket: MakeSocket) -> socket.socket:
        family = _address_family(host)
        if family is None:
            return await self._await_until(deadline, self._connect_by_name(host, port, make_socket))
        address = (host, port)
        new_socket = make_socket((family, socket.SOCK_STREAM, 0, "", address))
        try:
            if not _try_connect(new_socket, address):
                await self._await_until(deadline, _finish_connect(new_socket, address))
        except BaseException:
            new_socket.close()
            raise
        return new_socket

    async def _await_until(self, deadline: float, opening: Awaitable[Opened]) -> Opened:
        """Wait until the deadline, or until the pool is closed."""
        async with asyncio.timeout_at(deadline) as timeout:
            self._open_timeouts.add(timeout)
            try:
                return await opening
            finally:
                self._open_timeouts.discard(timeout)

    async def _connect_by_name(self, host: str, port: int, make_socket: MakeSocket) -> socket.socket:
        """Look the name up once, and connect to one of the addresses found: it cannot resolve to another later."""
        import aiohappyeyeballs

        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if make_socket == self._guard.make_socket:
            self._guard.check_addresses([str(info[4][0]) for info in found])
        return await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=bounds.NEXT_ADDRESS_DELAY_S, socket_factory=make_socket
        )

    def _tls_context(self) -> Any:
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls

    def _release(self, connection: Connection) -> None:
        """Make a connection available to the next request; unused ones are closed after a while."""
        self._idle.setdefault(self._connections[connection], []).append(connection)
        if self._waiters:
            self._wake_next()
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(bounds.POOLED_CONNECTION_IDLE_S, self._sweep)

    def _remove(self, connection: Connection) -> None:
        """Remove a closed connection."""
        origin = self._connections.pop(connection, None)
        idle = self._idle.get(origin) if origin is not None else None
        if idle and connection in idle:
            idle.remove(connection)
        self._wake_next()

    def _wake_next(self, *, may_connect: bool = True) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(may_connect)
                return

    def _drop_idle(self) -> None:
        """Drop an idle connection to another server, to make room."""
        for idle in self._idle.values():
            if idle:
                idle.pop(0).abort()
                return

    def _sweep(self) -> None:
        """Close connections that were idle for `POOLED_CONNECTION_IDLE_S`."""
        loop = asyncio.get_running_loop()
        idle_before = loop.time() - bounds.POOLED_CONNECTION_IDLE_S
        for idle in self._idle.values():
            while idle and idle[0].idle_since <= idle_before:
                idle.pop(0).abort()
        has_idle = any(self._idle.values())
        self._sweep_timer = loop.call_later(bounds.POOLED_CONNECTION_IDLE_S, self._sweep) if has_idle else None


def _closed_error() -> OSError:
    return ConnectionAbortedError(0, "the connection was closed before anything was sent")


def _try_connect(new_socket: socket.socket, address: tuple[str, int]) -> bool:
    """Start connecting; return whether it completed at once, as it usually does for servers on this machine.

    Raises: OSError.
    """
    if os.name != "posix":  # elsewhere the loop needs a socket that is not connecting yet
        return False
    code = new_socket.connect_ex(address)
    if code == errno.EINPROGRESS:
        code = new_socket.connect_ex(address)
    if code and code not in (*_CONNECT_PENDING, errno.EISCONN):
        raise OSError(code, os.strerror(code))
    return code not in _CONNECT_PENDING


async def _finish_connect(new_socket: socket.socket, address: tuple[str, int]) -> None:
    """Wait until a socket that is connecting is connected.

    Raises: OSError.
    """
    try:
        await asyncio.get_running_loop().sock_connect(new_socket, address)
    except OSError as error:
        if error.errno != errno.EISCONN:  # macOS reports this if it is connected by now
            raise


def _write_now(connected_socket: socket.socket, request: bytes) -> int:
    """Write what the socket takes without blocking, usually all of it; return how much."""
    try:
        return connected_socket.send(request)
    except BlockingIOError:
        return 0


@functools.lru_cache(maxsize=256)
def _address_family(host: str) -> int | None:
    """The address family of an IP address; None for a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return None


@functools.lru_cache(maxsize=256)
def parse_url(url: str) -> ParsedUrl:
    """Parse a URL.

    Raises:
        ValueError: it is not valid.
    """
    parts = urlsplit(url)
    host, is_tls = normalize_host(parts.hostname or ""), parts.scheme in ("https", "wss")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET_PATTERN.fullmatch(target):
        raise ValueError("the path or query contains characters that must be percent-encoded")
    name = f"[{host}]" if ":" in host else host
    port = parts.port or (443 if is_tls else 80)
    host_header = name if parts.port is None else f"{name}:{port}"
    start = f"{target} HTTP/1.1\r\nHost: {host_header}\r\nAccept-Encoding: gzip, deflate\r\n"
    if parts.username or parts.password:
        credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        start += f"Authorization: Basic {b64encode(credentials.encode()).decode()}\r\n"
    return ParsedUrl(Origin(host, port, is_tls), start)


def encode_head(method: str, parsed: ParsedUrl, headers: Mapping[str, str]) -> bytes:
    """Encode the head of a request, without the length of the body.

    Raises:
        ValueError: a header contains a line break or NUL.
    """
    header_lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if header_lines.count("\n") != len(headers) or header_lines.count("\r") != len(headers) or "\0" in header_lines:
        raise ValueError("a header contains a line break or NUL")
    return f"{method} {parsed.head_prefix}{header_lines}".encode()


def _join_request(head: bytes, body: bytes | None) -> bytes:
    return head + b"\r\n" if body is None else b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
