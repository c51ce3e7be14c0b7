"""JSON-RPC envelopes: one decode on the way in, one encode on the way out.

`decode_envelope` reads bytes once and keeps `params`, `result`, `error` and `id`
as the raw JSON they arrived in. Raw is not validation, so UTF-8 and nesting are
checked here, once, for everything that is decoded later from those pieces.
Transports and connections call this; handlers never see an envelope.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import ArgumentsNoObject, InvalidRequest, MessageTooLarge, ParseError


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
_decode_many = msgspec.json.Decoder(list[Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_encoder = msgspec.json.Encoder()

_MEMBERS = (b'"jsonrpc"', b'"id"', b'"method"', b'"params"', b'"result"', b'"error"')
_HALF_PAIR = re.compile(rb"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ID_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*[,}]', re.DOTALL)
_SMALLEST_MEMBER = len(b',"id":1')
"""Less than this between the members is space; more may be a member once more."""
_ALL_BUT_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_TEXT = re.compile(rb'"[^"]*"')
_SHORT_BYTES = 1024
"""Of a message in which counting brackets is quicker than looking for each."""
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One level down for what opens, one up for what closes, as signed bytes."""


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
        raise ParseError(f"Parse error: {_reason(error, data)}") from None
    # Few brackets prove shallow nesting; only messages with many are measured.
    if _has_many_brackets(data):
        _measure_nesting(data)
    _check_members(envelope, data)
    return envelope


def _reason(error: Exception, data: bytes) -> str:
    """The parser's own words, but for half a surrogate pair, which it takes for a text that is cut short."""
    if _HALF_PAIR.search(data):
        return "a string holds half of a surrogate pair; send whole characters"
    return str(error)


def _decode_batch(data: bytes) -> list[bytes]:
    try:
        items = _decode_many(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None
    if not items:
        raise InvalidRequest("A batch must hold at least one message")
    if len(items) > bounds.BATCH_ITEMS:
        raise InvalidRequest(f"A batch may hold {bounds.BATCH_ITEMS} messages, this one has {len(items)}; split it")
    return [bytes(item) for item in items]


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"Parse error: not UTF-8 at byte {error.start}") from None


