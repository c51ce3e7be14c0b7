"""JSON-RPC envelopes: one decode on the way in, one encode on the way out.

`decode_envelope` reads bytes once and keeps `params`, `result`, `error` and `id`
as the raw JSON they arrived in. `Raw` does not validate its content, so UTF-8 and nesting
are checked here, once, for everything that is decoded later from those pieces.
Transports and connections call this; handlers never see an envelope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from operator import add
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import InvalidRequest, MessageTooLarge, ParseError


class Envelope(msgspec.Struct, gc=False):
    """One JSON-RPC message: a request, a notification or a response."""

    jsonrpc: str = ""
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class ErrorObject(msgspec.Struct, gc=False):
    """The `error` member of a response."""

    code: int
    message: str
    data: Any = UNSET


class _Response(msgspec.Struct, gc=False):
    jsonrpc: str
    id: Raw
    result: Any


class _ErrorResponse(msgspec.Struct, gc=False):
    jsonrpc: str
    id: Raw
    error: ErrorObject


class _Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: Any
    method: str
    params: Any


class _Notification(msgspec.Struct, gc=False):
    jsonrpc: str
    method: str
    params: Any = UNSET


NULL = Raw(b"null")
_decode_one = msgspec.json.Decoder(Envelope).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_id = msgspec.json.Decoder(str | int | float | None).decode
_encoder = msgspec.json.Encoder()

_MEMBERS = (b'"jsonrpc"', b'"id"', b'"method"', b'"params"', b'"result"', b'"error"')
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_ID_VALUE = re.compile(rb"\s*:\s*(" + _STRING + rb"|-?[0-9]++)\s*[,}]", re.DOTALL)
_SCALAR_MEMBER = rb",\s*" + _STRING + rb"\s*:\s*(?:" + _STRING + rb'|[^\s,{}\[\]"]++)\s*'
_ID_AT_END = re.compile(
    rb'[{,]\s*"id"\s*:\s*(' + _STRING + rb"|-?[0-9]++)\s*(?:" + _SCALAR_MEMBER + rb")*+\}\s*\Z", re.DOTALL
)
_MEMBER_NAME = re.compile(rb"\s*[{,]\s*(" + _STRING + rb")\s*:\s*", re.DOTALL)
_SCALAR = re.compile(_STRING + rb"|[^,}\s]++", re.DOTALL)
_MIN_MEMBER_BYTES = len(b',"id":1')
"""If fewer bytes than this are unaccounted for, they are whitespace; more may be a repeated member."""
_SHORT_ID_BYTES = 32
"""Most ids are shorter, and whole numbers: these need no further check."""
_NON_STRUCTURAL_BYTES = bytes(set(range(256)) - set(b'[]{}"'))
_SHORT_MESSAGE_BYTES = 1024
"""Up to this message size, counting all brackets is faster than searching for each."""
_BRACKET_BITS = bytes.maketrans(b"[{]}", b"1100")
"""Opening brackets are 1, closing ones 0, so that eight of them fit into one byte."""


def decode_envelope(data: bytes) -> Envelope | list[bytes]:
    """Read one message, or the undecoded items of a batch.

    Raises:
        ParseError: not JSON, not UTF-8, or nested too deep.
        InvalidRequest: JSON, but not a JSON-RPC message.
    """
    if not data.isascii():
        _check_utf8(data)
    try:
        envelope = _decode_one(data)
    except msgspec.ValidationError as error:
        if data.lstrip()[:1] == b"[":
            return _decode_batch(data)
        _refuse_unless_json(data)
        raise InvalidRequest(f"Not a JSON-RPC message: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ParseError(f"Parse error: {_describe_error(error, data)}") from None
    size = len(data)
    # Each level takes two bytes, and without arrays five, `{"":` and `}`, so a short message cannot nest too deep.
    if (
        size > 2 * bounds.NESTING_DEPTH
        and (size + 3 > 5 * bounds.NESTING_DEPTH or data.find(b"[") >= 0)
        and _has_many_brackets(data)
    ):
        _check_nesting(data)
    # What the types of `Envelope` do not check: version, id, repeated members. `decode_params` checks `params`.
    if envelope.jsonrpc != "2.0":
        raise InvalidRequest('`jsonrpc` must be "2.0"')
    identifier, method, params = envelope.id, envelope.method, envelope.params
    # The bytes that remain of this message if it was written compactly, with each member once.
    unaccounted = size - 17 - (_response_bytes(envelope) if method is UNSET else 12 + len(method))
    if identifier is not UNSET:
        id_bytes = len(identifier)
        if id_bytes > _SHORT_ID_BYTES or not bytes(identifier).isdigit():
            _check_id(identifier)
        unaccounted -= 6 + id_bytes
    if params is not UNSET:
        unaccounted -= 10 + len(params)
    if unaccounted >= _MIN_MEMBER_BYTES:
        _refuse_repeated_members(envelope, data, unaccounted)
    return envelope


def _describe_error(error: Exception, data: bytes) -> str:
    """The parser's message, except for a lone surrogate, which it reports as truncated input."""
    if b"\\u" in data and _LONE_SURROGATE.search(data):
        return "a string contains a lone surrogate; send valid Unicode"
    return str(error)


