"""Streams of valid requests as bytes, each ending with a request after which the connection is closed."""

from typing import NamedTuple

from tests.wire.request_bytes import CHUNKED, CLOSE, HOST, chunk, get, length, request

LAST = get(b"/last", CLOSE)
_BODY = b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"


def _post(*headers: bytes, body: bytes = b"") -> bytes:
    return request(b"POST /a?b=c HTTP/1.1", HOST, *headers, body=body)


class Stream(NamedTuple):
    """What is sent on one connection."""

    name: str
    data: bytes


STREAMS = [
    Stream("fixed body", _post(b"X: y", length(_BODY), body=_BODY) + LAST),
    Stream(
        "chunked body with trailers",
        _post(CHUNKED, body=chunk(b"hello") + b'00B;a="b"\r\n0\r\n\r\nGET / \r\n0\r\nX: y\r\nZ:\r\n\r\n') + LAST,
    ),
    Stream(
        "pipelined",
        get(b"/a")
        + request(b"HEAD /a HTTP/1.1", HOST)
        + get(b"/stream")
        + request(b"OPTIONS /a HTTP/1.1", HOST)
        + LAST,
    ),
    Stream(
        "expect",
        _post(b"Expect: 100-continue", length(_BODY), body=_BODY) + _post(length(b""), b"Expect: 100-continue") + LAST,
    ),
    Stream(
        "HTTP/1.0 with keep-alive",
        request(b"GET /a HTTP/1.0", HOST, b"Connection: keep-alive") + request(b"GET /b HTTP/1.0", HOST),
    ),
    Stream("upgrade that is ignored", _post(b"Connection: upgrade", b"Upgrade: h2c", length(_BODY), body=_BODY)),
    Stream("malformed second request", get(b"/a") + b"GET /b HTTP/1.1\r\nHost : x\r\n\r\n"),
    Stream("malformed chunk", get(b"/a") + _post(CHUNKED, body=b"5\r\nhelloX")),
    Stream("long chunk size", get(b"/a") + _post(CHUNKED, body=chunk(b"hello") + b"0" * 21)),
    Stream("line end between requests", get(b"/a") * 3 + b"\r\n" + get(b"/a")),
    Stream(
        "too large",
        get(b"/a") + _post(length(b"x" * 1000), b"Expect: 100-continue")[:-2] + b"Connection: close\r\n\r\n",
    ),
]
SHORT_FIXED = b"POST / HTTP/1.0\r\nHost:a\r\nContent-Length:2\r\n\r\nhi"
SHORT_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nHost:a\r\nConnection:close\r\nTransfer-Encoding:chunked\r\n\r\n"
SHORT_CHUNKED_BODY = b"1;a=b\r\nx\r\n02\r\n\r\n\r\n0\r\nX:y\r\n\r\n"
