"""Tools to export a whole campaign as JSON and to import it elsewhere."""

from hubbub import Context
from hubbub.packs.tabletop.model import Campaign
from hubbub.packs.tabletop.table import CAMPAIGN_CHANGED, CampaignId, ContextId, Table
from hubbub.packs.tabletop.transfer import CampaignDocument


def register(table: Table) -> None:
    """Register the tools."""
    backend = table.backend

    @table.reads
    async def campaign_export(
        *, campaign_id: CampaignId = None, events: bool = True, context_id: ContextId = None, context: Context
    ) -> CampaignDocument:
        """Give a whole campaign as one JSON document, to keep it or to move it to another server.

        Args:
            events: Whether what happened goes with it; without it the document is much smaller.
        """
        campaign = table.contexts.campaign(context.scope, campaign_id, context_id)
        return await backend.export_campaign(campaign, without_events=not events)

    @table.writes
    async def campaign_import(*, document: CampaignDocument) -> Campaign:
        """Take in a campaign that campaign_export gave, under its own ids; all of it or nothing.

        A campaign that is here already is refused, and so are events whose hashes are wrong.

        Args:
            document: What campaign_export gave.
        """
        taken = await backend.import_campaign(document)
        table.changed(CAMPAIGN_CHANGED, taken.id)
        return taken
