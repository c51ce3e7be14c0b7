"""A keeper of campaigns for others: what each call of the gRPC services asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hubbub.packs.tabletop.dice import DiceSpec
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import (
    ActorChange,
    ActorKind,
    Controller,
    GmMode,
    PageRequest,
    ParticipantChange,
    Role,
)
from hubbub.packs.tabletop.transfer import read_document
from hubbub.packs.tabletop.wire import campaign_pb2, duality_pb2, session_pb2
from hubbub.packs.tabletop.wire import convert as values
from hubbub.packs.tabletop.wire import convert_rolls as rolls
from hubbub.packs.tabletop.wire.convert import given

if TYPE_CHECKING:
    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.rpc import Handler


def handlers(backend: Backend) -> dict[str, Handler]:
    """A handler for each call: the methods of the services below, under the names of the calls."""
    found: dict[str, Handler] = {}
    for service in (CampaignService(backend), SessionService(backend), DualityService(backend)):
        for name in vars(type(service)):
            if not name.startswith("_"):
                found["".join(word.title() for word in name.split("_"))] = getattr(service, name)
    return found


def _page(
    request: (
        campaign_pb2.ListCampaignsRequest
        | campaign_pb2.ListParticipantsRequest
        | campaign_pb2.ListActorsRequest
        | session_pb2.ListSessionsRequest
        | session_pb2.ListEventsRequest
    ),
) -> PageRequest:
    return PageRequest(request.page_size, request.page_token)


def _role(number: int) -> Role:
    return values.word_of(Role, campaign_pb2.ParticipantRole, number, "role")


def _kind(number: int) -> ActorKind:
    return values.word_of(ActorKind, campaign_pb2.ActorKind, number, "actor kind")


def _controller(number: int) -> Controller:
    if number == campaign_pb2.CONTROLLER_UNSPECIFIED:
        return Controller.HUMAN
    prefix = values.CONTROLLER_PREFIX
    return values.word_of(Controller, campaign_pb2.Controller, number, "controller", prefix)


class CampaignService:
    """Campaigns, participants, actors."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def create_campaign(self, request: campaign_pb2.CreateCampaignRequest) -> campaign_pb2.CreateCampaignResponse:
        mode = values.word_of(GmMode, campaign_pb2.GmMode, request.gm_mode, "gm mode")
        campaign = await self._backend.create_campaign(request.name, mode, request.theme_prompt)
        return campaign_pb2.CreateCampaignResponse(campaign=values.to_campaign(campaign))

    async def list_campaigns(self, request: campaign_pb2.ListCampaignsRequest) -> campaign_pb2.ListCampaignsResponse:
        page = await self._backend.list_campaigns(_page(request))
        return campaign_pb2.ListCampaignsResponse(
            campaigns=map(values.to_campaign, page.items), next_page_token=page.next_page_token
        )

    async def get_campaign(self, request: campaign_pb2.GetCampaignRequest) -> campaign_pb2.GetCampaignResponse:
        campaign = await self._backend.get_campaign(request.campaign_id)
        return campaign_pb2.GetCampaignResponse(campaign=values.to_campaign(campaign))

    async def export_campaign(self, request: campaign_pb2.ExportCampaignRequest) -> campaign_pb2.ExportCampaignResponse:
        document = await self._backend.export_campaign(request.campaign_id, with_events=not request.without_events)
        return campaign_pb2.ExportCampaignResponse(document_json=msgspec.json.encode(document))

    async def import_campaign(self, request: campaign_pb2.ImportCampaignRequest) -> campaign_pb2.ImportCampaignResponse:
        campaign = await self._backend.import_campaign(read_document(request.document_json))
        return campaign_pb2.ImportCampaignResponse(campaign=values.to_campaign(campaign))

    async def create_participant(
        self, request: campaign_pb2.CreateParticipantRequest
    ) -> campaign_pb2.CreateParticipantResponse:
        participant = await self._backend.create_participant(
            request.campaign_id, request.display_name, _role(request.role), _controller(request.controller)
        )
        return campaign_pb2.CreateParticipantResponse(participant=values.to_participant(participant))

    async def list_participants(
        self, request: campaign_pb2.ListParticipantsRequest
    ) -> campaign_pb2.ListParticipantsResponse:
        page = await self._backend.list_participants(request.campaign_id, _page(request))
        return campaign_pb2.ListParticipantsResponse(
            participants=map(values.to_participant, page.items), next_page_token=page.next_page_token
        )

    async def get_participant(self, request: campaign_pb2.GetParticipantRequest) -> campaign_pb2.GetParticipantResponse:
        participant = await self._backend.get_participant(request.campaign_id, request.participant_id)
        return campaign_pb2.GetParticipantResponse(participant=values.to_participant(participant))

    async def update_participant(
        self, request: campaign_pb2.UpdateParticipantRequest
    ) -> campaign_pb2.UpdateParticipantResponse:
        change = ParticipantChange(
            display_name=given(request, "display_name"),
            role=_role(request.role) if request.HasField("role") else None,
            controller=_controller(request.controller) if request.HasField("controller") else None,
        )
        participant = await self._backend.update_participant(request.campaign_id, request.participant_id, change)
        return campaign_pb2.UpdateParticipantResponse(participant=values.to_participant(participant))

    async def delete_participant(
        self, request: campaign_pb2.DeleteParticipantRequest
    ) -> campaign_pb2.DeleteParticipantResponse:
        participant = await self._backend.delete_participant(request.campaign_id, request.participant_id)
        return campaign_pb2.DeleteParticipantResponse(participant=values.to_participant(participant))

    async def create_actor(self, request: campaign_pb2.CreateActorRequest) -> campaign_pb2.CreateActorResponse:
        kind = _kind(request.kind)
        actor = await self._backend.create_actor(request.campaign_id, request.name, kind, request.notes)
        return campaign_pb2.CreateActorResponse(actor=values.to_actor(actor))

    async def list_actors(self, request: campaign_pb2.ListActorsRequest) -> campaign_pb2.ListActorsResponse:
        page = await self._backend.list_actors(request.campaign_id, _page(request))
        return campaign_pb2.ListActorsResponse(
            actors=map(values.to_actor, page.items), next_page_token=page.next_page_token
        )

    async def get_actor(self, request: campaign_pb2.GetActorRequest) -> campaign_pb2.GetActorResponse:
        actor = await self._backend.get_actor(request.campaign_id, request.actor_id)
        return campaign_pb2.GetActorResponse(actor=values.to_actor(actor))

    async def update_actor(self, request: campaign_pb2.UpdateActorRequest) -> campaign_pb2.UpdateActorResponse:
        change = ActorChange(
            name=given(request, "name"),
            kind=_kind(request.kind) if request.HasField("kind") else None,
            notes=given(request, "notes"),
        )
        actor = await self._backend.update_actor(request.campaign_id, request.actor_id, change)
        return campaign_pb2.UpdateActorResponse(actor=values.to_actor(actor))

    async def delete_actor(self, request: campaign_pb2.DeleteActorRequest) -> campaign_pb2.DeleteActorResponse:
        actor = await self._backend.delete_actor(request.campaign_id, request.actor_id)
        return campaign_pb2.DeleteActorResponse(actor=values.to_actor(actor))

    async def set_default_control(
        self, request: campaign_pb2.SetDefaultControlRequest
    ) -> campaign_pb2.SetDefaultControlResponse:
        controller = values.from_controller(request.controller)
        control = await self._backend.set_control(request.campaign_id, request.actor_id, controller)
        return campaign_pb2.SetDefaultControlResponse(
            campaign_id=control.campaign_id,
            actor_id=control.actor_id,
            controller=values.to_controller(control.controller),
        )

    async def get_default_control(
        self, request: campaign_pb2.GetDefaultControlRequest
    ) -> campaign_pb2.GetDefaultControlResponse:
        control = await self._backend.get_control(request.campaign_id, request.actor_id)
        return campaign_pb2.GetDefaultControlResponse(
            campaign_id=control.campaign_id,
            actor_id=control.actor_id,
            controller=values.to_controller(control.controller),
        )


