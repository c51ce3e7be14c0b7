"""Parse and roll dice notation: 2d6+3, 4d6kh3, d%, 3d6!, 2d10ro<3.

    [N]dM or [N]d%      N dice (default: one) of M or 100 sides
    kh kl dh dl [n]     keep the highest or lowest n, drop the highest or lowest n (default: one)
    ro rr [<>=]n        reroll dice that match: once, or until they do not
    !                   a die that shows its highest face adds another
    + -                 between dice and numbers

At most `limits.DICE` dice are rolled. After that, no die explodes and none is rerolled.
"""

import re
from collections.abc import Callable
from operator import eq, gt, lt
from typing import Final

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, Faces, RngRequest, RngUsed, choose_seed

_TERM: Final = re.compile(r"([+-])(?:(\d*)d(\d+|%)((?:[a-z!].*?)?)|(\d+))(?=[+-]|$)", re.ASCII)
_RULE: Final = re.compile(r"(kh|kl|dh|dl)(\d*)|(rr|ro)([<>=]?)(\d+)|(!)", re.ASCII)
_COMPARE: Final = {"": eq, "=": eq, "<": lt, ">": gt}


class NotationTerm(msgspec.Struct, frozen=True):
    """One part of a notation: every result in the order of the throws, those that count, and what they come to."""

    text: str
    results: tuple[int, ...]
    kept: tuple[int, ...]
    total: int
    """Negative if the term is subtracted."""


class NotationResult(msgspec.Struct, frozen=True):
    """What a notation came to."""

    notation: str
    """The normalized notation: lower case, without spaces."""
    terms: tuple[NotationTerm, ...]
    total: int
    rng: RngUsed
    event_seq: int | None = None
    """Number of the event that records the roll, for a roll in a scene."""


class Dice(msgspec.Struct, frozen=True, kw_only=True):
    """Dice of one kind, with their rules."""

    count: int
    sides: int
    keep: tuple[str, int] | None = None
    again: Callable[[int], bool] | None = None
    """Whether a die that shows this value is rerolled."""
    is_patient: bool = False
    """Whether a die is rerolled more than once."""
    explodes: bool = False


class Term(msgspec.Struct, frozen=True):
    """Dice or a number, with its sign."""

    text: str
    sign: int
    what: Dice | int


def roll_notation(notation: str, rng: RngRequest = LIVE) -> NotationResult:
    """Roll the dice of a notation.

    Raises: InvalidArgument.
    """
    text, terms = read_notation(notation)
    used = choose_seed(rng)
    thrower = _Thrower(Faces(used.seed_used), sum(term.what.count for term in terms if isinstance(term.what, Dice)))
    told = tuple(_throw(term, thrower) for term in terms)
    return NotationResult(text, told, sum(term.total for term in told), used)


def read_notation(notation: str) -> tuple[str, list[Term]]:
    """Parse a notation; return its normalized form and its terms.

    Raises: InvalidArgument.
    """
    if len(notation) > limits.NOTATION_CHARACTERS:
        raise InvalidArgument(f"notation may have at most {limits.NOTATION_CHARACTERS} characters")
    text = "".join(notation.lower().split())
    signed = text if text[:1] in ("+", "-") else f"+{text}"
    terms: list[Term] = []
    position = 0
    while position < len(signed):
        found = _TERM.match(signed, position)
        if found is None:
            raise InvalidArgument(
                f"notation is not understood from {signed[position:][:20]!r} on; write it as 4d6kh3+2"
            )
        terms.append(_read_term(found))
        position = found.end()
    _check(terms)
    return text, terms


def _read_term(found: re.Match[str]) -> Term:
    sign, count, sides, rules, number = found.groups()
    text = found[0].removeprefix("+")
    if number is not None:
        return Term(text, -1 if sign == "-" else 1, _number(number, limits.NOTATION_NUMBER, "a number"))
    dice = Dice(
        count=_number(count or "1", limits.DICE, "the number of dice"),
        sides=100 if sides == "%" else _number(sides, limits.DIE_SIDES, "the number of sides"),
    )
    return Term(text, -1 if sign == "-" else 1, _with_rules(dice, rules))


