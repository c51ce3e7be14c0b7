"""Colours derived from names, so that a name looks the same in every picture. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

PALETTE: Final = (
    "#0078c3", "#c33c0f", "#00784b", "#b48700", "#5a3cb4", "#00a5a5",
    "#a54b96", "#f06978", "#004b69", "#87004b", "#8787f0", "#4b3c00",
)  # fmt: skip
"""Found by search: at least 3:1 against white (WCAG 1.4.11), and far apart for every kind of colour vision.

The closest two are 14.4 apart in Oklab (times 100); simulated without red, green and blue cones 8.5, 8.3 and 6.9. The
default colours of matplotlib have 11.3, 0.7, 2.3 and 4.2."""
GREY: Final = "#767676"
"""For items without a name of their own: uncategorized, unknown."""
PALE: Final = "#b8b8b8"
"""For the sum of all items that are not drawn themselves."""
FAINT: Final = "#eeeeee"
"""For times without data."""
INK: Final = "#222222"
FAINT_INK: Final = "#5c5c5c"
GRID: Final = "#dcdcdc"
_SALT: Final = "177729:"
"""The best of a million salts: the fewest of 77 common applications share a colour."""
_HATCHES: Final = ("///", "xxx", "...")


class Look(msgspec.Struct, frozen=True):
    """How one name is drawn."""

    colour: str
    hatch: str = ""
    """A texture, where another name of the same picture has the same colour."""


def looks(names: Iterable[str], nameless: Iterable[str] = ()) -> dict[str, Look]:
    """Give each name its colour, and a texture to all but one of those that share a colour.

    The colour depends on nothing but the name, so it is the same every day. Which of several names with one colour is
    plain does not depend on their order or times either.
    """
    looks_by_name = {name: Look(GREY) for name in nameless}
    plain: dict[str, str] = {}
    used: dict[Look, str] = {}
    for name in sorted(set(names) - looks_by_name.keys(), key=_hash_name):
        colour, key = choose_colour(name), _normalize_name(name)
        if plain.setdefault(colour, key) == key:
            looks_by_name[name] = Look(colour)
        else:
            looks_by_name[name] = next(
                (look for look in _textured_looks(name) if used.setdefault(look, key) == key), _textured_looks(name)[0]
            )
    return looks_by_name


def _textured_looks(name: str) -> list[Look]:
    """Return the colour of a name with each texture; which comes first depends on the name too."""
    first = _hash_name(name) // len(PALETTE) % len(_HATCHES)
    return [Look(choose_colour(name), hatch) for hatch in (*_HATCHES[first:], *_HATCHES[:first])]


def choose_colour(name: str) -> str:
    """Return the colour of a name. `Firefox`, `firefox` and `firefox.exe` are one application on three systems."""
    return PALETTE[_hash_name(name) % len(PALETTE)]


def _hash_name(name: str) -> int:
    return int.from_bytes(sha256((_SALT + _normalize_name(name)).encode("utf-8", "surrogatepass")).digest()[:8])


def _normalize_name(name: str) -> str:
    return name.strip().casefold().removesuffix(".exe")
