"""An HTTP server whose responses a test scripts byte by byte; independent of Hubbub's code."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.stream_server import stream_server

INFO = {"name": "scripted", "version": "1"}


class ScriptedRequest:
    """One request, with methods to respond."""

    def __init__(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.writer = writer
        self.is_streaming = False
        self.at = asyncio.get_running_loop().time()

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)  # type: ignore[no-any-return]

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, or the HTTP method where there is none."""
        return str(self.message.get("method", "answer")) if self.body else self.method

    async def reply(self, status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", *(f"{k}: {v}" for k, v in named.items())]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await self.writer.drain()

    async def result(self, result: Any, **headers: str) -> None:
        await self.reply(200, {"jsonrpc": "2.0", "id": self.message["id"], "result": result}, **headers)

    async def error(self, status: int, code: int, message: str = "no", data: Any = None, **headers: str) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.reply(status, {"jsonrpc": "2.0", "id": self.message["id"], "error": error}, **headers)

    async def stream(self, *events: str, **headers: str) -> None:
        """Start a stream, or continue one."""
        if not self.is_streaming:
            self.is_streaming = True
            named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
            self.writer.write(
                f"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n{named}connection: close\r\n\r\n".encode()
            )
        self.writer.write("".join(events).encode())
        await self.writer.drain()

    def event(self, result: Any, identifier: str = "") -> str:
        """Return the response to this request as an event."""
        head = f"id: {identifier}\n" if identifier else ""
        return f"{head}data: {json.dumps({'jsonrpc': '2.0', 'id': self.message['id'], 'result': result})}\n\n"

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Reset the connection (RST)."""
        self.writer.transport.abort()


Handler = Callable[[ScriptedRequest], Awaitable[None]]


async def hang(request: ScriptedRequest) -> None:
    """Never answer."""
    await asyncio.get_running_loop().create_future()


class ScriptedServer:
    """The running server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.port = port
        self.requests: list[ScriptedRequest] = []

    def count(self, name: str) -> int:
        return [request.rpc for request in self.requests].count(name)

    def all(self, name: str) -> list[ScriptedRequest]:
        return [request for request in self.requests if request.rpc == name]


@asynccontextmanager
async def scripted_server(handler: Handler) -> Any:
    """Serve with this handler until the block ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode().split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            request = ScriptedRequest(method, path, headers, body, writer)
            server.requests.append(request)
            await handler(request)
            if writer.is_closing() or request.is_streaming:
                break

    async with stream_server(serve) as port:
        server = ScriptedServer(port)
        yield server


def legacy_handler(
    special: Handler | None = None, *, version: str = "2025-11-25", session: str | None = "s1", get: bool = False
) -> Handler:
    """A correct legacy server; `special` is tried first, and raises NotImplementedError for all other requests."""

    async def handle(request: ScriptedRequest) -> None:
        if special is not None:
            try:
                return await special(request)
            except NotImplementedError:
                pass
        if request.method == "GET" and not get:
            return await request.reply(405)
        if request.method == "DELETE":
            return await request.reply(200)
        match request.rpc:
            case "initialize":
                result = {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO}
                await request.result(result, **({"mcp_session_id": session} if session else {}))
            case "tools/list":
                await request.result({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                await request.result({"content": [{"type": "text", "text": "called"}]})
            case "server/discover":
                await request.reply(400)
            case _:
                await request.reply(202)

    return handle
