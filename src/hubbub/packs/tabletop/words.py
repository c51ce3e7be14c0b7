"""Words as callers write them: in any case, with blanks around, and only those that there are."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from hubbub.packs.tabletop.failures import InvalidArgument

W = TypeVar("W", bound=StrEnum)


def read_word(kind: type[W], text: str, what: str) -> W:
    """The word that a text means: `read_word(GmMode, "human", "gm_mode")`.

    Raises: InvalidArgument, with the words that there are.
    """
    word = text.strip().upper()
    if not word:
        raise InvalidArgument(f"{what} is required; it is one of {', '.join(kind)}")
    try:
        return kind(word)
    except ValueError:
        raise InvalidArgument(f"{what} must be one of {', '.join(kind)}, not {text.strip()[:40]!r}") from None
