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
from hubbub.packs.tabletop.service import CampaignId, ContextId, SessionId, TabletopService

RNG: Final = "rng"
"""Key in `_meta` of a result: the parameters that reproduce the roll."""
EVENT_SEQ: Final = "event_seq"
"""Key in `_meta` of a result: the number of the event that records the roll."""
REQUEST_ID: Final = "request_id"

Face = Annotated[int, Meta(ge=1, le=SIDES)]
Modifier = Annotated[
    int, Meta(ge=-limits.INT32_MAX - 1, le=limits.INT32_MAX, description="Added to the sum of the dice.")
]
Target = Annotated[int, Meta(ge=0, le=limits.INT32_MAX)]
Difficulty = Annotated[
    Target | None, Meta(description="The total that is needed for a success; omit it for a roll without difficulty.")
]
Rng = Annotated[
    RngRequest | None,
    Meta(description="Pass {} to get the seed of the roll, or the seed of an earlier roll to repeat it."),
]
Advantage = Annotated[bool, Meta(description="Add a six-sided die to the total.")]
Disadvantage = Annotated[
    bool, Meta(description="Subtract a six-sided die from the total; together with advantage, neither is rolled.")
]
ActorId = Annotated[str | None, Meta(description="The actor that rolls, for the events of the campaign.")]


class ActionRolled(Resolution, frozen=True, kw_only=True):
    """The dice and their outcome; `rng` if it was requested, `advantage` if such a die was rolled."""

    advantage: int | UnsetType = UNSET
    """Value that the die added to the total; negative if it was subtracted."""
    rng: RngUsed | UnsetType = UNSET


class NotationRolled(msgspec.Struct, frozen=True):
    """The results of each part of the notation; `rng` if it was requested."""

    notation: str
    terms: tuple[NotationTerm, ...]
    total: int
    rng: RngUsed | UnsetType = UNSET


class DiceRolled(msgspec.Struct, frozen=True):
    """The results of all dice; `rng` if it was requested."""

    rolls: tuple[DiceRoll, ...]
    total: int
    rng: RngUsed | UnsetType = UNSET


def register(service: TabletopService) -> None:
    """Register the tools."""
    _register_rolls(service)
    _register_rules(service)


