"""A client's side of a conversation in memory, in any dialect: what the tests of the server talk through.

    async with conversing(server, "2025-06-18") as client:
        answer = await client.ask("tools/list")

Not a client library: it sends what it is told to, also what is wrong, and keeps all it hears.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.server.raw_link import RawLink

from hubbub import Server

PLAIN = "plain"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
DIALECTS = (PLAIN, *LEGACY, MODERN)
ERAS = {"plain": PLAIN, "legacy": "2025-11-25", "modern": MODERN}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

LONG_S = 3600.0
"""The deadline of the test comes first."""

Message = dict[str, Any]


def modern_meta(capabilities: Message | None = None, **more: Any) -> Message:
    return {VERSION_KEY: MODERN, CAPABILITIES_KEY: EVERYTHING if capabilities is None else capabilities, **more}


class Conversation:
    """One client. Requests from the server are answered by `reply_with`, everything else that arrives is in `heard`."""

    def __init__(self, link: RawLink, dialect: str, capabilities: Message) -> None:
        self.link = link
        self.dialect = dialect
        self.capabilities = capabilities
        self.heard: list[Message] = []
        self.answers: dict[str, Message] = {}
        self.reply_with: Callable[[Message], Message] | None = None
        self._last_id = 100

    def send(self, message: Any) -> None:
        """Send anything: bytes as they are, the rest as JSON."""
        self.link.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def begin(self, method: str, params: Message | None = None, *, id: Any = None, meta: Message | None = None) -> Any:
        """Send a request of this dialect; its id."""
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

    def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def next(self, timeout_s: float = LONG_S) -> Any:
        """The next message, whatever it is."""
        return json.loads(await self.link.receive(timeout_s))

    async def answer_to(self, identifier: Any, timeout_s: float = LONG_S) -> Message:
        """The whole answer to a request; what comes before it is kept or replied to."""
        key = json.dumps(identifier)
        while key not in self.answers:
            self.take(await self.next(timeout_s))
        return self.answers.pop(key)

    async def ask(self, method: str, params: Message | None = None, **options: Any) -> Message:
        """A request and its whole answer."""
        return await self.answer_to(self.begin(method, params, **options))

    async def result(self, method: str, params: Message | None = None, **options: Any) -> Any:
        """A request that must succeed."""
        answer = await self.ask(method, params, **options)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Message | None = None, **options: Any) -> Message:
        """A request that must fail."""
        answer = await self.ask(method, params, **options)
        assert "result" not in answer, answer
        error: Message = answer["error"]
        return error

    async def call(self, tool: str, arguments: Message | None = None, **options: Any) -> Any:
        """A tool call that must have a result, failed or not."""
        more = options.pop("more", {})
        return await self.result("tools/call", {"name": tool, "arguments": arguments or {}, **more}, **options)

    async def settle(self) -> None:
        """Wait until the server has nothing more to say about what was sent before."""
        await self.ask("tools/list")

    def notes(self, method: str) -> list[Message]:
        """The parameters of every notification of this method so far."""
        return [message.get("params", {}) for message in self.heard if message.get("method") == method]

    def take(self, message: Any) -> None:
        if isinstance(message, dict) and "method" not in message:
            key = json.dumps(message["id"])
            assert key not in self.answers, f"answered twice: {message}"
            self.answers[key] = message
        elif isinstance(message, dict) and "id" in message and self.reply_with is not None:
            self.heard.append(message)
            self.send({"jsonrpc": "2.0", "id": message["id"], **self.reply_with(message)})
        else:
            self.heard.append(message)


@asynccontextmanager
async def conversing(
    server: Server, dialect: str = PLAIN, capabilities: Message | None = None
) -> AsyncIterator[Conversation]:
    """A client that has said hello in the way of its dialect."""
    capabilities = EVERYTHING if capabilities is None else capabilities
    async with RawLink(server) as link:
        client = Conversation(link, dialect, capabilities)
        if dialect in LEGACY:
            info = {"name": "test", "version": "1"}
            hello = {"protocolVersion": dialect, "capabilities": capabilities, "clientInfo": info}
            assert (await client.result("initialize", hello))["protocolVersion"] == dialect
            client.tell("notifications/initialized")
        yield client
