"""What a keeper of campaigns does, wherever it is: in this process or at the other end of a wire.

Every method raises a `Failure` and nothing else, and has changed nothing when it does. Texts
are taken as callers gave them; the keeper trims and checks them. Lists are in the order in
which things were made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

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
from hubbub.packs.tabletop.transfer import CampaignDocument

T = TypeVar("T")


class Campaigns(Protocol):
    """Campaigns and who takes part in them."""

    async def create_campaign(self, name: str, gm_mode: GmMode, theme_prompt: str = "") -> Campaign:
        """A new campaign."""

    async def get_campaign(self, campaign_id: str) -> Campaign:
        """One campaign."""

    async def list_campaigns(self, page: PageRequest = FIRST_PAGE) -> Page[Campaign]:
        """All campaigns."""

    async def export_campaign(self, campaign_id: str, *, with_events: bool = True) -> CampaignDocument:
        """Everything about a campaign, as it is at one moment."""

    async def import_campaign(self, document: CampaignDocument) -> Campaign:
        """Make the campaign of a document, under its own ids. FailedPrecondition if it is here already."""

    async def create_participant(
        self, campaign_id: str, display_name: str, role: Role, controller: Controller = Controller.HUMAN
    ) -> Participant:
        """Somebody joins."""

    async def get_participant(self, campaign_id: str, participant_id: str) -> Participant:
        """One participant. InvalidArgument if they are in another campaign."""

    async def list_participants(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Participant]:
        """Everybody in a campaign."""

    async def update_participant(self, campaign_id: str, participant_id: str, change: ParticipantChange) -> Participant:
        """Change at least one thing."""

    async def delete_participant(self, campaign_id: str, participant_id: str) -> Participant:
        """Somebody leaves; whom they controlled, nobody controls any more. Returns who it was."""


class Actors(Protocol):
    """The characters of campaigns, and who controls them."""

    async def create_actor(self, campaign_id: str, name: str, kind: ActorKind, notes: str = "") -> Actor:
        """A new character."""

    async def get_actor(self, campaign_id: str, actor_id: str) -> Actor:
        """One actor. InvalidArgument if it is in another campaign."""

    async def list_actors(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Actor]:
        """All of a campaign."""

    async def update_actor(self, campaign_id: str, actor_id: str, change: ActorChange) -> Actor:
        """Change at least one thing."""

    async def delete_actor(self, campaign_id: str, actor_id: str) -> Actor:
        """Take one out of the campaign. Returns what it was."""

    async def set_control(self, campaign_id: str, actor_id: str, controller: str) -> Control:
        """Name who controls an actor: "GM" in any case, or a participant's id."""

    async def get_control(self, campaign_id: str, actor_id: str) -> Control:
        """Who controls an actor; `controller` is None where nobody was named."""


class Sessions(Protocol):
    """The evenings of campaigns, and what happened."""

    async def start_session(self, campaign_id: str, name: str = "") -> Session:
        """Begin. FailedPrecondition, naming the session, while another is active."""

    async def end_session(self, campaign_id: str, session_id: str | None = None) -> Session:
        """End one, or the active one. FailedPrecondition if it has ended, or none is active."""

    async def get_session(self, campaign_id: str, session_id: str) -> Session:
        """One session. InvalidArgument if it is of another campaign."""

    async def list_sessions(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Session]:
        """All of a campaign."""

    async def append_event(self, scene: Scene, type: str, data: dict[str, Any]) -> Event:
        """Write something to a campaign's events. The types that the keeper itself writes are refused."""

    async def list_events(
        self,
        campaign_id: str,
        page: PageRequest = FIRST_PAGE,
        *,
        session_id: str | None = None,
        type: str | None = None,
        newest_first: bool = False,
    ) -> Page[Event]:
        """What happened, all of it or only in one session or of one type."""

    async def verify_events(self, campaign_id: str) -> int | None:
        """The number of the first event that is not as it was written; None if all are."""


class Rolls(Protocol):
    """Dice. With a scene, a live roll is written to the campaign's events before anybody sees it."""

    async def rules_version(self) -> RulesVersion:
        """Which rules these are."""

    async def action_roll(
        self,
        modifier: int = 0,
        difficulty: int | None = None,
        *,
        advantage: int = 0,
        rng: RngRequest = LIVE,
        scene: Scene | None = None,
    ) -> ActionRoll:
        """Throw hope and fear; with advantage (1) or disadvantage (-1), one more die."""

    async def resolve(self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Resolution:
        """What dice that have fallen mean."""

    async def explain(
        self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None, *, request_id: str = ""
    ) -> Explanation:
        """The same, step by step."""

    async def probability(self, modifier: int, difficulty: int, advantage: int = 0) -> Probability:
        """The exact odds."""

    async def roll_dice(
        self, dice: Sequence[DiceSpec], *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> DiceResult:
        """Throw any dice."""

    async def roll_notation(
        self, notation: str, *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> NotationResult:
        """Throw what a text such as 4d6kh3+2 asks for."""


class Backend(Campaigns, Actors, Sessions, Rolls, Protocol):
    """All of it."""

    async def check(self) -> None:
        """Return if it can do its work now; raise a `Failure` that says what to do if it cannot."""

    async def close(self) -> None:
        """Let go of files and connections. May be called twice."""


async def every(fetch: Callable[[PageRequest], Awaitable[Page[T]]], size: int = 0) -> AsyncIterator[T]:
    """Everything in a list, page by page: `every(backend.list_campaigns)`."""
    token = ""
    while True:
        page = await fetch(PageRequest(size, token))
        for item in page.items:
            yield item
        token = page.next_page_token
        if not token:
            return
