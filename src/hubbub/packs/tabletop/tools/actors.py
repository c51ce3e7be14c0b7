"""Tools for actors, the characters of the story, and who controls them."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Actor, ActorChange, ActorKind, Control, PageRequest
from hubbub.packs.tabletop.table import (
    ACTORS_CHANGED,
    ACTORS_COUNTED,
    CampaignId,
    ContextId,
    PageSize,
    PageToken,
    Table,
)


class ActorPage(msgspec.Struct, frozen=True):
    """Some actors, in the order in which they were made."""

    actors: tuple[Actor, ...]
    next_page_token: str | UnsetType = UNSET


def register(table: Table) -> None:
    """Register the tools."""
    _register_actors(table)
    _register_control(table)


def _register_actors(table: Table) -> None:
    backend, campaign_of = table.backend, table.contexts.campaign

    @table.writes
    async def actor_create(
        *,
        campaign_id: CampaignId = None,
        name: str,
        kind: ActorKind,
        notes: str = "",
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Create an actor, a character of the story, in a campaign.

        Args:
            name: What the character is called.
            kind: PC, whom a player plays, or NPC.
            notes: What else there is to know.
        """
        made = await backend.create_actor(campaign_of(context.scope, campaign_id, context_id), name, kind, notes)
        table.changed(ACTORS_COUNTED, made.campaign_id)
        return made

    @table.reads
    async def actor_get(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Get an actor of a campaign."""
        return await backend.get_actor(campaign_of(context.scope, campaign_id, context_id), actor_id)

    @table.reads
    async def actor_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> ActorPage:
        """List the actors of a campaign, in the order in which they were made."""
        campaign = campaign_of(context.scope, campaign_id, context_id)
        page = await backend.list_actors(campaign, PageRequest(page_size, page_token))
        return ActorPage(page.items, page.next_page_token or UNSET)

    @table.overwrites
    async def actor_update(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        name: str | None = None,
        kind: ActorKind | None = None,
        notes: str | None = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Change an actor; what is left out stays as it is.

        Args:
            name: What the character is called from now on.
            kind: PC, whom a player plays, or NPC.
            notes: What else there is to know; replaces what was written before.
        """
        change = ActorChange(name=name, kind=kind, notes=notes)
        changed = await backend.update_actor(campaign_of(context.scope, campaign_id, context_id), actor_id, change)
        table.changed(ACTORS_CHANGED, changed.campaign_id)
        return changed

    @table.destroys
    async def actor_delete(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Take an actor out of a campaign. Tells what it was."""
        gone = await backend.delete_actor(campaign_of(context.scope, campaign_id, context_id), actor_id)
        table.changed(ACTORS_COUNTED, gone.campaign_id)
        return gone


def _register_control(table: Table) -> None:
    backend, campaign_of = table.backend, table.contexts.campaign

    @table.overwrites
    async def actor_control_set(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        controller: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Control:
        """Set who controls an actor by default.

        Args:
            controller: GM, or the id of a participant of the same campaign.
        """
        control = await backend.set_control(campaign_of(context.scope, campaign_id, context_id), actor_id, controller)
        table.changed(ACTORS_CHANGED, control.campaign_id)
        return control

    @table.reads
    async def actor_control_get(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Control:
        """Tell who controls an actor by default: GM, a participant's id, or null if nobody was named."""
        return await backend.get_control(campaign_of(context.scope, campaign_id, context_id), actor_id)
