"""The HTTP and WebSocket client for outgoing connections, restricted by an egress policy.

One client for each server, with its own connections and TLS context. It never follows
redirects, uses proxies from the environment or stores cookies. Each socket is created only
if `hubbub.net.egress` allows its address. All failures are raised as `TransportError`. The
HTTP parser is loaded with the first request, websockets with the first WebSocket.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import ConnectionFailed, EgressRefused, TransportError
from hubbub.net.egress import ANY_ADDRESS, PUBLIC, EgressPolicy, address_kind
from hubbub.net.egress_rules import NO_RULES, EgressRules, address_of

if TYPE_CHECKING:
    from hubbub.net.pool import ConnectionPool
    from hubbub.net.response import HttpResponse
    from hubbub.net.websocket import WebSocket

UNREACHABLE: Final = "The server cannot be reached: "
"""The start of messages about connections that could not be opened."""
_UNKNOWN_CA_CODES: Final = (18, 19, 20, 21)
"""OpenSSL's X509_V_ERR codes for a chain without a trusted certificate."""
_PLAIN_ANSWERS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "HTTP_REQUEST")
"""OpenSSL's reasons for the error when a server answers without TLS."""
_REFUSED_MESSAGE: Final = "The host resolves to an address that the egress policy blocks"


class _RefusedAddress(OSError):
    """An address that the policy refuses. The message does not name it, because it may be internal.

    Not a `HubbubError`, because it is raised where a socket is made: after an OSError aiohappyeyeballs tries the next
    address, after other errors it gives up.
    """


class _ForbiddenAddress(_RefusedAddress):
    """An address that no setting can allow."""


class _RefusedHost(_RefusedAddress):
    """A host that the operator's rules refuse; the message names it, because it was configured."""


class HttpClient:
    """HTTP and WebSocket connections to one server, at addresses that an `EgressPolicy` allows."""

    def __init__(
        self,
        egress: EgressPolicy,
        *,
        connect_s: float | None = None,
        idle_s: float | None = None,
        connect: Callable[[], socket.socket] | None = None,
        rules: EgressRules = NO_RULES,
    ) -> None:
        """`connect` returns a connected, non-blocking socket in place of one to the URL's address, such as a Unix
        socket; it must not block, and must check by itself where it connects.
        """
        self._guard = EgressGuard(egress, rules)
        self._connect_s = bounds.CONNECT_TIMEOUT_S if connect_s is None else connect_s
        self._idle_s = idle_s
        self._connect = connect
        self._pool: ConnectionPool | None = None
        self._websockets: set[WebSocket] = set()
        self._is_closed = False

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, is_stream: bool = False
    ) -> HttpResponse:
        """Send a request and return the response as soon as its headers arrived.

        There is no timeout: use `asyncio.timeout`.

        Raises:
            TransportError: no response arrived.
        """
        try:
            return await self._get_pool().send(method, url, headers, body, None if is_stream else self._idle_s)
        except (OSError, ValueError, RuntimeError) as error:
            raise _connection_error(error) from error

    def encode_head(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        """Encode the head of requests for `send_nowait`, which can be sent any number of times.

        Raises:
            ValueError: the URL or a header is not valid.
        """
        from hubbub.net.pool import encode_head, parse_url

        return encode_head(method, parse_url(url), headers)

    def send_nowait(
        self, url: str, head: bytes, body: bytes, on_ready: Callable[[HttpResponse], None]
    ) -> HttpResponse | None:
        """Send a request if a connection is free; otherwise return None, and nothing is sent.

        `on_ready` is called once: with the data that completes the head of the response, or when it failed before.
        """
        if self._pool is None or self._is_closed:
            return None
        return self._pool.send_nowait(url, head, body, self._idle_s, on_ready)

    async def open_websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str], limit: int
    ) -> WebSocket:
        """Open a WebSocket; the handshake has the same timeout as a connection.

        Raises:
            TransportError: it cannot be opened.
        """
        from hubbub.net.websocket import make_connection, perform_handshake

        try:
            async with asyncio.timeout(self._connect_s):
                connection = make_connection(url, protocols, limit)
                await self._get_pool().connect(url, connection)
                opened = await perform_handshake(connection, url, headers, limit)
        except TimeoutError as error:
            reason = f"The server did not open a WebSocket within {self._connect_s:g} s"
            raise ConnectionFailed(reason, may_have_executed=False) from error
        except (OSError, ValueError, RuntimeError) as error:
            raise _connection_error(error) from error
        if self._is_closed:  # closed while it was being opened
            opened.abort()
            raise _closed()
        self._websockets = {each for each in self._websockets if not each.is_closed} | {opened}
        return opened

    async def close(self) -> None:
        """Close every connection. Later requests fail, so that they leave no connection open."""
        self._is_closed = True
        for each in self._websockets:
            each.abort()
        self._websockets.clear()
        if self._pool is not None:
            await self._pool.close()

    def _get_pool(self) -> ConnectionPool:
        if self._is_closed:
            raise _closed()
        if self._pool is None:
            from hubbub.net.pool import ConnectionPool

            self._pool = ConnectionPool(self._guard, self._connect_s, self._connect)
        return self._pool


