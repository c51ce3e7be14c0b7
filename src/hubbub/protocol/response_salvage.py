"""Find the id of an answer that is not valid JSON, so that its request can fail at once.

Clients and servers both send requests, numbered independently, so an id alone does not identify an answer.

For clients only: replace NaN and Infinity, which are not JSON but which Python's `json` writes and the official SDK 1.x
reads.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN: Final = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_ID_VALUE: Final = re.compile(rb"\s*:\s*(" + _STRING + rb"|-?[0-9]++)\s*[,}]", re.DOTALL)
_ID_AT_END: Final = re.compile(rb'[,{]\s*"id"\s*:\s*("[^"\\]*"|-?[0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?}\s*\Z')
_NAN: Final = re.compile(_STRING + rb"|(-?Infinity|NaN)", re.DOTALL)
_SIMPLE_ID: Final = re.compile(rb'"[ !#-\[\]-~]{0,128}"|-?(?:0|[1-9][0-9]{0,18})')
_RESPONSE_MEMBERS: Final = (b'"result"', b'"error"')
_REQUEST_MEMBERS: Final = (b'"method"', b'"params"')


def replace_nan(data: bytes) -> bytes | None:
    """Replace NaN, Infinity and -Infinity with null; return None if the message has none of them."""
    if b"NaN" not in data and b"Infinity" not in data:
        return None
    replaced = _NAN.sub(lambda found: found[0] if found[1] is None else b"null", data)
    return None if replaced == data else replaced


def salvage_response_id(data: bytes, end: bytes = b"", *, is_from_client: bool = False) -> bytes | None:
    """The id in an unreadable answer, empty if it cannot be found; None if this is not an answer (a log line).

    `data` may be only the start of the answer, and `end` its end. Python servers write the id near the start, others at
    the end. Clients write no log lines, so their messages need no `jsonrpc`; one with only an id is a bad request.
    """
    start, end = data[: bounds.SALVAGE_BYTES], (end or data)[-bounds.SALVAGE_END_BYTES :]
    is_versioned = is_from_client or b'"jsonrpc"' in start or b'"jsonrpc"' in end
    if start.lstrip()[:1] not in (b"{", b"[") or not is_versioned:
        return None
    if start.lstrip()[:1] == b"[":
        return b"" if any(name in start for name in _RESPONSE_MEMBERS) else None
    names, identifier = _scan_members(start)
    if not names.isdisjoint(_REQUEST_MEMBERS) or names.isdisjoint(
        _RESPONSE_MEMBERS if is_from_client else (*_RESPONSE_MEMBERS, b'"id"')
    ):
        return None
    if identifier is None and (found := _ID_AT_END.search(end)) is not None:
        identifier = found[1]
    if identifier is None and names.isdisjoint(_RESPONSE_MEMBERS):
        return None
    return (identifier or b"").strip(b'"')


def salvage_request_id(data: bytes) -> bytes | None:
    """The id of an unreadable request, as JSON, so that it can be refused; None if this is not a request."""
    start = data[: bounds.SALVAGE_BYTES]
    if start.lstrip()[:1] != b"{":
        return None
    names, identifier = _scan_members(start)
    is_request = identifier is not None and {b'"method"', b'"jsonrpc"'} <= names
    return identifier if is_request and _SIMPLE_ID.fullmatch(identifier or b"") else None


def _scan_members(start: bytes) -> tuple[set[bytes], bytes | None]:
    """Names of the outermost members, and the id."""
    names: set[bytes] = set()
    identifier = None
    depth = 0
    for token in _TOKEN.finditer(start):
        text = token.group()
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif depth == 1 and len(text) <= len(b'"jsonrpc"'):
            names.add(text)
            if text == b'"id"' and (value := _ID_VALUE.match(start, token.end())) is not None:
                identifier = value[1]
    return names, identifier
