"""Roll pools of arbitrary dice."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed, RollStream, choose_seed


class DiceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dice of one kind."""

    sides: Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_DIE_SIDES)]
    count: Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_DICE)]


class DiceRoll(msgspec.Struct, frozen=True):
    """The results of dice of one kind."""

    sides: int
    results: tuple[int, ...]
    total: int


class DiceResult(msgspec.Struct, frozen=True):
    """The results of all dice, in the order of the request."""

    rolls: tuple[DiceRoll, ...]
    total: int
    rng: RngUsed
    event_seq: int | None = None
    """Number of the event that records the roll, for a roll in a scene."""


def roll_dice(dice: Sequence[DiceSpec], rng: RngRequest = LIVE) -> DiceResult:
    """Roll all dice.

    Raises: InvalidArgument, for invalid or too many dice.
    """
    check_dice(dice)
    rng_used = choose_seed(rng)
    stream = RollStream(rng_used.seed_used)
    rolls = tuple(_roll_spec(spec, stream) for spec in dice)
    return DiceResult(rolls, sum(roll.total for roll in rolls), rng_used)


def check_dice(dice: Sequence[DiceSpec]) -> None:
    """Validate the number and the sides of dice."""
    if not dice:
        raise InvalidArgument('dice must have at least one entry, like {"sides": 6, "count": 2}')
    if len(dice) > limits.MAX_DICE_SPECS:
        raise InvalidArgument(f"dice must have at most {limits.MAX_DICE_SPECS} entries, not {len(dice)}")
    for spec in dice:
        if not 1 <= spec.sides <= limits.MAX_DIE_SIDES:
            raise InvalidArgument(f"sides must be between 1 and {limits.MAX_DIE_SIDES}, not {spec.sides}")
        if not 1 <= spec.count <= limits.MAX_DICE:
            raise InvalidArgument(f"count must be between 1 and {limits.MAX_DICE}, not {spec.count}")
    total = sum(spec.count for spec in dice)
    if total > limits.MAX_DICE:
        raise InvalidArgument(f"at most {limits.MAX_DICE} dice can be rolled at once, not {total}")


def _roll_spec(spec: DiceSpec, stream: RollStream) -> DiceRoll:
    results = tuple(stream.roll(spec.sides) for _ in range(spec.count))
    return DiceRoll(spec.sides, results, sum(results))
