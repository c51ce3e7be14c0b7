"""Dice: the Duality tools and pools of any dice."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub import Context, Image
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.arguments import CampaignId, ContextId, SessionId
from hubbub.packs.tabletop.chart import PNG, draw
from hubbub.packs.tabletop.dice import DiceRoll, DiceSpec
from hubbub.packs.tabletop.duality import Explanation, Probability, Resolution, RulesVersion
from hubbub.packs.tabletop.notation import NotationTerm
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed
from hubbub.packs.tabletop.table import Table

RNG: Final = "hubbub/rng"
"""In `_meta` of a result: what shows the same roll again."""
EVENT_SEQ: Final = "hubbub/event_seq"
"""In `_meta` of a result: the number of the event that tells of the roll."""
REQUEST_ID: Final = "hubbub/request_id"

Modifier = Annotated[int, Meta(description="Added to the sum of the dice.")]
Difficulty = Annotated[int | None, Meta(description="What the total must reach, from 0 on; left out if there is none.")]
Rng = Annotated[
    RngRequest | None,
    Meta(description="Give {} to be told the seed of the roll, or the seed of an earlier roll to see it again."),
]
Advantage = Annotated[bool, Meta(description="One more die, of six sides, is added.")]
Disadvantage = Annotated[
    bool, Meta(description="One more die, of six sides, is taken away; with advantage, neither is thrown.")
]
ActorId = Annotated[str | None, Meta(description="Who rolls, for the events of the campaign.")]


class ActionRolled(Resolution, frozen=True, kw_only=True):
    """What fell and what it means; `rng` where it was asked for, `advantage` where such a die was thrown."""

    advantage: int | UnsetType = UNSET
    """What it added to the total, or below zero what it took away."""
    rng: RngUsed | UnsetType = UNSET


class NotationRolled(msgspec.Struct, frozen=True):
    """What fell, part by part; `rng` where it was asked for."""

    notation: str
    terms: tuple[NotationTerm, ...]
    total: int
    rng: RngUsed | UnsetType = UNSET


class DiceRolled(msgspec.Struct, frozen=True):
    """What fell; `rng` where it was asked for."""

    rolls: tuple[DiceRoll, ...]
    total: int
    rng: RngUsed | UnsetType = UNSET


def register(table: Table) -> None:
    """Put the tools on the server."""
    _register_rolls(table)
    _register_rules(table)


def _register_rolls(table: Table) -> None:
    backend, scene_of = table.backend, table.contexts.scene

    @table.writes
    async def duality_action_roll(
        *,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
        advantage: Advantage = False,
        disadvantage: Disadvantage = False,
        rng: Rng = None,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        actor_id: ActorId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> ActionRolled:
        """Roll Duality dice and tell the outcome.

        In a campaign, named here or in the context, the roll is written to the campaign's events.
        """
        scene = scene_of(context.scope, campaign_id, session_id, actor_id, context_id)
        roll = await backend.action_roll(
            modifier, difficulty, advantage=advantage - disadvantage, rng=rng or LIVE, scene=scene
        )
        _tell(context, roll.rng, roll.event_seq)
        fallen = roll.resolution
        return ActionRolled(
            hope=fallen.hope,
            fear=fallen.fear,
            modifier=fallen.modifier,
            difficulty=fallen.difficulty,
            total=fallen.total,
            is_crit=fallen.is_crit,
            meets_difficulty=fallen.meets_difficulty,
            outcome=fallen.outcome,
            advantage=UNSET if roll.advantage is None else roll.advantage,
            rng=UNSET if rng is None else roll.rng,
        )

    @table.writes
    async def roll_dice(
        *,
        dice: list[DiceSpec],
        rng: Rng = None,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        actor_id: ActorId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> DiceRolled:
        """Roll pools of any dice and tell each result.

        In a campaign, named here or in the context, the roll is written to the campaign's events.

        Args:
            dice: Which dice: up to 50 kinds, each with sides and count; 1000 dice in all.
        """
        scene = scene_of(context.scope, campaign_id, session_id, actor_id, context_id)
        result = await backend.roll_dice(dice, rng=rng or LIVE, scene=scene)
        _tell(context, result.rng, result.event_seq)
        return DiceRolled(result.rolls, result.total, UNSET if rng is None else result.rng)

    @table.writes
    async def roll_notation(
        *,
        notation: str,
        rng: Rng = None,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        actor_id: ActorId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> NotationRolled:
        """Roll dice written as people write them, such as 2d6+3, 4d6kh3 or d%.

        kh, kl, dh and dl keep or drop the highest or lowest; ro and rr throw a die again that
        shows a number, as in ro<3, once or until it does not; ! lets a die that shows its
        highest face bring another. At most 1000 dice are thrown. In a campaign, named here or
        in the context, the roll is written to the campaign's events.

        Args:
            notation: What to roll.
        """
        scene = scene_of(context.scope, campaign_id, session_id, actor_id, context_id)
        result = await backend.roll_notation(notation, rng=rng or LIVE, scene=scene)
        _tell(context, result.rng, result.event_seq)
        return NotationRolled(result.notation, result.terms, result.total, UNSET if rng is None else result.rng)


def _register_rules(table: Table) -> None:
    backend = table.backend

    @table.reads
    async def duality_rules_version() -> RulesVersion:
        """Tell which rules Duality rolls are evaluated by."""
        return await backend.rules_version()

    @table.reads
    async def duality_outcome(
        *,
        hope: int,
        fear: int,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
    ) -> Resolution:
        """Evaluate Hope and Fear dice that have already fallen, without rolling.

        Args:
            hope: What the Hope die shows, 1 to 12.
            fear: What the Fear die shows, 1 to 12.
        """
        return await backend.resolve(hope, fear, modifier, difficulty)

    @table.reads
    async def duality_explain(
        *,
        hope: int,
        fear: int,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
        request_id: str | None = None,
        context: Context,
    ) -> Explanation:
        """Explain the outcome of Hope and Fear dice that have already fallen, step by step.

        Args:
            hope: What the Hope die shows, 1 to 12.
            fear: What the Fear die shows, 1 to 12.
            request_id: A name of your own for this question; it comes back in _meta.
        """
        if request_id is not None:
            context.result_meta[REQUEST_ID] = checks.optional_name(request_id, "request id")
        return await backend.explain(hope, fear, modifier, difficulty, request_id=request_id or "")

    @table.reads
    async def duality_probability(
        *, modifier: Modifier = 0, difficulty: int, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> Probability:
        """Count exactly how many of the 144 falls of the two dice have each outcome.

        success_count includes criticals, so success_count and failure_count add up to 144. With
        advantage or disadvantage the falls of all three dice are counted, which are 864.

        Args:
            difficulty: What the total must reach, from 0 on.
        """
        return await backend.probability(modifier, difficulty, advantage - disadvantage)

    @table.reads
    async def duality_chart(
        *, modifier: Modifier = 0, difficulty: int, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> Image:
        """Draw the exact odds of each outcome as a PNG picture.

        Args:
            difficulty: What the total must reach, from 0 on.
        """
        odds = await backend.probability(modifier, difficulty, advantage - disadvantage)
        return Image(await asyncio.to_thread(draw, odds, _title(modifier, difficulty, advantage - disadvantage)), PNG)


def _title(modifier: int, difficulty: int, advantage: int) -> str:
    extra = {1: " with advantage", 0: "", -1: " with disadvantage"}[advantage]
    return f"Duality dice {modifier:+} against difficulty {difficulty}{extra}"


def _tell(context: Context, rng: RngUsed, event_seq: int | None) -> None:
    meta: dict[str, Any] = context.result_meta
    meta[RNG] = rng
    if event_seq is not None:
        meta[EVENT_SEQ] = event_seq