def _decode_batch(data: bytes) -> list[bytes]:
    try:
        batch = _batch_decoder().decode(data)
    except msgspec.ValidationError:
        raise InvalidRequest(f"A batch can have at most {bounds.BATCH_ITEMS} messages; split it") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None
    items = [bytes(item) for item in msgspec.structs.astuple(batch) if item is not UNSET]
    if not items:
        raise InvalidRequest("A batch must have at least one message")
    return items


@cache
def _batch_decoder() -> msgspec.json.Decoder[Any]:
    """A decoder that stops at the first item above the limit, instead of creating millions."""
    fields = [(f"item_{number}", Raw | UnsetType, UNSET) for number in range(bounds.BATCH_ITEMS)]
    return msgspec.json.Decoder(
        msgspec.defstruct("_Batch", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    )


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"Parse error: not UTF-8 at byte {error.start}") from None


def _refuse_unless_json(data: bytes) -> None:
    """Raise ParseError for malformed JSON, which a wrong type earlier in the message would otherwise hide."""
    try:
        msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None


def _has_many_brackets(data: bytes) -> bool:
    """Whether more brackets open than levels are allowed; if not, the nesting need not be measured.

    Long messages are mostly text, which `find` skips.
    """
    size = len(data)
    if size <= _SHORT_MESSAGE_BYTES:
        return data.count(b"[") + data.count(b"{") > bounds.NESTING_DEPTH
    seen = 0
    for bracket in (b"[", b"{"):
        position = data.find(bracket)
        while position >= 0:
            seen += 1
            if seen > bounds.NESTING_DEPTH:
                return True
            position = data.find(bracket, position + 1)
    return False


def _check_nesting(data: bytes) -> None:
    """Refuse a message that nests too deep; checks eight brackets at a time, because there may be millions."""
    bits = _extract_brackets(data).translate(_BRACKET_BITS)
    length = len(bits) // 8 + 1
    packed = int(bits + b"0" * (8 * length - len(bits)), 2).to_bytes(length, "big")
    steps, peaks = _bracket_tables()
    depths = accumulate(memoryview(packed.translate(steps)).cast("b"), initial=0)
    if max(map(add, depths, packed.translate(peaks))) > bounds.NESTING_DEPTH:
        raise ParseError(f"Parse error: nested deeper than {bounds.NESTING_DEPTH} levels")


@cache
def _bracket_tables() -> tuple[bytes, bytes]:
    """For eight brackets as bits: the change of depth (as a signed byte), and the largest depth on the way."""
    paths = [list(accumulate(1 if byte >> bit & 1 else -1 for bit in range(7, -1, -1))) for byte in range(256)]
    return bytes(path[-1] & 0xFF for path in paths), bytes(max(0, *path) for path in paths)


