"""Client and handlers of `hubbub campaign-server`, made from one table: `GrpcBackend` calls, `handlers` answer.

A row of the table names a method of `Backend`, the RPC that carries it, and the field of the response that has its
result. Arguments and results are converted by the type hints of the method. The client refuses only what a message
cannot hold; all other checks are the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, get_type_hints

from google.protobuf.message import Message

from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend import Backend
from hubbub.packs.tabletop.rpc import METHODS, ClientTls, Handler, RpcChannel
from hubbub.packs.tabletop.wire.convert import Codec, Fields, result_codec

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """A method of `Backend` as an RPC."""

    method: str
    arguments: Fields
    result: Codec


CALLS: Final[dict[str, Call]] = {}
"""Calls by their RPC names; filled by the table in `GrpcBackend`."""


def _call(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    rpc: str,
    field: str | None = None,
    *,
    is_long: bool = False,
) -> Callable[Concatenate[GrpcBackend, P], Coroutine[Any, Any, T]]:
    """Return a method that calls the server. Without a field, the result is the whole response."""
    types, parameters = get_type_hints(method), signature(method)
    result = result_codec(types.pop("return"), METHODS[rpc].response, field)
    arguments = Fields(types, METHODS[rpc].request)
    CALLS[rpc] = Call(method.__name__, arguments, result)

    async def call(self: GrpcBackend, /, *given: P.args, **named: P.kwargs) -> T:
        bound = parameters.bind(self, *given, **named)
        bound.apply_defaults()
        deadline_s = limits.TABLE_WHOLE_CALL_S if is_long else 0
        response = await self._channel.call(rpc, arguments.message(bound.arguments), deadline_s=deadline_s)
        found: T = result.read(response)
        return found

    return call


class GrpcBackend:
    """A `Backend` that calls a campaign server."""

    def __init__(
        self, address: str, *, deadline_s: float | None = None, token: str | None = None, tls: ClientTls | None = None
    ) -> None:
        deadline_s = limits.TABLE_CALL_S if deadline_s is None else deadline_s
        self._channel = RpcChannel(address, deadline_s=deadline_s, token=token, tls=tls)
        self.status = self._channel.status

    async def check(self) -> None:
        await self._channel.check()

    async def close(self) -> None:
        await self._channel.close()

    create_campaign = _call(Backend.create_campaign, "CreateCampaign", "campaign")
    get_campaign = _call(Backend.get_campaign, "GetCampaign", "campaign")
    list_campaigns = _call(Backend.list_campaigns, "ListCampaigns", "campaigns")
    export_campaign = _call(Backend.export_campaign, "ExportCampaign", "document", is_long=True)
    import_campaign = _call(Backend.import_campaign, "ImportCampaign", "campaign", is_long=True)

    create_participant = _call(Backend.create_participant, "CreateParticipant", "participant")
    get_participant = _call(Backend.get_participant, "GetParticipant", "participant")
    list_participants = _call(Backend.list_participants, "ListParticipants", "participants")
    update_participant = _call(Backend.update_participant, "UpdateParticipant", "participant")
    delete_participant = _call(Backend.delete_participant, "DeleteParticipant", "participant")

    create_actor = _call(Backend.create_actor, "CreateActor", "actor")
    get_actor = _call(Backend.get_actor, "GetActor", "actor")
    list_actors = _call(Backend.list_actors, "ListActors", "actors")
    update_actor = _call(Backend.update_actor, "UpdateActor", "actor")
    delete_actor = _call(Backend.delete_actor, "DeleteActor", "actor")
    set_control = _call(Backend.set_control, "SetDefaultControl")
    get_control = _call(Backend.get_control, "GetDefaultControl")

    start_session = _call(Backend.start_session, "StartSession", "session")
    end_session = _call(Backend.end_session, "EndSession", "session")
    get_session = _call(Backend.get_session, "GetSession", "session")
    list_sessions = _call(Backend.list_sessions, "ListSessions", "sessions")
    append_event = _call(Backend.append_event, "AppendEvent", "event")
    list_events = _call(Backend.list_events, "ListEvents", "events")
    verify_events = _call(Backend.verify_events, "VerifyEvents", "first_break", is_long=True)

    rules_version = _call(Backend.rules_version, "RulesVersion")
    action_roll = _call(Backend.action_roll, "ActionRoll")
    resolve = _call(Backend.resolve, "DualityOutcome")
    explain = _call(Backend.explain, "DualityExplain")
    probability = _call(Backend.probability, "DualityProbability")
    roll_dice = _call(Backend.roll_dice, "RollDice")
    roll_notation = _call(Backend.roll_notation, "RollNotation")


def handlers(backend: Backend) -> dict[str, Handler]:
    """Return the handler of each RPC, for a campaign server."""
    return {rpc: _handler(getattr(backend, call.method), call) for rpc, call in CALLS.items()}


def _handler(method: Callable[..., Coroutine[Any, Any, Any]], call: Call) -> Handler:
    async def handle(request: Message) -> Message:
        response: Message = call.result.write(await method(**call.arguments.read(request)))
        return response

    return handle
