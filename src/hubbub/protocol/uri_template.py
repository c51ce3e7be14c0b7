"""Match URIs against URI templates (RFC 6570) and extract the values of the variables.

Resource templates use it to find their parameters in the URI a client asks for.
The values are untrusted and often end up in file names, so a URI does not match if a
value could escape its path (`..`, a separator, NUL, also when encoded twice).

Narrower than the RFC where matching would be ambiguous: no prefix lengths, no adjacent
variables, and every variable must be present and non-empty, except query variables,
which may be absent and in any order. `{name*}` and `{/name*}` match several path
segments and return them as one value with slashes.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.protocol.uri_values import is_safe, normalize_uri, percent_decode

_PIECE: Final = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_EXPRESSION: Final = re.compile(r"([+#./;?&]?)([^+#./;?&].*)")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_INVALID_LITERAL: Final = re.compile(r'[\x00-\x20\x7f"<>\\^`|]')
# The text before an operator's first variable, and before each following one.
_SEPARATORS: Final = {"": ("", ","), "+": ("", ","), "#": ("#", ","), ".": (".", "."), "/": ("/", "/")}


class _Variable(msgspec.Struct, frozen=True):
    name: str
    stops: str
    """Characters that end the value if they are not encoded."""
    has_slashes: bool = False
    has_segments: bool = False
    may_be_empty: bool = False

    def decode(self, raw: str) -> str | None:
        value = percent_decode(raw)
        return value if value is not None and self.accepts(value) else None

    def accepts(self, value: str) -> bool:
        if not value:
            return self.may_be_empty
        if self.has_segments and "" in value.split("/"):
            return False
        return is_safe(value, slashes=self.has_slashes)


class UriTemplate:
    """One template; immutable, safe to share.

    Raises: DefinitionError, if the template cannot be matched.
    """

    __slots__ = ("_fixed_query", "_parts", "_query", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template = template
        parser = _TemplateParser(template)
        self._parts = parser.parts
        self._query = parser.query
        self._fixed_query = parser.fixed_query
        self.variables: tuple[str, ...] = tuple(parser.names)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded value of each variable, or None if the URI does not match."""
        plain = normalize_uri(uri)
        if plain is None:
            return None
        values: dict[str, str] = {}
        if self._query is not None:
            plain, query, fragment = _split_uri(plain)
            if not self._match_query(query, values):
                return None
            plain += fragment
        ranges = _assign_ranges(self._parts, plain)
        if ranges is None:
            return None
        for variable, raw in ranges:
            value = variable.decode(raw)
            if value is None:
                return None
            values[variable.name] = value
        return {name: values[name] for name in self.variables if name in values}

    def _match_query(self, query: str, values: dict[str, str]) -> bool:
        pairs = query.split("&") if query else []
        for fixed in self._fixed_query:
            if fixed not in pairs:
                return False
            pairs.remove(fixed)
        for pair in pairs:
            name, _, raw = pair.partition("=")
            variable = self._query.get(name) if self._query else None
            value = variable.decode(raw) if variable else None
            if value is None or name in values:
                return False
            values[name] = value
        return True


def _split_uri(uri: str) -> tuple[str, str, str]:
    uri, hash_sign, fragment = uri.partition("#")
    path, _, query = uri.partition("?")
    return path, query, hash_sign + fragment


def _assign_ranges(parts: list[str | _Variable], uri: str) -> list[tuple[_Variable, str]] | None:
    """Assign ranges of the URI to the variables, each as long as the parts after it allow.

    A regular expression would backtrack, in time to the power of the number of variables.
    """
    if parts and isinstance(parts[0], str) and not uri.startswith(parts[0]):
        return None
    tables = _match_positions(parts, uri)
    if not tables[0][0]:
        return None
    ranges: list[tuple[_Variable, str]] = []
    position = 0
    for part, after in zip(parts, tables[1:], strict=True):
        if isinstance(part, str):
            position += len(part)
            continue
        end = position
        for candidate in range(position + 1, len(uri) + 1):
            if uri[candidate - 1] in part.stops:
                break
            if after[candidate]:
                end = candidate
        ranges.append((part, uri[position:end]))
        position = end
    return ranges


