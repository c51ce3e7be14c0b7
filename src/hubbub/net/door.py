"""The only door out, guarded and bounded: HTTP over our own connections, WebSocket through aiohttp.

One door for each server, with its own connections and TLS context. Redirects are never
followed, proxies of the environment never used, cookies never kept. Each socket is
asked for at the guard (`hubbub.net.egress`). Whatever goes wrong leaves here as a
`TransportError`. What HTTP needs is loaded with the first request, aiohttp with the first WebSocket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import EgressRefused, TransportError
from hubbub.net.egress import Egress, kind_of

if TYPE_CHECKING:
    import aiohttp

    from hubbub.net.answer import Answer
    from hubbub.net.pool import Pool

_REFUSED: Final = "the name leads to an address that this client does not connect to"


class _RefusedAddress(OSError):
    """Raised where aiohttp expects a socket. Says nothing of the address: it is nobody's business."""


class _ForbiddenAddress(_RefusedAddress):
    """One that nobody can allow."""


class Door:
    """Connections to one server."""

    def __init__(self, egress: Egress, *, connect_s: float = bounds.CONNECT_S, idle_s: float | None = None) -> None:
        self._egress = egress
        self._connect_s = connect_s
        self._idle_s = idle_s
        self._pool: Pool | None = None
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, is_stream: bool = False
    ) -> Answer:
        """Send a request; the answer's head, whose body is still to come. A stream may be silent for long.

        Raises:
            TransportError: there is no answer. Deadlines are the caller's.
        """
        if self._pool is None:
            from hubbub.net.pool import Pool

            self._pool = Pool(self._make_socket, self._connect_s)
        try:
            return await self._pool.send(method, url, headers, body, None if is_stream else self._idle_s)
        except (OSError, ValueError, RuntimeError) as error:
            raise _unreachable(error) from error

    async def open_socket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str], limit: int
    ) -> Socket:
        """Open a WebSocket; the server's answer to the handshake is waited for as long as for a connection.

        Raises:
            TransportError: it cannot be opened.
        """
        import aiohttp

        session = self._open(url)
        try:
            async with asyncio.timeout(self._connect_s):
                response = await session.ws_connect(
                    url,
                    headers=headers,
                    protocols=protocols,
                    heartbeat=bounds.KEEP_ALIVE_S,
                    max_msg_size=limit,
                    timeout=aiohttp.ClientWSTimeout(ws_close=bounds.CLOSE_S),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise TransportError(
                "HTTP_ERROR",
                f"The server did not open a WebSocket (status {error.status})",
                {"status": error.status},
                may_have_executed=False,
            ) from error
        except TimeoutError as error:
            told = f"The server did not open a WebSocket within {self._connect_s:g} s"
            raise TransportError("TRANSPORT_ERROR", told, may_have_executed=False) from error
        except _failures() as error:
            raise _failure(error) from error
        return Socket(response)

    async def close(self) -> None:
        """Drop every connection."""
        if self._pool is not None:
            await self._pool.close()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _open(self, url: str) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(
                limit=bounds.IN_FLIGHT,
                socket_factory=self._make_socket,
                ssl=_tls_context() if url.startswith("wss:") else True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                requote_redirect_url=False,
                max_line_size=bounds.HEADER_BYTES,
                max_field_size=bounds.HEADER_BYTES,
            )
        return self._session

    def _make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = info
        if not self._egress.allows(str(address[0])):
            raise _ForbiddenAddress(_REFUSED) if kind_of(str(address[0])) == "forbidden" else _RefusedAddress(_REFUSED)
        made = socket.socket(family=family, type=kind, proto=protocol)
        made.setblocking(False)
        return made


class Socket:
    """An open WebSocket."""

    def __init__(self, response: aiohttp.ClientWebSocketResponse) -> None:
        self._response = response

    @property
    def protocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._response.protocol

    async def send(self, message: bytes) -> None:
        """Send one message of text.

        Raises: TransportError.
        """
        try:
            await self._response.send_str(message.decode())
        except _failures() as error:
            raise _failure(error) from error

    async def receive(self) -> bytes | None:
        """The next message; None when there will be none."""
        import aiohttp

        try:
            message = await self._response.receive()
        except _failures():
            return None
        if message.type == aiohttp.WSMsgType.TEXT:
            text: str = message.data
            return text.encode()
        if message.type == aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        return None

    @property
    def close_code(self) -> int | None:
        """Why it was closed, once it was."""
        return self._response.close_code

    async def close(self) -> None:
        """Say goodbye, briefly."""
        await self._response.close()


def _tls_context() -> Any:
    import ssl

    return ssl.create_default_context()


def _failures() -> tuple[type[Exception], ...]:
    import aiohttp

    return (aiohttp.ClientError, TimeoutError, OSError, ValueError, RuntimeError)


def _failure(error: Exception) -> TransportError:
    """What aiohttp raised, as ours. The text of its errors may quote headers and addresses, so only kinds are told."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        return _unreachable(error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError | _RefusedAddress):
        return _unreachable(error)
    return TransportError("TRANSPORT_ERROR", f"The connection to the server broke: {type(error).__name__}")


def _unreachable(error: Exception) -> TransportError:
    if isinstance(error, _RefusedAddress):
        return EgressRefused(f"Refused: {_REFUSED}", can_be_allowed=not isinstance(error, _ForbiddenAddress))
    told = getattr(error, "strerror", None) or type(error).__name__
    return TransportError("TRANSPORT_ERROR", f"The server cannot be reached: {told}", may_have_executed=False)
