"""Tools for Duality dice and pools of arbitrary dice."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub import Context, Image, Text
from hubbub.pack import own_meta
from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.chart import PNG, draw
from hubbub.packs.tabletop.dice import DiceRoll, DiceSpec
from hubbub.packs.tabletop.duality import SIDES, Explanation, Probability, Resolution, RulesVersion
from hubbub.packs.tabletop.notation import NotationTerm
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, RngUsed
from hubbub.packs.tabletop.table import CampaignId, ContextId, SessionId, Table

RNG: Final = "rng"
"""Key in `_meta` of a result: the parameters that reproduce the roll."""
EVENT_SEQ: Final = "event_seq"
"""Key in `_meta` of a result: the number of the event that records the roll."""
REQUEST_ID: Final = "request_id"

Face = Annotated[int, Meta(ge=1, le=SIDES)]
Modifier = Annotated[int, Meta(ge=-limits.INT32 - 1, le=limits.INT32, description="Added to the sum of the dice.")]
Target = Annotated[int, Meta(ge=0, le=limits.INT32)]
Difficulty = Annotated[Target | None, Meta(description="What the total must reach; left out if there is none.")]
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
    """Value that the die added to the total; negative if it was subtracted."""
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
    """Register the tools."""
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
        dice: Annotated[list[DiceSpec], Meta(min_length=1, max_length=limits.DICE_SPECS)],
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
            dice: Which dice, kind by kind; 1000 dice in all at most.
        """
        scene = scene_of(context.scope, campaign_id, session_id, actor_id, context_id)
        result = await backend.roll_dice(dice, rng=rng or LIVE, scene=scene)
        _tell(context, result.rng, result.event_seq)
        return DiceRolled(result.rolls, result.total, UNSET if rng is None else result.rng)

    @table.writes
    async def roll_notation(
        *,
        notation: Annotated[str, Meta(max_length=limits.NOTATION_CHARACTERS)],
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
        hope: Face,
        fear: Face,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
    ) -> Resolution:
        """Evaluate Hope and Fear dice that have already fallen, without rolling.

        Args:
            hope: What the Hope die shows.
            fear: What the Fear die shows.
        """
        return await backend.resolve(hope, fear, modifier, difficulty)

    @table.reads
    async def duality_explain(
        *,
        hope: Face,
        fear: Face,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
        request_id: str | None = None,
        context: Context,
    ) -> Explanation:
        """Explain the outcome of Hope and Fear dice that have already fallen, step by step.

        Args:
            hope: What the Hope die shows.
            fear: What the Fear die shows.
            request_id: A name of your own for this question; it comes back in _meta.
        """
        if request_id is not None:
            _say(context, REQUEST_ID, checks.optional_name(request_id, "request id"))
        return await backend.explain(hope, fear, modifier, difficulty, request_id=request_id)

    @table.reads
    async def duality_probability(
        *, modifier: Modifier = 0, difficulty: Target, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> Probability:
        """Count exactly how many of the 144 falls of the two dice have each outcome.

        success_count includes criticals, so success_count and failure_count add up to 144. With
        advantage or disadvantage the falls of all three dice are counted, which are 864.

        Args:
            difficulty: What the total must reach.
        """
        return await backend.probability(modifier, difficulty, advantage - disadvantage)

    @table.reads
    async def duality_chart(
        *, modifier: Modifier = 0, difficulty: Target, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> list[Image | Text]:
        """Draw the exact odds of each outcome as a PNG picture, with the numbers as text.

        Args:
            difficulty: What the total must reach.
        """
        odds = await backend.probability(modifier, difficulty, advantage - disadvantage)
        png, text = await asyncio.to_thread(draw, odds, _title(modifier, difficulty, advantage - disadvantage))
        return [Image(png, PNG), Text(text)]


def _title(modifier: int, difficulty: Target, advantage: int) -> str:
    extra = {1: " with advantage", 0: "", -1: " with disadvantage"}[advantage]
    return f"Duality dice {modifier:+} against difficulty {difficulty}{extra}"


def _tell(context: Context, rng: RngUsed, event_seq: int | None) -> None:
    _say(context, RNG, rng)
    if event_seq is not None:
        _say(context, EVENT_SEQ, event_seq)


def _say(context: Context, key: str, value: Any) -> None:
    context.result_meta.update(own_meta(key, value))
