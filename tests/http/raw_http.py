"""HTTP as bytes on a socket: a client that can send invalid requests, be slow or disconnect early."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

TIMEOUT_S = 60.0
Headers = list[tuple[str, str]]
JSON = {"Content-Type": "application/json"}


class Response(NamedTuple):
    """A complete HTTP response."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the only value of a header; a repeated header fails the test."""
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) <= 1, f"{name} came twice: {found}"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """Return the JSON-RPC error code."""
        return int(self.json["error"]["code"])


class Event(NamedTuple):
    """One server-sent event, or a comment."""

    data: str = ""
    id: str | None = None
    event: str | None = None
    retry: str | None = None
    comment: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def head(method: str, path: str, headers: Mapping[str, str] | Headers) -> bytes:
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class RawConnection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._is_chunked = False
        self._length: str | None = None

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(TIMEOUT_S):
            await self.writer.drain()

    async def send_request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        fields = {"Host": "127.0.0.1", **(headers or {})}
        if body or method == "POST":
            fields.setdefault("Content-Length", str(len(body)))
        await self.send(head(method, path, fields) + body)

    async def read_head(self) -> tuple[int, Headers]:
        async with asyncio.timeout(TIMEOUT_S):
            block = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = block.strip().split("\r\n")
        pairs = [line.split(":", 1) for line in lines]
        headers = [(name.lower(), value.strip()) for name, value in pairs]
        self._is_chunked = ("transfer-encoding", "chunked") in headers
        self._length = dict(headers).get("content-length")
        return int(status.split()[1]), headers

    async def read_response(self) -> Response:
        status, headers = await self.read_head()
        async with asyncio.timeout(TIMEOUT_S):
            if self._is_chunked:
                body = b"".join([chunk async for chunk in self.chunks()])
            elif self._length is not None:
                body = await self.reader.readexactly(int(self._length))
            else:
                body = b"" if status in (204, 304) else await self.reader.read()
        return Response(status, headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        if self._length is not None:
            yield await self.reader.readexactly(int(self._length))
            return
        if not self._is_chunked:
            while data := await self.reader.read(65536):
                yield data
            return
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()


class EventStream:
    """A response that is a stream of server-sent events."""

    def __init__(self, link: RawConnection, status: int, headers: Headers) -> None:
        self.connection = link
        self.status = status
        self.headers = dict(headers)
        self._chunks = link.chunks()
        self._text = ""

    async def next(self, *, comments: bool = False, timeout_s: float = TIMEOUT_S) -> Event | None:
        """Return the next event; None if the stream has ended cleanly."""
        async with asyncio.timeout(timeout_s):
            while True:
                while "\n\n" not in self._text:
                    try:
                        self._text += (await anext(self._chunks)).decode()
                    except StopAsyncIteration:
                        assert not self._text, f"cut off: {self._text!r}"
                        return None
                block, self._text = self._text.split("\n\n", 1)
                event = _parse(block)
                if comments or event.comment is None:
                    return event

    async def message(self) -> Any:
        """Return the JSON-RPC message of the next event that has one."""
        while True:
            event = await self.next()
            assert event is not None, "the stream ended"
            if event.data:
                return event.json

    async def rest(self) -> list[Event]:
        """Return every event up to the end of the stream."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


def _parse(block: str) -> Event:
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        name, value = name or "comment", value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name in fields and name == "data" else value
    return Event(**fields)


class Site:
    """The address of a server, with methods that send requests."""

    def __init__(self, port: int, caller: str = "127.0.0.1", **options: Any) -> None:
        self.port = port
        self._caller = caller
        """The address to call from."""
        self._options = options
        """Arguments of `asyncio.open_connection`, such as `ssl`."""

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[RawConnection]:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, **{"local_addr": (self._caller, 0), **self._options, **options}
            )
        link = RawConnection(reader, writer)
        is_tls = writer.get_extra_info("ssl_object") is not None
        try:
            yield link
        finally:
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # Closing would wait for a server that no longer reads.
            link.close()
            await asyncio.sleep(0)  # The transport closes its socket in the next iteration of the loop.
            if is_tls:
                with suppress(OSError):  # TLS waits for the answer of the server.
                    await writer.wait_closed()

    async def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | Any = b""
    ) -> Response:
        """Send one request on a new connection; a body that is not bytes is sent as JSON."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        async with self.connect() as link:
            await link.send_request(method, path, {"Connection": "close", **(headers or {})}, body)
            return await link.read_response()

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        return await self.request("GET", path, headers)

    async def post(self, body: Any, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> Response:
        return await self.request("POST", path, JSON | dict(headers or {}), body)

    @asynccontextmanager
    async def stream(
        self, method: str = "GET", path: str = "/mcp", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> AsyncIterator[EventStream]:
        """Send a request whose response is a stream."""
        data = b"" if body is None else json.dumps(body).encode()
        fields = {"Accept": "application/json, text/event-stream"} | (JSON if body is not None else {})
        async with self.connect() as link:
            await link.send_request(method, path, fields | dict(headers or {}), data)
            status, received = await link.read_head()
            yield EventStream(link, status, received)


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else message | {"params": params}


def call(tool: str, arguments: Any = None, *, id: Any = 1, token: Any = None) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id)