class SessionService:
    """Sessions and events."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def start_session(self, request: session_pb2.StartSessionRequest) -> session_pb2.StartSessionResponse:
        session = await self._backend.start_session(request.campaign_id, request.name)
        return session_pb2.StartSessionResponse(session=values.to_session(session))

    async def end_session(self, request: session_pb2.EndSessionRequest) -> session_pb2.EndSessionResponse:
        session = await self._backend.end_session(request.campaign_id, given(request, "session_id"))
        return session_pb2.EndSessionResponse(session=values.to_session(session))

    async def get_session(self, request: session_pb2.GetSessionRequest) -> session_pb2.GetSessionResponse:
        session = await self._backend.get_session(request.campaign_id, request.session_id)
        return session_pb2.GetSessionResponse(session=values.to_session(session))

    async def list_sessions(self, request: session_pb2.ListSessionsRequest) -> session_pb2.ListSessionsResponse:
        page = await self._backend.list_sessions(request.campaign_id, _page(request))
        return session_pb2.ListSessionsResponse(
            sessions=map(values.to_session, page.items), next_page_token=page.next_page_token
        )

    async def append_event(self, request: session_pb2.AppendEventRequest) -> session_pb2.AppendEventResponse:
        data = values.from_json(request.data_json)
        event = await self._backend.append_event(values.from_scene(request.scene), request.type, data)
        return session_pb2.AppendEventResponse(event=values.to_event(event))

    async def list_events(self, request: session_pb2.ListEventsRequest) -> session_pb2.ListEventsResponse:
        page = await self._backend.list_events(
            request.campaign_id,
            _page(request),
            session_id=given(request, "session_id"),
            type=given(request, "type"),
            newest_first=request.newest_first,
        )
        return session_pb2.ListEventsResponse(
            events=map(values.to_event, page.items), next_page_token=page.next_page_token
        )

    async def verify_events(self, request: session_pb2.VerifyEventsRequest) -> session_pb2.VerifyEventsResponse:
        first_break = await self._backend.verify_events(request.campaign_id)
        return session_pb2.VerifyEventsResponse(first_break=first_break)


class DualityService:
    """Dice."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def action_roll(self, request: duality_pb2.ActionRollRequest) -> duality_pb2.ActionRollResponse:
        scene = values.from_scene(request.scene) if request.HasField("scene") else None
        roll = await self._backend.action_roll(
            request.modifier,
            given(request, "difficulty"),
            advantage=request.advantage,
            rng=rolls.from_rng(request.rng),
            scene=scene,
        )
        return rolls.to_action_roll(roll)

    async def duality_outcome(self, request: duality_pb2.DualityOutcomeRequest) -> duality_pb2.DualityOutcomeResponse:
        found = await self._backend.resolve(request.hope, request.fear, request.modifier, given(request, "difficulty"))
        return duality_pb2.DualityOutcomeResponse(**rolls.resolution_fields(found))

    async def duality_explain(self, request: duality_pb2.DualityExplainRequest) -> duality_pb2.DualityExplainResponse:
        found = await self._backend.explain(
            request.hope,
            request.fear,
            request.modifier,
            given(request, "difficulty"),
            request_id=request.request_id,
        )
        return rolls.to_explanation(found)

    async def duality_probability(
        self, request: duality_pb2.DualityProbabilityRequest
    ) -> duality_pb2.DualityProbabilityResponse:
        return rolls.to_probability(
            await self._backend.probability(request.modifier, request.difficulty, request.advantage)
        )

    async def rules_version(self, request: duality_pb2.RulesVersionRequest) -> duality_pb2.RulesVersionResponse:
        return rolls.to_rules(await self._backend.rules_version())

    async def roll_dice(self, request: duality_pb2.RollDiceRequest) -> duality_pb2.RollDiceResponse:
        if not request.dice:
            raise InvalidArgument("dice must name at least one die, as {sides, count}")
        scene = values.from_scene(request.scene) if request.HasField("scene") else None
        dice = [DiceSpec(spec.sides, spec.count) for spec in request.dice]
        return rolls.to_dice(await self._backend.roll_dice(dice, rng=rolls.from_rng(request.rng), scene=scene))

    async def roll_notation(self, request: duality_pb2.RollNotationRequest) -> duality_pb2.RollNotationResponse:
        scene = values.from_scene(request.scene) if request.HasField("scene") else None
        rng = rolls.from_rng(request.rng)
        return rolls.to_notation(await self._backend.roll_notation(request.notation, rng=rng, scene=scene))
