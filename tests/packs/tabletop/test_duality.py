"""The Duality rules, compared with the contract and with an independent count."""

import hashlib
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.packs.tabletop.contract import RULES

from hubbub.packs.tabletop import duality, limits
from hubbub.packs.tabletop.duality import Outcome
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import ALGORITHM, RngRequest

# Rolls (of the 66 with hope above fear) with a total of at least k, without a modifier; 66 below the table, 0 above.
SUCCESSES = {
    3: 66, 4: 65, 5: 64, 6: 62, 7: 60, 8: 57, 9: 54, 10: 50, 11: 46, 12: 41, 13: 36, 14: 30, 15: 25, 16: 20,
    17: 16, 18: 12, 19: 9, 20: 6, 21: 4, 22: 2, 23: 1,
}  # fmt: skip
CHI_SQUARE_143 = 200.5
"""The 99.9th percentile of chi-square with 143 degrees of freedom."""

dice = st.integers(1, 12)
modifiers = st.integers(-(2**31), 2**31 - 1 - 24)
difficulties = st.none() | st.integers(0, 2**31 - 1)


def test_the_odds_match_the_closed_form_for_every_modifier_and_difficulty() -> None:
    for modifier in range(-30, 31):
        for difficulty in range(61):
            needed = difficulty - modifier
            wanted = 66 if needed < 3 else SUCCESSES.get(needed, 0)
            found = duality.probability(modifier, difficulty)
            counts = [(row.outcome.value, row.count) for row in found.outcome_counts]
            assert counts == [
                ("CRITICAL_SUCCESS", 12),
                ("SUCCESS_WITH_HOPE", wanted),
                ("SUCCESS_WITH_FEAR", wanted),
                ("FAILURE_WITH_HOPE", 66 - wanted),
                ("FAILURE_WITH_FEAR", 66 - wanted),
            ], (modifier, difficulty)
            assert (found.total_outcomes, found.crit_count) == (144, 12)
            assert found.success_count == 12 + 2 * wanted
            assert found.failure_count == 144 - found.success_count


def test_the_odds_match_resolving_every_combination() -> None:
    for modifier, difficulty in ((2, 15), (-40, 0), (0, 0), (0, 25), (2**31 - 25, 2**31 - 1), (-(2**31), 5)):
        rolls = Counter(
            duality.resolve(hope, fear, modifier, difficulty).outcome for hope in range(1, 13) for fear in range(1, 13)
        )
        found = duality.probability(modifier, difficulty)
        assert {row.outcome: row.count for row in found.outcome_counts if row.count} == rolls


def test_the_outcome_has_the_keys_of_the_contract_in_order() -> None:
    found = msgspec.json.encode(duality.resolve(8, 5, 2, 15))
    assert found == (
        b'{"hope":8,"fear":5,"modifier":2,"difficulty":15,"total":15,"is_crit":false,'
        b'"meets_difficulty":true,"outcome":"SUCCESS_WITH_HOPE"}'
    )


def test_the_explanation_matches_the_contract_and_adds_the_full_outcome() -> None:
    explanation = msgspec.to_builtins(duality.explain(8, 5, 2, 15))
    assert explanation["rules_version"] == "1.0.0"
    assert explanation["intermediates"] == {
        "base_total": 13,
        "total": 15,
        "is_crit": False,
        "meets_difficulty": True,
        "hope_gt_fear": True,
        "fear_gt_hope": False,
    }
    steps = [(step["code"], step["message"], step["data"]) for step in explanation["steps"]]
    assert steps == [
        ("SUM_DICE", "Sum hope and fear dice", {"hope": 8, "fear": 5, "base_total": 13}),
        ("APPLY_MODIFIER", "Apply modifier to base total", {"base_total": 13, "modifier": 2, "total": 15}),
        ("CHECK_CRIT", "Check for critical outcome", {"hope": 8, "fear": 5, "is_crit": False}),
        (
            "CHECK_DIFFICULTY",
            "Compare total against difficulty",
            {"total": 15, "difficulty": 15, "meets_difficulty": True},
        ),
        (
            "SELECT_OUTCOME",
            "Select final outcome based on roll",
            {"outcome": "SUCCESS", "outcome_full": "SUCCESS_WITH_HOPE"},
        ),
    ]


