"""Tools to export a whole campaign as JSON and to import it elsewhere."""

from hubbub import Context
from hubbub.packs.tabletop.campaign_document import CampaignDocument
from hubbub.packs.tabletop.model import Campaign
from hubbub.packs.tabletop.service import CAMPAIGN_CHANGED, CampaignId, ContextId, TabletopService


def register(service: TabletopService) -> None:
    """Register the tools."""
    backend = service.backend

    @service.read_tool
    async def campaign_export(
        *, campaign_id: CampaignId = None, events: bool = True, context_id: ContextId = None, context: Context
    ) -> CampaignDocument:
        """Export a whole campaign as one JSON document, to archive it or to move it to another server.

        Args:
            events: Whether to include the events; without them, the document is much smaller.
        """
        campaign = service.contexts.resolve_campaign_id(context.scope, campaign_id, context_id)
        return await backend.export_campaign(campaign, without_events=not events)

    @service.write_tool
    async def campaign_import(*, document: CampaignDocument) -> Campaign:
        """Import a campaign that campaign_export returned, with its ids; either completely or not at all.

        Fails if the campaign already exists, or if hashes of its events are wrong.

        Args:
            document: The result of campaign_export.
        """
        imported = await backend.import_campaign(document)
        service.notify_changed(CAMPAIGN_CHANGED, imported.id)
        return imported
