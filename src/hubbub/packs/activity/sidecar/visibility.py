"""Compute the visible parts of each window: its rectangles minus those in front of it. Pure.

Coordinates are those of the screen. A box is left, top, right, bottom; its right and bottom edges are exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from hubbub.packs.activity.privacy import Box

_Item = TypeVar("_Item")


def subtract(boxes: Iterable[Box], cover: Box) -> list[Box]:
    """Return the parts of boxes that another box does not cover; disjoint if the boxes are."""
    left, top, right, bottom = cover
    parts: list[Box] = []
    for box in boxes:
        x1, y1, x2, y2 = box
        if right <= x1 or left >= x2 or bottom <= y1 or top >= y2 or left >= right or top >= bottom:
            parts.append(box)
            continue
        above, below = max(y1, top), min(y2, bottom)
        parts += [
            part
            for part in (
                (x1, y1, x2, above),
                (x1, below, x2, y2),
                (x1, above, max(x1, left), below),
                (min(x2, right), above, x2, below),
            )
            if part[0] < part[2] and part[1] < part[3]
        ]
    return parts


def visible_parts(
    stack: Sequence[_Item], get_box: Callable[[_Item], Box], get_opaque_parts: Callable[[_Item], Iterable[Box]]
) -> list[list[Box]]:
    """Return the visible parts of each item of a stack, rearmost first.

    `get_box` returns the box of an item, `get_opaque_parts` its opaque parts.
    """
    found = []
    for index, item in enumerate(stack):
        left, top, right, bottom = get_box(item)
        parts = [(left, top, right, bottom)] if left < right and top < bottom else []
        for other in stack[index + 1 :]:
            for cover in get_opaque_parts(other):
                parts = subtract(parts, cover)
            if not parts:
                break
        found.append(parts)
    return found


def area(box: Box) -> float:
    """Return the area of a box; zero for an inverted box."""
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def overlap(one: Box, other: Box) -> float:
    """Return the area that two boxes share."""
    return area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))


def is_within(box: Box, parts: Iterable[Box]) -> bool:
    """Whether disjoint parts cover a box completely."""
    box_area = area(box)
    return box_area > 0 and sum(overlap(box, part) for part in parts) >= box_area - 0.5


def contains(parts: Iterable[Box], x: float, y: float) -> bool:
    """Whether a point lies in one of the boxes."""
    return any(part[0] <= x < part[2] and part[1] <= y < part[3] for part in parts)
