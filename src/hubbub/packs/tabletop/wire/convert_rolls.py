"""Rolls as messages and messages as rolls."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from msgspec import UNSET

from hubbub.packs.tabletop.dice import DiceResult, DiceRoll
from hubbub.packs.tabletop.duality import (
    ActionRoll,
    ExplainStep,
    Explanation,
    Intermediates,
    Outcome,
    OutcomeCount,
    Probability,
    Resolution,
    RulesVersion,
)
from hubbub.packs.tabletop.notation import NotationResult, NotationTerm
from hubbub.packs.tabletop.randomness import RngRequest, RngUsed, RollMode, SeedSource
from hubbub.packs.tabletop.wire import duality_pb2
from hubbub.packs.tabletop.wire.convert import given, number_of, word_of


def to_rng(rng: RngRequest) -> duality_pb2.RngRequest:
    """How to throw, as a message."""
    mode = None if rng.roll_mode is None else number_of(duality_pb2.RollMode, rng.roll_mode)
    return duality_pb2.RngRequest(seed=rng.seed, roll_mode=mode)


def from_rng(message: duality_pb2.RngRequest) -> RngRequest:
    """How to throw."""
    mode = None
    if message.roll_mode:
        mode = word_of(RollMode, duality_pb2.RollMode, message.roll_mode, "roll mode")
    return RngRequest(seed=given(message, "seed"), roll_mode=mode)


def to_rng_used(rng: RngUsed) -> duality_pb2.RngUsed:
    """How it was thrown, as a message."""
    return duality_pb2.RngUsed(
        seed_used=rng.seed_used,
        rng_algo=rng.rng_algo,
        seed_source=number_of(duality_pb2.SeedSource, rng.seed_source),
        roll_mode=number_of(duality_pb2.RollMode, rng.roll_mode),
    )


def from_rng_used(message: duality_pb2.RngUsed) -> RngUsed:
    """How it was thrown."""
    return RngUsed(
        seed_used=message.seed_used,
        rng_algo=message.rng_algo,
        seed_source=word_of(SeedSource, duality_pb2.SeedSource, message.seed_source, "seed source"),
        roll_mode=word_of(RollMode, duality_pb2.RollMode, message.roll_mode, "roll mode"),
    )


def resolution_fields(found: Resolution | Explanation) -> dict[str, Any]:
    """What all messages about a roll have in common."""
    return {
        "hope": found.hope,
        "fear": found.fear,
        "modifier": found.modifier,
        "difficulty": None if found.difficulty is UNSET else found.difficulty,
        "total": found.total,
        "is_crit": found.is_crit,
        "meets_difficulty": found.meets_difficulty,
        "outcome": number_of(duality_pb2.Outcome, found.outcome),
    }


def _read_resolution(message: Any) -> dict[str, Any]:
    difficulty = given(message, "difficulty")
    return {
        "hope": message.hope,
        "fear": message.fear,
        "modifier": message.modifier,
        "difficulty": UNSET if difficulty is None else difficulty,
        "total": message.total,
        "is_crit": message.is_crit,
        "meets_difficulty": message.meets_difficulty,
        "outcome": _outcome(message.outcome),
    }


def _outcome(number: int) -> Outcome:
    return word_of(Outcome, duality_pb2.Outcome, number, "outcome")


def from_resolution(message: duality_pb2.DualityOutcomeResponse) -> Resolution:
    """What a roll means."""
    return Resolution(**_read_resolution(message))


def to_action_roll(roll: ActionRoll) -> duality_pb2.ActionRollResponse:
    """A roll as a message."""
    return duality_pb2.ActionRollResponse(
        **resolution_fields(roll.resolution),
        rng=to_rng_used(roll.rng),
        event_seq=roll.event_seq,
        advantage=roll.advantage,
    )


def from_action_roll(message: duality_pb2.ActionRollResponse) -> ActionRoll:
    """The roll of a message."""
    resolution = Resolution(**_read_resolution(message))
    return ActionRoll(resolution, from_rng_used(message.rng), given(message, "event_seq"), given(message, "advantage"))


def to_explanation(found: Explanation) -> duality_pb2.DualityExplainResponse:
    """An explanation as a message."""
    steps = []
    for step in found.steps:
        data = Struct()
        data.update(step.data)
        steps.append(duality_pb2.ExplainStep(code=step.code, message=step.message, data=data))
    return duality_pb2.DualityExplainResponse(
        **resolution_fields(found),
        rules_version=found.rules_version,
        intermediates=duality_pb2.Intermediates(**msgspec.structs.asdict(found.intermediates)),
        steps=steps,
    )


def from_explanation(message: duality_pb2.DualityExplainResponse) -> Explanation:
    """The explanation of a message."""
    found = message.intermediates
    return Explanation(
        **_read_resolution(message),
        rules_version=message.rules_version,
        intermediates=Intermediates(
            base_total=found.base_total,
            total=found.total,
            is_crit=found.is_crit,
            meets_difficulty=found.meets_difficulty,
            hope_gt_fear=found.hope_gt_fear,
            fear_gt_hope=found.fear_gt_hope,
        ),
        steps=tuple(ExplainStep(step.code, step.message, _step_data(step.data)) for step in message.steps),
    )


def _step_data(data: Struct) -> dict[str, Any]:
    """A Struct knows only doubles and sorts its keys; steps have whole numbers, in the order of the contract."""
    values = {key: int(value) if isinstance(value, float) else value for key, value in MessageToDict(data).items()}
    return {key: values[key] for key in sorted(values, key=_place)}


_ORDER = (
    "hope", "fear", "base_total", "modifier", "total", "difficulty", "meets_difficulty", "is_crit",
    "critical_override", "outcome", "outcome_full",
)  # fmt: skip


def _place(key: str) -> tuple[int, str]:
    return (_ORDER.index(key) if key in _ORDER else len(_ORDER), key)


def to_probability(found: Probability) -> duality_pb2.DualityProbabilityResponse:
    """Odds as a message."""
    return duality_pb2.DualityProbabilityResponse(
        total_outcomes=found.total_outcomes,
        crit_count=found.crit_count,
        success_count=found.success_count,
        failure_count=found.failure_count,
        outcome_counts=[
            duality_pb2.OutcomeCount(outcome=number_of(duality_pb2.Outcome, row.outcome), count=row.count)
            for row in found.outcome_counts
        ],
    )


def from_probability(message: duality_pb2.DualityProbabilityResponse) -> Probability:
    """The odds of a message."""
    return Probability(
        total_outcomes=message.total_outcomes,
        crit_count=message.crit_count,
        success_count=message.success_count,
        failure_count=message.failure_count,
        outcome_counts=tuple(OutcomeCount(_outcome(row.outcome), row.count) for row in message.outcome_counts),
    )


def to_rules(rules: RulesVersion) -> duality_pb2.RulesVersionResponse:
    """The rules as a message."""
    fields = msgspec.structs.asdict(rules)
    fields["outcomes"] = [number_of(duality_pb2.Outcome, outcome) for outcome in rules.outcomes]
    return duality_pb2.RulesVersionResponse(**fields)


def from_rules(message: duality_pb2.RulesVersionResponse) -> RulesVersion:
    """The rules of a message."""
    return RulesVersion(
        system=message.system,
        module=message.module,
        rules_version=message.rules_version,
        dice_model=message.dice_model,
        total_formula=message.total_formula,
        crit_rule=message.crit_rule,
        difficulty_rule=message.difficulty_rule,
        outcomes=tuple(map(_outcome, message.outcomes)),
    )


def to_dice(result: DiceResult) -> duality_pb2.RollDiceResponse:
    """Dice that fell, as a message."""
    rolls = [duality_pb2.DiceRoll(sides=roll.sides, results=roll.results, total=roll.total) for roll in result.rolls]
    return duality_pb2.RollDiceResponse(
        rolls=rolls, total=result.total, rng=to_rng_used(result.rng), event_seq=result.event_seq
    )


def from_dice(message: duality_pb2.RollDiceResponse) -> DiceResult:
    """How the dice of a message fell."""
    rolls = tuple(DiceRoll(roll.sides, tuple(roll.results), roll.total) for roll in message.rolls)
    return DiceResult(rolls, message.total, from_rng_used(message.rng), given(message, "event_seq"))


def to_notation(result: NotationResult) -> duality_pb2.RollNotationResponse:
    """What a notation came to, as a message."""
    return duality_pb2.RollNotationResponse(
        notation=result.notation,
        terms=[duality_pb2.NotationTerm(**msgspec.structs.asdict(term)) for term in result.terms],
        total=result.total,
        rng=to_rng_used(result.rng),
        event_seq=result.event_seq,
    )


def from_notation(message: duality_pb2.RollNotationResponse) -> NotationResult:
    """What a notation came to."""
    terms = tuple(NotationTerm(term.text, tuple(term.results), tuple(term.kept), term.total) for term in message.terms)
    rng = from_rng_used(message.rng)
    return NotationResult(message.notation, terms, message.total, rng, given(message, "event_seq"))
