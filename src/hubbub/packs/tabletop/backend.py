"""The interface of a campaign backend, in this process or on a campaign server.

Every method raises a `Failure` and nothing else, and has changed nothing when it does. Strings are passed as callers
gave them; the backend trims and validates them. Lists are in the order of creation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from hubbub.packs.tabletop.campaign_document import CampaignDocument
from hubbub.packs.tabletop.dice import DiceResult, DiceSpec
from hubbub.packs.tabletop.duality import ActionRoll, Explanation, Probability, Resolution, RulesVersion
from hubbub.packs.tabletop.model import (
    FIRST_PAGE,
    Actor,
    ActorChange,
    ActorKind,
    Campaign,
    Control,
    Controller,
    Event,
    GmMode,
    Page,
    PageRequest,
    Participant,
    ParticipantChange,
    Role,
    Scene,
    Session,
)
from hubbub.packs.tabletop.notation import NotationResult
from hubbub.packs.tabletop.randomness import LIVE, RngRequest
from hubbub.packs.tabletop.store_status import StoreStatus

T = TypeVar("T")


class Campaigns(Protocol):
    """Campaigns and their participants."""

    async def create_campaign(self, name: str, gm_mode: GmMode, theme_prompt: str = "") -> Campaign:
        """Create a campaign."""

    async def get_campaign(self, campaign_id: str) -> Campaign:
        """Return one campaign."""

    async def list_campaigns(self, page: PageRequest = FIRST_PAGE) -> Page[Campaign]:
        """Return one page of campaigns."""

    async def export_campaign(self, campaign_id: str, *, without_events: bool = False) -> CampaignDocument:
        """Return a whole campaign as one document, read in one transaction."""

    async def import_campaign(self, document: CampaignDocument) -> Campaign:
        """Create the campaign of a document, under its own ids. FailedPrecondition if it already exists."""

    async def create_participant(
        self, campaign_id: str, display_name: str, role: Role, controller: Controller = Controller.HUMAN
    ) -> Participant:
        """Add a participant to a campaign."""

    async def get_participant(self, campaign_id: str, participant_id: str) -> Participant:
        """Return one participant. InvalidArgument if they are in another campaign."""

    async def list_participants(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Participant]:
        """Return one page of the participants of a campaign."""

    async def update_participant(self, campaign_id: str, participant_id: str, change: ParticipantChange) -> Participant:
        """Change at least one field."""

    async def delete_participant(self, campaign_id: str, participant_id: str) -> Participant:
        """Remove a participant and return their last state; their actors are left without a controller."""


class Actors(Protocol):
    """The characters of campaigns, and who controls them."""

    async def create_actor(self, campaign_id: str, name: str, kind: ActorKind, notes: str = "") -> Actor:
        """Add an actor to a campaign."""

    async def get_actor(self, campaign_id: str, actor_id: str) -> Actor:
        """Return one actor. InvalidArgument if it is in another campaign."""

    async def list_actors(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Actor]:
        """Return one page of the actors of a campaign."""

    async def update_actor(self, campaign_id: str, actor_id: str, change: ActorChange) -> Actor:
        """Change at least one field."""

    async def delete_actor(self, campaign_id: str, actor_id: str) -> Actor:
        """Remove an actor from a campaign and return its last state."""

    async def set_control(self, campaign_id: str, actor_id: str, controller: str) -> Control:
        """Set who controls an actor: "GM" in any case, or a participant's id."""

    async def get_control(self, campaign_id: str, actor_id: str) -> Control:
        """Return who controls an actor; `controller` is None if that was never set."""


class Sessions(Protocol):
    """The sessions of campaigns, and their events."""

    async def start_session(self, campaign_id: str, name: str = "") -> Session:
        """Start a session. FailedPrecondition, with the id of the active session, if there is one."""

    async def end_session(self, campaign_id: str, session_id: str | None = None) -> Session:
        """End a session, or the active one. FailedPrecondition if it has ended, or none is active."""

    async def get_session(self, campaign_id: str, session_id: str) -> Session:
        """Return one session. InvalidArgument if it is in another campaign."""

    async def list_sessions(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Session]:
        """Return one page of the sessions of a campaign."""

    async def append_event(self, scene: Scene, type: str, data: dict[str, Any]) -> Event:
        """Append an event to a campaign. Event types that the backend writes itself are refused."""

    async def list_events(
        self,
        campaign_id: str,
        page: PageRequest = FIRST_PAGE,
        *,
        session_id: str | None = None,
        type: str | None = None,
        newest_first: bool = False,
    ) -> Page[Event]:
        """Return one page of events, optionally of one session or of one type."""

    async def verify_events(self, campaign_id: str) -> int | None:
        """Return the number of the first event that was modified or is missing; None if all are intact."""


class Rolls(Protocol):
    """Dice rolls. With a scene, a live roll is written to the campaign's events before it is returned."""

    async def rules_version(self) -> RulesVersion:
        """Return the version of the rules."""

    async def action_roll(
        self,
        modifier: int = 0,
        difficulty: int | None = None,
        *,
        advantage: int = 0,
        rng: RngRequest = LIVE,
        scene: Scene | None = None,
    ) -> ActionRoll:
        """Roll hope and fear; with advantage (1) or disadvantage (-1), one more die."""

    async def resolve(self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Resolution:
        """Evaluate dice that have already been rolled."""

    async def explain(
        self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None, *, request_id: str | None = None
    ) -> Explanation:
        """Evaluate dice that have already been rolled, step by step."""

    async def probability(self, modifier: int, difficulty: int, advantage: int = 0) -> Probability:
        """Return the exact probabilities."""

    async def roll_dice(
        self, dice: Sequence[DiceSpec], *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> DiceResult:
        """Roll arbitrary dice."""

    async def roll_notation(
        self, notation: str, *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> NotationResult:
        """Roll dice in a notation such as 4d6kh3+2."""


class Backend(Campaigns, Actors, Sessions, Rolls, Protocol):
    """The complete interface."""

    status: StoreStatus
    """Results of the last reads and writes."""

    async def check(self) -> None:
        """Check that the backend can serve requests now; raise a `Failure` that says what to do if it cannot."""

    async def close(self) -> None:
        """Close files and connections. May be called twice."""


async def iterate_all(fetch: Callable[[PageRequest], Awaitable[Page[T]]], size: int = 0) -> AsyncIterator[T]:
    """Yield all items of a list, page by page: `iterate_all(backend.list_campaigns)`."""
    token = ""
    while True:
        page = await fetch(PageRequest(size, token))
        for item in page.items:
            yield item
        token = page.next_page_token
        if not token:
            return