def _number(digits: str, most: int, what: str, least: int = 1) -> int:
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    if not least <= number <= most:
        raise InvalidArgument(f"{what} must be between {least} and {most}, not {digits[:12]}")
    return number


def _with_rules(dice: Dice, rules: str) -> Dice:
    position = 0
    while position < len(rules):
        rule = _RULE.match(rules, position)
        if rule is None:
            raise InvalidArgument(f"{rules[position:][:20]!r} is no rule for dice; use kh, kl, dh, dl, rr, ro or !")
        position = rule.end()
        changed = _with_rule(dice, rule)
        if changed is None:
            raise InvalidArgument(
                f"{rule[0]!r} is one rule too many: dice are chosen, thrown again or explode only once"
            )
        dice = changed
    return dice


def _with_rule(dice: Dice, rule: re.Match[str]) -> Dice | None:
    """Return the dice with one more rule; None if they already have a rule of this kind."""
    keep, number, again, comparison, face, _ = rule.groups()
    if keep is not None:
        wanted = (keep, _number(number or "1", limits.DICE, f"the number after {keep}"))
        return None if dice.keep is not None else msgspec.structs.replace(dice, keep=wanted)
    if again is None:
        if dice.sides == 1:
            raise InvalidArgument("a die with one side would explode for ever")
        return None if dice.explodes else msgspec.structs.replace(dice, explodes=True)
    compare, value = _COMPARE[comparison], _number(face, limits.DIE_SIDES + 1, f"the number after {again}", least=0)
    if all(compare(shown, value) for shown in range(1, dice.sides + 1)):
        raise InvalidArgument(f"{rule[0]!r} would throw every die again")
    if dice.again is not None:
        return None
    return msgspec.structs.replace(dice, again=lambda shown: compare(shown, value), is_patient=again == "rr")


def _check(terms: list[Term]) -> None:
    if not terms:
        raise InvalidArgument("notation is required, as 4d6kh3+2")
    if len(terms) > limits.DICE_SPECS:
        raise InvalidArgument(f"notation may have at most {limits.DICE_SPECS} parts, not {len(terms)}")
    count = sum(term.what.count for term in terms if isinstance(term.what, Dice))
    if count > limits.DICE:
        raise InvalidArgument(f"at most {limits.DICE} dice can be thrown at once, not {count}")


class _Thrower:
    """Rolls dice, and counts how many more may be rolled than the notation asks for."""

    def __init__(self, faces: Faces, asked: int) -> None:
        self._faces = faces
        self._spare = limits.DICE - asked

    def throw(self, dice: Dice) -> int:
        """Roll one die, and reroll it by its rule."""
        shown = self._faces.throw(dice.sides)
        while dice.again is not None and dice.again(shown) and self.may_throw_more():
            shown = self._faces.throw(dice.sides)
            if not dice.is_patient:
                break
        return shown

    def may_throw_more(self) -> bool:
        """Whether another die may be rolled; counts it if so."""
        self._spare -= 1
        return self._spare >= 0


def _throw(term: Term, thrower: _Thrower) -> NotationTerm:
    dice = term.what
    if isinstance(dice, int):
        return NotationTerm(term.text, (), (), term.sign * dice)
    results: list[int] = []
    for _ in range(dice.count):
        results.append(thrower.throw(dice))
        while dice.explodes and results[-1] == dice.sides and thrower.may_throw_more():
            results.append(thrower.throw(dice))
    kept = _kept(results, dice.keep)
    return NotationTerm(term.text, tuple(results), tuple(kept), term.sign * sum(kept))


def _kept(results: list[int], keep: tuple[str, int] | None) -> list[int]:
    """Return the results that count, in the order of the rolls."""
    if keep is None:
        return results
    word, number = keep
    ranked = sorted(range(len(results)), key=lambda at: results[at], reverse=word in ("kh", "dh"))
    chosen = set(ranked[:number] if word[0] == "k" else ranked[number:])
    return [shown for at, shown in enumerate(results) if at in chosen]
