"""Requests that servers and proxies are known to understand differently, with the only answers that are safe.

Each group is a list of rows. `SMUGGLED` is a second request hidden in the first: it has a side effect if it is served.
"""

from typing import NamedTuple

from tests.wire.request_bytes import (
    CHUNKED,
    CLOSE,
    HOST,
    JSON_TYPE,
    PING,
    chunk,
    chunked,
    get,
    length,
    message,
    post,
    request,
)

Statuses = frozenset[int]


class Case(NamedTuple):
    """What is sent on one connection, the statuses that each of its responses may have, and why."""

    name: str
    sent: bytes
    answers: tuple[Statuses, ...]
    reason: str
    is_last_optional: bool = False

    @property
    def least(self) -> int:
        """The least number of responses."""
        return len(self.answers) - self.is_last_optional


def refused(name: str, sent: bytes, reason: str, *also: int) -> Case:
    """One response with 400, or with another of these statuses, after which the connection is closed."""
    return Case(name, sent, (frozenset({400, *also}),), reason)


def answered(name: str, sent: bytes, reason: str, *answers: int | set[int]) -> Case:
    """These responses and no other, after which the connection is closed."""
    return Case(name, sent, tuple(frozenset({each} if isinstance(each, int) else each) for each in answers), reason)


_CALL = message("tools/call", {"name": "count", "arguments": {"label": "smuggled"}})
SMUGGLED = post(length(_CALL), CLOSE, body=_CALL)
LAST = get(b"/health", CLOSE)
"""A request of its own after the first, not hidden in it."""
_EMPTY_CHUNKED = b"0\r\n\r\n"
_CHUNKED_PING = chunked(PING)
_PING_CHUNK = chunk(PING)


def _post_with_encoding(value: bytes) -> bytes:
    return post(b"Transfer-Encoding:" + value, body=_EMPTY_CHUNKED + SMUGGLED)


def _post_with_length(value: bytes) -> bytes:
    return post(b"Content-Length:" + value, body=b"hello" + SMUGGLED)


