"""The keeper of campaigns in another process, which `hubbub campaign-server` runs.

What does not fit its messages is refused here, in the words that the keeper itself would use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message

from hubbub import bounds
from hubbub.packs.tabletop import checks, duality
from hubbub.packs.tabletop.dice import DiceResult, DiceSpec, check_dice
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
from hubbub.packs.tabletop.randomness import LIVE, RngRequest, check_rng
from hubbub.packs.tabletop.rpc import RpcChannel
from hubbub.packs.tabletop.transfer import CampaignDocument, check_document, read_document
from hubbub.packs.tabletop.wire import campaign_pb2, duality_pb2, session_pb2
from hubbub.packs.tabletop.wire import convert as values
from hubbub.packs.tabletop.wire import convert_rolls as rolls

M = TypeVar("M", bound=Message)


class GrpcBackend:
    """A `Backend` at the other end of a channel."""

    def __init__(self, address: str, *, deadline_s: float = bounds.TABLE_CALL_S) -> None:
        self._channel = RpcChannel(address, deadline_s=deadline_s)

    async def check(self) -> None:
        await self._channel.check()

    async def close(self) -> None:
        await self._channel.close()

    # -- campaigns and participants ----------------------------------------------

    async def create_campaign(self, name: str, gm_mode: GmMode, theme_prompt: str = "") -> Campaign:
        mode = values.number_of(campaign_pb2.GmMode, gm_mode)
        request = _make(campaign_pb2.CreateCampaignRequest, name=name, gm_mode=mode, theme_prompt=theme_prompt)
        return values.from_campaign((await self._channel.call("CreateCampaign", request)).campaign)

    async def get_campaign(self, campaign_id: str) -> Campaign:
        request = _make(campaign_pb2.GetCampaignRequest, campaign_id=campaign_id)
        return values.from_campaign((await self._channel.call("GetCampaign", request)).campaign)

    async def list_campaigns(self, page: PageRequest = FIRST_PAGE) -> Page[Campaign]:
        answer = await self._channel.call("ListCampaigns", _make(campaign_pb2.ListCampaignsRequest, **_page(page)))
        return Page(tuple(map(values.from_campaign, answer.campaigns)), answer.next_page_token)

    async def export_campaign(self, campaign_id: str, *, with_events: bool = True) -> CampaignDocument:
        request = _make(campaign_pb2.ExportCampaignRequest, campaign_id=campaign_id, without_events=not with_events)
        answer = await self._channel.call("ExportCampaign", request, deadline_s=bounds.TABLE_WHOLE_CALL_S)
        return read_document(answer.document_json)

    async def import_campaign(self, document: CampaignDocument) -> Campaign:
        check_document(document)
        request = _make(campaign_pb2.ImportCampaignRequest, document_json=msgspec.json.encode(document))
        answer = await self._channel.call("ImportCampaign", request, deadline_s=bounds.TABLE_WHOLE_CALL_S)
        return values.from_campaign(answer.campaign)

    async def create_participant(
        self, campaign_id: str, display_name: str, role: Role, controller: Controller = Controller.HUMAN
    ) -> Participant:
        request = _make(
            campaign_pb2.CreateParticipantRequest,
            campaign_id=campaign_id,
            display_name=display_name,
            role=values.number_of(campaign_pb2.ParticipantRole, role),
            controller=values.number_of(campaign_pb2.Controller, controller, values.CONTROLLER_PREFIX),
        )
        return values.from_participant((await self._channel.call("CreateParticipant", request)).participant)

    async def get_participant(self, campaign_id: str, participant_id: str) -> Participant:
        request = _make(campaign_pb2.GetParticipantRequest, campaign_id=campaign_id, participant_id=participant_id)
        return values.from_participant((await self._channel.call("GetParticipant", request)).participant)

    async def list_participants(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Participant]:
        request = _make(campaign_pb2.ListParticipantsRequest, campaign_id=campaign_id, **_page(page))
        answer = await self._channel.call("ListParticipants", request)
        return Page(tuple(map(values.from_participant, answer.participants)), answer.next_page_token)

    async def update_participant(self, campaign_id: str, participant_id: str, change: ParticipantChange) -> Participant:
        role, controller = change.role, change.controller
        prefix = values.CONTROLLER_PREFIX
        request = _make(
            campaign_pb2.UpdateParticipantRequest,
            campaign_id=campaign_id,
            participant_id=participant_id,
            display_name=change.display_name,
            role=None if role is None else values.number_of(campaign_pb2.ParticipantRole, role),
            controller=None if controller is None else values.number_of(campaign_pb2.Controller, controller, prefix),
        )
        return values.from_participant((await self._channel.call("UpdateParticipant", request)).participant)

    async def delete_participant(self, campaign_id: str, participant_id: str) -> Participant:
        request = _make(campaign_pb2.DeleteParticipantRequest, campaign_id=campaign_id, participant_id=participant_id)
        return values.from_participant((await self._channel.call("DeleteParticipant", request)).participant)

    # -- actors --------------------------------------------------------------------

    async def create_actor(self, campaign_id: str, name: str, kind: ActorKind, notes: str = "") -> Actor:
        number = values.number_of(campaign_pb2.ActorKind, kind)
        request = _make(campaign_pb2.CreateActorRequest, campaign_id=campaign_id, name=name, kind=number, notes=notes)
        return values.from_actor((await self._channel.call("CreateActor", request)).actor)

    async def get_actor(self, campaign_id: str, actor_id: str) -> Actor:
        request = _make(campaign_pb2.GetActorRequest, campaign_id=campaign_id, actor_id=actor_id)
        return values.from_actor((await self._channel.call("GetActor", request)).actor)

    async def list_actors(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Actor]:
        request = _make(campaign_pb2.ListActorsRequest, campaign_id=campaign_id, **_page(page))
        answer = await self._channel.call("ListActors", request)
        return Page(tuple(map(values.from_actor, answer.actors)), answer.next_page_token)

    async def update_actor(self, campaign_id: str, actor_id: str, change: ActorChange) -> Actor:
        kind = change.kind
        request = _make(
            campaign_pb2.UpdateActorRequest,
            campaign_id=campaign_id,
            actor_id=actor_id,
            name=change.name,
            kind=None if kind is None else values.number_of(campaign_pb2.ActorKind, kind),
            notes=change.notes,
        )
        return values.from_actor((await self._channel.call("UpdateActor", request)).actor)

    async def delete_actor(self, campaign_id: str, actor_id: str) -> Actor:
        request = _make(campaign_pb2.DeleteActorRequest, campaign_id=campaign_id, actor_id=actor_id)
        return values.from_actor((await self._channel.call("DeleteActor", request)).actor)

    async def set_control(self, campaign_id: str, actor_id: str, controller: str) -> Control:
        request = _make(
            campaign_pb2.SetDefaultControlRequest,
            campaign_id=campaign_id,
            actor_id=actor_id,
            controller=values.to_controller(checks.text(controller, "controller")),
        )
        return _control(await self._channel.call("SetDefaultControl", request))

    async def get_control(self, campaign_id: str, actor_id: str) -> Control:
        request = _make(campaign_pb2.GetDefaultControlRequest, campaign_id=campaign_id, actor_id=actor_id)
        return _control(await self._channel.call("GetDefaultControl", request))

    # -- sessions and events -------------------------------------------------------

    async def start_session(self, campaign_id: str, name: str = "") -> Session:
        request = _make(session_pb2.StartSessionRequest, campaign_id=campaign_id, name=name)
        return values.from_session((await self._channel.call("StartSession", request)).session)

    async def end_session(self, campaign_id: str, session_id: str | None = None) -> Session:
        request = _make(session_pb2.EndSessionRequest, campaign_id=campaign_id, session_id=session_id)
        return values.from_session((await self._channel.call("EndSession", request)).session)

    async def get_session(self, campaign_id: str, session_id: str) -> Session:
        request = _make(session_pb2.GetSessionRequest, campaign_id=campaign_id, session_id=session_id)
        return values.from_session((await self._channel.call("GetSession", request)).session)

    async def list_sessions(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Session]:
        request = _make(session_pb2.ListSessionsRequest, campaign_id=campaign_id, **_page(page))
        answer = await self._channel.call("ListSessions", request)
        return Page(tuple(map(values.from_session, answer.sessions)), answer.next_page_token)

    async def append_event(self, scene: Scene, type: str, data: dict[str, Any]) -> Event:
        request = _make(
            session_pb2.AppendEventRequest,
            scene=_make(session_pb2.Scene, **msgspec.structs.asdict(scene)),
            type=type,
            data_json=msgspec.json.encode(checks.event_data(data)),
        )
        return values.from_event((await self._channel.call("AppendEvent", request)).event)

    async def list_events(
        self,
        campaign_id: str,
        page: PageRequest = FIRST_PAGE,
        *,
        session_id: str | None = None,
        type: str | None = None,
        newest_first: bool = False,
    ) -> Page[Event]:
        request = _make(
            session_pb2.ListEventsRequest,
            campaign_id=campaign_id,
            **_page(page),
            session_id=session_id,
            type=type,
            newest_first=newest_first,
        )
        answer = await self._channel.call("ListEvents", request)
        return Page(tuple(map(values.from_event, answer.events)), answer.next_page_token)

    async def verify_events(self, campaign_id: str) -> int | None:
        request = _make(session_pb2.VerifyEventsRequest, campaign_id=campaign_id)
        answer = await self._channel.call("VerifyEvents", request, deadline_s=bounds.TABLE_WHOLE_CALL_S)
        first_break: int | None = values.given(answer, "first_break")
        return first_break

    # -- dice ----------------------------------------------------------------------

    async def rules_version(self) -> RulesVersion:
        return rolls.from_rules(await self._channel.call("RulesVersion", duality_pb2.RulesVersionRequest()))

    async def action_roll(
        self,
        modifier: int = 0,
        difficulty: int | None = None,
        *,
        advantage: int = 0,
        rng: RngRequest = LIVE,
        scene: Scene | None = None,
    ) -> ActionRoll:
        duality.check_numbers(modifier, difficulty, advantage)
        check_rng(rng)
        request = _make(
            duality_pb2.ActionRollRequest,
            modifier=modifier,
            difficulty=difficulty,
            rng=rolls.to_rng(rng),
            scene=_scene(scene),
            advantage=advantage,
        )
        return rolls.from_action_roll(await self._channel.call("ActionRoll", request))

    async def resolve(self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None) -> Resolution:
        duality.check_roll(hope, fear, modifier, difficulty)
        request = _make(
            duality_pb2.DualityOutcomeRequest, hope=hope, fear=fear, modifier=modifier, difficulty=difficulty
        )
        return rolls.from_resolution(await self._channel.call("DualityOutcome", request))

    async def explain(
        self, hope: int, fear: int, modifier: int = 0, difficulty: int | None = None, *, request_id: str = ""
    ) -> Explanation:
        duality.check_roll(hope, fear, modifier, difficulty)
        request = _make(
            duality_pb2.DualityExplainRequest,
            hope=hope,
            fear=fear,
            modifier=modifier,
            difficulty=difficulty,
            request_id=request_id or None,
        )
        return rolls.from_explanation(await self._channel.call("DualityExplain", request))

    async def probability(self, modifier: int, difficulty: int, advantage: int = 0) -> Probability:
        duality.check_numbers(modifier, difficulty, advantage)
        request = _make(
            duality_pb2.DualityProbabilityRequest, modifier=modifier, difficulty=difficulty, advantage=advantage
        )
        return rolls.from_probability(await self._channel.call("DualityProbability", request))

    async def roll_dice(
        self, dice: Sequence[DiceSpec], *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> DiceResult:
        check_dice(dice)
        check_rng(rng)
        request = _make(
            duality_pb2.RollDiceRequest,
            dice=[duality_pb2.DiceSpec(sides=spec.sides, count=spec.count) for spec in dice],
            rng=rolls.to_rng(rng),
            scene=_scene(scene),
        )
        return rolls.from_dice(await self._channel.call("RollDice", request))

    async def roll_notation(
        self, notation: str, *, rng: RngRequest = LIVE, scene: Scene | None = None
    ) -> NotationResult:
        check_rng(rng)
        request = _make(duality_pb2.RollNotationRequest, notation=notation, rng=rolls.to_rng(rng), scene=_scene(scene))
        return rolls.from_notation(await self._channel.call("RollNotation", request))


def _make(kind: type[M], /, **fields: Any) -> M:
    """A message; text that is none, such as half of a surrogate pair, does not fit into it."""
    for name, value in fields.items():
        if isinstance(value, str):
            checks.text(value, name.replace("_", " "))
    return kind(**fields)


def _page(page: PageRequest) -> dict[str, Any]:
    return {"page_size": min(max(page.size, 0), bounds.TABLE_LARGEST_PAGE), "page_token": page.token}


def _scene(scene: Scene | None) -> duality_pb2.Scene | None:
    return None if scene is None else _make(duality_pb2.Scene, **msgspec.structs.asdict(scene))


def _control(answer: Any) -> Control:
    controller = values.from_controller(answer.controller) if answer.HasField("controller") else None
    return Control(campaign_id=answer.campaign_id, actor_id=answer.actor_id, controller=controller or None)
