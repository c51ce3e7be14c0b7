"""Pools of arbitrary dice."""

from collections.abc import Sequence

import msgspec

from hubbub import bounds
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, Faces, RngRequest, RngUsed, choose_seed


class DiceSpec(msgspec.Struct, frozen=True):
    """Some dice of one kind."""

    sides: int
    count: int


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
    """The event that tells of it, for a roll in a scene."""


def roll_dice(dice: Sequence[DiceSpec], rng: RngRequest = LIVE) -> DiceResult:
    """Throw every die.

    Raises: InvalidArgument, for dice that do not exist or are too many.
    """
    check_dice(dice)
    used = choose_seed(rng)
    faces = Faces(used.seed_used)
    rolls = tuple(_throw(spec, faces) for spec in dice)
    return DiceResult(rolls, sum(roll.total for roll in rolls), used)


def check_dice(dice: Sequence[DiceSpec]) -> None:
    """Refuse dice that nobody would throw by hand."""
    if not dice:
        raise InvalidArgument("dice must name at least one die, as {sides, count}")
    if len(dice) > bounds.DICE_SPECS:
        raise InvalidArgument(f"dice may have at most {bounds.DICE_SPECS} entries, not {len(dice)}")
    for spec in dice:
        if not 1 <= spec.sides <= bounds.DIE_SIDES:
            raise InvalidArgument(f"sides must be between 1 and {bounds.DIE_SIDES}, not {spec.sides}")
        if not 1 <= spec.count <= bounds.DICE:
            raise InvalidArgument(f"count must be between 1 and {bounds.DICE}, not {spec.count}")
    total = sum(spec.count for spec in dice)
    if total > bounds.DICE:
        raise InvalidArgument(f"at most {bounds.DICE} dice can be thrown at once, not {total}")


def _throw(spec: DiceSpec, faces: Faces) -> DiceRoll:
    results = tuple(faces.throw(spec.sides) for _ in range(spec.count))
    return DiceRoll(spec.sides, results, sum(results))
