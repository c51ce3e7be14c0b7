"""Roll dice in this process, and write rolls with a scene to the campaign's events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hubbub.packs.tabletop import dice as dice_pools
from hubbub.packs.tabletop import duality
from hubbub.packs.tabletop.dice import DiceResult, DiceSpec
from hubbub.packs.tabletop.duality import ActionRoll, Explanation, Probability, Resolution, RulesVersion
from hubbub.packs.tabletop.model import Scene
from hubbub.packs.tabletop.notation import NotationResult, roll_notation
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed, RollMode


class LocalRolls:
    """The dice of a backend; a subclass implements `write_roll`."""

    async def write_roll(self, scene: Scene, type: str, data: dict[str, Any]) -> int:
        """Write a roll to the events of its campaign; return the number of the event."""
        raise NotImplementedError

    async def rules_version(self) -> RulesVersion:
        return duality.RULES

    async def action_roll(
        self,
        modifier: int = 0,
        difficulty: int | None = None,
        *,
        advantage: int = 0,
        rng: RngRequest = LIVE,
        scene: Scene | None = None,
    ) -> ActionRoll:
        roll = duality.action_roll(modifier, difficulty, rng, advantage)
        if scene is None or roll.rng.roll_mode is RollMode.REPLAY:
            return roll
        data = {**msgspec.to_builtins(roll.resolution), "rng": _encode_rng(roll.rng)}
        if roll.advantage is not None:
            data["advantage"] = roll.advantage
        return msgspec.structs.replace(roll, event_seq=await self.write_roll(scene, "roll.action", data))

    async def resolve(self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Resolution:
        return duality.resolve(hope, fear, modifier, difficulty)

    async def explain(
        self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None, *, request_id: str | None = None
    ) -> Explanation:
        return duality.explain(hope, fear, modifier, difficulty)

    async def probability(self, modifier: int, difficulty: int, advantage: int = 0) -> Probability:
        return duality.probability(modifier, difficulty, advantage)

    async def roll_dice(
        self, dice: Sequence[DiceSpec], *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> DiceResult:
        result = dice_pools.roll_dice(dice, rng)
        if scene is None or result.rng.roll_mode is RollMode.REPLAY:
            return result
        data = {"rolls": msgspec.to_builtins(result.rolls), "total": result.total, "rng": _encode_rng(result.rng)}
        return msgspec.structs.replace(result, event_seq=await self.write_roll(scene, "roll.dice", data))

    async def roll_notation(
        self, notation: str, *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> NotationResult:
        result = roll_notation(notation, rng)
        if scene is None or result.rng.roll_mode is RollMode.REPLAY:
            return result
        data = {
            "notation": result.notation,
            "terms": msgspec.to_builtins(result.terms),
            "total": result.total,
            "rng": _encode_rng(result.rng),
        }
        return msgspec.structs.replace(result, event_seq=await self.write_roll(scene, "roll.notation", data))


def _encode_rng(rng: RngUsed) -> dict[str, Any]:
    encoded: dict[str, Any] = msgspec.to_builtins(rng)
    return encoded
