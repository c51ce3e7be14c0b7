"""Raw connections and requests of the soak run: what is sent can be cut at every byte."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any

from bench.http_generator import HOST
from bench.messages import LEGACY, META, MODERN, legacy_headers

_LINE_LIMIT_BYTES = 1 << 20
_BIND_ADDRESS_NO_PORT = 24  # IP_BIND_ADDRESS_NO_PORT of Linux: a port may be used once for each destination
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PATH = "/mcp"


class WrongAnswerError(Exception):
    """A server's answer is not the expected one."""


@dataclass(frozen=True)
class Response:
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def message(self) -> dict[str, Any]:
        """Return the JSON-RPC response, which is the last event if the body is a stream."""
        body = self.body
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            body = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6][-1]
        message: dict[str, Any] = json.loads(body)
        return message


class Connection:
    """One connection from a given address; closed at the end of its `async with` block."""

    def __init__(self, port: int, address: str) -> None:
        self._port = port
        self._address = address

    async def __aenter__(self) -> Connection:
        opened = await open_socket(self._port, self._address)
        self.reader, self._writer = await asyncio.open_connection(sock=opened, limit=_LINE_LIMIT_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def ask(self, request: bytes) -> Response:
        """Send a request and read its response."""
        await self.send(request)
        return await self.read_response()

    async def read_response(self) -> Response:
        """Read the next response, with its whole body."""
        status, headers = await self.read_head()
        body = b""
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        return Response(status, headers, body)

    async def read_head(self) -> tuple[int, dict[str, str]]:
        """Read a status and headers, with names in lower case."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        fields = (line.partition(":") for line in lines)
        return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in fields}

    def reset_on_close(self) -> None:
        """Let the connection end with RST instead of FIN, and without what was not sent yet."""
        reset_on_close(self._writer)


def reset_on_close(writer: asyncio.StreamWriter | asyncio.WriteTransport) -> None:
    """Set SO_LINGER to zero."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


async def open_socket(port: int, address: str) -> socket.socket:
    """Connect from a loopback address, such as 127.0.0.2."""
    opened = socket.socket()
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        opened.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(opened, (HOST, port))
    except BaseException:
        opened.close()
        raise
    return opened


# -- requests ------------------------------------------------------------------


def call_message(identifier: int, text: str) -> dict[str, Any]:
    """Return a call of `echo`."""
    params = {"name": "echo", "arguments": {"text": text}}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


def count_message(identifier: int, steps: int) -> dict[str, Any]:
    """Return a call of `count`, with progress."""
    params = {"name": "count", "arguments": {"steps": steps}, "_meta": {"progressToken": identifier}}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


def initialize_message() -> dict[str, Any]:
    """Return the request that opens a session."""
    client = {"name": "soak", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def modern_request(message: Mapping[str, Any], random: Random | None = None, *, accept: str | None = None) -> bytes:
    """Return a request of a modern client; with `random`, its body is sent in chunks."""
    params = message["params"]
    headers = {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return _post(
        {**message, "params": {**params, "_meta": {**META, **params.get("_meta", {})}}}, headers, random, accept
    )


def legacy_request(
    message: Mapping[str, Any], session: str = "", random: Random | None = None, *, accept: str | None = None
) -> bytes:
    """Return a request of a legacy client; without a session, it can only be `initialize`."""
    return _post(message, legacy_headers(session) if session else {}, random, accept)


def stream_request(path: str, session: str = "") -> bytes:
    """Return the request that opens a stream of events."""
    return _head("GET", path, {"accept": "text/event-stream", **(legacy_headers(session) if session else {})})


def delete_request(session: str) -> bytes:
    """Return the request that ends a session."""
    return _head("DELETE", _PATH, legacy_headers(session))


def _post(message: Mapping[str, Any], headers: dict[str, str], random: Random | None, accept: str | None) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    fields = {
        "accept": accept or "application/json, text/event-stream",
        "content-type": "application/json",
        **headers,
    }
    if random is None:
        return _head("POST", _PATH, {**fields, "content-length": str(len(body))}) + body
    return _head("POST", _PATH, {**fields, "transfer-encoding": "chunked"}) + b"".join(_chunks(body, random))


def _chunks(body: bytes, random: Random) -> list[bytes]:
    chunks, rest = [], body
    while rest:
        size = random.randint(1, max(1, len(body) // 3))
        part, rest = rest[:size], rest[size:]
        chunks.append(b"%x\r\n%b\r\n" % (len(part), part))
    return [*chunks, b"0\r\n\r\n"]


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\n{lines}\r\n".encode()


# -- answers -------------------------------------------------------------------


def check_result(message: Mapping[str, Any], identifier: int, text: str) -> None:
    """Raise WrongAnswerError unless this is the result of a call that returned `text`."""
    content = message.get("result", {}).get("content")
    if message.get("id") != identifier or content != [{"type": "text", "text": text}]:
        raise WrongAnswerError(f"expected id {identifier} and {text[:40]!r}, got {str(message)[:300]}")


def check_response(response: Response, identifier: int, text: str) -> None:
    """Raise WrongAnswerError unless this is the response to a call that returned `text`."""
    if response.status != 200:
        raise WrongAnswerError(f"expected status 200, got {response.status}: {response.body[:300]!r}")
    check_result(response.message(), identifier, text)


async def open_session(connection: Connection) -> str:
    """Initialize on this connection, and return the session id."""
    response = await connection.ask(legacy_request(initialize_message()))
    session = response.headers.get("mcp-session-id", "")
    if response.status != 200 or not session:
        raise WrongAnswerError(f"no session: status {response.status}, {response.body[:300]!r}")
    accepted = await connection.ask(legacy_request(INITIALIZED, session))
    if accepted.status != 202:
        raise WrongAnswerError(f"expected status 202, got {accepted.status}: {accepted.body[:300]!r}")
    return session
