"""Responses on a kept-alive connection: written in one piece, and valid HTTP."""

import asyncio
import json

import pytest
from tests.clock import advance_clock
from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, TIMEOUT_S, request

from hubbub import bounds
from hubbub.transports.response_heads import encode_fields

PING = json.dumps(request("ping")).encode()


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"a\0b", b"a\x7fb"])
def test_header_injection_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="control character"):
        encode_fields(((b"x", value),))


async def test_a_kept_alive_connection_gets_every_kind_of_response() -> None:
    async with run_server() as instance, instance.site.connect() as link:
        for _ in range(2):
            await link.send_request("POST", "/mcp", JSON, PING)
            answer = await link.read_response()
            assert (answer.status, answer.json["result"], answer.header("x-mcp-version")) == (200, {}, "1.0.0")
            assert answer.header("content-type") == "application/json"
            assert answer.header("date") is not None
            await link.send_request("HEAD", "/health")
            status, headers = await link.read_head()
            assert (status, dict(headers)["content-length"] != "0") == (200, True)
            await link.send_request("GET", "/nothing")
            assert (await link.read_response()).status == 404


async def test_pipelined_requests_are_answered_in_order() -> None:
    requests = b"".join(
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
        for body in (json.dumps(request("ping", id=number)).encode() for number in range(20))
    )
    async with run_server() as instance, instance.site.connect() as link:
        await link.send(requests)
        assert [(await link.read_response()).json["id"] for _ in range(20)] == list(range(20))


async def test_requests_of_every_form_share_one_connection() -> None:
    async with run_server() as instance, instance.site.connect() as link:
        for _ in range(3):
            await link.send_request("GET", "/health")
            assert (await link.read_response()).status == 200
            await link.send_request("DELETE", "/health")
            assert (await link.read_response()).status == 405
            await link.send_request("GET", "/health?verbose")
            assert (await link.read_response()).status == 200
        await link.send_request("POST", "/mcp", JSON, PING)
        assert (await link.read_response()).status == 200
        wanted = {**JSON, "Expect": "100-continue", "Content-Length": str(len(PING))}
        await link.send_request("POST", "/mcp", wanted)
        assert (await link.read_head())[0] == 100
        await link.send(PING)
        assert (await link.read_response()).json["result"] == {}
        await link.send(b"GET /mcp HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
        answer = await link.read_response()
        assert (answer.status, answer.header("connection")) == (406, "close")


async def test_expect_100_continue_is_answered() -> None:
    wanted = {**JSON, "Expect": "100-continue", "Content-Length": str(len(PING))}
    async with run_server() as instance, instance.site.connect() as link:
        await link.send_request("POST", "/mcp", wanted)
        assert (await link.read_head())[0] == 100
        await link.send(PING)
        assert (await link.read_response()).json["result"] == {}


async def test_only_idle_connections_are_closed_after_the_keep_alive_timeout() -> None:
    async with run_server() as instance, instance.site.connect() as link, instance.site.connect() as idle:
        for each in (link, idle):
            await each.send_request("GET", "/health")
            assert (await each.read_response()).status == 200
        await link.send_request("GET", "/mcp", {"Accept": "text/event-stream"})
        await link.read_head()
        advance_clock(2 * bounds.IDLE_CONNECTION_S)
        async with asyncio.timeout(TIMEOUT_S):
            assert await idle.reader.read() == b""
        assert not link.reader.at_eof()
