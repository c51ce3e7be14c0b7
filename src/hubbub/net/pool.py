"""A pool of connections to HTTP servers, reused for later requests.

Each socket is created by the function that was given, which checks its address. All connections
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
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from hubbub import bounds
from hubbub.net.connection import Connection, broken
from hubbub.net.egress import normal_host
from hubbub.net.response import HttpResponse

Opened = TypeVar("Opened")
MakeSocket = Callable[[tuple[Any, ...]], socket.socket]
_TARGET: Final = re.compile(r"[!-~]*")
_CONNECTING: Final = (errno.EINPROGRESS, errno.EALREADY)
_TURNS: Final = 100
"""Iterations of the event loop within which dropped connections are closed."""


class Origin(NamedTuple):
    """The server that a connection leads to."""

    host: str
    port: int
    is_tls: bool


class Place(NamedTuple):
    """The origin of a URL, and the constant start of its requests."""

    origin: Origin
    start: str
    """Path and protocol, then the headers that all requests have in common."""


class Pool:
    """Connections to the servers of the requested URLs, usually one server."""

    def __init__(
        self, make_socket: MakeSocket, connect_s: float, connect: Callable[[], socket.socket] | None = None
    ) -> None:
        self._make_socket = make_socket
        self._connect_s = connect_s
        self._connect_instead = connect
        self._free: dict[Origin, list[Connection]] = {}
        self._all: dict[Connection, Origin] = {}
        self._opening: set[asyncio.Timeout] = set()
        self._waiting: deque[asyncio.Future[bool]] = deque()
        """Requests that wait for a connection; the result is False if the pool was closed."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._tls: Any = None
        self._is_closed = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, idle_s: float | None
    ) -> HttpResponse:
        """Send a request and return the response once its head arrived.

        Raises:
            OSError, TimeoutError, ValueError: the server cannot be reached, or the request is not valid.
            TransportError: it does not answer.
        """
        place = place_of(url)
        request = _request(method, place, headers, body)
        connection = self._take(place) or await self._wait_for_room(place)
        answer = (
            connection.send(request, idle_s)
            if connection is not None
            else await self._send_anew(place.origin, request, idle_s)
        )
        try:
            await answer.head()
        except BaseException:
            answer.close()
            raise
        return answer

    async def connect(self, url: str, protocol: asyncio.Protocol) -> None:
        """Open a connection for a protocol other than HTTP, which the pool does not keep; the caller sets the deadline.

        Raises:
            OSError, TimeoutError, ValueError: the server cannot be reached.
        """
        loop, origin = asyncio.get_running_loop(), place_of(url).origin
        deadline = loop.time() + self._connect_s
        connected = await self._connect(origin, deadline)
        tls = {"ssl": self._tls_context(), "server_hostname": origin.host} if origin.is_tls else {}
        try:
            await self._in_time(deadline, loop.create_connection(lambda: protocol, sock=connected, **tls))
        except BaseException:
            connected.close()
            raise

    async def close(self) -> None:
        """Drop every connection; requests that wait for one fail, and so do later ones."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._free.clear()
        while self._waiting:
            self._next_turn(go_on=False)
        for connection in list(self._all):
            connection.drop()
        for opening in self._opening:
            if not opening.expired():
                opening.reschedule(0)
        for _ in range(_TURNS):
            if not self._all:
                return
            await asyncio.sleep(0)

    def _take(self, place: Place) -> Connection | None:
        """Take a free connection: the last used, as the server is least likely to be closing that one."""
        free = self._free.get(place.origin)
        while free:
            connection = free.pop()
            if connection.is_usable:
                return connection
            connection.drop()
        return None

    async def _wait_for_room(self, place: Place) -> Connection | None:
        """Wait while there are too many; return a connection that became free, or None if a new one may be opened."""
        while len(self._all) >= bounds.IN_FLIGHT:
            turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                if not await turn:
                    raise _closed()
            except asyncio.CancelledError:
                if not turn.cancelled():  # its turn came at the same moment: pass it on
                    self._next_turn()
                raise
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if (connection := self._take(place)) is not None:
                return connection
            self._drop_one_that_is_free()
        return None

    async def _send_anew(self, origin: Origin, request: bytes, idle_s: float | None) -> HttpResponse:
        """Send over a new connection. Without TLS the request is written before yielding to the event loop."""
        if self._is_closed:
            raise _closed()
        connection = Connection(self._take_back, self._forget)
        self._all[connection] = origin
        deadline = asyncio.get_running_loop().time() + self._connect_s
        try:
            connected = await self._connect(origin, deadline)
            try:
                if connection.is_lost:
                    raise _closed()
                return await self._send_first(connection, connected, deadline, request, idle_s)
            except BaseException:
                if connection.is_open:  # closes the socket; otherwise the loop would wait for it forever
                    connection.drop()
                else:
                    connected.close()
                raise
        except BaseException as error:
            self._forget(connection)
            if isinstance(error, TimeoutError) and connection.is_lost:
                raise _closed() from None
            raise

    async def _send_first(
        self, connection: Connection, connected: socket.socket, deadline: float, request: bytes, idle_s: float | None
    ) -> HttpResponse:
        loop, origin = asyncio.get_running_loop(), self._all[connection]
        if origin.is_tls:
            tls = {"ssl": self._tls_context(), "server_hostname": origin.host}
            await self._in_time(deadline, loop.create_connection(lambda: connection, sock=connected, **tls))
            return connection.send(request, idle_s)
        # From here on no deadline, and only this error: other errors would mean that nothing was sent.
        answer = connection.send(request[_written_at_once(connected, request) :], idle_s)
        try:
            await loop.create_connection(lambda: connection, sock=connected)
        except OSError as error:
            raise broken(type(error).__name__) from error
        return answer

    async def _connect(self, origin: Origin, deadline: float) -> socket.socket:
        if self._connect_instead is not None:
            return self._connect_instead()
        family = _family_of(origin.host)
        if family is None:
            return await self._in_time(deadline, self._connect_name(origin))
        address = (origin.host, origin.port)
        made = self._make_socket((family, socket.SOCK_STREAM, 0, "", address))
        try:
            if not _connects_at_once(made, address):
                await self._in_time(deadline, _connected(made, address))
        except BaseException:
            made.close()
            raise
        return made

    async def _in_time(self, deadline: float, opening: Awaitable[Opened]) -> Opened:
        """Wait until the deadline, or until the pool is closed."""
        async with asyncio.timeout_at(deadline) as left:
            self._opening.add(left)
            try:
                return await opening
            finally:
                self._opening.discard(left)

    async def _connect_name(self, origin: Origin) -> socket.socket:
        import aiohappyeyeballs

        found = await asyncio.get_running_loop().getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        return await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=bounds.NEXT_ADDRESS_S, socket_factory=self._make_socket
        )

    def _tls_context(self) -> Any:
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls

    def _take_back(self, connection: Connection) -> None:
        """Make a connection available to the next request; unused ones are closed after a while."""
        loop = asyncio.get_running_loop()
        connection.freed_at = loop.time()
        self._free.setdefault(self._all[connection], []).append(connection)
        self._next_turn()
        if self._sweeping is None:
            self._sweeping = loop.call_later(bounds.KEPT_CONNECTION_S, self._sweep)

    def _forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        origin = self._all.pop(connection, None)
        free = self._free.get(origin) if origin is not None else None
        if free and connection in free:
            free.remove(connection)
        self._next_turn()

    def _next_turn(self, *, go_on: bool = True) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(go_on)
                return

    def _drop_one_that_is_free(self) -> None:
        """Drop an idle connection to another server, to make room."""
        for free in self._free.values():
            if free:
                free.pop(0).drop()
                return

    def _sweep(self) -> None:
        """Close connections that were idle for `KEPT_CONNECTION_S`."""
        loop = asyncio.get_running_loop()
        long_ago = loop.time() - bounds.KEPT_CONNECTION_S
        for free in self._free.values():
            while free and free[0].freed_at <= long_ago:
                free.pop(0).drop()
        is_any = any(self._free.values())
        self._sweeping = loop.call_later(bounds.KEPT_CONNECTION_S, self._sweep) if is_any else None


def _closed() -> OSError:
    return ConnectionAbortedError(errno.ECONNABORTED, "the connection was closed before anything was sent")


def _connects_at_once(made: socket.socket, address: tuple[str, int]) -> bool:
    """Start connecting; whether that is complete at once, as it usually is for servers on this machine.

    Raises: OSError.
    """
    if os.name != "posix":  # elsewhere the loop needs a socket that is not connecting yet
        return False
    code = made.connect_ex(address)
    if code == errno.EINPROGRESS:
        code = made.connect_ex(address)
    if code and code not in (*_CONNECTING, errno.EISCONN):
        raise OSError(code, os.strerror(code))
    return code not in _CONNECTING


async def _connected(made: socket.socket, address: tuple[str, int]) -> None:
    """Wait until a socket that is connecting is connected.

    Raises: OSError.
    """
    try:
        await asyncio.get_running_loop().sock_connect(made, address)
    except OSError as error:
        if error.errno != errno.EISCONN:  # macOS reports this if it is connected by now
            raise


def _written_at_once(connected: socket.socket, request: bytes) -> int:
    """Write what the socket takes without blocking, usually all of it; return how much."""
    try:
        return connected.send(request)
    except BlockingIOError:
        return 0


@functools.lru_cache(maxsize=256)
def _family_of(host: str) -> int | None:
    """The address family of an IP address; None for a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return None


@functools.lru_cache(maxsize=256)
def place_of(url: str) -> Place:
    """Parse a URL.

    Raises:
        ValueError: it is not valid.
    """
    parts = urlsplit(url)
    host, is_tls = normal_host(parts.hostname or ""), parts.scheme in ("https", "wss")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise ValueError("no address")
    name = f"[{host}]" if ":" in host else host
    port = parts.port or (443 if is_tls else 80)
    shown = name if parts.port is None else f"{name}:{port}"
    start = f"{target} HTTP/1.1\r\nHost: {shown}\r\nAccept-Encoding: gzip, deflate\r\n"
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        start += f"Authorization: Basic {b64encode(pair.encode()).decode()}\r\n"
    return Place(Origin(host, port, is_tls), start)


def _request(method: str, place: Place, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Encode a request, head and body.

    Raises:
        ValueError: a header contains a line break or NUL.
    """
    named = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if named.count("\n") != len(headers) or named.count("\r") != len(headers) or "\0" in named:
        raise ValueError("no header")
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    head = f"{method} {place.start}{named}{length}\r\n".encode()
    return head if body is None else head + body