def _extract_brackets(data: bytes) -> bytes:
    """The brackets of a message, without those inside strings."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes can be removed, opening or closing: what is inside a string stays inside one.
    structural = data.translate(None, _NON_STRUCTURAL_BYTES).replace(b'""', b"")
    return b"".join(structural.split(b'"')[::2])


def _response_bytes(envelope: Envelope) -> int:
    total = 0
    if envelope.result is not UNSET:
        total += 10 + len(envelope.result)
    if envelope.error is not UNSET:
        total += 9 + len(envelope.error)
    if not total:
        raise InvalidRequest("A request must have a `method`, and a response a `result` or an `error`")
    return total


def _check_id(identifier: Raw | bytes) -> None:
    if memoryview(identifier)[0] not in b'"-0123456789n':
        raise InvalidRequest("`id` must be a string, a number or null")
    if len(identifier) > bounds.IDENTIFIER_BYTES:
        raise MessageTooLarge("`id`", bounds.IDENTIFIER_BYTES)


def _refuse_repeated_members(envelope: Envelope, data: bytes, unaccounted: int) -> None:
    """Refuse repeated members, because JSON parsers disagree on which of them counts."""
    parts = [bytes(part) for part in (envelope.params, envelope.result, envelope.error) if part is not UNSET]

    def outside(text: bytes) -> int:
        return data.count(text) - sum(part.count(text) for part in parts)

    if not outside(b"\\") and not any(outside(member) > 1 for member in _MEMBERS):
        return
    if unaccounted > bounds.UNKNOWN_MEMBERS_BYTES:
        raise InvalidRequest(
            "Member names are repeated or escaped, and the message is too large to check for duplicates; "
            f"send at most {bounds.UNKNOWN_MEMBERS_BYTES} bytes outside of its known members"
        )
    seen: set[str] = set()
    for name in _member_names(data, parts):
        if name in seen and name in Envelope.__struct_fields__:
            raise InvalidRequest(f"Duplicate member: {name}")
        seen.add(name)


def _member_names(data: bytes, parts: list[bytes]) -> Iterator[str]:
    """Names of the members of one object, which was parsed already; its large `parts` are not read again."""
    position = 0
    while (name := _MEMBER_NAME.match(data, position)) is not None:
        yield _decode_string(name[1])
        position = name.end()
        # No JSON value is a prefix of another, so a value that starts with a part is that part.
        part = next((part for part in parts if data.startswith(part, position)), None)
        position = _value_end(data, position) if part is None else position + len(part)


def _value_end(data: bytes, start: int) -> int:
    if data[start] not in b"[{":
        scalar = _SCALAR.match(data, start)
        assert scalar is not None
        return scalar.end()
    depth = 0
    for token in _TOKEN.finditer(data, start):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    return len(data)


def id_key(identifier: Raw | bytes) -> bytes:
    """The id as a dictionary key: equal ids have equal keys, however they are escaped."""
    key = bytes(identifier)
    if not key.isdigit() and key[:1] == b'"' and key.find(b"\\") >= 0:
        return _encoder.encode(_decode_string(key))
    return key


def salvage_id(data: bytes) -> Raw:
    """The id of a message that failed to decode; `null` if it cannot be found."""
    try:
        try:
            loose = msgspec.json.decode(data, type=dict[str, Raw])
            identifier = bytes(loose.get("id", NULL))
        except (msgspec.DecodeError, RecursionError):
            identifier = _scan_id(data[: bounds.SALVAGE_BYTES])
        _check_id(identifier)
        _decode_id(identifier)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, InvalidRequest, MessageTooLarge):
        return NULL
    return Raw(identifier)


def _scan_id(data: bytes) -> bytes:
    """The top-level id of an object that cannot be parsed: nested too deep, or with invalid characters."""
    depth = 0
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and text == b'"id"' and (value := _ID_VALUE.match(data, token.end())):
            return value.group(1)
    return b"null"


def salvage_skipped_id(error: MessageTooLarge) -> Raw:
    """The id of a message that was too large to keep, from its ends: most clients write it after `params`.

    Backwards from the end of an object, members are at the top level up to the first that is not a scalar.
    """
    found = _scan_id(error.start[: bounds.SALVAGE_BYTES])
    if found == b"null" and (last := _ID_AT_END.search(error.end)):
        found = last.group(1)
    try:
        _check_id(found)
        _decode_id(found)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, InvalidRequest, MessageTooLarge):
        return NULL
    return Raw(found)


def encode_result(identifier: Raw, result: Any) -> bytes:
    """A response that carries a result."""
    return _encoder.encode(_Response("2.0", identifier, result))


def encode_error(identifier: Raw, error: ErrorObject) -> bytes:
    """A response that carries an error."""
    return _encoder.encode(_ErrorResponse("2.0", identifier, error))


def encode_request(identifier: int | str | Raw, method: str, params: Any) -> bytes:
    return _encoder.encode(_Request("2.0", identifier, method, params))


def encode_notification(method: str, params: Any = UNSET) -> bytes:
    return _encoder.encode(_Notification("2.0", method, params))


def encode_batch(responses: list[bytes]) -> bytes:
    """Join the encoded responses to a batch into one array."""
    return b"[" + b",".join(responses) + b"]"
