"""Roll pools of arbitrary dice."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, Faces, RngRequest, RngUsed, choose_seed


class DiceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some dice of one kind."""

    sides: Annotated[int, msgspec.Meta(ge=1, le=limits.DIE_SIDES)]
    count: Annotated[int, msgspec.Meta(ge=1, le=limits.DICE)]


class DiceRoll(msgspec.Struct, frozen=True):
    """How they fell."""

    sides: int
    results: tuple[int, ...]
    total: int


class DiceResult(msgspec.Struct, frozen=True):
    """How all of them fell, in the order in which they were asked for."""

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
    used = choose_seed(rng)
    faces = Faces(used.seed_used)
    rolls = tuple(_throw(spec, faces) for spec in dice)
    return DiceResult(rolls, sum(roll.total for roll in rolls), used)


def check_dice(dice: Sequence[DiceSpec]) -> None:
    """Validate the number and the sides of dice."""
    if not dice:
        raise InvalidArgument("dice must name at least one die, as {sides, count}")
    if len(dice) > limits.DICE_SPECS:
        raise InvalidArgument(f"dice may have at most {limits.DICE_SPECS} entries, not {len(dice)}")
    for spec in dice:
        if not 1 <= spec.sides <= limits.DIE_SIDES:
            raise InvalidArgument(f"sides must be between 1 and {limits.DIE_SIDES}, not {spec.sides}")
        if not 1 <= spec.count <= limits.DICE:
            raise InvalidArgument(f"count must be between 1 and {limits.DICE}, not {spec.count}")
    total = sum(spec.count for spec in dice)
    if total > limits.DICE:
        raise InvalidArgument(f"at most {limits.DICE} dice can be thrown at once, not {total}")


def _throw(spec: DiceSpec, faces: Faces) -> DiceRoll:
    results = tuple(faces.throw(spec.sides) for _ in range(spec.count))
    return DiceRoll(spec.sides, results, sum(results))
