"""Changes one member of a JSON text and keeps all other bytes.

Reads what clients read: JSON with comments and trailing commas (JSONC). The parser records where every member of
an object starts and ends, so that an edit replaces only the text of its own member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.install.edits import Edit, detect_newline, indent_unit, line_indent, syntax_error

_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SAME_LINE_COMMENT: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}
_LEADING_SPACE: Final = re.compile(r"(?:\r?\n)?[ \t]*\Z")


class Node(NamedTuple):
    """A value and its span."""

    value: Any
    start: int
    end: int
    members: tuple[Member, ...] | None
    """Of an object."""


class Member(NamedTuple):
    """A member of an object; `comma` is the position of the comma after it, or None."""

    key: str
    start: int
    node: Node
    comma: int | None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> Node | None:
        """Parse the text; None if it has only whitespace and comments."""
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("text after the end of the JSON value")
        return node

    def _value(self, depth: int) -> Node:
        if depth > bounds.CLIENT_FILE_DEPTH:
            raise self._error(f"nested deeper than {bounds.CLIENT_FILE_DEPTH} levels")
        start, mark = self._at, self._text[self._at : self._at + 1]
        if mark == "{":
            return self._object(start, depth)
        if mark == "[":
            return self._array(start, depth)
        if mark == '"':
            return Node(self._string(), start, self._at, None)
        number = _NUMBER.match(self._text, start)
        if number is not None:
            try:
                value = json.loads(number[0])
            except ValueError:
                raise self._error(f"a number of {len(number[0])} digits is too long") from None
            self._at = number.end()
            return Node(value, start, self._at, None)
        for word, meaning in _WORDS.items():
            if self._text.startswith(word, start):
                self._at += len(word)
                return Node(meaning, start, self._at, None)
        raise self._error("a value is missing here" if mark in ("", ",", "}", "]", ":") else "not a JSON value")

    def _object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        self._at += 1
        while not self._closes("}", is_complete=not members or members[-1].comma is not None):
            key_start = self._at
            key = self._string()
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                raise self._error("a colon is missing here")
            self._at += 1
            self._skip()
            node = self._value(depth + 1)
            members.append(Member(key, key_start, node, self._comma()))
        return Node({each.key: each.node.value for each in members}, start, self._at, tuple(members))

    def _array(self, start: int, depth: int) -> Node:
        items: list[Any] = []
        is_complete = True
        self._at += 1
        while not self._closes("]", is_complete=is_complete):
            items.append(self._value(depth + 1).value)
            is_complete = self._comma() is not None
        return Node(items, start, self._at, None)

    def _closes(self, bracket: str, *, is_complete: bool) -> bool:
        """Consume the closing bracket, if it is next; if it is not, the item before must have had a comma."""
        self._skip()
        if self._text[self._at : self._at + 1] == bracket:
            self._at += 1
            return True
        if not is_complete:
            raise self._error(f"a comma or {bracket} is missing here")
        return False

    def _comma(self) -> int | None:
        """Consume a comma, if it is next; return its position."""
        self._skip()
        if self._text[self._at : self._at + 1] != ",":
            return None
        self._at += 1
        return self._at - 1

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._error("a string in double quotes is missing here, or is not closed")
        self._at = found.end()
        text: str = json.loads(found[0])
        return text

    def _skip(self) -> None:
        found = _TRIVIA.match(self._text, self._at)
        self._at = self._at if found is None else found.end()

    def _error(self, problem: str) -> SettingsError:
        is_cut = self._at >= len(self._text)
        return syntax_error(self._text, self._at, "the file ends in the middle of a value" if is_cut else problem)


def parse(text: str) -> dict[str, Any]:
    """Parse a text; an empty one is an empty object.

    Raises: SettingsError, with line and column.
    """
    node = _parse_object(text)
    value: dict[str, Any] = {} if node is None else node.value
    return value


def set_member(text: str, path: Sequence[str], value: Any) -> list[Edit]:
    """Return the edits that set the member at this path; missing objects on the way are added.

    Raises: SettingsError.
    """
    newline = detect_newline(text)
    node = _parse_object(text)
    if node is None:
        return [Edit(len(text), len(text), _render(_nest(path, value), "", indent_unit(text), newline) + newline)]
    for depth, key in enumerate(path):
        member = _find(node, key)
        if member is None:
            return _insert(text, node, key, _nest(path[depth + 1 :], value))
        if depth == len(path) - 1:
            rendered = _render(value, line_indent(text, member.start), _unit(text, member.node), newline)
            if "\n" not in text[member.node.start : member.node.end]:
                rendered = json.dumps(value, ensure_ascii=False)
            return [Edit(member.node.start, member.node.end, rendered)]
        if member.node.members is None:
            raise syntax_error(text, member.node.start, f"{json.dumps(key)} is not an object")
        node = member.node
    raise AssertionError("a path has at least one key")


def remove_member(text: str, path: Sequence[str], prunable: int = 0) -> list[Edit]:
    """Return the edits that remove a member, and up to `prunable` objects around it that would be empty then."""
    node = _parse_object(text)
    chain: list[tuple[Node, Member]] = []
    for key in path:
        member = None if node is None else _find(node, key)
        if node is None or member is None:
            return []
        chain.append((node, member))
        node = member.node
    while prunable and len(chain) > 1 and len(chain[-1][0].members or ()) == 1:
        chain.pop()
        prunable -= 1
    return _delete(text, *chain[-1])


def _parse_object(text: str) -> Node | None:
    node = _Parser(text).parse()
    if node is not None and node.members is None:
        raise syntax_error(text, node.start, "not a JSON object")
    return node


def _find(node: Node, key: str) -> Member | None:
    """Return the member of this name; the last, if there are several, as JSON parsers do."""
    return next((each for each in reversed(node.members or ()) if each.key == key), None)


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _render(value: Any, indent: str, unit: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _unit(text: str, node: Node) -> str:
    """Return one level of indentation: from the members of this object, if possible, or from the whole text."""
    outer = line_indent(text, node.start)
    for member in node.members or ():
        inner = line_indent(text, member.start)
        if inner.startswith(outer) and inner != outer:
            return inner[len(outer) :]
    return indent_unit(text)


def _insert(text: str, node: Node, key: str, value: Any) -> list[Edit]:
    newline, unit, name = detect_newline(text), _unit(text, node), json.dumps(key, ensure_ascii=False)
    if not node.members:
        return _insert_first(text, node, name, value)
    last = node.members[-1]
    before = node.start if len(node.members) == 1 else (node.members[-2].comma or node.start)
    if "\n" not in text[before : last.start]:
        return _append(text, last, f" {name}: {json.dumps(value, ensure_ascii=False)}")
    indent = line_indent(text, last.start)
    return _append(text, last, f"{newline}{indent}{name}: {_render(value, indent, unit, newline)}")


def _append(text: str, last: Member, added: str) -> list[Edit]:
    """Add after the last member, with a comma between them; a comment behind the last member stays there."""
    end = last.node.end if last.comma is None else last.comma + 1
    comment = _SAME_LINE_COMMENT.match(text, end) if "\n" in added else None
    at = end if comment is None else comment.end()
    if last.comma is not None:
        return [Edit(at, at, f"{added},")]
    return [Edit(end, end, f",{added}")] if at == end else [Edit(end, end, ","), Edit(at, at, added)]


def _insert_first(text: str, node: Node, name: str, value: Any) -> list[Edit]:
    newline, inside = detect_newline(text), text[node.start + 1 : node.end - 1]
    if "\n" not in text.strip() and text.strip() != text[node.start : node.end]:
        at = node.start + 1 + len(inside.rstrip())
        return [Edit(at, at, f"{name}: {json.dumps(value, ensure_ascii=False)}")]
    outer = line_indent(text, node.start)
    indent = outer + _unit(text, node)
    added = f"{newline}{indent}{name}: {_render(value, indent, _unit(text, node), newline)}"
    kept = inside.rstrip(" \t\r\n")  # comments, if there are any
    at = node.start + 1 + len(kept)
    return [Edit(at, at, added if "\n" in inside[len(kept) :] else f"{added}{newline}{outer}")]


def _delete(text: str, node: Node, member: Member) -> list[Edit]:
    members = node.members or ()
    at = members.index(member)
    separator = members[at - 1].comma if at else None
    after_separator = node.start + 1 if separator is None else separator + 1
    space = _LEADING_SPACE.search(text[after_separator : member.start])
    start = member.start if space is None else after_separator + space.start()
    if member.comma is not None:
        return [Edit(start, member.comma + 1, "")]
    edits = [Edit(start, member.node.end, "")]
    if separator is not None:
        edits.append(Edit(separator, separator + 1, ""))
    elif not (text[node.start + 1 : start] + text[member.node.end : node.end - 1]).strip():
        return [Edit(node.start + 1, node.end - 1, "")]  # {} instead of an empty object on two lines
    return edits
