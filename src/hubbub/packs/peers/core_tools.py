"""The tools that every profile has: sessions, messages, events, status and peers."""

from typing import Any, Final

from hubbub import ArgumentsInvalid, Context, Server
from hubbub.packs.peers import limits
from hubbub.packs.peers.admission import admission_note
from hubbub.packs.peers.arguments import Arguments, Target
from hubbub.packs.peers.contract_tool import (
    ACTS,
    READS,
    SESSION,
    TARGET,
    ContractTool,
    Fields,
    Result,
    integer,
)
from hubbub.packs.peers.event_queue import Filter
from hubbub.packs.peers.file_tools import shown_folders
from hubbub.packs.peers.javascript import Unreadable
from hubbub.packs.peers.profiles import active_profile
from hubbub.packs.peers.room import Sent
from hubbub.packs.peers.session import Session
from hubbub.packs.peers.session_options import connect_fields, read_options
from hubbub.packs.peers.sessions import Sessions

_EVENTS: Final = (50, limits.PEER_EVENTS_READ)
_WAIT_MS: Final = (0, limits.PEER_EVENTS_WAIT_MS)
_SEND: Final[Fields] = {**SESSION, "data": {"description": "Any JSON; it arrives as it is."}, **TARGET}
_RECEIVE: Final[Fields] = {
    **SESSION,
    "max_events": integer("How many to take at most.", *_EVENTS),
    "wait_ms": integer("How long to wait if there is none.", *_WAIT_MS, least=0),
    "types": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Take only events of these types, such as data_received or file_*; the others stay.",
    },
}
_NEEDS_SESSION: Final = ("session_id",)
_RELIABILITY: Final = (
    "Ordered and complete while a channel is open. Nothing is kept for peers that are not there; "
    "whether two networks can reach each other depends on them, and a relay helps but is no promise."
)


def register_core_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""
    _register_sessions(server, sessions)
    _register_messages(server, sessions)
    _register_status(server, sessions)
    _register_capabilities(server, sessions)
    _register_sync(server, sessions)


def _register_sessions(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_connect", connect_fields(sessions.settings), ("room",), ACTS).on(server)
    async def connect(arguments: Arguments) -> Result:
        """Enter a room and find the peers in it. The session_id in the result is for all other tools."""
        profile = active_profile(server)
        options = read_options(
            arguments,
            sessions.settings,
            sessions.secrets,
            has_files=profile.has("vdo_file_"),
            has_state=profile.has("vdo_state_"),
        )
        session = await sessions.open(options, arguments.owner)
        return {"ok": True, **session.status(), "effective_config": session.options.shown()}


def _register_messages(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_send", _SEND, ("session_id", "data"), ACTS).on(server)
    async def send(arguments: Arguments) -> Result:
        """Send data to one peer, or to all. ok tells whether anybody's channel took it."""
        session, target = sessions.of(arguments), arguments.target()
        data = arguments.demand("data")
        used = _used(session, target)
        try:
            sent = session.room.send(data, to=_to(used, target))
        except Unreadable as error:
            raise ArgumentsInvalid(f"invalid data: {error}") from error
        return _sent(session, sent, used, _to(used, target))

    @ContractTool("vdo_receive", _RECEIVE, _NEEDS_SESSION, ACTS).on(server)
    async def receive(arguments: Arguments) -> Result:
        """Take the events that happened since the last time: messages, peers, files, state. Waits if asked to."""
        session = sessions.of(arguments)
        wait_ms = arguments.count("wait_ms", *_WAIT_MS, least=0)
        events = await session.events.read(arguments.count("max_events", *_EVENTS), wait_ms / 1000, _wanted(arguments))
        return {
            "ok": True,
            "session_id": session.id,
            "event_count": len(events),
            "events": events,
            "remaining_events": len(session.events),
            "dropped_events": session.events.dropped,
        }


def _register_status(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_status", SESSION, _NEEDS_SESSION, READS).on(server)
    async def status(arguments: Arguments) -> Result:
        """Tell how a session is, and who is there."""
        session = sessions.of(arguments)
        return {"ok": True, **session.status(), "sync_peers": session.sync_peers()}

    @ContractTool("vdo_disconnect", SESSION, _NEEDS_SESSION, ACTS).on(server)
    async def disconnect(arguments: Arguments) -> Result:
        """Leave a room, and end the session."""
        session = sessions.of(arguments)
        return {"ok": True, "session_id": session.id, "closed_at": await sessions.end(session)}

    @ContractTool("vdo_list_sessions", {}, (), READS).on(server)
    async def list_sessions(arguments: Arguments) -> Result:
        """List the sessions that are open."""
        return {"ok": True, "sessions": [session.status() for session in sessions.owned_by(arguments.owner)]}


def _register_capabilities(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_capabilities", {}, (), READS).with_context_on(server)
    async def capabilities(arguments: Arguments, context: Context) -> Result:
        """Tell what this server can do, with the active tool profile."""
        profile = active_profile(server)
        has_files = profile.has("vdo_file_")
        return {
            "ok": True,
            "server": {
                "name": server.info.name,
                "version": server.info.version,
                "protocol_version": context.caller.revision.version,
                "supported_protocol_versions": list(server.protocol_versions),
            },
            "tool_profile": profile.shown(),
            "features": {
                "session_messaging": True,
                "file_transfer": has_files,
                "shared_state_sync": profile.has("vdo_state_"),
            },
            "transport_truth": {
                "type": "webrtc_data_channel",
                "generic_tcp_tunnel": False,
                "turn_relays_help_reachability": True,
                "guaranteed_firewall_bypass": False,
                "reliability": _RELIABILITY,
            },
            **({"files": shown_folders(sessions.settings.files)} if has_files else {}),
        }


def _register_sync(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_sync_peers", SESSION, _NEEDS_SESSION, READS).on(server)
    async def sync_peers(arguments: Arguments) -> Result:
        """List the peers of a session: who they are, whether they proved it, what they can do."""
        session = sessions.of(arguments)
        peers = session.sync_peers()
        return {"ok": True, "session_id": session.id, "peer_count": len(peers), "peers": peers}

    @ContractTool("vdo_sync_announce", {**SESSION, **TARGET}, _NEEDS_SESSION, ACTS).on(server)
    async def sync_announce(arguments: Arguments) -> Result:
        """Say hello to one peer, or to all, without waiting for the next time."""
        session, target = sessions.of(arguments), arguments.target()
        used = _used(session, target)
        to = _to(used, target)
        return _sent(session, session.room.announce(to=to), used, to)


def _wanted(arguments: Arguments) -> Filter:
    types = arguments["types"]
    if isinstance(types, str):
        types = [types]
    if not isinstance(types, list):
        return Filter()
    return Filter(
        tuple(each.strip() for each in types[: limits.PEER_EVENT_TYPES] if isinstance(each, str) and each.strip())
    )


def _used(session: Session, target: Target) -> Any:
    """Return the target as the result shows it: an object unchanged, a name as the uuid of its peer."""
    return target.given if isinstance(target.given, dict) else session.resolve(target.name)


def _to(used: Any, target: Target) -> str | None:
    return target.name if isinstance(used, dict) else used


def _sent(session: Session, sent: Sent, used: Any, to: str | None) -> Result:
    result = {"ok": sent.ok, "session_id": session.id, "used_target": used, "sent_count": len(sent.to)}
    if sent.failed:
        result["failed"] = dict(sent.failed)
    if "not_admitted" in sent.failed.values():
        result |= admission_note(session.room, to)
    return result
