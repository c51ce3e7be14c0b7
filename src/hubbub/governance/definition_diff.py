"""Differences between two definitions, for the person who decides about a changed one.

Texts are compared word by word, schemas key by key. Output is bounded and safe for a terminal, because the new
definition may be hostile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias

import msgspec

from hubbub.governance.hidden_characters import show_hidden

Change: TypeAlias = Literal["added", "removed", "changed"]
WordChange: TypeAlias = Literal["same", "removed", "added"]

MAX_DIFFERENCES: Final = 200
MAX_VALUE_CHARACTERS: Final = 4000
"""Characters of one value or piece of text that are shown."""
MAX_COMPARED_WORDS: Final = 1000
"""Longer texts are shown as a whole, because comparing them takes time quadratic in their length."""
_CONTEXT_CHARACTERS: Final = 40
_MIN_WORDS: Final = 4
"""Shorter texts are shown as a whole."""
_WORD: Final = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_PLAIN_KEY: Final = re.compile(r"[\w$@/-]+", re.ASCII)
_MISSING: Final = object()


class WordDifference(msgspec.Struct, frozen=True):
    """A piece of a text that both have, or only one."""

    change: WordChange
    text: str


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference, at a path such as `inputSchema.properties.path.type`."""

    path: str
    change: Change
    old: Any = None
    new: Any = None
    words: tuple[WordDifference, ...] = ()
    """The differences of a text; empty if it is shown as a whole."""


def diff_definitions(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Difference]:
    """Compare two definitions; None is a definition that is missing. At most `MAX_DIFFERENCES` and a last one about the
    rest."""
    found: list[Difference] = []
    differences = _compare({} if old is None else old, {} if new is None else new, "")
    for difference in differences:
        if len(found) == MAX_DIFFERENCES:
            more = 1 + sum(1 for _ in differences)
            found.append(Difference("", "changed", new=f"{more} more differences are not shown"))
            break
        found.append(difference)
    return found


def _compare(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _compare(old.get(name, _MISSING), new.get(name, _MISSING), _join(path, name))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(old, new, path)
    elif old is _MISSING:
        yield Difference(path, "added", new=new)
    elif new is _MISSING:
        yield Difference(path, "removed", old=old)
    elif not _is_equal(old, new):
        words = _compare_words(old, new) if isinstance(old, str) and isinstance(new, str) else ()
        yield Difference(path, "changed", old, new, words)


def _compare_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    old_texts, new_texts = [_encode(item) for item in old], [_encode(item) for item in new]
    if not any(isinstance(item, dict | list) for item in (*old, *new)) and (set(old_texts) != set(new_texts)):
        removed, added = set(old_texts) - set(new_texts), set(new_texts) - set(old_texts)
        yield from (Difference(f"{path}[]", "removed", old=item) for item in old if _encode(item) in removed)
        yield from (Difference(f"{path}[]", "added", new=item) for item in new if _encode(item) in added)
        return
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else _MISSING
        after = new[index] if index < len(new) else _MISSING
        yield from _compare(before, after, f"{path}[{index}]")


def _compare_words(old: str, new: str) -> tuple[WordDifference, ...]:
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    if not _MIN_WORDS <= max(len(old_words), len(new_words)) <= MAX_COMPARED_WORDS:
        return ()
    found: list[WordDifference] = []
    matcher = SequenceMatcher(None, old_words, new_words)
    for operation, start, end, new_start, new_end in matcher.get_opcodes():
        if operation == "equal":
            found.append(WordDifference("same", "".join(old_words[start:end])))
            continue
        if start < end:
            found.append(WordDifference("removed", "".join(old_words[start:end])))
        if new_start < new_end:
            found.append(WordDifference("added", "".join(new_words[new_start:new_end])))
    return tuple(found)


def _is_equal(old: Any, new: Any) -> bool:
    """Whether two JSON values are equal; for Python `True` equals 1."""
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)


def _join(path: str, name: str) -> str:
    shown = name if _PLAIN_KEY.fullmatch(name) else json.dumps(show_hidden(name), ensure_ascii=False)
    return f"{path}.{shown}" if path else shown


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def render_differences(differences: list[Difference]) -> list[str]:
    """Format differences as lines of plain text, with hidden characters made visible."""
    lines: list[str] = []
    for one in differences:
        if one.words:
            lines.append(f"{one.path}:")
            lines += [_render_words(word, index, len(one.words)) for index, word in enumerate(one.words)]
        elif not one.path:
            lines.append(str(one.new))
        elif one.change == "changed":
            lines.append(f"{one.path}: {_render_value(one.old)} -> {_render_value(one.new)}")
        else:
            lines.append(f"{one.path}: {one.change} {_render_value(one.old if one.change == 'removed' else one.new)}")
    return lines


def _render_words(word: WordDifference, index: int, count: int) -> str:
    mark = {"same": " ", "removed": "-", "added": "+"}[word.change]
    if word.change != "same" or len(word.text) <= 2 * _CONTEXT_CHARACTERS:
        return f"  {mark} {_render_value(word.text)}"
    start = word.text[:_CONTEXT_CHARACTERS] if index > 0 else ""
    end = word.text[-_CONTEXT_CHARACTERS:] if index < count - 1 else ""
    # Unchanged text was approved before, so its middle need not be shown.
    return f"  {mark} {' … '.join(_render_value(part) if part else '' for part in (start, end)).strip()}"


def _render_value(value: Any) -> str:
    text = show_hidden(json.dumps(value, ensure_ascii=False))
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return f"{text[:MAX_VALUE_CHARACTERS]} … ({len(text) - MAX_VALUE_CHARACTERS} more characters)"
