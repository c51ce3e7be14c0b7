"""JSON exactly as JavaScript's `JSON.parse` and `JSON.stringify` process it. Pure.

Session MACs are computed over the text that JavaScript writes after parsing, so every character counts: numbers are
doubles in JavaScript's notation, keys that look like array indices come first, lone surrogates are escaped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError

_MAX_ARRAY_INDEX: Final = 2**32 - 2
_MAX_SAFE_INTEGER: Final = 2**53 - 1
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class JsonError(PeersError):
    """The text is not JSON, or the value cannot be represented in JSON."""


def _too_deep() -> JsonError:
    return JsonError(f"it is nested more than {limits.PEER_NESTING} levels deep")


def parse(text: str | bytes) -> Any:
    """Parse a text like `JSON.parse`: objects become dicts, integers up to 2**53 become ints.

    Raises: JsonError.
    """
    try:
        value = _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise JsonError(str(error)) from None
    _check_depth(value)
    return value


def convert(value: Any, kind: Any) -> Any:
    """Convert a parsed value to a type.

    Raises:
        JsonError: it does not fit, or holds a lone surrogate, which msgspec cannot convert.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise JsonError(str(error)) from None


def _refuse_constant(name: str) -> float:
    raise JsonError(f"{name} is not valid JSON")


def _read_integer(digits: str) -> int | float:
    # Python refuses to parse thousands of digits; JavaScript makes a double of them.
    if len(digits) > 17:
        return float(digits)
    number = int(digits)
    return number if -_MAX_SAFE_INTEGER <= number <= _MAX_SAFE_INTEGER else float(number)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_read_integer)


def _check_depth(value: Any) -> None:
    layer, depth = [value], 0
    while layer:
        if depth > limits.PEER_NESTING:
            raise _too_deep()
        depth += 1
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]


def stringify(value: object) -> str:
    """Write a value like `JSON.stringify`.

    Raises:
        JsonError: it holds something that JSON cannot represent, or nests too deep.
    """
    return _stringify_value(value, 0)


def _stringify_value(value: object, depth: int) -> str:
    if isinstance(value, str):
        return _quote_string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return format_number(value)
    if depth > limits.PEER_NESTING:
        raise _too_deep()
    if isinstance(value, Mapping):
        return (
            "{"
            + ",".join(
                f"{_quote_string(key)}:{_stringify_value(value[key], depth + 1)}" for key in _ordered_keys(value)
            )
            + "}"
        )
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return "[" + ",".join(_stringify_value(item, depth + 1) for item in value) + "]"
    raise JsonError(f"{type(value).__name__} cannot be represented in JSON")


def _quote_string(text: str) -> str:
    written: str = encode_basestring(text)
    if written.isascii() or _SURROGATE.search(written) is None:
        return written
    paired = written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", paired)


def _ordered_keys(value: Mapping[Any, object]) -> list[str]:
    """Return the keys in JavaScript's order: array indices by number, then the others in insertion order."""
    keys: list[str] = list(value)
    for key in keys:
        if not isinstance(key, str):
            raise JsonError("the keys of an object must be strings")
    indices = [key for key in keys if _is_index(key)]
    if not indices:
        return keys
    return [*sorted(indices, key=int), *(key for key in keys if not _is_index(key))]


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None and int(key) <= _MAX_ARRAY_INDEX


def format_number(value: float) -> str:
    """Format a number as JavaScript does; NaN and infinities become `null`."""
    if isinstance(value, int) and -_MAX_SAFE_INTEGER <= value <= _MAX_SAFE_INTEGER:
        return str(int(value))
    try:
        double = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"
    sign = "-" if double < 0 else ""
    digits, exponent = _shortest_digits(abs(double))
    return sign + _format_digits(digits, exponent)


def _shortest_digits(double: float) -> tuple[str, int]:
    """Return the fewest digits that identify this double, and its exponent: `0.d₁d₂… × 10**exponent`."""
    written = repr(double)
    mantissa, _, power = written.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = whole + fraction
    exponent = len(whole) + int(power or 0)
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    return stripped.rstrip("0"), exponent


def _format_digits(digits: str, exponent: int) -> str:
    count = len(digits)
    if count <= exponent <= 21:
        return digits + "0" * (exponent - count)
    if 0 < exponent <= 21:
        return f"{digits[:exponent]}.{digits[exponent:]}"
    if -6 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{exponent - 1:+d}"


def replace_lone_surrogates(value: Any) -> Any:
    """Replace lone surrogates in all strings of a JSON value, like JavaScript's `toWellFormed`."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {replace_lone_surrogates(key): replace_lone_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [replace_lone_surrogates(item) for item in value]
    return value
