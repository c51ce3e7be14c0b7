"""Cleans untrusted text for a model: descriptions, titles, error messages.

Removes characters that a person would not see (control characters, changes of direction, zero-width characters, tags),
and everything beyond a length. The meaning of the text is not checked.
"""

from __future__ import annotations

import re
from typing import Any, Final

_INVISIBLE: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except tab and newline
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, direction
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"  # fillers, variation selectors, specials
    "\ud800-\udfff"  # surrogates, which cannot be encoded
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # musical controls, tags, more variation selectors
    "]"
)
_VALUE_KEYWORDS: Final = frozenset(("const", "default", "enum", "examples"))
"""Members of a schema that hold values, not text."""
_TEXT_KEYWORDS: Final = frozenset(("$comment", "description", "title"))
_SCHEMA_MAP_KEYWORDS: Final = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Members that map names to schemas; a name may be one of the keywords above."""
_ELLIPSIS: Final = "…"


def clean_text(text: str, limit: int) -> str:
    """Remove invisible characters and surrounding whitespace, and cut the text to `limit` characters."""
    # The part that is cut off is not searched, because the text may be huge.
    visible = _INVISIBLE.sub("", text[: 4 * limit + 64].replace("\r\n", "\n")).strip()
    if len(visible) > limit or len(text) > 4 * limit + 64:
        return visible[: limit - 1].rstrip() + _ELLIPSIS
    return visible


def clean_schema(schema: Any, limit: int) -> Any:
    """Copy a JSON Schema for a model, with clean text and without an empty `required`, which some providers refuse.

    Members that decide whether arguments are valid are not changed.
    """
    if isinstance(schema, list | tuple):
        return [clean_schema(item, limit) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if key == "required" and isinstance(value, list) and not value:
            continue
        found[key] = _clean_member(key, value, limit)
    return found


def _clean_member(key: str, value: Any, limit: int) -> Any:
    if key in _VALUE_KEYWORDS:
        return value
    if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return {name: clean_schema(item, limit) for name, item in value.items()}
    if key in _TEXT_KEYWORDS and isinstance(value, str):
        return clean_text(value, limit)
    return clean_schema(value, limit)
