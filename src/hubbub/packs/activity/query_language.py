"""Parse ActivityWatch's query language into a tree. Pure.

    events = flood(query_bucket(find_bucket("aw-watcher-window_")));
    RETURN = limit_events(sort_by_duration(merge_events_by_keys(events, ["app"])), 5);

A query consists of assignments only, without loops or conditions. `query_evaluator` evaluates the tree.
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
RESULT_VARIABLE: Final = "RETURN"


class Variable(msgspec.Struct, frozen=True):
    """A reference to a variable."""

    name: str


class FunctionCall(msgspec.Struct, frozen=True):
    function: str
    arguments: tuple[Expression, ...]


class ListLiteral(msgspec.Struct, frozen=True):
    items: tuple[Expression, ...]


class ObjectLiteral(msgspec.Struct, frozen=True):
    """An object, as pairs of key and value."""

    pairs: tuple[tuple[Expression, Expression], ...]


class Constant(msgspec.Struct, frozen=True):
    """A literal string or number."""

    value: str | int | float


Expression: TypeAlias = Variable | FunctionCall | ListLiteral | ObjectLiteral | Constant


class Statement(msgspec.Struct, frozen=True):
    """One assignment."""

    target: str
    expression: Expression


def parse_query(query: str | Sequence[str]) -> list[Statement]:
    """Parse a query, given as one string or as a list of lines.

    Raises: BadRequest, with the position of the syntax error.
    """
    text = (
        query
        if isinstance(query, str)
        else "\n".join(line.rstrip().rstrip(";") + ";" for line in query if line.strip())
    )
    if len(text) > limits.QUERY_CHARACTERS:
        raise BadRequest(f"the query has {len(text)} characters; the maximum is {limits.QUERY_CHARACTERS}")
    reader = _Parser(text)
    statements = []
    while not reader.is_at_end():
        statements.append(reader.parse_statement())
        if len(statements) > limits.QUERY_STATEMENTS:
            raise BadRequest(f"the query has more than {limits.QUERY_STATEMENTS} statements")
    if not any(statement.target == RESULT_VARIABLE for statement in statements):
        raise BadRequest(f"the query has no result; end it with {RESULT_VARIABLE} = …;")
    return statements


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._position = 0
        self._depth = 0

    def is_at_end(self) -> bool:
        while self._peek() == ("mark", ";"):
            self._position += 1
        return self._position >= len(self._tokens)

    def parse_statement(self) -> Statement:
        kind, target = self._next()
        if kind != "name":
            raise BadRequest(f"a statement must begin with the name of a variable, not with {target!r}")
        self._expect("=")
        found = Statement(target, self._parse_expression())
        if self._position < len(self._tokens):
            self._expect(";")
        return found

    def _parse_expression(self) -> Expression:
        self._depth += 1
        if self._depth > limits.QUERY_DEPTH:
            raise BadRequest(f"the query is nested more than {limits.QUERY_DEPTH} levels deep; use variables")
        try:
            return self._parse_value(*self._next())
        finally:
            self._depth -= 1

    def _parse_value(self, kind: str, text: str) -> Expression:
        if kind == "number":
            if len(text) > limits.QUERY_DIGITS:
                raise BadRequest(f"a number in the query has more than {limits.QUERY_DIGITS} digits")
            return Constant(float(text) if "." in text else int(text))
        if kind == "text":
            return Constant(_ESCAPED.sub(r"\1", text[1:-1]))
        if kind == "name":
            if self._peek() == ("mark", "("):
                self._position += 1
                return FunctionCall(text, tuple(self._parse_items(")")))
            return Variable(text)
        if text == "[":
            return ListLiteral(tuple(self._parse_items("]")))
        if text == "{":
            return ObjectLiteral(tuple(self._parse_pairs()))
        raise BadRequest(f"a value is missing before {text!r}")

    def _parse_items(self, end: str) -> list[Expression]:
        items: list[Expression] = []
        while self._peek() != ("mark", end):
            items.append(self._parse_expression())
            if self._peek() != ("mark", end):
                self._expect(",")
        self._position += 1
        return items

    def _parse_pairs(self) -> list[tuple[Expression, Expression]]:
        pairs = []
        while self._peek() != ("mark", "}"):
            key = self._parse_expression()
            self._expect(":")
            pairs.append((key, self._parse_expression()))
            if self._peek() != ("mark", "}"):
                self._expect(",")
        self._position += 1
        return pairs

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position] if self._position < len(self._tokens) else ("end", "the end")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        if token[0] == "end":
            raise BadRequest("the query ends in the middle of a statement")
        self._position += 1
        return token

    def _expect(self, mark: str) -> None:
        found = self._next()
        if found != ("mark", mark):
            raise BadRequest(f"expected {mark!r} instead of {found[1][:40]!r}")


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            line = text.count("\n", 0, position) + 1
            raise BadRequest(f"syntax error in line {line} of the query at {text[position : position + 40].strip()!r}")
        kind: Any = found.lastgroup
        tokens.append((kind, found[kind]))
        position = found.end()
    return tokens
