"""Parse and roll dice notation: 2d6+3, 4d6kh3, d%, 3d6!, 2d10ro<3.

    [N]dM or [N]d%      N dice (default: one) of M or 100 sides
    kh kl dh dl [n]     keep the highest or lowest n, drop the highest or lowest n (default: one)
    ro rr [<>=]n        reroll dice that match: once, or until they do not
    !                   a die that shows its highest face adds another
    + -                 between dice and numbers

At most `limits.MAX_DICE` dice are rolled. After that, no die explodes and none is rerolled.
"""

import re
from collections.abc import Callable
from operator import eq, gt, lt
from typing import Final

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed, RollStream, choose_seed

_TERM: Final = re.compile(r"([+-])(?:(\d*)d(\d+|%)((?:[a-z!].*?)?)|(\d+))(?=[+-]|$)", re.ASCII)
_RULE: Final = re.compile(r"(kh|kl|dh|dl)(\d*)|(rr|ro)([<>=]?)(\d+)|(!)", re.ASCII)
_COMPARE: Final = {"": eq, "=": eq, "<": lt, ">": gt}


class NotationTerm(msgspec.Struct, frozen=True):
    """One part of a notation: all results in the order of the rolls, those that count, and their total."""

    text: str
    results: tuple[int, ...]
    kept: tuple[int, ...]
    total: int
    """Negative if the term is subtracted."""


class NotationResult(msgspec.Struct, frozen=True):
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
    rerolls_repeatedly: bool = False
    """Whether a die is rerolled more than once."""
    explodes: bool = False


class Term(msgspec.Struct, frozen=True):
    """Dice or a number, with its sign."""

    text: str
    sign: int
    operand: Dice | int


def roll_notation(notation: str, rng: RngRequest = LIVE) -> NotationResult:
    """Roll the dice of a notation.

    Raises: InvalidArgument.
    """
    text, terms = parse_notation(notation)
    rng_used = choose_seed(rng)
    roller = _Roller(
        RollStream(rng_used.seed_used), sum(term.operand.count for term in terms if isinstance(term.operand, Dice))
    )
    rolled_terms = tuple(_roll_term(term, roller) for term in terms)
    return NotationResult(text, rolled_terms, sum(term.total for term in rolled_terms), rng_used)


def parse_notation(notation: str) -> tuple[str, list[Term]]:
    """Parse a notation; return its normalized form and its terms.

    Raises: InvalidArgument.
    """
    if len(notation) > limits.MAX_NOTATION_CHARACTERS:
        raise InvalidArgument(
            f"notation must have at most {limits.MAX_NOTATION_CHARACTERS} characters, not {len(notation)}"
        )
    text = "".join(notation.lower().split())
    signed = text if text[:1] in ("+", "-") else f"+{text}"
    terms: list[Term] = []
    position = 0
    while position < len(signed):
        found = _TERM.match(signed, position)
        if found is None:
            raise InvalidArgument(
                f"notation cannot be parsed from {signed[position:][:20]!r} on; write it like 4d6kh3+2"
            )
        terms.append(_parse_term(found))
        position = found.end()
    _check_terms(terms)
    return text, terms


def _parse_term(found: re.Match[str]) -> Term:
    sign, count, sides, rules, number = found.groups()
    text = found[0].removeprefix("+")
    if number is not None:
        return Term(text, -1 if sign == "-" else 1, _parse_number(number, limits.MAX_NOTATION_NUMBER, "a number"))
    dice = Dice(
        count=_parse_number(count or "1", limits.MAX_DICE, "the number of dice"),
        sides=100 if sides == "%" else _parse_number(sides, limits.MAX_DIE_SIDES, "the number of sides"),
    )
    return Term(text, -1 if sign == "-" else 1, _add_rules(dice, rules))


def _parse_number(digits: str, maximum: int, what: str, minimum: int = 1) -> int:
    number = int(digits) if len(digits) <= len(str(maximum)) else maximum + 1
    if not minimum <= number <= maximum:
        raise InvalidArgument(f"{what} must be between {minimum} and {maximum}, not {digits[:12]}")
    return number


