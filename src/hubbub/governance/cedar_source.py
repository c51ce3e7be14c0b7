"""Split a file of Cedar policies into its policies with their lines, because the library reports no positions."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n]*|;|[^\s"/;]+|/', re.DOTALL)


class CedarStatement(NamedTuple):
    """One policy as written."""

    line: int
    """The line of its first word or annotation."""
    text: str


def split_statements(text: str) -> list[CedarStatement]:
    """Split at semicolons outside strings and comments; what is left after the last one counts as a statement."""
    statements: list[CedarStatement] = []
    start: int | None = None
    for token in _TOKEN.finditer(text):
        if token[0].startswith("//"):
            continue
        if start is None:
            start = token.start()
        if token[0] == ";":
            statements.append(_make_statement(text, start, token.end()))
            start = None
    if start is not None:
        statements.append(_make_statement(text, start, len(text)))
    return statements


def _make_statement(text: str, start: int, end: int) -> CedarStatement:
    return CedarStatement(text.count("\n", 0, start) + 1, text[start:end])
