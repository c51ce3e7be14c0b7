"""Searches tools by words: BM25 over names, descriptions and argument names. No I/O.

Simple on purpose: a catalog has a few thousand tools at most, and its index is built in milliseconds at the first
search.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from hubbub.hub.catalog import Item

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_NAME_WEIGHT: Final = 3
_ARGUMENT_WEIGHT: Final = 2
_SATURATION: Final = 1.2
_LENGTH_WEIGHT: Final = 0.75
_MIN_STEM_CHARACTERS: Final = 3
_SUFFIXES: Final = ("ies", "ing", "ed", "es", "s")
_STOP_WORDS: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "with",
    ]
)
_decode_text = msgspec.json.Decoder(str).decode


class _Schema(msgspec.Struct):
    properties: dict[str, Raw] = {}


_decode_schema = msgspec.json.Decoder(_Schema).decode


class SearchIndex:
    """Search index of a set of tools."""

    def __init__(self, items: Iterable[Item], descriptions: Mapping[str, str]) -> None:
        self._items = list(items)
        self._counts = [_count_words(item, descriptions.get(item.name, item.description)) for item in self._items]
        self._lengths = [counts.total() for counts in self._counts]
        self._average_length = (sum(self._lengths) / len(self._lengths)) if self._lengths else 1.0
        self._postings: dict[str, list[int]] = {}
        for number, counts in enumerate(self._counts):
            for word in counts:
                self._postings.setdefault(word, []).append(number)

    def find(self, query: str, limit: int) -> list[Item]:
        """Return the best matches, best first; equal ones in the order of the list."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(split_words(query)):
            postings = self._postings.get(word, [])
            idf = math.log(1 + (len(self._items) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number in postings:
                count = self._counts[number][word]
                length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * self._lengths[number] / self._average_length
                score = idf * count * (_SATURATION + 1) / (count + _SATURATION * length)
                scores[number] = scores.get(number, 0.0) + score
        best = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._items[number] for number in best[:limit]]


def split_words(text: str) -> list[str]:
    """Split a name or a sentence into stemmed words: `createIssues` is `creat`, `issu`."""
    return [_stem(word) for word in map(str.lower, _WORD.findall(text)) if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM_CHARACTERS:
            word = word.removesuffix(suffix)
            break
    return word[:-1] if word.endswith(("e", "y")) and len(word) > _MIN_STEM_CHARACTERS else word


def _count_words(item: Item, description: str | None) -> Counter[str]:
    found = Counter(dict.fromkeys(split_words(item.server), 1))
    for word in split_words(item.name) + split_words(item.upstream_name):
        found[word] = _NAME_WEIGHT
    for name in _argument_names(item):
        for word in split_words(name):
            found[word] += _ARGUMENT_WEIGHT
    for word in split_words(_description(item) if description is None else description):
        found[word] += 1
    return found


def _argument_names(item: Item) -> Iterable[str]:
    try:
        return _decode_schema(item.entry.members.get("inputSchema", b"{}")).properties
    except msgspec.DecodeError:
        return ()


def _description(item: Item) -> str:
    try:
        return _decode_text(item.entry.members.get("description", b'""'))
    except msgspec.DecodeError:
        return ""
