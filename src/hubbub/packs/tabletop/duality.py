"""The Duality rules: two twelve-sided dice, hope and fear, and their outcomes.

Equal dice are a critical success, whatever the modifier and the difficulty. Otherwise the higher die decides between
hope and fear, and with a difficulty the total decides between success and failure. Pure; only `action_roll` is random.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed, RollStream, choose_seed

SIDES: Final = 12
ADVANTAGE_SIDES: Final = 6
"""Sides of the die that advantage adds and disadvantage subtracts."""
RULES_VERSION: Final = "1.0.0"


class Outcome(StrEnum):
    """The possible outcomes of a roll."""

    ROLL_WITH_HOPE = "ROLL_WITH_HOPE"
    ROLL_WITH_FEAR = "ROLL_WITH_FEAR"
    SUCCESS_WITH_HOPE = "SUCCESS_WITH_HOPE"
    SUCCESS_WITH_FEAR = "SUCCESS_WITH_FEAR"
    FAILURE_WITH_HOPE = "FAILURE_WITH_HOPE"
    FAILURE_WITH_FEAR = "FAILURE_WITH_FEAR"
    CRITICAL_SUCCESS = "CRITICAL_SUCCESS"

    @property
    def coarse(self) -> str:
        """Return the outcome without hope and fear: ROLL, SUCCESS, FAILURE or CRITICAL_SUCCESS."""
        return self.value.partition("_WITH_")[0]


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a roll; `difficulty` is present only if one was given."""

    hope: int
    fear: int
    modifier: int
    difficulty: int | UnsetType = UNSET
    total: int
    is_crit: bool
    meets_difficulty: bool
    outcome: Outcome


class ActionRoll(msgspec.Struct, frozen=True):
    """A roll of hope and fear, with its seed."""

    resolution: Resolution
    rng: RngUsed
    event_seq: int | None = None
    """Number of the event that records the roll, for a roll in a scene."""
    advantage: int | None = None
    """Value that the advantage die added to the total, or the disadvantage die subtracted."""


class Intermediates(msgspec.Struct, frozen=True, kw_only=True):
    """Intermediate results of an evaluation."""

    base_total: int
    total: int
    is_crit: bool
    meets_difficulty: bool
    hope_gt_fear: bool
    fear_gt_hope: bool


class ExplainStep(msgspec.Struct, frozen=True):
    """One step of an evaluation, with its values."""

    code: str
    message: str
    data: dict[str, Any]


class Explanation(Resolution, frozen=True, kw_only=True):
    """An outcome with all steps of its evaluation."""

    rules_version: str
    intermediates: Intermediates
    steps: tuple[ExplainStep, ...]


class OutcomeCount(msgspec.Struct, frozen=True):
    """The number of combinations of the dice with this outcome."""

    outcome: Outcome
    count: int


class Probability(msgspec.Struct, frozen=True, kw_only=True):
    """The exact odds. A critical is a success, so successes and failures add up to the total."""

    total_outcomes: int
    crit_count: int
    success_count: int
    failure_count: int
    outcome_counts: tuple[OutcomeCount, ...]


class RulesVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which rolls are evaluated."""

    system: str
    module: str
    rules_version: str
    dice_model: str
    total_formula: str
    crit_rule: str
    difficulty_rule: str
    outcomes: tuple[Outcome, ...]


RULES: Final = RulesVersion(
    system="Daggerheart",
    module="Duality",
    rules_version=RULES_VERSION,
    dice_model="DUALITY_D12_V1",
    total_formula="hope + fear + modifier",
    crit_rule="HOPE_EQUALS_FEAR_IS_CRITICAL",
    difficulty_rule="TOTAL_MEETS_OR_EXCEEDS_DIFFICULTY",
    outcomes=tuple(Outcome),
)
_COUNTED_OUTCOMES: Final = (
    Outcome.CRITICAL_SUCCESS,
    Outcome.SUCCESS_WITH_HOPE,
    Outcome.SUCCESS_WITH_FEAR,
    Outcome.FAILURE_WITH_HOPE,
    Outcome.FAILURE_WITH_FEAR,
)


def action_roll(
    modifier: int = 0, difficulty: int | None = None, rng: RngRequest = LIVE, advantage: int = 0
) -> ActionRoll:
    """Roll hope, then fear, then with advantage (1) or disadvantage (-1) a die that is added or subtracted.

    Raises: InvalidArgument.
    """
    check_numbers(modifier, difficulty, advantage)
    rng_used = choose_seed(rng)
    stream = RollStream(rng_used.seed_used)
    hope, fear = stream.roll(SIDES), stream.roll(SIDES)
    if not advantage:
        return ActionRoll(_resolve(hope, fear, modifier, difficulty), rng_used)
    added = advantage * stream.roll(ADVANTAGE_SIDES)
    found = msgspec.structs.replace(_resolve(hope, fear, modifier + added, difficulty), modifier=modifier)
    return ActionRoll(found, rng_used, advantage=added)


def resolve(hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Resolution:
    """Evaluate dice that have already been rolled.

    Raises: InvalidArgument.
    """
    check_roll(hope, fear, modifier, difficulty)
    return _resolve(hope, fear, modifier, difficulty)


def check_roll(hope: int, fear: int, modifier: int, difficulty: int | None) -> None:
    """Refuse impossible dice values."""
    for name, die in (("hope", hope), ("fear", fear)):
        if not 1 <= die <= SIDES:
            raise InvalidArgument(f"{name} must be between 1 and {SIDES}, not {die}")
    check_numbers(modifier, difficulty)


def check_numbers(modifier: int, difficulty: int | None, advantage: int = 0) -> None:
    """Refuse numbers, including the total, that do not fit the 32 bits of the wire format."""
    if advantage not in (-1, 0, 1):
        raise InvalidArgument(f"advantage must be 1, 0 or (for disadvantage) -1, not {advantage}")
    lowest = -limits.INT32_MAX - 1 + (ADVANTAGE_SIDES if advantage < 0 else 0)
    highest = limits.INT32_MAX - 2 * SIDES - (ADVANTAGE_SIDES if advantage > 0 else 0)
    if not lowest <= modifier <= highest:
        raise InvalidArgument(f"modifier must be between {lowest} and {highest}, not {modifier}")
    if difficulty is not None and not 0 <= difficulty <= limits.INT32_MAX:
        raise InvalidArgument(f"difficulty must be between 0 and {limits.INT32_MAX}, not {difficulty}")


def _resolve(hope: int, fear: int, modifier: int, difficulty: int | None) -> Resolution:
    total, is_crit = hope + fear + modifier, hope == fear
    meets = difficulty is not None and (is_crit or total >= difficulty)
    return Resolution(
        hope=hope,
        fear=fear,
        modifier=modifier,
        difficulty=UNSET if difficulty is None else difficulty,
        total=total,
        is_crit=is_crit,
        meets_difficulty=meets,
        outcome=_choose_outcome(hope, fear, meets if difficulty is not None else None),
    )


def _choose_outcome(hope: int, fear: int, meets_difficulty: bool | None) -> Outcome:
    if hope == fear:
        return Outcome.CRITICAL_SUCCESS
    if meets_difficulty is None:
        return Outcome.ROLL_WITH_HOPE if hope > fear else Outcome.ROLL_WITH_FEAR
    if meets_difficulty:
        return Outcome.SUCCESS_WITH_HOPE if hope > fear else Outcome.SUCCESS_WITH_FEAR
    return Outcome.FAILURE_WITH_HOPE if hope > fear else Outcome.FAILURE_WITH_FEAR


def explain(hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Explanation:
    """Evaluate as `resolve` does, and return every step.

    Raises: InvalidArgument.
    """
    found = resolve(hope, fear, modifier, difficulty)
    intermediates = Intermediates(
        base_total=hope + fear,
        total=found.total,
        is_crit=found.is_crit,
        meets_difficulty=found.meets_difficulty,
        hope_gt_fear=hope > fear,
        fear_gt_hope=fear > hope,
    )
    return Explanation(
        **msgspec.structs.asdict(found),
        rules_version=RULES_VERSION,
        intermediates=intermediates,
        steps=_make_steps(found, intermediates),
    )


def _make_steps(found: Resolution, intermediates: Intermediates) -> tuple[ExplainStep, ...]:
    dice = {"hope": found.hope, "fear": found.fear}
    base, total = {"base_total": intermediates.base_total}, {"total": found.total}
    difficulty_data: dict[str, Any] = {"meets_difficulty": found.meets_difficulty}
    if found.difficulty is not UNSET:
        difficulty_data = {"difficulty": found.difficulty, **difficulty_data}
        if found.is_crit:
            difficulty_data["critical_override"] = True
    outcome = {"outcome": found.outcome.coarse, "outcome_full": found.outcome.value}
    return (
        ExplainStep("SUM_DICE", "Sum hope and fear dice", {**dice, **base}),
        ExplainStep("APPLY_MODIFIER", "Apply modifier to base total", {**base, "modifier": found.modifier, **total}),
        ExplainStep("CHECK_CRIT", "Check for critical outcome", {**dice, "is_crit": found.is_crit}),
        ExplainStep("CHECK_DIFFICULTY", "Compare total against difficulty", {**total, **difficulty_data}),
        ExplainStep("SELECT_OUTCOME", "Select final outcome based on roll", outcome),
    )


def probability(modifier: int, difficulty: int, advantage: int = 0) -> Probability:
    """Count the outcomes of all 144 rolls of two dice; with advantage or disadvantage, of all 864 of three.

    Raises: InvalidArgument.
    """
    check_numbers(modifier, difficulty, advantage)
    added = [advantage * die for die in range(1, ADVANTAGE_SIDES + 1)] if advantage else [0]
    counts = dict.fromkeys(_COUNTED_OUTCOMES, 0)
    for hope in range(1, SIDES + 1):
        for fear in range(1, SIDES + 1):
            for bonus in added:
                counts[_choose_outcome(hope, fear, hope + fear + modifier + bonus >= difficulty)] += 1
    failures = counts[Outcome.FAILURE_WITH_HOPE] + counts[Outcome.FAILURE_WITH_FEAR]
    combinations = SIDES * SIDES * len(added)
    return Probability(
        total_outcomes=combinations,
        crit_count=counts[Outcome.CRITICAL_SUCCESS],
        success_count=combinations - failures,
        failure_count=failures,
        outcome_counts=tuple(OutcomeCount(outcome, count) for outcome, count in counts.items()),
    )
