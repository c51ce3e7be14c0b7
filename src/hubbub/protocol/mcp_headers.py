"""Encode, decode and compare values in HTTP headers, as revision 2026-07-28 defines.

Tool parameters annotated with `x-mcp-header` are also sent in a header of their own, so that
proxies can route without reading bodies. This module encodes values as header text, checks the
annotations, and compares headers with arguments. Which headers a method needs is checked in
`hubbub.server.http.modern`.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hubbub.errors import DefinitionError, HeaderMismatch, InvalidParams

HEADER_ANNOTATION: Final = "x-mcp-header"
PARAMETER_PREFIX: Final = "Mcp-Param-"

_BASE64_START: Final = "=?base64?"
_BASE64_END: Final = "?="
_PLAIN_TEXT: Final = re.compile(r"(?! )[ -~]*(?<! )")
_LITERAL_TEXT: Final = re.compile(r"[\t -~]*")
_HEADER_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_INTEGER: Final = re.compile(r"(-?[0-9]{1,32})(?:\.0{1,32})?")
_MAX_INTEGER: Final = 2**53 - 1
_TYPES: Final = ("string", "integer", "boolean")

# Keywords of JSON Schema 2020-12 and older drafts that contain schemas.
_ONE_SCHEMA: Final = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_MANY_SCHEMAS: Final = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_NAMED_SCHEMAS: Final = frozenset(
    ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
)


def encode_value(value: str | int | bool) -> str:
    """Write a value as header text, in base64 where plain text would not survive.

    Raises: InvalidParams, if the value has no header form.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > _MAX_INTEGER:
            raise InvalidParams("An integer of 2^53 or beyond cannot be sent in a header")
        return str(value)
    if _PLAIN_TEXT.fullmatch(value) and not (value.startswith(_BASE64_START) and value.endswith(_BASE64_END)):
        return value
    try:
        encoded = binascii.b2a_base64(value.encode(), newline=False).decode()
    except UnicodeEncodeError as error:
        raise InvalidParams("Text with a lone surrogate cannot be sent in a header") from error
    return f"{_BASE64_START}{encoded}{_BASE64_END}"


def decode_value(text: str) -> str:
    """Read header text; without both base64 markers it is taken literally.

    Raises: HeaderMismatch, if the base64 is not exactly what encoding gives, or not UTF-8.
    """
    text = text.strip(" \t")
    encoded = _strip_markers(text) if text.startswith(_BASE64_START) else None
    if encoded is None:
        if not _LITERAL_TEXT.fullmatch(text):
            raise HeaderMismatch("A header value with characters other than visible ASCII must be sent as base64")
        return text
    try:
        decoded = binascii.a2b_base64(encoded, strict_mode=True)
        if binascii.b2a_base64(decoded, newline=False) != encoded.encode():
            raise HeaderMismatch("A header value is not canonical base64: its unused bits are not zero")
        return decoded.decode()
    except UnicodeError as error:
        raise HeaderMismatch("A header value in base64 is not UTF-8 text") from error
    except ValueError as error:
        raise HeaderMismatch(f"A header value is not valid base64: {error}") from error


def _strip_markers(text: str) -> str | None:
    """Return the text between the markers; None if one of them is missing."""
    rest = text.removeprefix(_BASE64_START)
    return rest.removesuffix(_BASE64_END) if rest.endswith(_BASE64_END) else None


def header_parameters(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the header of each annotated parameter, with the path to it in the arguments.

    Raises: DefinitionError, if an annotation breaks a rule.
    """
    found: dict[str, tuple[str, ...]] = {}
    used_names: set[str] = set()
    for path, annotated in _find_annotations(schema, ()):
        name = _header_name(path, annotated)
        if name.lower() in used_names:
            raise DefinitionError(f"Two parameters share the {HEADER_ANNOTATION} {name!r}; header names ignore case")
        used_names.add(name.lower())
        found[PARAMETER_PREFIX + name] = path
    return found


def _find_annotations(schema: Any, path: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Find annotations; the path is None, and yielded as empty, below any keyword other than `properties`."""
    if not isinstance(schema, Mapping):
        return
    if HEADER_ANNOTATION in schema:
        yield path or (), schema
    for keyword, inner in schema.items():
        if keyword == "properties" and isinstance(inner, Mapping):
            for name, child in inner.items():
                yield from _find_annotations(child, None if path is None else (*path, name))
        elif keyword in _NAMED_SCHEMAS and isinstance(inner, Mapping):
            for child in inner.values():
                yield from _find_annotations(child, None)
        elif keyword in _MANY_SCHEMAS and isinstance(inner, list):
            for child in inner:
                yield from _find_annotations(child, None)
        elif keyword in _ONE_SCHEMA:
            yield from _find_annotations(inner, None)


def _header_name(path: tuple[str, ...], schema: Mapping[str, Any]) -> str:
    name = schema[HEADER_ANNOTATION]
    if not isinstance(name, str) or not _HEADER_TOKEN.fullmatch(name):
        raise DefinitionError(f"{HEADER_ANNOTATION} must be a valid HTTP header name, not {name!r}")
    if not path:
        raise DefinitionError(
            f"{HEADER_ANNOTATION} {name!r} must be on a parameter that is nested in `properties` only"
        )
    if schema.get("type") not in _TYPES:
        raise DefinitionError(
            f"{HEADER_ANNOTATION} {name!r} must be on a parameter of type string, integer or boolean: {'.'.join(path)}"
        )
    return name


def check_header_parameters(
    parameters: Mapping[str, tuple[str, ...]],
    arguments: Mapping[str, Any],
    headers: Callable[[str], str | None],
) -> None:
    """Check that headers and arguments of a call have the same values, and that neither lacks one.

    Raises: HeaderMismatch.
    """
    for header, path in parameters.items():
        value, text = find_argument(arguments, path), headers(header)
        if value is None and text is None:
            continue
        if text is None:
            raise HeaderMismatch(f"The header {header} is missing; it must repeat the argument {'.'.join(path)}")
        if value is None:
            raise HeaderMismatch(f"The header {header} was sent without the argument {'.'.join(path)}")
        if not _matches(value, decode_value(text)):
            raise HeaderMismatch(f"The header {header} differs from the argument {'.'.join(path)}")


def find_argument(arguments: Any, path: tuple[str, ...]) -> Any:
    """The argument at a path; None if it is null or missing."""
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _matches(value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    if isinstance(value, int | float):
        integer = _INTEGER.fullmatch(text)
        return integer is not None and int(integer[1]) == value
    return False
