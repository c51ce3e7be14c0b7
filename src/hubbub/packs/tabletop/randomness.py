"""Reproducible dice: a stream of random numbers derived from a seed, portable to any language.

Block n is SHA-256 of the algorithm's name, the seed and n, both as eight bytes in big-endian order. Each block gives
eight 32-bit numbers. Numbers that would favour low faces are discarded, so all faces of a die are equally likely.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import CaseInsensitiveEnum

ALGORITHM: Final = "hubbub-sha256-v1"
_WORD_RANGE: Final = 2**32


class RollMode(CaseInsensitiveEnum):
    """Whether a roll is new (LIVE), or repeats an earlier one (REPLAY)."""

    LIVE = "LIVE"
    REPLAY = "REPLAY"


class SeedSource(StrEnum):
    """Who chose the seed."""

    CLIENT = "CLIENT"
    SERVER = "SERVER"


class RngRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seed of a roll: drawn by the server (LIVE), or that of an earlier roll (REPLAY)."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SEED)] | None = None
    roll_mode: RollMode | None = None
    """Without a mode, a seed means REPLAY and no seed means LIVE."""


class RngUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that reproduce a roll."""

    seed_used: int
    rng_algo: str
    seed_source: SeedSource
    roll_mode: RollMode


LIVE: Final = RngRequest()


def check_rng(request: RngRequest) -> RollMode:
    """Return the requested mode, if it is consistent with the seed.

    Raises: InvalidArgument.
    """
    seed, mode = request.seed, request.roll_mode
    if mode is None:
        mode = RollMode.LIVE if seed is None else RollMode.REPLAY
    if mode is RollMode.LIVE and seed is not None:
        raise InvalidArgument(
            "a LIVE roll must not have a seed, because the server draws it; omit the seed, or use roll_mode REPLAY"
        )
    if mode is RollMode.REPLAY and seed is None:
        raise InvalidArgument("roll_mode REPLAY requires a seed: the seed_used of the roll to repeat")
    if seed is not None and not 0 <= seed <= limits.MAX_SEED:
        raise InvalidArgument(f"seed must be between 0 and {limits.MAX_SEED}, not {seed}")
    return mode


def choose_seed(request: RngRequest = LIVE) -> RngUsed:
    """Take the caller's seed for a replay, or draw one for a live roll.

    Raises: InvalidArgument.
    """
    mode, seed, source = check_rng(request), request.seed, SeedSource.CLIENT
    if seed is None:
        from secrets import randbelow  # imports hashlib, which is not needed at startup

        seed, source = randbelow(limits.MAX_SEED + 1), SeedSource.SERVER
    return RngUsed(seed_used=seed, rng_algo=ALGORITHM, seed_source=source, roll_mode=mode)


class RollStream:
    """A sequence of rolls that follows from a seed."""

    def __init__(self, seed: int) -> None:
        self._random_words = _random_words(seed)

    def roll(self, sides: int) -> int:
        """Return the next roll of a die with this many sides."""
        limit = _WORD_RANGE - _WORD_RANGE % sides
        while (word := next(self._random_words)) >= limit:
            pass
        return word % sides + 1


def _random_words(seed: int) -> Iterator[int]:
    from hashlib import sha256  # not needed before the first roll

    prefix = ALGORITHM.encode() + seed.to_bytes(8, "big")
    number = 0
    while True:
        block = sha256(prefix + number.to_bytes(8, "big")).digest()
        for offset in range(0, len(block), 4):
            yield int.from_bytes(block[offset : offset + 4], "big")
        number += 1
