"""The only door out: HTTP and WebSocket through aiohttp, guarded and bounded.

One door for each server, with its own connections and TLS context. Redirects are never
followed, proxies of the environment never used, cookies never kept. Each socket is
asked for at the guard (`hubbub.net.egress`). Everything that aiohttp can raise leaves
here as a `TransportError`. aiohttp is loaded with the first request of the process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.errors import EgressRefused, TransportError
from hubbub.net.egress import Egress, kind_of

if TYPE_CHECKING:
    import aiohttp

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
        self._session: aiohttp.ClientSession | None = None
        self._last: tuple[tuple[str, bool], Any, Any] | None = None

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, is_stream: bool = False
    ) -> Answer:
        """Send a request; the answer's head, whose body is still to come. A stream may be silent for long.

        Raises:
            TransportError: there is no answer. Deadlines are the caller's.
        """
        session = self._open(url)
        address, patience = self._prepared(url, is_stream=is_stream)
        try:
            response = await session.request(
                method, address, headers=headers, data=body, allow_redirects=False, timeout=patience
            )
        except _failures() as error:
            raise _failure(error) from error
        return Answer(response)

    def _prepared(self, url: str, *, is_stream: bool) -> tuple[Any, Any]:
        """The address and the limits of time as the library wants them; nearly all requests go to the same place."""
        if self._last is None or self._last[0] != (url, is_stream):
            import aiohttp
            import yarl

            idle_s = None if is_stream else self._idle_s
            patience = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s, sock_read=idle_s)
            self._last = (url, is_stream), yarl.URL(url, encoded=True), patience
        return self._last[1:]

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
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _open(self, url: str) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(
                limit=bounds.IN_FLIGHT,
                socket_factory=self._make_socket,
                ssl=_tls_context() if url.startswith(("https:", "wss:")) else True,
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


class Answer:
    """The answer to one request."""

    __slots__ = ("_response", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """The content type without parameters, in lower case."""
        return self.header("Content-Type").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """A header's value; empty if it is not there."""
        return self._response.headers.get(name, "")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it comes; decompressed.

        Raises:
            TransportError: it breaks off.
        """
        content = self._response.content
        try:
            while chunk := await content.readany():
                yield chunk
        except _failures() as error:
            raise _failure(error) from error

    async def read(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            TransportError: `HTTP_BODY_TOO_LARGE`, or it breaks off.
        """
        announced = self._response.content_length
        if announced is not None and announced > limit:
            raise self._too_large(limit)
        chunks, size = [], 0
        async for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise self._too_large(limit)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Take no more of it: a connection whose answer was not read to its end is dropped."""
        self._response.close()

    def _too_large(self, limit: int) -> TransportError:
        data = {"max_bytes": limit, "status": self.status, "content_type": self.media_type}
        return TransportError("HTTP_BODY_TOO_LARGE", f"The server's answer is larger than {limit} bytes", data)


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

    reason: BaseException | None = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(reason, _RefusedAddress):
        return EgressRefused(f"Refused: {_REFUSED}", can_be_allowed=not isinstance(reason, _ForbiddenAddress))
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        told = getattr(reason, "strerror", None) or type(error).__name__
        return TransportError("TRANSPORT_ERROR", f"The server cannot be reached: {told}", may_have_executed=False)
    return TransportError("TRANSPORT_ERROR", f"The connection to the server broke: {type(error).__name__}")
