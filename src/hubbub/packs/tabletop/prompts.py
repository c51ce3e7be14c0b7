"""Prompts for a model that is, or assists, the game master. They cover mechanics; the story is up to the players."""

from __future__ import annotations

from typing import Final

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import iterate_all
from hubbub.packs.tabletop.model import PageRequest
from hubbub.packs.tabletop.service import TabletopService

CAMPAIGN_PROMPTS: Final = ("game_master", "session_recap")
"""Prompts whose `campaign_id` can be completed."""

_INSTRUCTIONS: Final = """\
How to run the game:
- Call set_context with this campaign before anything else, and session_start when the session begins. If set_context
  returns a context_id, pass it with every later call.
- When a player tries something whose result is uncertain, name a difficulty, say what is at stake, and call
  duality_action_roll with the modifier and that difficulty. Never make up what dice show, and never roll twice for
  the same attempt.
- Read the outcome: WITH_HOPE means that something good comes of it for the players, WITH_FEAR that something turns
  against them, in success and in failure alike; CRITICAL_SUCCESS is the best outcome.
- Before a choice that matters, duality_probability returns the exact odds. If a player doubts a result,
  duality_explain shows each step, and a roll with the rng of an earlier one repeats it.
- Players decide what their characters do and feel. Ask them; do not decide for them.
- When the session is over, call session_end and say in a few sentences where the story stands.
"""


def register(service: TabletopService) -> None:
    """Register the prompts."""
    backend = service.backend

    @service.server.prompt(title="Game master")
    async def game_master(campaign_id: str) -> str:
        """Run a campaign as its game master.

        Args:
            campaign_id: Which campaign.
        """
        campaign = await _describe_campaign(service, campaign_id)
        return f"You are the game master of a tabletop campaign.\n\n{campaign}\n{_INSTRUCTIONS}"

    @service.server.prompt(title="Recap")
    async def session_recap(campaign_id: str) -> str:
        """Summarize the latest events of a campaign, for the start of the next session.

        Args:
            campaign_id: Which campaign.
        """
        page = await backend.list_events(campaign_id, PageRequest(limits.MAX_RECAP_EVENTS), newest_first=True)
        happened = "\n".join(
            f"- {event.created_at:%Y-%m-%d %H:%M} {event.type} {_short(event.data)}" for event in reversed(page.items)
        )
        return (
            f"{await _describe_campaign(service, campaign_id)}\nThe latest events:\n{happened}\n\n"
            "Tell the players in one paragraph what happened and where the story stands. Add nothing that is not here."
        )


async def _describe_campaign(service: TabletopService, campaign_id: str) -> str:
    backend = service.backend
    campaign = await backend.get_campaign(campaign_id)
    lines = [f"Campaign: {campaign.name} ({campaign.id}), game master: {campaign.gm_mode}"]
    if campaign.theme_prompt:
        lines.append(f"Theme: {campaign.theme_prompt}")
    people = await backend.list_participants(campaign.id, PageRequest(limits.MAX_PAGE_SIZE))
    lines += [f"At the table: {who.display_name} ({who.id}), {who.role}, {who.controller}" for who in people.items]
    async for actor in iterate_all(lambda page: backend.list_actors(campaign.id, page), limits.MAX_PAGE_SIZE):
        lines.append(f"{actor.kind}: {actor.name} ({actor.id})" + (f": {actor.notes}" if actor.notes else ""))
        if len(lines) > limits.MAX_PAGE_SIZE:
            break
    return "\n".join(lines) + "\n"


def _short(data: dict[str, object]) -> str:
    visible = {key: value for key, value in data.items() if key != "rng" and not key.endswith("_id")}
    return ", ".join(f"{key} {value}" for key, value in visible.items())[: limits.MAX_NAME_CHARACTERS]
