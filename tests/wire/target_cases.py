"""Request lines, hosts, upgrades and expectations that servers and proxies are known to understand differently."""

from tests.wire.request_bytes import (
    CLOSE,
    HANDSHAKE,
    HOST,
    JSON_TYPE,
    PING,
    chunked,
    get,
    length,
    post,
    request,
)
from tests.wire.smuggling_cases import LAST, SMUGGLED, Case, answered, refused


def _line(line: bytes) -> bytes:
    return request(line, HOST, CLOSE) + SMUGGLED


def _target(target: bytes, method: bytes = b"GET") -> bytes:
    return _line(b"%b %b HTTP/1.1" % (method, target))


def _host(*lines: bytes, version: bytes = b"1.1", target: bytes = b"/health") -> bytes:
    return request(b"GET %b HTTP/%b" % (target, version), *lines, CLOSE) + SMUGGLED


HOSTS = [
    refused("no host", _host(), "RFC 9112, 3.2: HTTP/1.1 needs one"),
    refused("no host in HTTP/1.0", _host(version=b"1.0"), "which site is meant cannot be checked", 403),
    refused("two hosts", _host(HOST, HOST), "RFC 9112, 3.2"),
    refused("two different hosts", _host(HOST, b"Host: evil.example"), "RFC 9112, 3.2"),
    refused("two different hosts, ours last", _host(b"Host: evil.example", HOST), "RFC 9112, 3.2"),
    *(
        refused(f"host {value!r}", _host(b"Host:" + value), "not the name of this server", 403, 421)
        for value in (
            *(b"", b" evil.example", b" a b", b" 127.0.0.1, evil.example", b" 127.0.0.1/health", b" x@127.0.0.1"),
            *(
                b" 127.0.0.1:x",
                b" 127.0.0.1#",
                b" 127.0.0.1?",
                b" http://127.0.0.1",
                b" [::1",
                b" \xe4",
                b" 127.0.0.1\\",
            ),
            *(b" 127.0.0.1:80:80", b" 127.0.0.1.evil.example", b" .", b" 127.0.0.1%00"),
        )
    ),
    refused("space before the colon of the host", _host(b"Host : 127.0.0.1"), "RFC 9112, 5.1"),
    refused("folded host", _host(b"Host:\r\n 127.0.0.1"), "folded lines are obsolete (RFC 9112, 5.2)"),
]

