"""Requests in parts, and the mistakes that can be made in each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

CRLF = b"\r\n"


@dataclass(frozen=True)
class Draft:
    """A request in parts. `framing` is None, `fixed` or `chunked`."""

    method: bytes = b"POST"
    target: bytes = b"/a"
    version: bytes = b"HTTP/1.1"
    separators: tuple[bytes, bytes] = (b" ", b" ")
    first: bytes = b""
    line_end: bytes = CRLF
    host: tuple[bytes, ...] = (b"Host: 127.0.0.1",)
    headers: tuple[bytes, ...] = ()
    header_end: bytes = CRLF
    head_end: bytes = CRLF
    framing: str | None = "fixed"
    length_lines: tuple[bytes, ...] | None = None
    coding_lines: tuple[bytes, ...] = (b"Transfer-Encoding: chunked",)
    body: bytes = b"hello"
    size: Callable[[int], bytes] = field(default=lambda size: b"%x" % size)
    size_end: bytes = CRLF
    data_end: bytes = CRLF
    last_chunk: bytes = b"0"
    trailers: bytes = b""
    last_end: bytes = CRLF

    def encode(self) -> bytes:
        line = self.first + self.method + self.separators[0] + self.target + self.separators[1] + self.version
        lines = [*self.host, *self.headers]
        body = b""
        if self.framing == "fixed":
            lines += (b"Content-Length: %d" % len(self.body),) if self.length_lines is None else self.length_lines
            body = self.body
        elif self.framing == "chunked":
            lines += [*self.coding_lines, *(self.length_lines or ())]
            if self.body:
                body = self.size(len(self.body)) + self.size_end + self.body + self.data_end
            body += self.last_chunk + self.size_end + self.trailers + self.last_end
        return line + self.line_end + b"".join(each + self.header_end for each in lines) + self.head_end + body


class Mutation(NamedTuple):
    """One change of a request."""

    name: str
    example: str
    """Shown in the table of differences."""
    changes: dict[str, object]

    def apply(self, draft: Draft) -> Draft:
        return replace(draft, **self.changes)  # type: ignore[arg-type]


def _line(name: str, example: str, **changes: object) -> Mutation:
    return Mutation(name, example, changes)


def _header(name: str, line: bytes) -> Mutation:
    return Mutation(name, _show(line), {"headers": (line,)})


def _length(name: str, *lines: bytes) -> Mutation:
    shown = ", then ".join(_show(line) for line in lines)
    return Mutation(name, shown, {"framing": "fixed", "length_lines": lines, "body": b"hello"})


def _coding(name: str, *lines: bytes, **more: object) -> Mutation:
    shown = ", then ".join(_show(line) for line in lines)
    return Mutation(name, shown, {"framing": "chunked", "coding_lines": lines, **more})


def _chunk(name: str, example: str, **changes: object) -> Mutation:
    return Mutation(name, example, {"framing": "chunked", "body": b"hello", **changes})


def _show(data: bytes) -> str:
    return "`" + repr(data)[2:-1].replace("|", "\\|") + "`"


def _target(name: str, target: bytes, method: bytes | None = None) -> Mutation:
    changes: dict[str, object] = {"target": target}
    return Mutation(name, _show(target), changes | ({} if method is None else {"method": method}))


MUTATIONS = [
    # -- request lines
    _line("lower-case method", "`get`", method=b"get"),
    _line("unknown method", "`XYZZY`", method=b"XYZZY"),
    _line("method with an illegal character", "`G@T`", method=b"G@T"),
    _line("method of another protocol", "`SOURCE`", method=b"SOURCE"),
    _line("method of WebDAV", "`MKCOL`", method=b"MKCOL"),
    _line("two spaces before the target", "`GET  /`", separators=(b"  ", b" ")),
    _line("two spaces before the version", "`/  HTTP/1.1`", separators=(b" ", b"  ")),
    _line("tab before the target", "`GET\\t/`", separators=(b"\t", b" ")),
    _line("tab before the version", "`/\\tHTTP/1.1`", separators=(b" ", b"\t")),
    _line("space before the method", "` GET`", first=b" "),
    _line("empty line before the request", "`\\r\\nGET`", first=b"\r\n"),
    _line("line feed before the request", "`\\nGET`", first=b"\n"),
    _line("carriage return before the request", "`\\rGET`", first=b"\r"),
    _line("line feed after the request line", "`HTTP/1.1\\n`", line_end=b"\n"),
    _line("space after the version", "`HTTP/1.1 \\r\\n`", version=b"HTTP/1.1 "),
    *(
        _line(f"version {version}", f"`{version}`", version=version.encode())
        for version in ("HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/1.10", "http/1.1", "RTSP/1.0", "ICE/1.0")
    ),
    _target("absolute target of this host", b"http://127.0.0.1/a"),
    _target("absolute target of another host", b"http://evil.example/a"),
    _target("absolute target with a user", b"http://x@127.0.0.1/a"),
    _target("absolute target of another scheme", b"ftp://127.0.0.1/a"),
    _target("asterisk of a POST", b"*"),
    _target("asterisk of an OPTIONS", b"*", b"OPTIONS"),
    _target("authority as the target", b"127.0.0.1:80"),
    _target("CONNECT", b"127.0.0.1:80", b"CONNECT"),
    _target("fragment", b"/a#b"),
    _target("target without a slash", b"a"),
    _target("target that is a query", b"?a"),
    _target("two slashes", b"//a"),
    _target("space in the target", b"/a b"),
    _target("control character in the target", b"/a\x01b"),
    _target("delete character in the target", b"/a\x7fb"),
    _target("NUL in the target", b"/a\x00b"),
    _target("byte above 127 in the target", b"/a\xe4"),
    _target("percent sign alone", b"/a%"),
    _target("encoded NUL", b"/a%00"),
    _target("encoded slash", b"/a%2fb"),
    _target("quotes and brackets in the target", b'/a"<>[]{}|\\^`'),
    # -- headers
    _line("no Host", "", host=()),
    _line("no Host in HTTP/1.0", "", version=b"HTTP/1.0", host=()),
    _line("two Hosts", "`Host` twice", host=(b"Host: 127.0.0.1", b"Host: 127.0.0.1")),
    _line("empty Host", "`Host:`", host=(b"Host:",)),
    _line("Host with a space", "`Host: a b`", host=(b"Host: a b",)),
    _line("Host with a path", "`Host: a/b`", host=(b"Host: a/b",)),
    _line("Host that is a list", "`Host: a, b`", host=(b"Host: a, b",)),
    _header("folded header", b"X: a\r\n b"),
    _header("header folded with a tab", b"X: a\r\n\tb"),
    _header("space before the colon", b"X : a"),
    _header("header without a colon", b"X"),
    _header("header without a name", b": a"),
    _header("name with a space", b"X Y: a"),
    _header("name with an illegal character", b"X@: a"),
    _header("name with NUL", b"X\x00: a"),
    _header("name with a byte above 127", b"X\xe4: a"),
    _header("NUL in a value", b"X: a\x00b"),
    _header("control character in a value", b"X: a\x01b"),
    _header("vertical tab in a value", b"X: a\x0bb"),
    _header("delete character in a value", b"X: a\x7fb"),
    _header("carriage return in a value", b"X: a\rb"),
    _header("byte above 127 in a value", b"X: a\xe4"),
    _header("empty value", b"X:"),
    _line("line feed after headers", "`X: y\\n`", header_end=b"\n"),
    _line("line feed at the end of the head", "`\\r\\n\\n`", head_end=b"\n"),
    _line("carriage return after headers", "`X: y\\r`", header_end=b"\r"),
    _header("unsupported upgrade", b"Connection: Upgrade\r\nUpgrade: h2c"),
    _header("upgrade without a connection header", b"Upgrade: h2c"),
    _header("unknown expectation", b"Expect: x"),
    _header("expectation", b"Expect: 100-continue"),
    _header("connection: close and keep-alive", b"Connection: close, keep-alive"),
    _header("hop-by-hop Content-Length", b"Connection: content-length"),
    Mutation(
        "HTTP/1.0 kept alive",
        "`Connection: keep-alive`",
        {"version": b"HTTP/1.0", "headers": (b"Connection: keep-alive",)},
    ),
    # -- lengths and codings
    _length("two equal lengths", b"Content-Length: 5", b"Content-Length: 5"),
    _length("two lengths", b"Content-Length: 5", b"Content-Length: 6"),
    _length("list of equal lengths", b"Content-Length: 5, 5"),
    _length("list of lengths", b"Content-Length: 5, 6"),
    _length("length with a plus sign", b"Content-Length: +5"),
    _length("negative length", b"Content-Length: -5"),
    _length("hexadecimal length", b"Content-Length: 0x5"),
    _length("empty length", b"Content-Length:"),
    _length("length with zeros", b"Content-Length: 005"),
    Mutation(
        "length with many zeros",
        "`Content-Length: 0…05` (5,000 digits)",
        {"framing": "fixed", "length_lines": (b"Content-Length: " + b"0" * 4999 + b"5",), "body": b"hello"},
    ),
    _length("length with an underscore", b"Content-Length: 0_5"),
    _length("length with a space inside", b"Content-Length: 5 5"),
    _length("length with a vertical tab", b"Content-Length: 5\x0b"),
    _length("length in other digits", b"Content-Length: \xb2"),
    _length("length above 2**64", b"Content-Length: 18446744073709551621"),
    _length("length with space before the colon", b"Content-Length : 5"),
    _length("folded length", b"Content-Length:\r\n 5"),
    _coding("length and chunked", b"Transfer-Encoding: chunked", length_lines=(b"Content-Length: 5",)),
    _coding("length after chunked", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    _coding("chunked with capitals", b"Transfer-Encoding: CHUNKED"),
    _coding("chunked after a tab", b"Transfer-Encoding:\tchunked"),
    _coding("chunked before a tab", b"Transfer-Encoding: chunked\t"),
    _coding("chunked with a vertical tab", b"Transfer-Encoding: chunked\x0b"),
    _coding("unknown coding", b"Transfer-Encoding: xchunked"),
    _coding("identity", b"Transfer-Encoding: identity"),
    _coding("identity, then chunked", b"Transfer-Encoding: identity, chunked"),
    _coding("gzip, then chunked", b"Transfer-Encoding: gzip, chunked"),
    _coding("chunked, then identity", b"Transfer-Encoding: chunked, identity"),
    _coding("chunked twice", b"Transfer-Encoding: chunked, chunked"),
    _coding("two equal codings", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    _coding("two codings", b"Transfer-Encoding: x", b"Transfer-Encoding: chunked"),
    _coding("empty coding", b"Transfer-Encoding:"),
    _coding("folded coding", b"Transfer-Encoding:\r\n chunked"),
    _coding("chunked in HTTP/1.0", b"Transfer-Encoding: chunked", version=b"HTTP/1.0"),
    # -- chunks and trailers
    _chunk("chunk size in capitals", "`A`", size=lambda size: b"%X" % size, body=b"0123456789"),
    _chunk("chunk size with zeros", "`005`", size=lambda size: b"00%x" % size),
    _chunk("chunk size with 0x", "`0x5`", size=lambda size: b"0x%x" % size),
    _chunk("empty chunk size", "", size=lambda size: b""),
    _chunk("negative chunk size", "`-5`", size=lambda size: b"-%x" % size),
    _chunk("chunk size with a plus sign", "`+5`", size=lambda size: b"+%x" % size),
    _chunk("space before the chunk size", "` 5`", size=lambda size: b" %x" % size),
    _chunk("space after the chunk size", "`5 `", size=lambda size: b"%x " % size),
    _chunk("chunk size above 2**64", "`10000000000000005`", size=lambda size: b"1%016x" % size),
    _chunk("chunk size with many zeros", "`0…05` (25 digits)", size=lambda size: b"%025x" % size),
    _chunk("chunk extension", "`5;a=b`", size=lambda size: b"%x;a=b" % size),
    _chunk("quoted chunk extension", '`5;a="b"`', size=lambda size: b'%x;a="b"' % size),
    _chunk("space before a chunk extension", "`5 ;a`", size=lambda size: b"%x ;a" % size),
    _chunk("control character in a chunk extension", "`5;a=\\x01`", size=lambda size: b"%x;a=\x01" % size),
    _chunk("line feed in a chunk extension", "`5;\\n`", size=lambda size: b"%x;\n" % size),
    _chunk("line feed after the chunk size", "`5\\n`", size_end=b"\n"),
    _chunk("carriage return after the chunk size", "`5\\r`", size_end=b"\r"),
    _chunk("line feed after the data of a chunk", "`hello\\n`", data_end=b"\n"),
    _chunk("nothing after the data of a chunk", "`hello0`", data_end=b""),
    _chunk("other bytes after the data of a chunk", "`helloXX`", data_end=b"XX"),
    _chunk("line feed at the end of the body", "`0\\r\\n\\n`", last_end=b"\n"),
    _chunk("trailer", "`X: y`", trailers=b"X: y\r\n"),
    _chunk("Content-Length as a trailer", "`Content-Length: 3`", trailers=b"Content-Length: 3\r\n"),
    _chunk("Transfer-Encoding as a trailer", "`Transfer-Encoding: x`", trailers=b"Transfer-Encoding: x\r\n"),
    _chunk("Connection as a trailer", "`Connection: close`", trailers=b"Connection: close\r\n"),
    _chunk("Host as a trailer", "`Host: evil.example`", trailers=b"Host: evil.example\r\n"),
    _chunk("folded trailer", "`X: a\\r\\n b`", trailers=b"X: a\r\n b\r\n"),
    _chunk("trailer with a space before the colon", "`X : y`", trailers=b"X : y\r\n"),
    _chunk("trailer without a colon", "`X`", trailers=b"X\r\n"),
    _chunk("line feed after a trailer", "`X: y\\n`", trailers=b"X: y\n"),
    _chunk("NUL in a trailer", "`X: \\0`", trailers=b"X: \x00\r\n"),
]
BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}
