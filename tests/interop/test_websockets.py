"""The `websockets` library as a client of /mcp-ws. Of the SDKs, only the TypeScript one has WebSockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

RunAsync = Callable[..., Any]
PATIENCE_S = 60.0
META = "io.modelcontextprotocol/"
EVERYTHING: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
MODERN = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": EVERYTHING}


class WebSocketClient:
    """A client over one WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, **message: Any) -> None:
        await self.connection.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def receive(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            frame = await self.connection.recv()
        assert isinstance(frame, str)
        return json.loads(frame)

    async def ask(self, id: Any, method: str, **params: Any) -> Any:
        """Send a request; return its response, which must be the next message."""
        await self.send(id=id, method=method, params=params)
        answer = await self.receive()
        assert answer["id"] == id, answer
        return answer.get("result", answer)

    async def call(self, id: Any, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}
        await self.send(id=id, method="tools/call", params=params)

    async def called(self, id: Any, tool: str, **arguments: Any) -> Any:
        await self.call(id, tool, **arguments)
        answer = await self.receive()
        assert answer["id"] == id, answer
        return answer["result"]


@asynccontextmanager
async def connect_client(url: str, **options: Any) -> AsyncIterator[WebSocketClient]:
    address = url.replace("http:", "ws:") + "-ws"
    wanted = {"subprotocols": [Subprotocol("mcp.v1")], "proxy": None, "open_timeout": PATIENCE_S, **options}
    async with connect(address, **wanted) as connection:
        yield WebSocketClient(connection)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[WebSocketClient]:
    async with connect_client(url) as link:
        client = {"name": "websockets", "version": "1"}
        known = await link.ask(
            0, "initialize", protocolVersion="2025-11-25", capabilities=EVERYTHING, clientInfo=client
        )
        assert (known["protocolVersion"], known["serverInfo"]["name"]) == ("2025-11-25", "interop")
        await link.send(method="notifications/initialized")
        yield link


def test_a_session_lists_and_calls(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            assert link.connection.subprotocol == "mcp.v1"
            tools = (await link.ask(1, "tools/list"))["tools"]
            assert [tool["name"] for tool in tools][:3] == ["echo", "add", "count"]
            added = await link.called(2, "add", a=2, b=3)
            assert added["structuredContent"] == {"total": 5, "terms": [2, 3]}
            assert (await link.ask(3, "ping")) == {}

    run_async(scenario())


def test_progress_precedes_the_response(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            await link.call("p", "slow", steps=2)
            methods = [(await link.receive()) for _ in range(5)]
            assert [message.get("method") for message in methods] == [
                "notifications/progress",
                "notifications/message",
                "notifications/progress",
                "notifications/message",
                None,
            ]
            assert methods[2]["params"] == {"progressToken": "p", "progress": 2, "total": 2, "message": "step 2"}
            assert (methods[4]["id"], methods[4]["result"]["content"][0]["text"]) == ("p", "2 steps")

    run_async(scenario())


def test_a_cancelled_call_is_not_answered(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            await link.call(1, "wait_forever")
            assert (await link.receive())["method"] == "notifications/progress"
            await link.send(method="notifications/cancelled", params={"requestId": 1})
            counts = await link.called(2, "counts", cancelled=1)
            assert counts["structuredContent"] == {"started": 1, "cancelled": 1, "finished": 0}

    run_async(scenario())


def test_the_calls_of_a_client_that_disconnects_are_cancelled(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            await link.call(1, "wait_forever")
            assert (await link.receive())["method"] == "notifications/progress"
        async with session(url) as link:
            counts = await link.called(2, "counts", cancelled=1)
            assert counts["structuredContent"] == {"started": 1, "cancelled": 1, "finished": 0}

    run_async(scenario())


def test_an_elicitation_is_answered_during_a_call(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            await link.call(1, "ask_name")
            question = await link.receive()
            assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Who are you?")
            await link.send(id=question["id"], result={"action": "accept", "content": {"name": "Ada", "age": 36}})
            answer = await link.receive()
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "Ada is 36")

    run_async(scenario())


def test_changes_reach_the_subscribed_sessions(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as watcher, session(url) as other:
            assert await watcher.ask(1, "resources/subscribe", uri="memo://watched") == {}
            await other.called(1, "touch_resource")
            updated = await watcher.receive()
            assert updated["method"] == "notifications/resources/updated"
            assert updated["params"]["uri"] == "memo://watched"
            await watcher.call(2, "register_tool", name="hello")
            kinds = [await watcher.receive() for _ in range(2)]
            assert {message.get("method", message.get("id")) for message in kinds} == {
                "notifications/tools/list_changed",
                2,
            }
            assert (await other.receive())["method"] == "notifications/tools/list_changed"

    run_async(scenario())


def test_a_modern_client_needs_no_handshake(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_client(url) as link:
            known = await link.ask(1, "server/discover", _meta=MODERN)
            assert "2026-07-28" in known["supportedVersions"]
            asked = await link.ask(2, "tools/call", name="ask_name", arguments={}, _meta=MODERN)
            assert asked["resultType"] == "input_required"
            (key,) = asked["inputRequests"]
            answers = {key: {"action": "accept", "content": {"name": "Ada", "age": 36}}}
            again = {"inputResponses": answers, "requestState": asked["requestState"]}
            done = await link.ask(3, "tools/call", name="ask_name", arguments={}, _meta=MODERN, **again)
            assert done["content"][0]["text"] == "Ada is 36"

    run_async(scenario())


def test_a_modern_client_receives_the_notifications_that_it_subscribed_to(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_client(url) as link, session(url) as other:
            wanted = {"toolsListChanged": True}
            await link.send(id="l", method="subscriptions/listen", params={"notifications": wanted, "_meta": MODERN})
            assert (await link.receive())["method"] == "notifications/subscriptions/acknowledged"
            await other.call(1, "register_tool", name="hello")
            note = await link.receive()
            assert note["method"] == "notifications/tools/list_changed"
            assert note["params"]["_meta"][f"{META}subscriptionId"] == "l"

    run_async(scenario())


def test_plain_calls_need_no_handshake(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_client(url, subprotocols=None) as link:
            result = await link.ask(1, "tools/call", name="echo", arguments={"text": "hi"})
            assert result == {"content": [{"type": "text", "text": "hi"}]}

    run_async(scenario())


def test_invalid_frames_get_an_error_and_the_next_is_served(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            for frame in ("{", b"\xff\xfe", "[]", "7"):
                await link.connection.send(frame)
                assert (await link.receive())["error"]["code"] in (-32700, -32600)
            assert (await link.called(1, "echo", text="hi"))["content"][0]["text"] == "hi"

    run_async(scenario())


def test_concurrent_calls_get_their_own_results(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with session(url) as link:
            for number in range(200):
                await link.call(number, "echo", text=f"text {number}")
            answers = [await link.receive() for _ in range(200)]
            got = {answer["id"]: answer["result"]["content"][0]["text"] for answer in answers}
            assert got == {number: f"text {number}" for number in range(200)}

    run_async(scenario())


def test_a_ping_is_answered(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        async with connect_client(url) as link:
            pong = await link.connection.ping()
            await asyncio.wait_for(pong, PATIENCE_S)

    run_async(scenario())


def test_a_page_of_another_origin_is_refused(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with connect_client(url, origin=Origin("http://evil.example")):
                pass
        assert refused.value.response.status_code == 403

    run_async(scenario())


def test_a_foreign_host_name_is_refused(url: str, run_async: RunAsync) -> None:
    async def scenario() -> None:
        here, port = "127.0.0.1", int(url.split(":")[2].partition("/")[0])
        with pytest.raises(InvalidStatus) as refused:
            async with connect_client(url.replace(here, "evil.example"), host=here, port=port):
                pass
        assert refused.value.response.status_code == 403

    run_async(scenario())
