"""The addresses of what can be read, and which of them a change makes out of date."""

from __future__ import annotations

from typing import Final

CAMPAIGNS: Final = "campaigns://list"
CONTEXT: Final = "context://current"
CAMPAIGN_SCHEME: Final = "campaign://"
CAMPAIGN: Final = "campaign://{campaign_id}"
PARTICIPANTS: Final = "campaign://{campaign_id}/participants"
ACTORS: Final = "campaign://{campaign_id}/actors"
SESSIONS: Final = "campaign://{campaign_id}/sessions"

CAMPAIGN_CHANGED: Final = (CAMPAIGNS, CAMPAIGN)
PARTICIPANTS_COUNTED: Final = (CAMPAIGNS, CAMPAIGN, PARTICIPANTS)
PARTICIPANTS_CHANGED: Final = (PARTICIPANTS,)
ACTORS_COUNTED: Final = (CAMPAIGNS, CAMPAIGN, ACTORS)
ACTORS_CHANGED: Final = (ACTORS,)
SESSIONS_CHANGED: Final = (CAMPAIGN, SESSIONS)
