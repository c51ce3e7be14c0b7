"""Prompts for a model that is, or assists, the game master. They cover mechanics; the story is up to the players."""

from __future__ import annotations

from typing import Final

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import every
from hubbub.packs.tabletop.model import PageRequest
from hubbub.packs.tabletop.table import Table

WITH_CAMPAIGN: Final = ("game_master", "session_recap")
"""Prompts whose `campaign_id` can be completed."""

_DUTIES: Final = """\
How to run the game:
- Call set_context with this campaign before anything else, and session_start when the evening begins. If set_context
  gives a context_id, pass it with every later call.
- When a player tries something whose end is open, name a difficulty, say what is at stake, and call
  duality_action_roll with the modifier and that difficulty. Never make up what dice show, and never roll twice for
  the same attempt.
- Read the outcome: WITH_HOPE means that something good comes of it for the players, WITH_FEAR that something turns
  against them, in success and in failure alike; CRITICAL_SUCCESS is the best there is.
- Before a choice that matters, duality_probability tells the exact odds. If somebody doubts a result,
  duality_explain shows each step, and the rng of a roll shows it again.
- Players decide what their characters do and feel. Ask them; do not decide for them.
- When the evening is over, call session_end and say in a few sentences where the story stands.
"""


def register(table: Table) -> None:
    """Register the prompts."""
    backend = table.backend

    @table.server.prompt(title="Game master")
    async def game_master(campaign_id: str) -> str:
        """Run a campaign as its game master.

        Args:
            campaign_id: Which campaign.
        """
        return f"You are the game master of a tabletop campaign.\n\n{await _facts(table, campaign_id)}\n{_DUTIES}"

    @table.server.prompt(title="Recap")
    async def session_recap(campaign_id: str) -> str:
        """Tell what happened lately in a campaign, as one would before the next evening begins.

        Args:
            campaign_id: Which campaign.
        """
        page = await backend.list_events(campaign_id, PageRequest(limits.RECAP_EVENTS), newest_first=True)
        happened = "\n".join(
            f"- {event.created_at:%Y-%m-%d %H:%M} {event.type} {_short(event.data)}" for event in reversed(page.items)
        )
        return (
            f"{await _facts(table, campaign_id)}\nThe latest events:\n{happened}\n\n"
            "Tell the players in one paragraph what happened and where the story stands. Add nothing that is not here."
        )


async def _facts(table: Table, campaign_id: str) -> str:
    backend = table.backend
    campaign = await backend.get_campaign(campaign_id)
    lines = [f"Campaign: {campaign.name} ({campaign.id}), game master: {campaign.gm_mode}"]
    if campaign.theme_prompt:
        lines.append(f"Theme: {campaign.theme_prompt}")
    people = await backend.list_participants(campaign.id, PageRequest(limits.TABLE_LARGEST_PAGE))
    lines += [f"At the table: {who.display_name} ({who.id}), {who.role}, {who.controller}" for who in people.items]
    async for actor in every(lambda page: backend.list_actors(campaign.id, page), limits.TABLE_LARGEST_PAGE):
        lines.append(f"{actor.kind}: {actor.name} ({actor.id})" + (f": {actor.notes}" if actor.notes else ""))
        if len(lines) > limits.TABLE_LARGEST_PAGE:
            break
    return "\n".join(lines) + "\n"


def _short(data: dict[str, object]) -> str:
    told = {key: value for key, value in data.items() if key != "rng" and not key.endswith("_id")}
    return ", ".join(f"{key} {value}" for key, value in told.items())[: limits.TABLE_NAME_CHARACTERS]