def _refuse_unless_json(data: bytes) -> None:
    """A wrong type early in the message must not hide malformed JSON behind it."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None


def _has_many_brackets(data: bytes) -> bool:
    """A long message is mostly text, over which `find` leaps."""
    if len(data) <= _SHORT_BYTES:
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


def _measure_nesting(data: bytes) -> None:
    """Peel brackets off from within; the few messages that take long are counted through."""
    brackets = _brackets(data)
    for _ in range(bounds.NESTING_DEPTH // 2):  # each time takes one level or two
        if not brackets:
            return
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    steps = memoryview(_brackets(data).translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > bounds.NESTING_DEPTH:
        raise ParseError(f"Parse error: nested deeper than {bounds.NESTING_DEPTH} levels")


def _brackets(data: bytes) -> bytes:
    """The brackets of a message, without those in its texts."""
    if b"\\" in data:
        data = _ESCAPED.sub(b"", data)
    # Two quotes side by side can go, whichever they are: what is inside a text stays inside one.
    marks = data.translate(None, _ALL_BUT_MARKS).replace(b'""', b"")
    return _TEXT.sub(b"", marks) if b'"' in marks else marks


def _check_members(envelope: Envelope, data: bytes) -> None:
    """Check what the types of `Envelope` do not: id, shape of params, doubled members."""
    if envelope.jsonrpc != "2.0":
        raise InvalidRequest('`jsonrpc` must be "2.0"')
    identifier, method, params = envelope.id, envelope.method, envelope.params
    # The length of this message if it was written compactly, with each member once.
    accounted = 17 + (_answer_bytes(envelope) if method is UNSET else 12 + len(method))
    if identifier is not UNSET:
        _check_id(identifier)
        accounted += 6 + len(identifier)
    if params is not UNSET:
        if memoryview(params)[0] not in b"{[":
            # Only tools that are called by their names have dots in them; those of MCP have slashes.
            is_tool = method is not UNSET and "." in method
            raise ArgumentsNoObject() if is_tool else InvalidRequest("`params` must be an object or an array")
        accounted += 10 + len(params)
    if len(data) - accounted >= _SMALLEST_MEMBER:
        _refuse_doubled_members(envelope, data)


def _answer_bytes(envelope: Envelope) -> int:
    total = 0
    if envelope.result is not UNSET:
        total += 10 + len(envelope.result)
    if envelope.error is not UNSET:
        total += 9 + len(envelope.error)
    if not total:
        raise InvalidRequest("A message needs a `method`, or a `result` or `error` if it is an answer")
    return total


def _check_id(identifier: Raw | bytes) -> None:
    if memoryview(identifier)[0] not in b'"-0123456789n':
        raise InvalidRequest("`id` must be a string, a number or null")
    if len(identifier) > bounds.IDENTIFIER_BYTES:
        raise MessageTooLarge("`id`", bounds.IDENTIFIER_BYTES)


def _refuse_doubled_members(envelope: Envelope, data: bytes) -> None:
    """JSON parsers disagree on which of two equal keys counts, so neither does."""
    parts = [bytes(part) for part in (envelope.params, envelope.result, envelope.error) if part is not UNSET]

    def outside(text: bytes) -> int:
        return data.count(text) - sum(part.count(text) for part in parts)

    if not outside(b"\\") and not any(outside(member) > 1 for member in _MEMBERS):
        return
    import json  # Only for this rare case: it takes a fiftieth of the start.

    # Numbers stay text: one of thousands of digits would be refused or take long.
    pairs = json.loads(data, object_pairs_hook=list, parse_int=str, parse_float=str)
    seen = Counter(name for name, _ in pairs)
    doubled = [name for name in Envelope.__struct_fields__ if seen[name] > 1]
    if doubled:
        raise InvalidRequest(f"Doubled member: {', '.join(doubled)}")


def id_key(identifier: Raw | bytes) -> bytes:
    """The id as a dictionary key: equal ids have equal keys, however they are escaped."""
    key = bytes(identifier)
    if key[:1] == b'"' and key.find(b"\\") >= 0:
        return _encoder.encode(_decode_string(key))
    return key


def salvage_id(data: bytes) -> Raw:
    """The id of a message that failed to decode, when it can still be told."""
    try:
        try:
            loose = msgspec.json.decode(data, type=dict[str, Raw])
            identifier = bytes(loose.get("id", NULL))
        except (msgspec.DecodeError, RecursionError):
            identifier = _scan_id(data[: bounds.SALVAGE_BYTES])
        _check_id(identifier)
        identifier.decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, InvalidRequest, MessageTooLarge):
        return NULL
    return Raw(identifier)


def _scan_id(data: bytes) -> bytes:
    """The top-level id of an object that no parser takes whole: nested too deep, or with broken characters."""
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


def encode_result(identifier: Raw, result: Any) -> bytes:
    """A response that carries a result."""
    return _encoder.encode(_Response("2.0", identifier, result))


def encode_error(identifier: Raw, error: ErrorObject) -> bytes:
    """A response that carries an error."""
    return _encoder.encode(_ErrorResponse("2.0", identifier, error))


def encode_request(identifier: int | str | Raw, method: str, params: Any) -> bytes:
    """A request of ours."""
    return _encoder.encode(_Request("2.0", identifier, method, params))


def encode_notification(method: str, params: Any = UNSET) -> bytes:
    """A notification of ours."""
    return _encoder.encode(_Notification("2.0", method, params))


def encode_batch(responses: list[bytes]) -> bytes:
    """Answers to a batch, as one array."""
    return b"[" + b",".join(responses) + b"]"