LENGTHS_AND_ENCODINGS = [
    answered(
        "white space after the encoding",
        post(CHUNKED + b" \t", CLOSE, body=_CHUNKED_PING + SMUGGLED),
        "valid, but known from attacks",
        {200, 400},
    ),
    refused(
        "length, then chunked",
        post(b"Content-Length: 5", CHUNKED, body=_EMPTY_CHUNKED + SMUGGLED),
        "RFC 9112, 6.1: both headers are an attack or a mistake",
    ),
    refused(
        "chunked, then length",
        post(CHUNKED, b"Content-Length: 5", body=_EMPTY_CHUNKED + SMUGGLED),
        "the order of the headers makes no difference",
    ),
    refused(
        "length over the hidden request, and chunked",
        post(b"Content-Length: %d" % (5 + len(SMUGGLED)), CHUNKED, body=_EMPTY_CHUNKED + SMUGGLED),
        "a proxy that uses the length forwards the hidden request as a body",
    ),
    refused("length 0 and chunked", post(b"Content-Length: 0", CHUNKED, body=_EMPTY_CHUNKED + SMUGGLED), "as above"),
    *(
        refused(
            f"encoding {value!r}",
            _post_with_encoding(value),
            "no coding that we decode, so the end of the body is unknown",
            501,
        )
        for value in (
            *(
                b" xchunked",
                b" chunkedx",
                b" chunked\x0b",
                b" \x0bchunked",
                b" \x00chunked",
                b' "chunked"',
                b" chun ked",
            ),
            *(b" identity", b" gzip", b" x", b"", b" ,", b" chunked;q=1", b" chunked\xa0", b" chunked, identity"),
            *(b" chunked, chunked", b" identity, chunked", b" gzip, chunked", b" chunked,gzip", b" chunked x"),
            *(b" \xff", b" chunked\r", b" chunked\r\r", b"\r\n chunked", b" x\r\n\tchunked"),
        )
    ),
    *(
        refused(
            f"two encodings {first!r}, {second!r}", post(first, second, body=_EMPTY_CHUNKED + SMUGGLED), reason, 501
        )
        for first, second, reason in (
            (CHUNKED, CHUNKED, "chunked is applied at most once (RFC 9112, 7)"),
            (CHUNKED, b"Transfer-Encoding: identity", "chunked has to be the last coding"),
            (b"Transfer-Encoding: identity", CHUNKED, "`identity` is not a coding any more"),
            (CHUNKED, b"Transfer-Encoding: x", "chunked has to be the last coding"),
            (b"Transfer-Encoding: x", CHUNKED, "the coding x is not decoded"),
            (CHUNKED, b"Transfer-Encoding:", "an empty second value hides the first from some parsers"),
            (CHUNKED, b"transfer-encoding: cow", "names of headers have no case"),
        )
    ),
    refused(
        "encoding with a space before the colon",
        post(b"Transfer-Encoding : chunked", body=_EMPTY_CHUNKED + SMUGGLED),
        "RFC 9112, 5.1: refused with 400, because some parsers ignore such a header",
    ),
    refused("encoding with a wrong name", post(b"Transfer\x00-Encoding: chunked", body=_EMPTY_CHUNKED), "no token"),
    refused(
        "chunked in HTTP/1.0",
        request(b"POST /mcp HTTP/1.0", HOST, JSON_TYPE, CHUNKED, body=_CHUNKED_PING + SMUGGLED),
        "RFC 9112, 6.1: the framing is faulty, because HTTP/1.0 has no chunks",
    ),
    refused(
        "chunked in HTTP/1.0 with keep-alive",
        request(
            b"POST /mcp HTTP/1.0", HOST, JSON_TYPE, b"Connection: keep-alive", CHUNKED, body=_CHUNKED_PING + SMUGGLED
        ),
        "as above",
    ),
    *(
        answered(f"encoding {line!r}", post(line, CLOSE, body=_CHUNKED_PING + SMUGGLED), "valid: " + reason, 200)
        for line, reason in (
            (b"Transfer-Encoding:\tchunked", "a tab is optional white space"),
            (b"Transfer-Encoding:chunked", "white space before a value is optional"),
            (b"Transfer-Encoding: ChUnKeD", "codings have no case"),
            (b"TRANSFER-ENCODING: chunked", "names of headers have no case"),
        )
    ),
    refused("equal lengths", post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello" + SMUGGLED), "ambiguous"),
    refused("other lengths", post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello" + SMUGGLED), "ambiguous"),
    refused(
        "shorter length last", post(b"Content-Length: 9", b"Content-Length: 5", body=b"hello" + SMUGGLED), "as above"
    ),
    refused(
        "lengths in two cases", post(b"Content-Length: 5", b"content-length: 0", body=b"hello" + SMUGGLED), "as above"
    ),
    *(
        refused(f"length {value!r}", _post_with_length(value), "a length is decimal digits (RFC 9110, 8.6)", 413)
        for value in (
            *(
                b" 5, 5",
                b" 5,6",
                b" 5,",
                b" ,5",
                b" +5",
                b" -1",
                b" -0",
                b" 0x5",
                b"",
                b" ",
                b" 5 5",
                b" 5\x0b",
                b" \x0b5",
            ),
            *(
                b" 5.0",
                b" 5;",
                b" 5_0",
                b" 1_0",
                b" \xb2",
                b" \xef\xbc\x95",
                b" 5\x00",
                b" 5\r",
                b" 5e0",
                b' "5"',
                b" five",
            ),
            *(b" 18446744073709551616", b" 18446744073709551621", b" 9" + b"9" * 400, b"\r\n 5", b" 5\r\n 5"),
        )
    ),
    *(
        refused(
            f"length with {zeros} zeros",
            post(b"Content-Length: " + b"0" * zeros + b"5", body=b"hello" + SMUGGLED),
            "a number of so many digits is not read alike everywhere",
        )
        for zeros in (20, 4300, 5000)
    ),
    refused(
        "length with a space before the colon", post(b"Content-Length : 5", body=b"hello" + SMUGGLED), "RFC 9112, 5.1"
    ),
    refused(
        "length with a tab before the colon", post(b"Content-Length\t: 5", body=b"hello" + SMUGGLED), "RFC 9112, 5.1"
    ),
    *(
        answered(f"length {line!r}", post(line, CLOSE, body=PING + SMUGGLED), "valid: " + reason, 200)
        for line, reason in (
            (b"Content-Length: 000%d" % len(PING), "zeros may precede the digits"),
            (b"Content-Length: \t %d \t" % len(PING), "white space around a value is not part of it"),
            (b"content-LENGTH:%d" % len(PING), "names of headers have no case"),
        )
    ),
    answered(
        "body of a GET",
        get(b"/health", length(SMUGGLED)) + SMUGGLED + LAST,
        "every request may have a body, which is never the next request",
        200,
        200,
    ),
    answered(
        "chunked body of a GET",
        get(b"/health", CHUNKED) + chunked(SMUGGLED) + LAST,
        "as above",
        200,
        200,
    ),
    answered(
        "body of an OPTIONS",
        request(b"OPTIONS /mcp HTTP/1.1", HOST, length(SMUGGLED), body=SMUGGLED) + LAST,
        "as above",
        {200, 204, 404, 405},
        200,
    ),
    answered(
        "body of a HEAD",
        request(b"HEAD /health HTTP/1.1", HOST, length(SMUGGLED), body=SMUGGLED) + LAST,
        "as above",
        200,
        200,
    ),
]


def _chunks(data: bytes) -> bytes:
    return post(CHUNKED, body=data + SMUGGLED)


CHUNKS = [
    *(
        refused(f"chunk size {size!r}", _chunks(size + b"\r\nhello\r\n0\r\n\r\n"), "a size is hexadecimal digits", 413)
        for size in (
            *(b"", b" 5", b"5 ", b"5\t", b"0x5", b"-5", b"+5", b"g", b"5g", b"5,", b"\x005", b"5\x00", b"5.", b"\xb5"),
            *(b"10000000000000005", b"fffffffffffffffff", b"f" * 40, b"5\r", b"\r\n5", b"5_0", b"-0"),
        )
    ),
    *(
        refused(f"chunk {data!r}", _chunks(data), reason)
        for data, reason in (
            (b"5\nhello\r\n0\r\n\r\n", "a line feed alone does not end a chunk size"),
            (b"5\rhello\r\n0\r\n\r\n", "a carriage return alone does not end a chunk size"),
            (b"5\r\nhello\n0\r\n\r\n", "a line feed alone does not end the data of a chunk"),
            (b"5\r\nhello\r0\r\n\r\n", "a carriage return alone does not end the data of a chunk"),
            (b"5\r\nhello0\r\n\r\n", "the data of a chunk ends with a line break"),
            (b"5\r\nhelloworld\r\n0\r\n\r\n", "the data of a chunk is as long as its size says"),
            (b"5\r\nhelloXX0\r\n\r\n", "two bytes that are not a line break do not end a chunk"),
            (b"5\r\nhello\r\n0\n\r\n", "the last chunk has the same line end"),
            (b"5\r\nhello\r\n0\r\n\n", "the empty line after the last chunk has the same line end"),
            (b"5\r\nhello\r\n0\r\n\rX", "a carriage return alone is not a line end"),
            (b"5\r\nhello\r\n\r\n0\r\n\r\n", "an empty line is not a chunk size"),
            (b"5;a\nb\r\nhello\r\n0\r\n\r\n", "a line feed in an extension ends the line for some parsers"),
            (b"5;a\rb\r\nhello\r\n0\r\n\r\n", "a carriage return in an extension ends the line for some parsers"),
            (b"5;a=\x00\r\nhello\r\n0\r\n\r\n", "an extension is tokens and quoted strings"),
            (b"5\r\nhello\r\n0;\n\r\n\r\n", "as above, in the last chunk"),
        )
    ),
    refused(
        "long extension", _chunks(b"5;a=%b\r\nhello\r\n0\r\n\r\n" % (b"x" * 100_000)), "limited as heads are", 413, 431
    ),
    answered(
        "short extension",
        post(CHUNKED, body=b'%x;a=b;c="d"\r\n%b\r\n0;e\r\n\r\n' % (len(PING), PING)) + LAST,
        "valid: unknown extensions are ignored (RFC 9112, 7.1.1)",
        200,
        200,
    ),
    answered(
        "size in capitals with zeros",
        post(CHUNKED, body=b"000%X\r\n%b\r\n00\r\n\r\n" % (len(PING), PING)) + LAST,
        "valid: hexadecimal digits have no case, and zeros may precede them",
        200,
        200,
    ),
    answered(
        "hidden request in a chunk",
        post(CHUNKED, body=chunked(SMUGGLED)) + LAST,
        "the data of a chunk is never parsed as a request",
        400,
        200,
    ),
]


def _trailers(trailers: bytes, rest: bytes = LAST) -> bytes:
    return post(CHUNKED, body=_PING_CHUNK + b"0\r\n" + trailers + b"\r\n" + rest)


TRAILERS = [
    Case(
        "trailer that closes",
        _trailers(b"Connection: close\r\n"),
        (frozenset({200}), frozenset({200, 400})),
        "dropped, or it ends the connection, which is safe",
        is_last_optional=True,
    ),
    *(
        answered(
            f"trailer {line!r}",
            _trailers(line + b"\r\n"),
            "trailers are dropped, because the head was checked",
            200,
            200,
        )
        for line in (
            *(b"X-Checksum: 1", b"Host: evil.example", b"Authorization: Bearer x", b"Origin: https://evil.example"),
            *(b"Expect: 100-continue", b"Upgrade: h2c", b"Content-Type: text/plain"),
        )
    ),
    *(
        answered(f"trailer {line!r}", _trailers(line + b"\r\n"), "framing in a trailer is refused or dropped", *answers)
        for line in (b"Content-Length: 5", b"Content-Length: 400", CHUNKED, b"Transfer-Encoding: identity")
        for answers in [({200, 400}, {200, 400})]
    ),
    *(
        refused(f"trailer {data!r}", _trailers(data, SMUGGLED), reason)
        for data, reason in (
            (SMUGGLED, "the line of a request is not a trailer"),
            (b"X: y\n", "a line feed alone does not end a line"),
            (b"X: y\nPOST /mcp HTTP/1.1\r\n", "a line feed alone does not end a line"),
            (b"X: y\rZ: y\r\n", "a carriage return alone does not end a line"),
            (b"X : y\r\n", "a space before the colon, as in a head"),
            (b"X\r\n", "a trailer has a colon"),
            (b": y\r\n", "a trailer has a name"),
            (b"X: y\r\n z\r\n", "folded, as in a head"),
            (b"X: \x00\r\n", "a control character"),
            (b"\x00: y\r\n", "a control character"),
        )
    ),
]


def _headers(*lines: bytes) -> bytes:
    return request(b"GET /health HTTP/1.1", HOST, CLOSE, *lines) + SMUGGLED


HEADERS = [
    *(
        refused(f"header {line!r}", _headers(line), reason)
        for line, reason in (
            (b"X: a\r\n b", "folded lines are obsolete (RFC 9112, 5.2)"),
            (b"X: a\r\n\tb", "folded lines are obsolete (RFC 9112, 5.2)"),
            (b"X:\r\n b", "folded lines are obsolete (RFC 9112, 5.2)"),
            (b"X: a\r\n ", "a line of white space is folded too"),
            (b"X : a", "RFC 9112, 5.1: no space before the colon"),
            (b"X\t: a", "RFC 9112, 5.1: no tab before the colon"),
            (b" X: a", "the line of the header before it is folded"),
            (b"X", "a header has a colon"),
            (b": a", "a header has a name"),
            (b"X Y: a", "a name is a token"),
            (b"X\x00: a", "a name is a token"),
            (b"X\x7f: a", "a name is a token"),
            (b"X\xe4: a", "a name is a token"),
            (b"X(: a", "a name is a token"),
            (b'X": a', "a name is a token"),
            (b"X@: a", "a name is a token"),
            (b"X,: a", "a name is a token"),
            (b"X/: a", "a name is a token"),
            (b"X[: a", "a name is a token"),
            (b"X{: a", "a name is a token"),
            (b"X\r: a", "a name is a token"),
            (b"X: \x00", "no control characters in values"),
            (b"X: a\x00b", "no control characters in values"),
            (b"X: a\x01b", "no control characters in values"),
            (b"X: a\x0bb", "no control characters in values"),
            (b"X: a\x7fb", "no control characters in values"),
            (b"X: a\rb", "a carriage return alone is not a line end"),
            (b"X: a\r", "a carriage return alone is not a line end"),
            (b"X: a\nY: b", "a line feed alone is not a line end"),
            (b"X: a\n", "a line feed alone is not a line end"),
            (b"\rX: a", "a carriage return alone is not a line end"),
        )
    ),
    refused("line feed after the request line", b"GET /health HTTP/1.1\n" + HOST + b"\r\n\r\n" + SMUGGLED, "as above"),
    refused("line feed at the end of the head", b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n\n" + SMUGGLED, "as above"),
    refused("line feeds only", b"GET /health HTTP/1.1\n" + HOST + b"\n\n" + SMUGGLED, "as above"),
    refused("carriage returns only", b"GET /health HTTP/1.1\r" + HOST + b"\r\r" + SMUGGLED, "as above"),
    refused("folded first header", b"GET /health HTTP/1.1\r\n " + HOST + b"\r\n\r\n" + SMUGGLED, "nothing to continue"),
    answered("empty value", _headers(b"X:"), "valid: a value may be empty", 200),
    answered("bytes above 127 in a value", _headers(b"X: \xe4\xff"), "valid: obsolete text (RFC 9110, 5.5)", 200),
    answered("tab in a value", _headers(b"X: a\tb"), "valid: a tab is white space", 200),
    answered("every token character", _headers(b"!#$%&'*+-.^_`|~09azAZ: a"), "valid: a token", 200),
]
