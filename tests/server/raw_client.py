"""A client in memory, in any dialect, for the tests of the server.

    async with connect_raw_client(server, "2025-06-18") as client:
        answer = await client.ask("tools/list")

Not a client library: it sends any message, also invalid ones, and records everything that it receives.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.server.raw_transport import RawTransport

from hubbub import Server

PLAIN = "plain"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
DIALECTS = (PLAIN, *LEGACY, MODERN)
ERAS = {"plain": PLAIN, "legacy": "2025-11-25", "modern": MODERN}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
ALL_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

NO_TIMEOUT_S = 3600.0
"""The time limit of the test ends first."""

Message = dict[str, Any]


def modern_meta(capabilities: Message | None = None, **more: Any) -> Message:
    return {VERSION_KEY: MODERN, CAPABILITIES_KEY: ALL_CAPABILITIES if capabilities is None else capabilities, **more}


class RawClient:
    """One client. Requests from the server are answered by `reply_with`, all other messages are in `received`."""

    def __init__(self, link: RawTransport, dialect: str, capabilities: Message) -> None:
        self.transport = link
        self.dialect = dialect
        self.capabilities = capabilities
        self.received: list[Message] = []
        self.responses: dict[str, Message] = {}
        self.reply_with: Callable[[Message], Message] | None = None
        self._last_id = 100

    def send(self, message: Any) -> None:
        """Send bytes unchanged, and anything else as JSON."""
        self.transport.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def send_request(
        self, method: str, params: Message | None = None, *, id: Any = None, meta: Message | None = None
    ) -> Any:
        """Send a request in this dialect; return its id."""
        self._last_id += 1
        identifier = self._last_id if id is None else id
        params = dict(params or {})
        if self.dialect == MODERN:
            params["_meta"] = modern_meta(self.capabilities) | (meta or {})
        elif meta is not None:
            params["_meta"] = meta
        message: Message = {"jsonrpc": "2.0", "id": identifier, "method": method}
        self.send(message | {"params": params} if params else message)
        return identifier

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def next_message(self, timeout_s: float = NO_TIMEOUT_S) -> Any:
        """Return the next message of any kind."""
        return json.loads(await self.transport.receive(timeout_s))

    async def response_to(self, identifier: Any, timeout_s: float = NO_TIMEOUT_S) -> Message:
        """Return the complete response to a request; handle the messages that arrive before it."""
        key = json.dumps(identifier)
        while key not in self.responses:
            self.handle_message(await self.next_message(timeout_s))
        return self.responses.pop(key)

    async def ask(self, method: str, params: Message | None = None, **options: Any) -> Message:
        """Send a request and return its complete response."""
        return await self.response_to(self.send_request(method, params, **options))

    async def result(self, method: str, params: Message | None = None, **options: Any) -> Any:
        """Send a request that must succeed; return its result."""
        answer = await self.ask(method, params, **options)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Message | None = None, **options: Any) -> Message:
        """Send a request that must fail; return its error."""
        answer = await self.ask(method, params, **options)
        assert "result" not in answer, answer
        error: Message = answer["error"]
        return error

    async def call(self, tool: str, arguments: Message | None = None, **options: Any) -> Any:
        """Call a tool; return its result, which may have `isError`."""
        more = options.pop("more", {})
        return await self.result("tools/call", {"name": tool, "arguments": arguments or {}, **more}, **options)

    async def wait_until_idle(self) -> None:
        """Wait until the server has handled everything that was sent before."""
        await self.ask("tools/list")

    def notifications(self, method: str) -> list[Message]:
        """Return the parameters of every notification of this method so far."""
        return [message.get("params", {}) for message in self.received if message.get("method") == method]

    def handle_message(self, message: Any) -> None:
        if isinstance(message, dict) and "method" not in message:
            key = json.dumps(message["id"])
            assert key not in self.responses, f"answered twice: {message}"
            self.responses[key] = message
        elif isinstance(message, dict) and "id" in message and self.reply_with is not None:
            self.received.append(message)
            self.send({"jsonrpc": "2.0", "id": message["id"], **self.reply_with(message)})
        else:
            self.received.append(message)


@asynccontextmanager
async def connect_raw_client(
    server: Server, dialect: str = PLAIN, capabilities: Message | None = None, **options: Any
) -> AsyncIterator[RawClient]:
    """Connect a client and complete the handshake of its dialect; the options are those of `ConnectionFactory`."""
    capabilities = ALL_CAPABILITIES if capabilities is None else capabilities
    async with RawTransport(server, **options) as link:
        client = RawClient(link, dialect, capabilities)
        if dialect in LEGACY:
            info = {"name": "test", "version": "1"}
            initialize_params = {"protocolVersion": dialect, "capabilities": capabilities, "clientInfo": info}
            assert (await client.result("initialize", initialize_params))["protocolVersion"] == dialect
            client.notify("notifications/initialized")
        yield client
