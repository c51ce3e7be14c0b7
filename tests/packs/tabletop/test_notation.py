"""Dice notation: parsing, rolling, and limits."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.notation import Dice, parse_notation, roll_notation
from hubbub.packs.tabletop.randomness import RngRequest

SEEDS = range(200)


def roll(notation: str, seed: int = 1) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    result = roll_notation(notation, RngRequest(seed=seed))
    assert result.total == sum(term.total for term in result.terms)
    return [(term.results, term.kept, term.total) for term in result.terms]


def test_dice_and_numbers_are_added_and_subtracted() -> None:
    for seed in SEEDS:
        two, flat, minus = roll("2d6 + 3 - d4", seed)
        assert two[0] == two[1]
        assert len(two[0]) == 2
        assert two[2] == sum(two[0])
        assert flat == ((), (), 3)
        assert minus[2] == -minus[0][0]
        assert 1 <= minus[0][0] <= 4


def test_the_notation_is_returned_in_canonical_form() -> None:
    result = roll_notation(" 4D6 KH3 +\t2 ")
    assert result.notation == "4d6kh3+2"
    assert [term.text for term in result.terms] == ["4d6kh3", "2"]
    assert [term.text for term in roll_notation("-d4-1").terms] == ["-d4", "-1"]


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ("kh3", lambda dice: sorted(dice)[-3:]),
        ("kl", lambda dice: sorted(dice)[:1]),
        ("dh2", lambda dice: sorted(dice)[:-2]),
        ("dl1", lambda dice: sorted(dice)[1:]),
        ("kh9", sorted),
        ("dl9", lambda dice: []),
    ],
)
def test_keep_and_drop_select_the_right_dice(rule: str, chosen: object) -> None:
    for seed in SEEDS:
        ((results, kept, total),) = roll(f"4d6{rule}", seed)
        assert len(results) == 4
        assert sorted(kept) == chosen(results)  # type: ignore[operator]
        assert total == sum(kept)


def test_percentile_dice_have_100_sides() -> None:
    assert {
        sides
        for term in parse_notation("d%+2d100")[1]
        if isinstance(term.operand, Dice)
        for sides in [term.operand.sides]
    } == {100}


def test_a_die_explodes_as_long_as_it_shows_its_highest_face() -> None:
    extra = 0
    for seed in SEEDS:
        ((results, _, _),) = roll("3d4!", seed)
        assert len(results) - 3 == results.count(4)
        extra += len(results) - 3
    assert extra


def test_a_die_is_rerolled_once_or_until_it_no_longer_matches() -> None:
    once = [roll("20d6ro<3", seed)[0][0] for seed in SEEDS]
    assert any(min(results) < 3 for results in once)
    until = [roll("20d6rr<3", seed)[0][0] for seed in SEEDS]
    assert all(min(results) >= 3 for results in until)
    assert all(1 not in roll("20d6rr1", seed)[0][0] for seed in SEEDS)
    assert all(max(roll("20d6rr>4", seed)[0][0]) <= 4 for seed in SEEDS)
    assert len(once[0]) == len(until[0]) == 20


def test_the_same_seed_gives_the_same_roll() -> None:
    first = roll_notation("10d20!kh3ro1+4d6")
    again = roll_notation("10d20!kh3ro1+4d6", RngRequest(seed=first.rng.seed_used))
    assert again.terms == first.terms
    assert roll_notation("10d20", RngRequest(seed=1)).terms != roll_notation("10d20", RngRequest(seed=2)).terms


def test_exploding_dice_and_rerolls_stop_at_the_dice_limit() -> None:
    for seed in range(20):
        ((results, _, _),) = roll("900d2!", seed)
        assert 900 < len(results) <= limits.MAX_DICE
        ((results, _, _),) = roll("1000d2!rr1", seed)
        assert len(results) == 1000


INVALID_NOTATIONS = [
    "", " ", "+", "-", "d", "2d", "d0", "0d6", "2d6+", "2d6++1", "+-1", "six", "2x6", "d6k", "d6kh0", "d6khh",
    "2d6kh1kl1", "d6!!", "d6ro1rr2", "d6rr", "d6rr>0", "d6rr<7", "d1!", "d1rr1", "d6ro=", "1.5d6", "2d6*2", "(2d6)",
    "d1001", "1001d6", "600d6+600d6", "99999999999999999999d6", "1000001", "d6+99999999999999", "٣d٦",
    "+".join(["d6"] * 51), "d6" + " " * limits.MAX_NOTATION_CHARACTERS, "2d6\0", "__import__('os')",
]  # fmt: skip


@pytest.mark.parametrize("notation", INVALID_NOTATIONS)
def test_an_invalid_notation_is_refused(notation: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        roll_notation(notation)
    assert len(refused.value.message) < 200


@given(st.text(alphabet="0123456789d%khlro!<>=+- ", max_size=60))
def test_any_text_is_rolled_or_refused(text: str) -> None:
    try:
        result = roll_notation(text)
    except InvalidArgument:
        return
    assert sum(len(term.results) for term in result.terms) <= limits.MAX_DICE
    assert abs(result.total) <= limits.INT32_MAX
    assert "".join(re.sub(r"^(?=[^-])", "+", term.text) for term in result.terms).removeprefix(
        "+"
    ) == result.notation.removeprefix("+")
