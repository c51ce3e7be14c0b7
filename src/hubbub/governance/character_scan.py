"""Finds characters that people do not see, and letters that look like others; normalises text for the rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from hubbub.governance.hidden_characters import HIDDEN_CHARACTER

_TAG_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
"""The flags of regions are written with tag characters: England is a black flag, `gbeng` and an end tag."""
_JOINED: Final = re.compile("\u200d")
_VARIATION: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
_PATTERNS: Final = (
    ("hidden-tags", re.compile("[\U000e0000-\U000e007f]+")),
    ("hidden-bidirectional", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")),
    (
        "hidden-zero-width",
        re.compile(
            "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0]+"
        ),
    ),
    ("hidden-variation", _VARIATION),
    ("hidden-private-use", re.compile("[\ue000-\uf8ff\U000f0000-\U0010ffff]+")),
    ("hidden-control", re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufff0-\ufffb]+")),
)
_WORD: Final = re.compile(r"[^\W\d_]+")
_SPACED_LETTERS: Final = re.compile(r"(?<!\w)\w(?: \w(?!\w)){4,}")
_SPACE: Final = re.compile(r"\s+")
_LOOKALIKES: Final = str.maketrans(
    "абвгезіїјкмнорсѕтухԁԛԝһӏАВЕЗІЈКМНОРСЅТУХΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχγ",
    "abbre3iijkmhopcstyxdqwhlabe3ijkmhopcstyxabezhikmnoptyxaeiknoptuxy",
)
_SCRIPTS_ALIKE: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


class CharacterMatch(NamedTuple):
    """A rule about characters that a text violates, and where."""

    rule: str
    start: int
    end: int


def scan_characters(text: str) -> Iterator[CharacterMatch]:
    """Find hidden characters and words of mixed scripts."""
    if text.isascii() and text.isprintable():
        return
    for rule, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if not _is_usual(rule, text, match):
                yield CharacterMatch(rule, *match.span())
    for match in _WORD.finditer(text):
        if _is_mixed(match.group()):
            yield CharacterMatch("mixed-scripts", *match.span())


def _is_usual(rule: str, text: str, match: re.Match[str]) -> bool:
    """Whether a hidden character belongs to an emoji or to a script that needs it."""
    start, end = match.span()
    before = text[start - 1] if start else ""
    after = text[end] if end < len(text) else ""
    if rule == "hidden-variation":
        # One selector after a sign: how an emoji is drawn. Ideographs have variants too.
        return (
            end - start == 1 and bool(before) and unicodedata.category(before) in ("So", "Sm", "Sk", "Po", "Nd", "Lo")
        )
    if rule == "hidden-zero-width" and end - start == 1:
        if match.group() == "\u200d" and (_is_sign(before) or before == "\ufe0f") and _is_sign(after):
            return True  # a joined emoji
        if match.group() in "\u200c\u200d":  # Persian and Indian scripts
            return _needs_joiner(before) and (_needs_joiner(after) or not after.isalpha())
        return match.group() == "\ufeff" and start == 0
    if rule == "hidden-bidirectional" and end - start == 1 and match.group() in "\u200e\u200f":
        return any(unicodedata.bidirectional(one) in ("R", "AL") for one in text[max(0, start - 40) : end + 40])
    if rule == "hidden-tags":
        flag = _TAG_FLAG.match(text, start - 1) if start else None
        return flag is not None and flag.end() == end
    return False


def _is_sign(character: str) -> bool:
    return bool(character) and unicodedata.category(character) in ("So", "Sk")


def _needs_joiner(character: str) -> bool:
    """Whether a letter is of a script in which joiners change how letters are drawn."""
    name = unicodedata.name(character, "") if character else ""
    return name.startswith(
        (
            "ARABIC",
            "SYRIAC",
            "DEVANAGARI",
            "BENGALI",
            "TAMIL",
            "TELUGU",
            "KANNADA",
            "MALAYALAM",
            "SINHALA",
            "GUJARATI",
            "GURMUKHI",
            "ORIYA",
            "KHMER",
            "MONGOLIAN",
            "MYANMAR",
        )
    )


def _is_mixed(word: str) -> bool:
    """Whether a word mixes scripts and has a letter that looks like one of another script."""
    if word.isascii() or not any(ord(letter) in _LOOKALIKES for letter in word) or len(_scripts(word)) == 1:
        return False
    if _scripts(word) == {"LATIN", "GREEK"}:  # one Greek letter first or last is usual in sciences: TNFα
        return len(_scripts(word[1:])) > 1 and len(_scripts(word[:-1])) > 1
    return True


def _scripts(word: str) -> set[str]:
    found = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
    return found & set(_SCRIPTS_ALIKE)


def normalize_text(text: str) -> str:
    """Undo what hides words from rules: hidden characters, other forms of letters, look-alikes and spaced letters."""
    if not text.isascii():
        text = HIDDEN_CHARACTER.sub("", unicodedata.normalize("NFKC", text))
        text = _WORD.sub(_replace_lookalikes, text)
    text = _SPACED_LETTERS.sub(lambda match: match.group().replace(" ", ""), text)
    return _SPACE.sub(" ", text.casefold().replace("\u2019", "'"))


def _replace_lookalikes(match: re.Match[str]) -> str:
    return match.group().translate(_LOOKALIKES) if _is_mixed(match.group()) else match.group()