def test_difficulty_zero_differs_from_no_difficulty() -> None:
    assert duality.resolve(5, 3, -20, 0).outcome is Outcome.FAILURE_WITH_HOPE
    without = duality.resolve(5, 3, -20)
    assert (without.outcome, without.difficulty, without.meets_difficulty) == (Outcome.ROLL_WITH_HOPE, UNSET, False)
    steps = {step.code: step.data for step in duality.explain(5, 3, -20).steps}
    assert steps["CHECK_DIFFICULTY"] == {"total": -12, "meets_difficulty": False}
    assert steps["SELECT_OUTCOME"]["outcome"] == "ROLL"


def test_a_critical_succeeds_at_any_difficulty_and_without_one() -> None:
    found = duality.resolve(1, 1, -100, 50)
    assert (found.total, found.is_crit, found.meets_difficulty) == (-98, True, True)
    assert found.outcome is Outcome.CRITICAL_SUCCESS
    steps = {step.code: step.data for step in duality.explain(1, 1, -100, 50).steps}
    assert steps["CHECK_DIFFICULTY"]["critical_override"] is True
    assert duality.resolve(1, 1).meets_difficulty is False, "without a difficulty nothing is met"


@given(dice, dice, modifiers, difficulties)
def test_the_outcome_of_a_roll_follows_from_its_dice(
    hope: int, fear: int, modifier: int, difficulty: int | None
) -> None:
    found = duality.resolve(hope, fear, modifier, difficulty)
    assert found.total == hope + fear + modifier
    assert abs(found.total) <= limits.INT32_MAX + 1
    assert found.is_crit == (hope == fear) == (found.outcome is Outcome.CRITICAL_SUCCESS)
    if found.is_crit:
        assert found.meets_difficulty == (difficulty is not None)
        return
    assert found.outcome.value.endswith("HOPE" if hope > fear else "FEAR")
    if difficulty is None:
        assert found.outcome.coarse == "ROLL"
    else:
        assert found.meets_difficulty == (found.total >= difficulty)
        assert found.outcome.coarse == ("SUCCESS" if found.meets_difficulty else "FAILURE")


@pytest.mark.parametrize(
    ("hope", "fear", "modifier", "difficulty"),
    [(0, 1, 0, 1), (1, 13, 0, 1), (1, 1, 2**31 - 24, 1), (1, 1, -(2**31) - 1, 1), (1, 1, 0, -1), (1, 1, 0, 2**31)],
)
def test_impossible_dice_and_numbers_beyond_32_bits_are_refused(
    hope: int, fear: int, modifier: int, difficulty: int
) -> None:
    with pytest.raises(InvalidArgument, match="must be between"):
        duality.resolve(hope, fear, modifier, difficulty)
    with pytest.raises(InvalidArgument, match="must be between"):
        duality.explain(hope, fear, modifier, difficulty)


def test_rolls_of_100_000_seeds_are_uniform() -> None:
    rolls: Counter[tuple[int, int]] = Counter()
    for seed in range(100_000):
        roll = duality.action_roll(rng=RngRequest(seed=seed)).resolution
        rolls[roll.hope, roll.fear] += 1
    expected = 100_000 / 144
    chi_square = sum((rolls[hope, fear] - expected) ** 2 / expected for hope in range(1, 13) for fear in range(1, 13))
    assert chi_square < CHI_SQUARE_143


def test_the_roll_of_a_seed_can_be_computed_independently() -> None:
    for seed in (0, 1, 42, limits.MAX_SEED):
        block = hashlib.sha256(ALGORITHM.encode() + seed.to_bytes(8, "big") + bytes(8)).digest()
        words = [int.from_bytes(block[at : at + 4], "big") for at in range(0, 32, 4)]
        faces = [word % 12 + 1 for word in words if word < 2**32 - 2**32 % 12]
        roll = duality.action_roll(rng=RngRequest(seed=seed)).resolution
        assert (roll.hope, roll.fear) == (faces[0], faces[1])


def test_live_rolls_have_different_seeds() -> None:
    assert len({duality.action_roll().rng.seed_used for _ in range(100)}) == 100


def test_the_rules_match_the_contract() -> None:
    assert msgspec.json.decode(msgspec.json.encode(duality.RULES)) == RULES