def _add_rules(dice: Dice, rules: str) -> Dice:
    position = 0
    while position < len(rules):
        rule = _RULE.match(rules, position)
        if rule is None:
            raise InvalidArgument(f"unknown dice rule {rules[position:][:20]!r}; use kh, kl, dh, dl, rr, ro or !")
        position = rule.end()
        changed = _add_rule(dice, rule)
        if changed is None:
            raise InvalidArgument(
                f"{rule[0]!r}: dice can have only one rule of each kind (keep or drop, reroll, explode)"
            )
        dice = changed
    return dice


def _add_rule(dice: Dice, rule: re.Match[str]) -> Dice | None:
    """Return the dice with one more rule; None if they already have a rule of this kind."""
    keep, number, again, comparison, face, _ = rule.groups()
    if keep is not None:
        selection = (keep, _parse_number(number or "1", limits.MAX_DICE, f"the number after {keep}"))
        return None if dice.keep is not None else msgspec.structs.replace(dice, keep=selection)
    if again is None:
        if dice.sides == 1:
            raise InvalidArgument("a die with one side cannot explode: it would be rolled forever")
        return None if dice.explodes else msgspec.structs.replace(dice, explodes=True)
    compare, value = (
        _COMPARE[comparison],
        _parse_number(face, limits.MAX_DIE_SIDES + 1, f"the number after {again}", minimum=0),
    )
    if all(compare(die_value, value) for die_value in range(1, dice.sides + 1)):
        raise InvalidArgument(f"{rule[0]!r} matches every result, so the die would always be rerolled")
    if dice.again is not None:
        return None
    return msgspec.structs.replace(
        dice, again=lambda die_value: compare(die_value, value), rerolls_repeatedly=again == "rr"
    )


def _check_terms(terms: list[Term]) -> None:
    if not terms:
        raise InvalidArgument("notation is required, like 4d6kh3+2")
    if len(terms) > limits.MAX_DICE_SPECS:
        raise InvalidArgument(f"notation must have at most {limits.MAX_DICE_SPECS} parts, not {len(terms)}")
    count = sum(term.operand.count for term in terms if isinstance(term.operand, Dice))
    if count > limits.MAX_DICE:
        raise InvalidArgument(f"at most {limits.MAX_DICE} dice can be rolled at once, not {count}")


class _Roller:
    """Rolls dice, and counts how many more may be rolled than the notation asks for."""

    def __init__(self, stream: RollStream, dice_count: int) -> None:
        self._stream = stream
        self._rolls_left = limits.MAX_DICE - dice_count

    def roll_die(self, dice: Dice) -> int:
        """Roll one die, and reroll it by its rule."""
        die_value = self._stream.roll(dice.sides)
        while dice.again is not None and dice.again(die_value) and self.may_roll_more():
            die_value = self._stream.roll(dice.sides)
            if not dice.rerolls_repeatedly:
                break
        return die_value

    def may_roll_more(self) -> bool:
        """Whether another die may be rolled; counts it if so."""
        self._rolls_left -= 1
        return self._rolls_left >= 0


def _roll_term(term: Term, roller: _Roller) -> NotationTerm:
    dice = term.operand
    if isinstance(dice, int):
        return NotationTerm(term.text, (), (), term.sign * dice)
    results: list[int] = []
    for _ in range(dice.count):
        results.append(roller.roll_die(dice))
        while dice.explodes and results[-1] == dice.sides and roller.may_roll_more():
            results.append(roller.roll_die(dice))
    kept = _select_kept(results, dice.keep)
    return NotationTerm(term.text, tuple(results), tuple(kept), term.sign * sum(kept))


def _select_kept(results: list[int], keep: tuple[str, int] | None) -> list[int]:
    """Return the results that count, in the order of the rolls."""
    if keep is None:
        return results
    word, number = keep
    ranked = sorted(range(len(results)), key=lambda index: results[index], reverse=word in ("kh", "dh"))
    chosen = set(ranked[:number] if word[0] == "k" else ranked[number:])
    return [die_value for index, die_value in enumerate(results) if index in chosen]
