"""Pools of dice: results, seeds, and refused requests."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.dice import DiceSpec, roll_dice
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import GmMode
from hubbub.packs.tabletop.randomness import ALGORITHM, RngRequest, RollMode, RollStream, SeedSource, choose_seed

specs = st.lists(st.builds(DiceSpec, st.integers(1, limits.MAX_DIE_SIDES), st.integers(1, 20)), min_size=1, max_size=50)
seeds = st.integers(0, limits.MAX_SEED)


@given(specs, seeds)
def test_rolls_are_in_range_add_up_and_are_reproducible(dice: list[DiceSpec], seed: int) -> None:
    result = roll_dice(dice, RngRequest(seed=seed))
    assert [(roll.sides, len(roll.results)) for roll in result.rolls] == [(spec.sides, spec.count) for spec in dice]
    assert all(1 <= face <= roll.sides for roll in result.rolls for face in roll.results)
    assert all(roll.total == sum(roll.results) for roll in result.rolls)
    assert result.total == sum(roll.total for roll in result.rolls)
    assert roll_dice(dice, RngRequest(seed=seed)) == result


@pytest.mark.parametrize(
    "dice",
    [
        [],
        [DiceSpec(6, 1_000_000)],
        [DiceSpec(6, 0)],
        [DiceSpec(6, -1)],
        [DiceSpec(0, 1)],
        [DiceSpec(-6, 1)],
        [DiceSpec(limits.MAX_DIE_SIDES + 1, 1)],
        [DiceSpec(2**31, 1)],
        [DiceSpec(6, 501), DiceSpec(6, 500)],
        [DiceSpec(6, 1)] * (limits.MAX_DICE_SPECS + 1),
    ],
)
def test_invalid_dice_are_refused(dice: list[DiceSpec]) -> None:
    with pytest.raises(InvalidArgument):
        roll_dice(dice)


def test_the_maximum_number_of_dice_can_be_rolled() -> None:
    assert len(roll_dice([DiceSpec(limits.MAX_DIE_SIDES, limits.MAX_DICE)]).rolls[0].results) == limits.MAX_DICE


def test_a_die_with_one_side_always_shows_one() -> None:
    assert set(roll_dice([DiceSpec(1, 100)]).rolls[0].results) == {1}


def test_one_random_stream_is_uniform_over_the_faces() -> None:
    faces = RollStream(7)
    counts = Counter(faces.roll(20) for _ in range(100_000))
    chi_square = sum((counts[face] - 5000) ** 2 / 5000 for face in range(1, 21))
    assert chi_square < 43.8, "what 19 degrees of freedom exceed once in a thousand times"


def test_live_rolls_use_a_server_seed_and_replays_a_client_seed() -> None:
    live = choose_seed()
    assert (live.seed_source, live.roll_mode, live.rng_algo) == (SeedSource.SERVER, RollMode.LIVE, ALGORITHM)
    replay = choose_seed(RngRequest(seed=5))
    assert (replay.seed_used, replay.seed_source, replay.roll_mode) == (5, SeedSource.CLIENT, RollMode.REPLAY)


@pytest.mark.parametrize(
    "rng",
    [
        RngRequest(seed=1, roll_mode=RollMode.LIVE),
        RngRequest(roll_mode=RollMode.REPLAY),
        RngRequest(seed=-1),
        RngRequest(seed=limits.MAX_SEED + 1),
    ],
)
def test_a_seed_that_does_not_match_the_roll_mode_is_refused(rng: RngRequest) -> None:
    with pytest.raises(InvalidArgument):
        choose_seed(rng)


def test_enum_values_are_case_insensitive_and_unknown_ones_are_refused() -> None:
    assert GmMode(" human ") is GmMode.HUMAN
    for unknown in ("robot", " ", ""):
        with pytest.raises(ValueError, match="is not a valid GmMode"):
            GmMode(unknown)
