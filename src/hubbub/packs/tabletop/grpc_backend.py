"""Client and handlers of `hubbub campaign-server`, made from one table by `GrpcBackend` and `make_handlers`.

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
from hubbub.packs.tabletop.wire.codecs import Codec, Fields, result_codec

P = ParamSpec("P")
T = TypeVar("T")


class RemoteMethod(NamedTuple):
    """A method of `Backend` as an RPC."""

    method: str
    arguments: Fields
    result: Codec


REMOTE_METHODS: Final[dict[str, RemoteMethod]] = {}
"""Methods by their RPC names; filled by the table in `GrpcBackend`."""


def _remote_method(
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
    REMOTE_METHODS[rpc] = RemoteMethod(method.__name__, arguments, result)

    async def call(self: GrpcBackend, /, *positional: P.args, **keywords: P.kwargs) -> T:
        bound = parameters.bind(self, *positional, **keywords)
        bound.apply_defaults()
        deadline_s = limits.CAMPAIGN_CALL_TIMEOUT_S if is_long else 0
        response = await self._channel.call(rpc, arguments.message(bound.arguments), deadline_s=deadline_s)
        found: T = result.read(response)
        return found

    return call


class GrpcBackend:
    """A `Backend` that calls a campaign server."""

    def __init__(
        self, address: str, *, deadline_s: float | None = None, token: str | None = None, tls: ClientTls | None = None
    ) -> None:
        deadline_s = limits.CALL_TIMEOUT_S if deadline_s is None else deadline_s
        self._channel = RpcChannel(address, deadline_s=deadline_s, token=token, tls=tls)
        self.status = self._channel.status

    async def check(self) -> None:
        await self._channel.check()

    async def close(self) -> None:
        await self._channel.close()

    create_campaign = _remote_method(Backend.create_campaign, "CreateCampaign", "campaign")
    get_campaign = _remote_method(Backend.get_campaign, "GetCampaign", "campaign")
    list_campaigns = _remote_method(Backend.list_campaigns, "ListCampaigns", "campaigns")
    export_campaign = _remote_method(Backend.export_campaign, "ExportCampaign", "document", is_long=True)
    import_campaign = _remote_method(Backend.import_campaign, "ImportCampaign", "campaign", is_long=True)

    create_participant = _remote_method(Backend.create_participant, "CreateParticipant", "participant")
    get_participant = _remote_method(Backend.get_participant, "GetParticipant", "participant")
    list_participants = _remote_method(Backend.list_participants, "ListParticipants", "participants")
    update_participant = _remote_method(Backend.update_participant, "UpdateParticipant", "participant")
    delete_participant = _remote_method(Backend.delete_participant, "DeleteParticipant", "participant")

    create_actor = _remote_method(Backend.create_actor, "CreateActor", "actor")
    get_actor = _remote_method(Backend.get_actor, "GetActor", "actor")
    list_actors = _remote_method(Backend.list_actors, "ListActors", "actors")
    update_actor = _remote_method(Backend.update_actor, "UpdateActor", "actor")
    delete_actor = _remote_method(Backend.delete_actor, "DeleteActor", "actor")
    set_control = _remote_method(Backend.set_control, "SetDefaultControl")
    get_control = _remote_method(Backend.get_control, "GetDefaultControl")

    start_session = _remote_method(Backend.start_session, "StartSession", "session")
    end_session = _remote_method(Backend.end_session, "EndSession", "session")
    get_session = _remote_method(Backend.get_session, "GetSession", "session")
    list_sessions = _remote_method(Backend.list_sessions, "ListSessions", "sessions")
    append_event = _remote_method(Backend.append_event, "AppendEvent", "event")
    list_events = _remote_method(Backend.list_events, "ListEvents", "events")
    verify_events = _remote_method(Backend.verify_events, "VerifyEvents", "first_break", is_long=True)

    rules_version = _remote_method(Backend.rules_version, "RulesVersion")
    action_roll = _remote_method(Backend.action_roll, "ActionRoll")
    resolve = _remote_method(Backend.resolve, "DualityOutcome")
    explain = _remote_method(Backend.explain, "DualityExplain")
    probability = _remote_method(Backend.probability, "DualityProbability")
    roll_dice = _remote_method(Backend.roll_dice, "RollDice")
    roll_notation = _remote_method(Backend.roll_notation, "RollNotation")


def make_handlers(backend: Backend) -> dict[str, Handler]:
    """Return the handler of each RPC, for a campaign server."""
    return {rpc: _make_handler(getattr(backend, call.method), call) for rpc, call in REMOTE_METHODS.items()}


def _make_handler(method: Callable[..., Coroutine[Any, Any, Any]], call: RemoteMethod) -> Handler:
    async def handle(request: Message) -> Message:
        response: Message = call.result.write(await method(**call.arguments.read(request)))
        return response

    return handle
