"""Middleware, in every protocol version."""

import copy

import msgspec
import pytest

from hubbub import (
    SUPPORTED_PROTOCOL_VERSIONS,
    Call,
    CallNext,
    Client,
    DefinitionError,
    InvalidParams,
    Peer,
    RemoteError,
    Reply,
    Server,
    Text,
    ToolError,
    ToolResult,
)

every_version = pytest.mark.parametrize("version", SUPPORTED_PROTOCOL_VERSIONS)


class Calculator:
    def __init__(self) -> None:
        self.server = Server("s")
        self.server.tool(self.add)
        self.runs = 0

    async def add(self, a: int, b: int) -> int:
        """Add."""
        self.runs += 1
        if a < 0:
            raise ToolError("only positive numbers")
        return a + b


def test_a_server_without_middleware_is_its_own_peer() -> None:
    server = Server("s")
    assert server.peer is server


@every_version
async def test_the_first_middleware_is_the_outermost_and_sees_calls_and_replies(version: str) -> None:
    server = Calculator().server
    seen: list[str] = []

    @server.middleware
    async def outer(call: Call, call_next: CallNext) -> Reply:
        seen.append(f"outer {call.method} {call.caller.revision.version}")
        reply = await call_next(call)
        seen.append(f"outer {isinstance(reply, ToolResult)}")
        return reply

    @server.middleware
    async def inner(call: Call, call_next: CallNext) -> Reply:
        if call.method == "tools/call":
            seen.append(f"inner {call.params.name} {bytes(call.params.arguments).decode()}")
        return await call_next(call)

    async with Client(server, protocol_version=version) as client:
        seen.clear()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert seen == [f"outer tools/call {version}", 'inner add {"a":1,"b":2}', "outer True"]


@every_version
async def test_a_middleware_may_answer_change_or_refuse_a_call(version: str) -> None:
    calculator = Calculator()

    @calculator.server.middleware
    async def decide(call: Call, call_next: CallNext) -> Reply:
        if call.method != "tools/call":
            return await call_next(call)
        match msgspec.json.decode(call.params.arguments):
            case {"a": 1}:
                return ToolResult([Text("answered")])
            case {"a": 2}:
                params = msgspec.structs.replace(call.params, arguments=msgspec.Raw(b'{"a":20,"b":0}'))
                return await call_next(msgspec.structs.replace(call, params=params))
            case {"a": 3}:
                raise InvalidParams("Not three")
            case _:
                raise ToolError("refused", code="no")

    async with Client(calculator.server, protocol_version=version) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "answered"
        assert (await client.call_tool("add", {"a": 2, "b": 2})).text == "20"
        with pytest.raises(RemoteError, match="Not three"):
            await client.call_tool("add", {"a": 3, "b": 2})
        refused = await client.call_tool("add", {"a": 4, "b": 2})
        assert refused.is_error
        assert "refused" in refused.text
    assert calculator.runs == 1


async def test_failed_tools_are_errors_that_a_middleware_sees() -> None:
    calculator = Calculator()
    seen: list[Exception] = []

    @calculator.server.middleware
    async def watch(call: Call, call_next: CallNext) -> Reply:
        try:
            return await call_next(call)
        except ToolError as error:
            seen.append(error)
            raise

    async with Client(calculator.server) as client:
        assert (await client.call_tool("add", {"a": -1, "b": 2})).is_error
    assert [str(error) for error in seen] == ["only positive numbers"]


async def test_a_copied_reply_can_be_cached_for_clients_of_every_version() -> None:
    calculator = Calculator()
    cached: dict[bytes, Reply] = {}

    @calculator.server.middleware
    async def cache(call: Call, call_next: CallNext) -> Reply:
        if call.method != "tools/call":
            return await call_next(call)
        key = bytes(call.params.arguments)
        if key not in cached:
            cached[key] = await call_next(call)
        return copy.copy(cached[key])

    for version in reversed(SUPPORTED_PROTOCOL_VERSIONS):
        async with Client(calculator.server, protocol_version=version) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.text == "3"
            assert bool(result.structured_content) == (version >= "2025-06-18")
    assert calculator.runs == 1


def test_a_middleware_must_be_async() -> None:
    with pytest.raises(DefinitionError, match="'plain' must be an `async def`"):

        @Server("s").middleware  # type: ignore[arg-type]
        def plain(call: Call, call_next: CallNext) -> None: ...


def test_a_middleware_takes_the_call_and_call_next() -> None:
    with pytest.raises(DefinitionError, match="'short' must take two arguments, `call` and `call_next`"):

        @Server("s").middleware  # type: ignore[arg-type]
        async def short(call: Call) -> None: ...


async def test_wrapping_peers_stay_outside_of_middleware() -> None:
    server = Calculator().server
    order: list[str] = []

    class OuterPeer:
        def __init__(self, peer: Peer) -> None:
            self.notify = peer.notify
            self.inner = peer

        async def request(self, call: Call) -> Reply:
            order.append("wrapped")
            return await self.inner.request(call)

    @server.middleware
    async def inside(call: Call, call_next: CallNext) -> Reply:
        order.append("middleware")
        return await call_next(call)

    server.wrap(OuterPeer)
    async with Client(server) as client:
        order.clear()
        await client.tools()
    assert order == ["wrapped", "middleware"]


async def test_middleware_that_returns_nothing_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.middleware
    async def forgetful(call: Call, call_next: CallNext) -> Reply:  # type: ignore[return]
        await call_next(call)

    with pytest.raises(RemoteError, match="Internal error"):
        await Client(server).start()
    assert "forgetful returned NoneType" in caplog.text
