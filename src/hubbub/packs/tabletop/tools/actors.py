"""Tools for actors, the characters of the story, and who controls them."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Actor, ActorChange, ActorKind, Control, PageRequest
from hubbub.packs.tabletop.service import (
    ACTOR_COUNT_CHANGED,
    ACTORS_CHANGED,
    CampaignId,
    ContextId,
    PageSize,
    PageToken,
    TabletopService,
)


class ActorPage(msgspec.Struct, frozen=True):
    """One page of actors, in the order of creation."""

    actors: tuple[Actor, ...]
    next_page_token: str | UnsetType = UNSET


def register(service: TabletopService) -> None:
    """Register the tools."""
    _register_actors(service)
    _register_control(service)


def _register_actors(service: TabletopService) -> None:
    backend, resolve_campaign = service.backend, service.contexts.resolve_campaign_id

    @service.write_tool
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
            name: The name of the character.
            kind: PC (player character) or NPC (non-player character).
            notes: Further notes.
        """
        created = await backend.create_actor(
            resolve_campaign(context.scope, campaign_id, context_id), name, kind, notes
        )
        service.notify_changed(ACTOR_COUNT_CHANGED, created.campaign_id)
        return created

    @service.read_tool
    async def actor_get(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Get an actor of a campaign."""
        return await backend.get_actor(resolve_campaign(context.scope, campaign_id, context_id), actor_id)

    @service.read_tool
    async def actor_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> ActorPage:
        """List the actors of a campaign, in the order of creation."""
        campaign = resolve_campaign(context.scope, campaign_id, context_id)
        page = await backend.list_actors(campaign, PageRequest(page_size, page_token))
        return ActorPage(page.items, page.next_page_token or UNSET)

    @service.update_tool
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
        """Change an actor; omitted fields stay unchanged.

        Args:
            name: The new name of the character.
            kind: PC (player character) or NPC (non-player character).
            notes: Further notes; they replace the previous ones.
        """
        change = ActorChange(name=name, kind=kind, notes=notes)
        changed = await backend.update_actor(resolve_campaign(context.scope, campaign_id, context_id), actor_id, change)
        service.notify_changed(ACTORS_CHANGED, changed.campaign_id)
        return changed

    @service.delete_tool
    async def actor_delete(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Actor:
        """Delete an actor of a campaign. Returns its last state."""
        deleted = await backend.delete_actor(resolve_campaign(context.scope, campaign_id, context_id), actor_id)
        service.notify_changed(ACTOR_COUNT_CHANGED, deleted.campaign_id)
        return deleted


def _register_control(service: TabletopService) -> None:
    backend, resolve_campaign = service.backend, service.contexts.resolve_campaign_id

    @service.update_tool
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
        control = await backend.set_control(
            resolve_campaign(context.scope, campaign_id, context_id), actor_id, controller
        )
        service.notify_changed(ACTORS_CHANGED, control.campaign_id)
        return control

    @service.read_tool
    async def actor_control_get(
        *,
        campaign_id: CampaignId = None,
        actor_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Control:
        """Get who controls an actor by default: GM, a participant's id, or null if that was never set."""
        return await backend.get_control(resolve_campaign(context.scope, campaign_id, context_id), actor_id)
