"""Characters that a person does not see but a model reads, and how they are made visible."""

from __future__ import annotations

import re
from typing import Final

_VARIATION_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

HIDDEN_CHARACTER: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except tab and line feed
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"  # zero width, bidirectional, fillers
    f"{_VARIATION_SELECTORS}"
    "\ue000-\uf8ff"  # private use
    "\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags
    "\U000f0000-\U0010ffff"  # private use
    "]"
)
"""Everything that is not visible in text, or has no agreed meaning."""


def escape_hidden(text: str) -> str:
    """Write hidden characters as JSON escapes; other text stays readable."""
    return HIDDEN_CHARACTER.sub(lambda match: _escape(match.group()), text)


def escape_unprintable(text: str) -> str:
    """Write characters that are not visible, or change how others are shown, as JSON escapes; also line breaks."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    # In two halves beyond the first plane, as JSON requires.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def show_hidden(text: str) -> str:
    """Make text safe for a terminal: hidden characters as `<U+200B>`, line breaks as `\\n`."""
    shown = HIDDEN_CHARACTER.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
    shown = shown.replace("\n", "\\n").replace("\t", "\\t")
    return "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in shown)
