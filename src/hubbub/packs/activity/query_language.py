"""Parse ActivityWatch's query language into a tree. Pure.

    events = flood(query_bucket(find_bucket("aw-watcher-window_")));
    RETURN = limit_events(sort_by_duration(merge_events_by_keys(events, ["app"])), 5);

A query consists of assignments only, without loops or conditions. `query_run` evaluates the tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import BadRequest

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[=;,:(){}\[\]]))"""
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
RESULT: Final = "RETURN"


class Name(msgspec.Struct, frozen=True):
    """A reference to a variable."""

    name: str


class Apply(msgspec.Struct, frozen=True):
    """A function call."""

    function: str
    arguments: tuple[Expression, ...]


class Many(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Expression, ...]


class Table(msgspec.Struct, frozen=True):
    """An object, as pairs of key and value."""

    pairs: tuple[tuple[Expression, Expression], ...]


class Value(msgspec.Struct, frozen=True):
    """A literal string or number."""

    value: str | int | float


Expression: TypeAlias = Name | Apply | Many | Table | Value


class Statement(msgspec.Struct, frozen=True):
    """One assignment."""

    target: str
    expression: Expression


def read_query(query: str | Sequence[str]) -> list[Statement]:
    """Parse a query, given as one string or as a list of lines.

    Raises: BadRequest, with the position of the syntax error.
    """
    text = (
        query
        if isinstance(query, str)
        else "\n".join(line.rstrip().rstrip(";") + ";" for line in query if line.strip())
    )
    if len(text) > limits.QUERY_CHARACTERS:
        raise BadRequest(f"a query has at most {limits.QUERY_CHARACTERS} characters")
    reader = _Reader(text)
    statements = []
    while not reader.is_done():
        statements.append(reader.statement())
        if len(statements) > limits.QUERY_STATEMENTS:
            raise BadRequest(f"a query has at most {limits.QUERY_STATEMENTS} statements")
    if not any(statement.target == RESULT for statement in statements):
        raise BadRequest(f"the query has no result: let its last statement be {RESULT} = …;")
    return statements


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._place = 0
        self._depth = 0

    def is_done(self) -> bool:
        while self._peek() == ("mark", ";"):
            self._place += 1
        return self._place >= len(self._tokens)

    def statement(self) -> Statement:
        kind, target = self._next()
        if kind != "name":
            raise BadRequest(f"a statement begins with the name of a variable, not with {target!r}")
        self._expect("=")
        found = Statement(target, self._expression())
        if self._place < len(self._tokens):
            self._expect(";")
        return found

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > limits.QUERY_DEPTH:
            raise BadRequest(f"a query nests at most {limits.QUERY_DEPTH} deep")
        try:
            return self._read(*self._next())
        finally:
            self._depth -= 1

    def _read(self, kind: str, text: str) -> Expression:
        if kind == "number":
            if len(text) > limits.QUERY_DIGITS:
                raise BadRequest(f"a number in a query has at most {limits.QUERY_DIGITS} digits")
            return Value(float(text) if "." in text else int(text))
        if kind == "text":
            return Value(_ESCAPED.sub(r"\1", text[1:-1]))
        if kind == "name":
            if self._peek() == ("mark", "("):
                self._place += 1
                return Apply(text, tuple(self._items(")")))
            return Name(text)
        if text == "[":
            return Many(tuple(self._items("]")))
        if text == "{":
            return Table(tuple(self._pairs()))
        raise BadRequest(f"a value is missing before {text!r}")

    def _items(self, end: str) -> list[Expression]:
        items: list[Expression] = []
        while self._peek() != ("mark", end):
            items.append(self._expression())
            if self._peek() != ("mark", end):
                self._expect(",")
        self._place += 1
        return items

    def _pairs(self) -> list[tuple[Expression, Expression]]:
        pairs = []
        while self._peek() != ("mark", "}"):
            key = self._expression()
            self._expect(":")
            pairs.append((key, self._expression()))
            if self._peek() != ("mark", "}"):
                self._expect(",")
        self._place += 1
        return pairs

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("end", "the end")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        if token[0] == "end":
            raise BadRequest("the query ends in the middle of a statement")
        self._place += 1
        return token

    def _expect(self, mark: str) -> None:
        found = self._next()
        if found != ("mark", mark):
            raise BadRequest(f"there should be {mark!r} in place of {found[1][:40]!r}")


def _split(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            line = text.count("\n", 0, place) + 1
            raise BadRequest(f"line {line} of the query makes no sense from {text[place : place + 40].strip()!r} on")
        kind: Any = found.lastgroup
        tokens.append((kind, found[kind]))
        place = found.end()
    return tokens