class EgressGuard:
    """Checks every connection of one client against the operator's rules and the kinds of its addresses."""

    def __init__(self, policy: EgressPolicy, rules: EgressRules) -> None:
        self._policy = policy
        self._rules = rules
        self.proxy = rules.proxy

    def check_origin(self, host: str, port: int, *, is_tls: bool) -> None:
        """Check a host before it is looked up; with a proxy, which looks names up itself, also literal addresses."""
        if problem := self._rules.find_problem(host, port, is_tls=is_tls):
            raise _RefusedHost(problem)
        if self.proxy is not None and (address := address_of(host)) is not None:
            self._check_address(address, self._policy)

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Refuse a name that should be public if any of its addresses is not, as no honest owner mixes them.

        Names of the local network often have link-local addresses too, which are only skipped.
        """
        if self._policy == PUBLIC:
            for address in addresses:
                self._check_address(address, self._policy)

    def make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make a socket, if its address is allowed."""
        return self._make_socket(info, self._policy)

    def make_proxy_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make a socket for the proxy, which the operator named."""
        return self._make_socket(info, ANY_ADDRESS)

    def _make_socket(self, info: tuple[Any, ...], policy: EgressPolicy) -> socket.socket:
        family, kind, protocol, _, address = info
        self._check_address(str(address[0]), policy)
        new_socket = socket.socket(family=family, type=kind, proto=protocol)
        new_socket.setblocking(False)
        return new_socket

    def _check_address(self, address: str, policy: EgressPolicy) -> None:
        if policy.allows(address):
            return
        is_forbidden = address_kind(address) == "forbidden"
        raise _ForbiddenAddress(_REFUSED_MESSAGE) if is_forbidden else _RefusedAddress(_REFUSED_MESSAGE)


def _closed() -> TransportError:
    return ConnectionFailed("The client is closed", may_have_executed=False)


def _connection_error(error: Exception) -> TransportError:
    if isinstance(error, _RefusedHost):
        return EgressRefused(str(error), can_be_allowed=False)
    if isinstance(error, _RefusedAddress):
        return EgressRefused(_REFUSED_MESSAGE, can_be_allowed=not isinstance(error, _ForbiddenAddress))
    if tls_problem := _describe_tls(error):
        # Its own text says what to do: `data` lets the command line leave out its general advice.
        reason = f"{UNREACHABLE}{tls_problem}"
        return ConnectionFailed(reason, {"tls": tls_problem}, may_have_executed=False)
    return ConnectionFailed(f"{UNREACHABLE}{_describe(error)}", may_have_executed=False)


def _describe_tls(error: Exception) -> str | None:
    """Describe a failed TLS handshake; None for other errors. Their `errno` is OpenSSL's, not the system's."""
    import ssl  # late: most servers are programs or have no TLS

    if isinstance(error, ssl.SSLCertVerificationError):
        problem = error.verify_message.rstrip(".")
        if error.verify_code in _UNKNOWN_CA_CODES:
            return f"its TLS certificate is not trusted ({problem}); for a private CA set SSL_CERT_FILE=FILE"
        return f"its TLS certificate is not valid ({problem})"
    if not isinstance(error, ssl.SSLError):
        return None
    if error.reason in _PLAIN_ANSWERS:
        return "this port does not speak TLS; use http://"
    return f"the TLS handshake failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})"


def _describe(error: Exception) -> str:
    """Describe an error without the address that was connected to: asyncio writes it into `strerror`.

    Errors that `hubbub.net` raises have no number, and a message that is meant to be shown.
    """
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or type(error).__name__
