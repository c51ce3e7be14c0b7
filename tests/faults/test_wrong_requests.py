"""Invalid requests of every kind: each gets its error, and other requests and callers are not affected."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.eras import BOTH_MEDIA_TYPES, MODERN, initialize_request, modern_request, open_session
from tests.http.raw_http import JSON, RawConnection, Response, Site, head, request
from tests.http.server_process import PLAYGROUND, ServerProcess

HOST = b"Host: 127.0.0.1\r\n"
PING = json.dumps(request("ping")).encode()


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND), "--max-message-bytes", "100000") as process:
        yield process
        said = "".join(process.stderr_lines)
        assert "Traceback" not in said
        assert "Exception" not in said


@pytest.fixture(scope="module")
def site(process: ServerProcess) -> Site:
    return process.site


async def check_health(site: Site) -> None:
    assert (await site.post(request("ping"))).json["result"] == {}


def check_refusal(answer: Response) -> None:
    """Assert a JSON-RPC error with this HTTP status."""
    assert 400 <= answer.status < 500
    error = answer.json["error"]
    assert isinstance(error["code"], int)
    assert error["message"]
    assert answer.json["jsonrpc"] == "2.0"


# -- invalid HTTP --------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n" * 50 + b"x\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/9.9\r\n" + HOST + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b" folded: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"X\x00Y: x\r\n\r\n",
        b"GET /h\xc3\xa4lth HTTP/1.1\r\n" + HOST + b"\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 1x\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
)
async def test_bytes_that_are_not_http_are_refused_and_the_connection_closed(site: Site, sent: bytes) -> None:
    async with site.connect() as link:
        await link.send(sent)
        async with asyncio.timeout(60):
            received = await link.reader.read()
        assert received[:10] in (b"HTTP/1.1 4", b"")
        assert received.count(b"HTTP/1.1 ") <= 1
    await check_health(site)


@given(st.binary(max_size=300))
def test_random_bytes_never_harm_the_server(site: Site, sent: bytes) -> None:
    async def send() -> None:
        async with site.connect() as link:
            await link.send(sent + b"\r\n\r\n")
            link.writer.write_eof()
            async with asyncio.timeout(60):
                received = await link.reader.read()
            assert b"HTTP/1.1 5" not in received
        await check_health(site)

    asyncio.run(send())


async def test_a_truncated_request_leaves_no_resources(site: Site) -> None:
    whole = head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, "Content-Length": str(len(PING))}) + PING
    for end in range(1, len(whole), 7):
        async with site.connect() as link:
            await link.send(whole[:end])
            link.abort()
    await check_health(site)


async def test_a_request_may_arrive_in_any_pieces(site: Site) -> None:
    whole = head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, "Content-Length": str(len(PING))}) + PING
    async with site.connect() as link:
        for start in range(0, len(whole), 5):
            await link.send(whole[start : start + 5])
            await asyncio.sleep(0)
        assert (await link.read_response()).json["result"] == {}
        await link.send(head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, "Transfer-Encoding": "chunked"}))
        for start in range(0, len(PING), 3):
            piece = PING[start : start + 3]
            await link.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await link.send(b"0\r\n\r\n")
        assert (await link.read_response()).json["result"] == {}


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_both_versions_of_http_are_served(site: Site, version: bytes) -> None:
    async with site.connect() as link:
        await link.send(b"GET /health HTTP/" + version + b"\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert (await link.read_response()).json["status"] == "healthy"


async def test_an_http2_upgrade_offer_is_ignored(site: Site) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    assert (await site.get("/health", offer)).json["status"] == "healthy"


# -- sizes -----------------------------------------------------------------------------------


async def test_a_large_head_is_431(site: Site) -> None:
    for sent in (b"GET /" + b"x" * 80_000, b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 20_000):
        async with site.connect() as link:
            await link.send(sent)
            assert (await link.read_response()).status == 431
    await check_health(site)


async def test_a_large_body_is_413_with_and_without_content_length(site: Site) -> None:
    body = json.dumps(request("echo", {"text": "x" * 200_000})).encode()
    announced = await site.request("POST", "/mcp", JSON, body)
    assert (announced.status, announced.code) == (413, -32600)
    assert announced.json["error"]["data"] == {"limit": 100_000}
    async with site.connect() as link:
        await link.send(head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, "Transfer-Encoding": "chunked"}))
        await link.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert (await link.read_response()).status == 413
    async with site.connect() as link:
        fields = {"Host": "127.0.0.1", **JSON, "Content-Length": "99999999999", "Expect": "100-continue"}
        await link.send(head("POST", "/mcp", fields))
        assert (await link.read_head())[0] == 413
    await check_health(site)


async def test_a_body_up_to_the_limit_is_accepted(site: Site) -> None:
    frame = len(json.dumps(request("echo", {"text": ""})))
    for size, status in ((100_000 - frame, 200), (100_001 - frame, 413)):
        assert (await site.post(request("echo", {"text": "x" * size}))).status == status


async def send_all(link: RawConnection, data: bytes) -> None:
    for _ in range(20_000):
        await link.send(data)
        await asyncio.sleep(0)


@pytest.mark.parametrize("tail", [b"A: " + b"x" * 100, b"A: b\r\n" * 20, b"x" * 100])
async def test_chunked_trailers_are_limited(site: Site, tail: bytes) -> None:
    start = head("POST", "/none", {"Host": "127.0.0.1", "Transfer-Encoding": "chunked"})
    async with site.connect() as link:
        await link.send(start + b"0\r\n")
        with pytest.raises(ConnectionError):
            await send_all(link, tail)
    await check_health(site)


async def test_chunk_extensions_are_limited(site: Site) -> None:
    async with site.connect() as link:
        await link.send(head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, "Transfer-Encoding": "chunked"}) + b"1;x=")
        with pytest.raises(ConnectionError):
            await send_all(link, b"y" * 1000)
    await check_health(site)


# -- bodies ------------------------------------------------------------------------------------


BODIES: list[tuple[bytes, int]] = [
    (b"", -32700),
    (b" ", -32700),
    (b"{", -32700),
    (b"nul", -32700),
    (b"\xff\xfe{}", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xc3\x28"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}x', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 500 + b"]" * 500 + b"}", -32700),
    (b'{"a":' * 15_000, -32700),
    (b"null", -32600),
    (b"1", -32600),
    (b'"x"', -32600),
    (b"{}", -32600),
    (b"[]", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600),
    (b'{"id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":1}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 5000 + b'","method":"ping"}', -32600),
]


@pytest.mark.parametrize("era", ["plain", "legacy", "modern"])
async def test_a_body_that_is_not_a_message_is_refused_in_every_era(site: Site, era: str) -> None:
    headers = dict(JSON)
    if era == "legacy":
        headers |= (await open_session(site)).headers
    elif era == "modern":
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "ping"}
    for body, code in BODIES:
        answer = await site.request("POST", "/mcp", headers, body)
        check_refusal(answer)
        assert answer.code == code, body[:80]
    await check_health(site)


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 1}, {"name": None}, {"name": []}, {"arguments": {}}, [], [1], {"name": "echo", "arguments": []}],
    ids=str,
)
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "completion/complete"])
async def test_wrong_parameters_are_refused_in_every_era(site: Site, method: str, params: Any) -> None:
    session = await open_session(site)
    plain = await site.post(request(method, params))
    legacy = await session.post(request(method, params))
    later = await site.post(*modern_request(method, params)) if isinstance(params, dict) else None
    if method == "tools/call" and "name" in params and params["name"] == "echo":
        # The method's parameters are right, the tool's arguments are not.
        assert later is not None
        assert (plain.status, plain.code) == (200, -32003)
        for answer in (legacy, later):
            assert (answer.status, answer.json["result"]["isError"]) == (200, True)
        return
    assert [(answer.status, answer.code) for answer in (plain, legacy)] == [(200, -32602)] * 2
    assert later is None or (later.status, later.code) == (400, -32602)


HEADER_TEXT = st.text(
    st.characters(codec="latin-1", exclude_characters="\r\n\0", exclude_categories=["Cc"]), max_size=60
)
NAMES = [
    *("Accept", "Authorization", "Content-Type", "Cookie", "Host", "Last-Event-ID", "MCP-Protocol-Version"),
    *("Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Mcp-Session-Id", "Origin", "X-API-Key", "X-MCP-Version"),
]
VALUES = st.one_of(
    HEADER_TEXT,
    st.sampled_from([MODERN, "2025-11-25", "2024-11-05", BOTH_MEDIA_TYPES, "*/*", "application/json", "1.0.0", "2.0"]),
    st.sampled_from(["=?base64?ZWNobw==?=", "=?base64?x?=", "mcp_session=x", "0-1", "ping", "127.0.0.1", "null"]),
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
METHODS = ["ping", "tools/list", "tools/call", "resources/read", "initialize", "server/discover", "echo", "x"]
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={
        "id": st.one_of(st.integers(), st.text(max_size=5), JSON_VALUES),
        "method": st.one_of(st.sampled_from(METHODS), st.text(max_size=10)),
        "params": st.one_of(
            JSON_VALUES,
            st.fixed_dictionaries(
                {"name": st.sampled_from(["echo", "weather", "x", 1]), "arguments": JSON_VALUES},
                optional={"_meta": JSON_VALUES, "uri": JSON_VALUES, "protocolVersion": JSON_VALUES},
            ),
        ),
        "result": JSON_VALUES,
        "error": JSON_VALUES,
    },
)


@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5), st.one_of(MESSAGES, JSON_VALUES, st.lists(MESSAGES))
)
def test_no_header_and_no_message_breaks_the_endpoint(site: Site, headers: dict[str, str], message: Any) -> None:
    async def send() -> None:
        fields = {"Content-Type": "application/json", **headers}
        answer = await site.request("POST", "/mcp", fields, json.dumps(message).encode())
        assert answer.status < 500
        if answer.status == 200:
            parsed = answer.json if isinstance(answer.json, list) else [answer.json]
            assert all(("result" in one) != ("error" in one) for one in parsed)
        elif answer.status != 202:
            check_refusal(answer)

    asyncio.run(send())


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"]),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=30),
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4),
)
def test_no_path_and_no_method_breaks_the_routes(site: Site, method: str, path: str, headers: dict[str, str]) -> None:
    async def send() -> None:
        async with site.connect() as link:
            await link.send_request(method, "/" + path, {"Content-Length": "0", **headers})
            status, received = await link.read_head()
            assert status < 500
            assert [value for name, value in received if name == "x-mcp-version"] == ["1.0.0"]

    asyncio.run(send())


# Python writes Infinity, which is not JSON.
FINITE = JSON_VALUES.filter(lambda value: "Infinity" not in json.dumps(value))


# The parameters of a handshake are tested above and in tests/http.
PARSED_KEYS = ("_meta", "capabilities", "clientInfo", "protocolVersion")


@given(
    st.dictionaries(st.text(max_size=10).filter(lambda key: key not in PARSED_KEYS), FINITE, max_size=4),
    st.sampled_from(["2025-11-25", "x", 1, None]),
)
def test_no_handshake_breaks_the_endpoint(site: Site, more: dict[str, Any], version: Any) -> None:
    async def send() -> None:
        message = initialize_request()
        message["params"] |= {"protocolVersion": version} | more
        answer = await site.post(message)
        assert answer.status == (200 if isinstance(version, str) else 400)
        assert (answer.header("mcp-session-id") is not None) == (answer.status == 200)

    asyncio.run(send())
