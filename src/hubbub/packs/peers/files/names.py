"""Ids and names of files as peers give them: fit to be shown, never part of a path. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from hubbub import bounds

_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_UNNAMED: Final = "file.bin"


def is_id(transfer_id: str) -> bool:
    """Whether it can be the id of a transfer."""
    return _ID.fullmatch(transfer_id) is not None


def printable(text: str) -> str:
    """A text without control characters, marks of direction and halves of pairs."""
    return "".join(letter for letter in text if unicodedata.category(letter)[0] != "C")


def shown_name(name: str) -> str:
    """A name as a peer gave it, without what could be a path or disturb whoever reads it."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    cut = printable(last).strip()[: bounds.FILE_NAME_CHARACTERS]
    return _UNNAMED if cut.strip(".") == "" else cut
