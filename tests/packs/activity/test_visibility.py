"""Visible parts of overlapping windows, compared point by point."""

from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.activity.privacy import Box
from hubbub.packs.activity.sidecar.visibility import area, contains, is_within, subtract, visible_parts

SIDE = 8
EDGE = st.integers(-2, SIDE + 2)
BOX = st.tuples(EDGE, EDGE, EDGE, EDGE).map(lambda box: tuple(map(float, box)))
POINTS = [(x, y) for x in range(-2, SIDE + 2) for y in range(-2, SIDE + 2)]


def contains_point(box: Box, x: int, y: int) -> bool:
    return box[0] <= x < box[2] and box[1] <= y < box[3]


@given(st.lists(BOX, max_size=6))
def test_each_point_belongs_to_the_foremost_window_there(stack: list[Box]) -> None:
    parts = visible_parts(stack, lambda box: box, lambda box: (box,))
    for x, y in POINTS:
        there = [index for index, box in enumerate(stack) if contains_point(box, x, y)]
        found = [index for index, own in enumerate(parts) if contains(own, x, y)]
        assert found == there[-1:]


@given(st.lists(st.tuples(BOX, st.lists(BOX, max_size=3)), max_size=5))
def test_transparent_parts_of_a_window_cover_nothing(stack: list[tuple[Box, list[Box]]]) -> None:
    """A window may have several opaque parts, or none: shaped windows, shadows, translucent windows."""
    parts = visible_parts(stack, lambda each: each[0], lambda each: each[1])
    for index, (box, _) in enumerate(stack):
        for x, y in POINTS:
            is_covered = any(contains_point(cover, x, y) for _, solid in stack[index + 1 :] for cover in solid)
            assert contains(parts[index], x, y) == (contains_point(box, x, y) and not is_covered)


@given(BOX, BOX)
def test_visible_parts_are_disjoint_and_not_empty(box: Box, cover: Box) -> None:
    parts = subtract([box] if area(box) else [], cover)
    assert all(area(part) for part in parts)
    assert all(sum(contains_point(part, x, y) for part in parts) <= 1 for x, y in POINTS)


@given(st.lists(BOX, max_size=5), BOX)
def test_a_box_is_visible_if_all_its_points_are(stack: list[Box], box: Box) -> None:
    parts = visible_parts([(0.0, 0.0, SIDE, SIDE), *stack], lambda each: each, lambda each: (each,))[0]
    points = [(x, y) for x, y in POINTS if contains_point(box, x, y)]
    assert is_within(box, parts) == (bool(points) and all(contains(parts, x, y) for x, y in points))