def _register_rolls(service: TabletopService) -> None:
    backend, find_scene = service.backend, service.contexts.resolve_scene

    @service.write_tool
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
        """Roll Duality dice and return the outcome.

        If a campaign is given here or in the context, the roll is written to its events.
        """
        scene = find_scene(context.scope, campaign_id, session_id, actor_id, context_id)
        roll = await backend.action_roll(
            modifier, difficulty, advantage=advantage - disadvantage, rng=rng or LIVE, scene=scene
        )
        _add_roll_meta(context, roll.rng, roll.event_seq)
        resolved = roll.resolution
        return ActionRolled(
            hope=resolved.hope,
            fear=resolved.fear,
            modifier=resolved.modifier,
            difficulty=resolved.difficulty,
            total=resolved.total,
            is_crit=resolved.is_crit,
            meets_difficulty=resolved.meets_difficulty,
            outcome=resolved.outcome,
            advantage=UNSET if roll.advantage is None else roll.advantage,
            rng=UNSET if rng is None else roll.rng,
        )

    @service.write_tool
    async def roll_dice(
        *,
        dice: Annotated[list[DiceSpec], Meta(min_length=1, max_length=limits.MAX_DICE_SPECS)],
        rng: Rng = None,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        actor_id: ActorId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> DiceRolled:
        """Roll pools of arbitrary dice and return each result.

        If a campaign is given here or in the context, the roll is written to its events.

        Args:
            dice: The dice of each kind; at most 1000 dice in total.
        """
        scene = find_scene(context.scope, campaign_id, session_id, actor_id, context_id)
        result = await backend.roll_dice(dice, rng=rng or LIVE, scene=scene)
        _add_roll_meta(context, result.rng, result.event_seq)
        return DiceRolled(result.rolls, result.total, UNSET if rng is None else result.rng)

    @service.write_tool
    async def roll_notation(
        *,
        notation: Annotated[str, Meta(max_length=limits.MAX_NOTATION_CHARACTERS)],
        rng: Rng = None,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        actor_id: ActorId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> NotationRolled:
        """Roll dice in the usual notation, such as 2d6+3, 4d6kh3 or d%.

        kh, kl, dh and dl keep or drop the highest or lowest dice. ro rerolls a die that matches,
        as in ro<3, once; rr until it no longer matches. ! adds another die for each die that
        shows its highest face. At most 1000 dice are rolled. If a campaign is given here or in
        the context, the roll is written to its events.

        Args:
            notation: The dice to roll.
        """
        scene = find_scene(context.scope, campaign_id, session_id, actor_id, context_id)
        result = await backend.roll_notation(notation, rng=rng or LIVE, scene=scene)
        _add_roll_meta(context, result.rng, result.event_seq)
        return NotationRolled(result.notation, result.terms, result.total, UNSET if rng is None else result.rng)


def _register_rules(service: TabletopService) -> None:
    backend = service.backend

    @service.read_tool
    async def duality_rules_version() -> RulesVersion:
        """Return the rules by which Duality rolls are evaluated."""
        return await backend.rules_version()

    @service.read_tool
    async def duality_outcome(
        *,
        hope: Face,
        fear: Face,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
    ) -> Resolution:
        """Evaluate Hope and Fear dice that have already been rolled.

        Args:
            hope: The value of the Hope die.
            fear: The value of the Fear die.
        """
        return await backend.resolve(hope, fear, modifier, difficulty)

    @service.read_tool
    async def duality_explain(
        *,
        hope: Face,
        fear: Face,
        modifier: Modifier = 0,
        difficulty: Difficulty = None,
        request_id: str | None = None,
        context: Context,
    ) -> Explanation:
        """Explain the outcome of Hope and Fear dice that have already been rolled, step by step.

        Args:
            hope: The value of the Hope die.
            fear: The value of the Fear die.
            request_id: An id of your own for this request, which is returned in _meta.
        """
        if request_id is not None:
            _add_meta(context, REQUEST_ID, checks.validate_optional_name(request_id, "request id"))
        return await backend.explain(hope, fear, modifier, difficulty, request_id=request_id)

    @service.read_tool
    async def duality_probability(
        *, modifier: Modifier = 0, difficulty: Target, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> Probability:
        """Count how many of the 144 combinations of the two dice have each outcome.

        success_count includes criticals, so success_count and failure_count add up to 144. With
        advantage or disadvantage, the 864 combinations of all three dice are counted.

        Args:
            difficulty: The total that is needed for a success.
        """
        return await backend.probability(modifier, difficulty, advantage - disadvantage)

    @service.read_tool
    async def duality_chart(
        *, modifier: Modifier = 0, difficulty: Target, advantage: Advantage = False, disadvantage: Disadvantage = False
    ) -> list[Image | Text]:
        """Draw the exact odds of each outcome as a PNG picture, with the numbers as text.

        Args:
            difficulty: The total that is needed for a success.
        """
        odds = await backend.probability(modifier, difficulty, advantage - disadvantage)
        png, text = await asyncio.to_thread(draw, odds, _format_title(modifier, difficulty, advantage - disadvantage))
        return [Image(png, PNG), Text(text)]


def _format_title(modifier: int, difficulty: Target, advantage: int) -> str:
    extra = {1: " with advantage", 0: "", -1: " with disadvantage"}[advantage]
    return f"Duality dice {modifier:+} against difficulty {difficulty}{extra}"


def _add_roll_meta(context: Context, rng: RngUsed, event_seq: int | None) -> None:
    _add_meta(context, RNG, rng)
    if event_seq is not None:
        _add_meta(context, EVENT_SEQ, event_seq)


def _add_meta(context: Context, key: str, value: Any) -> None:
    context.result_meta.update(own_meta(key, value))
