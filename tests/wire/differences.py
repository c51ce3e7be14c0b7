"""How our HTTP server differs from uvicorn and h11: the table of docs/http-strictness.md.

    python -m tests.wire.differences       writes the table into the page

`test_differential.py` checks the rows against the servers, and the page against the rows.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.wire.drafts import BY_NAME

PAGE = Path(__file__).parents[2] / "docs" / "http-strictness.md"
_TABLE = re.compile(r"(<!-- differences -->\n).*?(<!-- end -->)", re.DOTALL)

REFUSED, SERVED, LAST, OTHER = "refused", "served", "served, then closed", "read differently"


class Difference(NamedTuple):
    """One kind of request that is not treated equally."""

    name: str
    """The name of a mutation in `drafts.py`."""
    ours: str
    uvicorn: str
    h11: str
    reason: str
    pattern: bytes | None = None
    """Finds it in the bytes of a connection; only for those that we accept although another reads them differently."""


DIFFERENCES = [
    Difference(
        "lower-case method",
        REFUSED,
        REFUSED,
        SERVED,
        "methods are case-sensitive, and the parser does not know this one",
    ),
    Difference(
        "unknown method",
        REFUSED,
        REFUSED,
        SERVED,
        "no route has it, and the parser does not know it",
    ),
    Difference(
        "two spaces before the target",
        REFUSED,
        SERVED,
        REFUSED,
        "RFC 9112, section 3: one space separates the parts",
    ),
    Difference(
        "two spaces before the version",
        REFUSED,
        SERVED,
        REFUSED,
        "RFC 9112, section 3: one space separates the parts",
    ),
    Difference(
        "empty line before the request",
        REFUSED,
        SERVED,
        REFUSED,
        "RFC 9112, section 2.2, asks servers to skip it for old clients; no MCP client sends it",
    ),
    Difference(
        "line feed before the request",
        REFUSED,
        SERVED,
        REFUSED,
        "a line ends with CR LF; parsers that disagree see different requests",
    ),
    Difference(
        "carriage return before the request",
        REFUSED,
        SERVED,
        REFUSED,
        "as above, with CR alone",
    ),
    Difference(
        "line feed after the request line",
        REFUSED,
        REFUSED,
        SERVED,
        "a line ends with CR LF; parsers that disagree see different requests",
    ),
    Difference(
        "version HTTP/0.9", REFUSED, LAST, LAST, "a request line of HTTP/0.9 has no version, so this is invalid"
    ),
    Difference("version HTTP/1.2", REFUSED, REFUSED, SERVED, "unknown version; refused instead of guessed"),
    Difference("version HTTP/2.0", REFUSED, LAST, SERVED, "HTTP/2 is binary; refused with 505"),
    Difference("version HTTP/3.0", REFUSED, REFUSED, SERVED, "unknown version; refused instead of guessed"),
    Difference(
        "version RTSP/1.0",
        REFUSED,
        LAST,
        REFUSED,
        "another protocol, which the parser reads as HTTP/1.0",
    ),
    Difference(
        "absolute target of another host",
        REFUSED,
        SERVED,
        SERVED,
        "`Host` and target name two sites, so that checks of one miss the other",
    ),
    Difference(
        "absolute target with a user",
        REFUSED,
        SERVED,
        SERVED,
        "no request has credentials in its target (RFC 9110, section 4.2.4)",
    ),
    Difference("absolute target of another scheme", REFUSED, SERVED, SERVED, "not a site of ours"),
    Difference("asterisk of a POST", REFUSED, SERVED, SERVED, "only OPTIONS has this target (RFC 9112, section 3.2.4)"),
    Difference(
        "authority as the target", REFUSED, REFUSED, SERVED, "only CONNECT has this target (RFC 9112, section 3.2.3)"
    ),
    Difference("CONNECT", REFUSED, REFUSED, SERVED, "Hubbub is not a proxy"),
    Difference(
        "fragment", REFUSED, SERVED, SERVED, "a fragment is never sent; others make it part of the path, or drop it"
    ),
    Difference("target without a slash", REFUSED, REFUSED, SERVED, "no form of a target (RFC 9112, section 3.2)"),
    Difference("target that is a query", REFUSED, REFUSED, SERVED, "no form of a target (RFC 9112, section 3.2)"),
    Difference("no Host", REFUSED, SERVED, REFUSED, "RFC 9112, section 3.2"),
    Difference(
        "no Host in HTTP/1.0",
        REFUSED,
        LAST,
        LAST,
        "valid in HTTP/1.0, but a missing `Host` cannot be checked; refused with 403",
    ),
    Difference("two Hosts", REFUSED, SERVED, REFUSED, "RFC 9112, section 3.2"),
    Difference(
        "folded header",
        REFUSED,
        REFUSED,
        SERVED,
        "obsolete (RFC 9112, section 5.2); parsers that disagree see different headers",
    ),
    Difference(
        "header folded with a tab",
        REFUSED,
        REFUSED,
        SERVED,
        "obsolete (RFC 9112, section 5.2); parsers that disagree see different headers",
    ),
    Difference("control character in a value", REFUSED, REFUSED, SERVED, "not allowed (RFC 9110, section 5.5)"),
    Difference("delete character in a value", REFUSED, REFUSED, SERVED, "not allowed (RFC 9110, section 5.5)"),
    Difference(
        "line feed after headers",
        REFUSED,
        REFUSED,
        SERVED,
        "a line ends with CR LF; parsers that disagree see different headers",
    ),
    Difference(
        "line feed at the end of the head",
        REFUSED,
        REFUSED,
        SERVED,
        "a line ends with CR LF; parsers that disagree see different bodies",
    ),
    Difference(
        "unsupported upgrade",
        LAST,
        OTHER,
        SERVED,
        "served over HTTP with its body, which uvicorn drops (Java's client sends this first); "
        "then closed, because a proxy may have switched protocols",
        rb"(?i)\r\nconnection:[^\r\n]*upgrade",
    ),
    Difference(
        "two equal lengths", REFUSED, REFUSED, SERVED, "may be refused (RFC 9110, section 8.6); no client sends them"
    ),
    Difference(
        "list of equal lengths",
        REFUSED,
        REFUSED,
        SERVED,
        "may be refused (RFC 9110, section 8.6); no client sends them",
    ),
    Difference(
        "length with many zeros",
        REFUSED,
        SERVED,
        REFUSED,
        "more than 20 digits; parsers that disagree see different bodies",
    ),
    Difference(
        "folded length",
        REFUSED,
        REFUSED,
        SERVED,
        "obsolete (RFC 9112, section 5.2); parsers that disagree see different bodies",
    ),
    Difference(
        "length and chunked",
        REFUSED,
        REFUSED,
        SERVED,
        "may be refused (RFC 9112, section 6.1): the usual form of request smuggling",
    ),
    Difference(
        "length after chunked",
        REFUSED,
        REFUSED,
        SERVED,
        "may be refused (RFC 9112, section 6.1): the usual form of request smuggling",
    ),
    Difference(
        "chunked before a tab", REFUSED, REFUSED, SERVED, "valid, but known from attacks on proxies; no client sends it"
    ),
    Difference(
        "identity, then chunked",
        REFUSED,
        SERVED,
        REFUSED,
        "only `chunked` is decoded; `identity` is not a coding any more",
    ),
    Difference(
        "gzip, then chunked", REFUSED, SERVED, REFUSED, "only `chunked` is decoded; the body would be compressed data"
    ),
    Difference("two codings", REFUSED, SERVED, REFUSED, "only `chunked` is decoded"),
    Difference(
        "folded coding",
        REFUSED,
        REFUSED,
        SERVED,
        "obsolete (RFC 9112, section 5.2); parsers that disagree see different bodies",
    ),
    Difference("chunked in HTTP/1.0", REFUSED, LAST, LAST, "HTTP/1.0 has no chunks (RFC 9112, section 6.1)"),
    Difference(
        "space after the chunk size",
        REFUSED,
        REFUSED,
        SERVED,
        "not allowed (RFC 9112, section 7.1); known from attacks on proxies",
    ),
    Difference(
        "chunk size with many zeros",
        REFUSED,
        SERVED,
        REFUSED,
        "more than 20 digits; parsers that disagree see different bodies",
    ),
    Difference(
        "control character in a chunk extension", REFUSED, REFUSED, SERVED, "not allowed (RFC 9112, section 7.1.1)"
    ),
    Difference(
        "line feed at the end of the body",
        REFUSED,
        REFUSED,
        SERVED,
        "a line ends with CR LF; parsers that disagree see different requests",
    ),
    Difference(
        "Content-Length as a trailer",
        REFUSED,
        REFUSED,
        SERVED,
        "not allowed (RFC 9110, section 6.5.1); a proxy could apply it",
    ),
    Difference("Connection as a trailer", LAST, LAST, SERVED, "the parser applies it; closing the connection is safe"),
    Difference("folded trailer", REFUSED, REFUSED, SERVED, "obsolete, as in a head"),
    Difference(
        "line feed after a trailer",
        REFUSED,
        REFUSED,
        SERVED,
        "a line ends with CR LF; parsers that disagree see different requests",
    ),
]
BY_MUTATION = {difference.name: difference for difference in DIFFERENCES}


def is_laxer(ours: str, other: str) -> bool:
    """Whether we serve what another server refuses, or after which it closes."""
    order = (REFUSED, LAST, SERVED)
    return other != OTHER and order.index(ours) > order.index(other)


def render_table() -> str:
    rows = ["| request | for example | Hubbub | uvicorn | h11 | reason |", "|---|---|---|---|---|---|"]
    for each in DIFFERENCES:
        example = BY_NAME[each.name].example
        rows.append(f"| {each.name} | {example} | {each.ours} | {each.uvicorn} | {each.h11} | {each.reason} |")
    return "\n".join(rows) + "\n"


def fill_page(text: str) -> str:
    """Replace the table in the text of the page."""
    return _TABLE.sub(lambda found: found[1] + render_table() + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text()))
