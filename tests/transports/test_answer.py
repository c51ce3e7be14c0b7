"""Answers on a connection that stays: written in one piece, and still what HTTP wants of them."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from tests.clock import pass_time
from tests.http.in_process import running
from tests.http.wire import JSON, PATIENCE_S, request

from hubbub import bounds
from hubbub.transports.http_connection import Answer

PING = json.dumps(request("ping")).encode()
OK = b"HTTP/1.1 200 OK\r\n"


class Cycle(SimpleNamespace):
    """What uvicorn knows of one request."""

    def __init__(self, **different: Any) -> None:
        self.written: list[bytes] = []
        self.passed_on: list[Any] = []
        usual = {
            "scope": {"method": "POST"},
            "default_headers": [(b"x-mcp-version", b"1.0.0")],
            "keep_alive": True,
            "disconnected": False,
            "flow": SimpleNamespace(write_paused=False),
            "transport": SimpleNamespace(write=self.written.append),
            "message_event": asyncio.Event(),
            "on_response": lambda: None,
        }
        super().__init__(**usual | different)

    async def send(self, message: Any) -> None:
        self.passed_on.append(message)


def start(body: bytes, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    fields = [(b"content-length", b"%d" % len(body)), *headers]
    return {"type": "http.response.start", "status": 200, "headers": fields}


def answer(cycle: Cycle, *messages: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def main() -> None:
        await Answer(app, cycle).serve({}, None, cycle.send)  # type: ignore[arg-type]

    asyncio.run(main())


def test_head_and_body_are_one_write() -> None:
    cycle = Cycle()
    answer(cycle, start(b"{}"), {"type": "http.response.body", "body": b"{}"})
    assert cycle.written == [OK + b"x-mcp-version: 1.0.0\r\ncontent-length: 2\r\n\r\n{}"]
    assert (cycle.passed_on, cycle.response_started, cycle.response_complete) == ([], True, True)
    assert cycle.message_event.is_set()


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"a\0b", b"a\x7fb"])
def test_a_header_that_would_be_two_is_never_written(value: bytes) -> None:
    cycle = Cycle()
    with pytest.raises(ValueError, match="no header may"):
        answer(cycle, start(b"{}", (b"x", value)), {"type": "http.response.body", "body": b"{}"})
    assert (cycle.written, cycle.passed_on) == ([], [])


@pytest.mark.parametrize(
    "different",
    [
        {"keep_alive": False},
        {"disconnected": True},
        {"flow": SimpleNamespace(write_paused=True)},
        {"scope": {"method": "HEAD"}},
    ],
)
def test_the_unusual_is_left_to_uvicorn(different: dict[str, Any]) -> None:
    cycle, messages = Cycle(**different), (start(b"{}"), {"type": "http.response.body", "body": b"{}"})
    answer(cycle, *messages)
    assert (cycle.written, cycle.passed_on) == ([], list(messages))


@pytest.mark.parametrize(
    "messages",
    [
        (start(b"{}"), {"type": "http.response.body", "body": b"{"}),
        (start(b"{}"), {"type": "http.response.body", "body": b"{", "more_body": True}),
        ({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]},),
    ],
)
def test_what_is_not_whole_is_left_to_uvicorn(messages: Any) -> None:
    cycle = Cycle()
    answer(cycle, *messages)
    assert (cycle.written, cycle.passed_on) == ([], list(messages))


async def test_a_connection_that_stays_gets_every_kind_of_answer() -> None:
    async with running() as here, here.site.link() as link:
        for _ in range(2):
            await link.ask("POST", "/mcp", JSON, PING)
            answer = await link.answer()
            assert (answer.status, answer.json["result"], answer.header("x-mcp-version")) == (200, {}, "1.0.0")
            assert answer.header("content-type") == "application/json"
            assert answer.header("date") is not None
            await link.ask("HEAD", "/health")
            status, headers = await link.answer_head()
            assert (status, dict(headers)["content-length"] != "0") == (200, True)
            await link.ask("GET", "/nothing")
            assert (await link.answer()).status == 404


async def test_requests_in_a_row_are_answered_in_their_order() -> None:
    asked = b"".join(
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
        for body in (json.dumps(request("ping", id=number)).encode() for number in range(20))
    )
    async with running() as here, here.site.link() as link:
        await link.send(asked)
        assert [(await link.answer()).json["id"] for _ in range(20)] == list(range(20))


async def test_a_connection_may_ask_for_one_thing_in_every_way() -> None:
    async with running() as here, here.site.link() as link:
        for _ in range(3):
            await link.ask("GET", "/health")
            assert (await link.answer()).status == 200
            await link.ask("DELETE", "/health")
            assert (await link.answer()).status == 405
            await link.ask("GET", "/health?verbose")
            assert (await link.answer()).status == 200
        await link.ask("POST", "/mcp", JSON, PING)
        assert (await link.answer()).status == 200
        wanted = {**JSON, "Expect": "100-continue", "Content-Length": str(len(PING))}
        await link.ask("POST", "/mcp", wanted)
        assert (await link.answer_head())[0] == 100
        await link.send(PING)
        assert (await link.answer()).json["result"] == {}
        await link.send(b"GET /mcp HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
        answer = await link.answer()
        assert (answer.status, answer.header("connection")) == (406, "close")


async def test_a_body_is_asked_for_before_it_comes() -> None:
    wanted = {**JSON, "Expect": "100-continue", "Content-Length": str(len(PING))}
    async with running() as here, here.site.link() as link:
        await link.ask("POST", "/mcp", wanted)
        assert (await link.answer_head())[0] == 100
        await link.send(PING)
        assert (await link.answer()).json["result"] == {}


async def test_of_two_connections_the_one_that_asks_nothing_more_is_closed() -> None:
    async with running() as here, here.site.link() as link, here.site.link() as idle:
        for each in (link, idle):
            await each.ask("GET", "/health")
            assert (await each.answer()).status == 200
        await link.ask("GET", "/mcp", {"Accept": "text/event-stream"})
        await link.answer_head()
        pass_time(2 * bounds.IDLE_CONNECTION_S)
        async with asyncio.timeout(PATIENCE_S):
            assert await idle.reader.read() == b""
        assert not link.reader.at_eof()