TARGETS = [
    answered(
        "absolute target",
        _target(b"http://127.0.0.1/health"),
        "RFC 9112, 3.2.2: accepted if it names the host, or refused",
        {200, 400},
    ),
    *(
        refused(f"target {target!r}", _target(target), "the target and the Host name two sites", 403, 421)
        for target in (
            *(b"http://evil.example/health", b"http://evil.example", b"http://127.0.0.1.evil.example/health"),
            *(b"http://x@127.0.0.1/health", b"http://127.0.0.1@evil.example/health", b"http:///health"),
            *(b"http://127.0.0.1:x/health", b"ftp://127.0.0.1/health", b"http:/health", b"http:health"),
        )
    ),
    refused(
        "absolute target with another host",
        _host(b"Host: evil.example", target=b"http://127.0.0.1/health"),
        "the target and the Host name two sites",
        403,
        421,
    ),
    refused("asterisk of a GET", _target(b"*"), "only OPTIONS has it (RFC 9112, 3.2.4)"),
    refused("asterisk of a POST", request(b"POST * HTTP/1.1", HOST, length(SMUGGLED), body=SMUGGLED), "as above"),
    answered("asterisk of an OPTIONS", _target(b"*", b"OPTIONS"), "the server as a whole", {200, 204, 400, 404, 405}),
    refused("two asterisks", _target(b"**", b"OPTIONS"), "no form of a target"),
    refused("authority of a GET", _target(b"127.0.0.1:80"), "only CONNECT has it (RFC 9112, 3.2.3)"),
    refused("CONNECT", _target(b"127.0.0.1:22", b"CONNECT"), "Hubbub is not a proxy", 405, 501),
    refused("CONNECT with a path", _target(b"/health", b"CONNECT"), "Hubbub is not a proxy", 405, 501),
    *(
        refused(f"target {target!r}", _target(target), "no form of a target: characters have to be encoded")
        for target in (
            *(b"/he alth", b"/health#x", b"/health#", b"/he\x00alth", b"/he\x01alth", b""),
            *(
                b"/he\x7falth",
                b"/he\talth",
                b"/h\xe4lth",
                b"/h\xc3\xa4lth",
                b"health",
                b"\\health",
                b"?x",
                b"/he\ralth",
            ),
            *(b"/he\nalth", b"/health\x0b", b"/?a b", b"/?\x00", b"/?\xff"),
        )
    ),
    *(
        answered(f"target {target!r}", _target(target), "one path, which does not exist", {400, 404})
        for target in (
            *(
                b"//health",
                b"//evil.example/health",
                b"//127.0.0.1/health",
                b"///",
                b"/health/",
                b"/%00",
                b"/%0d%0aX:%20y",
            ),
            *(
                b"/mcp%252fhealth",
                b"/%2fhealth",
                b"/x/../health",
                b"/./health",
                b"/%2e%2e/health",
                b"/%",
                b"/%zz",
                b"/%ff",
            ),
            *(b"/health;x", b"/health%23", b"/health%3f", b"/" + b"x" * 8000),
        )
    ),
    answered("encoded slash", _target(b"/mcp%2fhealth"), "decoded once, as ASGI says, or refused", {200, 400, 404}),
    answered("query with everything", _target(b"/health?a=%00&b=//../?&c=%"), "a query is not interpreted", {200, 400}),
    refused("long target", _target(b"/" + b"x" * 100_000), "limited as heads are", 414, 431),
    refused("long query", _target(b"/health?" + b"x" * 100_000), "limited as heads are", 414, 431),
    refused("long absolute target", _target(b"http://" + b"x" * 100_000 + b"/"), "limited as heads are", 414, 431),
]

METHODS = [
    *(
        refused(f"method {method!r}", _target(b"/health", method), "not a method of ours", 405, 501)
        for method in (
            *(
                b"get",
                b"Get",
                b"GETX",
                b"XGET",
                b"XYZZY",
                b"GET\x00",
                b"G@T",
                b"G ET",
                b"G\xc4T",
                b"",
                b"\x00",
                b"(GET)",
            ),
            *(b'"GET"', b"GET,POST", b"GET/", b"A" * 10_000, b"POST\t", b"PRI", b"TRACE", b"MKCOL", b"M-SEARCH"),
        )
    ),
    refused("very long method", _target(b"/health", b"A" * 100_000), "limited as heads are", 405, 414, 431, 501),
    refused("tab after the method", _line(b"GET\t/health HTTP/1.1"), "one space separates the parts"),
    *(
        refused(f"spaces {line!r}", _line(line), "RFC 9112, 3: one space separates the parts")
        for line in (b"GET  /health HTTP/1.1", b"GET /health  HTTP/1.1")
    ),
    refused("space at the start", _line(b" GET /health HTTP/1.1"), "one space separates the parts"),
    refused("space at the end", _line(b"GET /health HTTP/1.1 "), "one space separates the parts", 505),
    refused("empty line first", b"\r\n" + LAST, "may be skipped for the sake of old clients (RFC 9112, 2.2)"),
    answered(
        "empty line after a body", post(length(PING), body=PING) + b"\r\n" + LAST, "no part of the body", 200, 400
    ),
    refused("line feed first", b"\n" + LAST, "a line ends with CR LF"),
    refused("carriage return first", b"\r" + LAST, "a line ends with CR LF"),
    refused("many empty lines", b"\r\n" * 50_000, "as above"),
]