def _match_positions(parts: list[str | _Variable], uri: str) -> list[bytearray]:
    """For each part, the positions from which it and all following parts match to the end."""
    size = len(uri)
    after = bytearray(size + 1)
    after[size] = 1
    tables = [after]
    for part in reversed(parts):
        matches = bytearray(size + 1)
        if isinstance(part, str):
            start = uri.find(part)
            while start >= 0:
                matches[start] = after[start + len(part)]
                start = uri.find(part, start + 1)
        else:
            for position in range(size - 1, -1, -1):
                if uri[position] not in part.stops:
                    matches[position] = after[position + 1] or matches[position + 1]
        tables.append(matches)
        after = matches
    tables.reverse()
    return tables


class _TemplateParser:
    """Parses a template from left to right."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.names: list[str] = []
        self.parts: list[str | _Variable] = []
        self.query: dict[str, _Variable] | None = None
        self.fixed_query: list[str] = []
        if not template or len(template) > bounds.URI_CHARACTERS:
            raise self._error(f"is empty or longer than {bounds.URI_CHARACTERS} characters")
        # Which characters `{+name}` may contain unencoded depends on what comes after it.
        self._has_query = "{?" in template or "{&" in template
        self._has_fragment = "{#" in template
        position = 0
        while position < len(template):
            piece = _PIECE.match(template, position)
            if piece is None:
                raise self._error(f"has an unpaired brace at character {position + 1}")
            position = piece.end()
            if piece[2] is not None:
                self._literal(piece[2])
            else:
                self._expression(piece[1])

    def _error(self, what: str) -> DefinitionError:
        return DefinitionError(f"The URI template {self.template[:200]!r} {what}")

    def _literal(self, text: str) -> None:
        literal = normalize_uri(text)
        if literal is None or _INVALID_LITERAL.search(text):
            raise self._error(f"has characters that are not allowed in a URI: {text!r}")
        if self.query is not None:
            raise self._error(f"must end with its query, but {text!r} follows")
        if self._has_query and "?" in literal:
            literal, _, query = literal.partition("?")
            self.query = {}
            self.fixed_query = query.split("&") if query else []
        if literal:
            self._append(literal)

    def _append(self, part: str | _Variable) -> None:
        last = self.parts[-1] if self.parts else ""
        if isinstance(part, str) and isinstance(last, str) and self.parts:
            self.parts[-1] = last + part
        elif isinstance(part, _Variable) and isinstance(last, _Variable):
            raise self._error(f"must have text between {last.name} and {part.name}, to separate their values")
        else:
            self.parts.append(part)

    def _expression(self, text: str) -> None:
        expression = _EXPRESSION.fullmatch(text)
        if expression is None:
            raise self._error(f"has an expression that is not supported: {{{text}}}")
        operator, names = expression[1], expression[2].split(",")
        if operator in ("?", "&"):
            self._query_variables(operator, names)
            return
        if self.query is not None and operator != "#":
            raise self._error(f"must end with its query, but {{{text}}} follows")
        for index, name in enumerate(names):
            self._path_variable(operator, name, index, len(names) > 1)

    def _path_variable(self, operator: str, text: str, index: int, is_list: bool) -> None:
        name = self._declare(text.removesuffix("*"))
        if text.endswith("*") and (operator not in ("", "/") or is_list):
            raise self._error(f"has an explode modifier where it is not supported: {text}")
        first, following = (f";{name}=",) * 2 if operator == ";" else _SEPARATORS[operator]
        separator = following if index else first
        if separator:
            self._append(separator)
        self._append(self._variable(operator, name, is_list, text.endswith("*")))

    def _variable(self, operator: str, name: str, is_list: bool, explodes: bool) -> _Variable:
        if explodes:
            return _Variable(name, stops="?#\\", has_slashes=True, has_segments=True)
        separator = "," if is_list else ""
        if operator in ("+", "#"):
            stops = "\\" + separator
            stops += "?" if self._has_query and operator == "+" else ""
            stops += "#" if self._has_query or self._has_fragment else ""
            return _Variable(name, stops=stops, has_slashes=True)
        own_stops = {".": ".", ";": ";"}.get(operator, separator)
        return _Variable(name, stops="/?#\\" + own_stops)

    def _query_variables(self, operator: str, names: list[str]) -> None:
        if (operator == "?") == (self.query is not None):
            raise self._error("must start its query once, with {?…} or a literal ?, and continue it with {&…}")
        if self.query is None:
            self.query = {}
        for text in names:
            name = self._declare(text)
            self.query[name] = _Variable(name, stops="&#\\", has_slashes=True, may_be_empty=True)

    def _declare(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise self._error(f"has a variable that is not supported: {name!r}")
        if name in self.names:
            raise self._error(f"has the variable {name} twice")
        self.names.append(name)
        return name