VERSIONS = [
    refused("HTTP/0.9 without headers", b"GET /health\r\n" + SMUGGLED, "needs a version", 505),
    *(
        refused(f"version {version!r}", _line(b"GET /health " + version), "neither HTTP/1.0 nor HTTP/1.1", 505)
        for version in (
            *(
                b"HTTP/0.9",
                b"HTTP/1.2",
                b"HTTP/1.9",
                b"HTTP/2.0",
                b"HTTP/3.0",
                b"HTTP/1.1x",
                b"HTTP/1.10",
                b"HTTP/01.1",
            ),
            *(b"HTTP/1", b"HTTP/11", b"HTTP/1.", b"HTTP/.1", b"HTTP/1,1", b"HTTP/-1.1", b"http/1.1", b"HTTP /1.1"),
            *(
                b"HTTP/ 1.1",
                b"HTTPS/1.1",
                b"ICE/1.0",
                b"HTTP/1.1 HTTP/1.1",
                b"HTTP/1.1\x00",
                b"HTTP/\xb9.1",
            ),
        )
    ),
    refused("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04" + bytes(5), "no HTTP/2", 505),
    refused("SOURCE of Icecast", _line(b"SOURCE /health ICE/1.0"), "another protocol of the parser", 405, 501, 505),
    refused("DESCRIBE of RTSP", _line(b"DESCRIBE rtsp://127.0.0.1/ RTSP/1.0"), "another protocol", 405, 501, 505),
    *(
        refused(f"RTSP {line!r}", _line(line), "another protocol, which the parser reads as HTTP/1.0")
        for line in (b"GET /health RTSP/1.0", b"OPTIONS * RTSP/1.0")
    ),
    refused("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + SMUGGLED, "no TLS on this port"),
    refused("response", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + SMUGGLED, "not a request"),
]


def _websocket(
    *more: bytes, body: bytes = b"", path: bytes = b"/mcp-ws", headers: tuple[bytes, ...] = HANDSHAKE
) -> bytes:
    return request(b"GET %b HTTP/1.1" % path, HOST, *headers, *more, body=body)


_H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
_KEY = HANDSHAKE[2:]

UPGRADES = [
    answered("h2c", get(b"/health", *_H2C) + SMUGGLED, "ignored; nothing is read after it", 200),
    answered(
        "h2c with a body",
        post(*_H2C, length(PING), body=PING + SMUGGLED),
        "the body is read to its end, and nothing after it",
        200,
    ),
    answered(
        "h2c with a hidden request as the body",
        post(*_H2C, length(SMUGGLED), body=SMUGGLED),
        "the body is never parsed as a request",
        400,
    ),
    answered(
        "websocket on POST", post(*HANDSHAKE, length(PING), body=PING + SMUGGLED), "as with h2c", {200, 400, 405, 426}
    ),
    answered(
        "websocket on POST, chunked",
        post(*HANDSHAKE, b"Transfer-Encoding: chunked", body=chunked(PING) + SMUGGLED),
        "as with h2c",
        {200, 400, 405, 426},
    ),
    refused("websocket with a body", _websocket(length(SMUGGLED), body=SMUGGLED), "a handshake has no body", 426),
    refused(
        "websocket with a chunked body",
        _websocket(b"Transfer-Encoding: chunked", body=chunked(SMUGGLED)),
        "a handshake has no body",
        426,
    ),
    refused("websocket with a request behind it", _websocket() + SMUGGLED, "RFC 6455, 4.1: the client has to wait"),
    refused("websocket with a frame behind it", _websocket(body=b"\x81\x80" + bytes(4)), "RFC 6455, 4.1"),
    answered(
        "websocket of an unknown path",
        _websocket(path=b"/nowhere") + SMUGGLED,
        "a refused handshake ends the connection",
        {400, 403, 404},
    ),
    answered(
        "websocket of an unknown version",
        _websocket(headers=(*HANDSHAKE[:2], b"Sec-WebSocket-Version: 7", HANDSHAKE[3])) + SMUGGLED,
        "a refused handshake ends the connection",
        {400, 426},
    ),
    answered("websocket without a key", _websocket(headers=HANDSHAKE[:3]) + SMUGGLED, "as above", {400, 426}),
    answered(
        "websocket in HTTP/1.0",
        request(b"GET /mcp-ws HTTP/1.0", HOST, *HANDSHAKE) + SMUGGLED,
        "as above",
        {400, 404, 426},
    ),
    answered(
        "upgrade without a connection header",
        _websocket(CLOSE, headers=(HANDSHAKE[1], *_KEY)) + SMUGGLED,
        "without `Connection: upgrade` it is an ordinary request",
        {400, 404, 405, 426},
    ),
    answered(
        "connection: upgrade without a protocol",
        post(b"Connection: upgrade", length(PING), body=PING) + LAST,
        "without an `Upgrade` it is an ordinary request",
        200,
        200,
    ),
    answered(
        "several upgrade headers",
        request(b"GET /mcp-ws HTTP/1.1", HOST, b"Connection: Upgrade", b"Upgrade: h2c", b"Upgrade: websocket", *_KEY)
        + SMUGGLED,
        "accepted or refused, never both; data behind it is refused",
        {400, 404, 426},
    ),
    answered("unknown protocol", get(b"/health", b"Connection: upgrade", b"Upgrade: x") + SMUGGLED, "as with h2c", 200),
    answered(
        "close and keep-alive",
        get(b"/health", b"Connection: close, keep-alive") + SMUGGLED,
        "`close` wins (RFC 9112, 9.3)",
        200,
    ),
    answered("keep-alive and close", get(b"/health", b"Connection: keep-alive, close") + SMUGGLED, "as above", 200),
    answered(
        "keep-alive and close in two lines",
        get(b"/health", b"Connection: keep-alive", b"Connection: CLOSE") + SMUGGLED,
        "as above",
        200,
    ),
    answered("request after close", LAST + SMUGGLED, "the last request was announced", 200),
    answered("request after HTTP/1.0", request(b"GET /health HTTP/1.0", HOST) + SMUGGLED, "not kept alive", 200),
    answered(
        "HTTP/1.0 with keep-alive and close",
        request(b"GET /health HTTP/1.0", HOST, b"Connection: keep-alive, close") + SMUGGLED,
        "`close` wins (RFC 9112, 9.3)",
        200,
    ),
    *(
        answered(
            f"hop-by-hop {name!r}",
            post(b"Connection: " + name, length(PING), body=PING) + LAST,
            "a header named in `Connection` still counts for this connection",
            200,
            200,
        )
        for name in (b"content-length", b"host", b"content-type", b"keep-alive, content-length", b"x, y, ,z")
    ),
    answered(
        "hop-by-hop transfer-encoding",
        post(b"Connection: transfer-encoding", b"Transfer-Encoding: chunked", body=chunked(PING)) + LAST,
        "as above",
        200,
        200,
    ),
]

EXPECTATIONS = [
    *(
        answered(
            f"expect {value!r}",
            post(b"Expect:" + value, length(PING), CLOSE, body=PING + SMUGGLED),
            "the body follows whether the expectation is met or not",
            answers,
        )
        for value, answers in (
            (b" 100-continue", {200}),
            (b" 100-Continue", {200}),
            (b" 100-CONTINUE\t", {200}),
            (b" 200-ok", {200, 417}),
            (b" 100-continue, x", {200, 417}),
            (b" 100-continue; q=1", {200, 417}),
            (b"", {200, 417}),
        )
    ),
    answered(
        "two expectations",
        post(b"Expect: 100-continue", b"Expect: x", length(PING), CLOSE, body=PING + SMUGGLED),
        "as above",
        {200, 400, 417},
    ),
    answered(
        "expect and a hidden request as the body",
        post(b"Expect: 100-continue", length(SMUGGLED), CLOSE, body=SMUGGLED),
        "the body is never parsed as a request",
        400,
    ),
    Case(
        "expect of a refused request",
        request(b"POST /nowhere HTTP/1.1", HOST, b"Expect: 100-continue", length(SMUGGLED), body=SMUGGLED) + LAST,
        (frozenset({404}), frozenset({200})),
        "the body that was sent anyway is dropped, or the connection closed",
        is_last_optional=True,
    ),
    answered(
        "expect without a body", get(b"/health", b"Expect: 100-continue", CLOSE) + SMUGGLED, "nothing to wait for", 200
    ),
    answered(
        "expect in HTTP/1.0",
        request(b"POST /mcp HTTP/1.0", HOST, JSON_TYPE, b"Expect: 100-continue", length(PING), body=PING + SMUGGLED),
        "ignored: HTTP/1.0 has no 100 (RFC 9110, 10.1.1)",
        {200, 417},
    ),
]
