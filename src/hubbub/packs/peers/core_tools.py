"""The tools that every profile has: sessions, messages, events, status and peers."""

from typing import Any, Final

from hubbub import ArgumentsInvalid, Context, Server
from hubbub.packs.peers import limits
from hubbub.packs.peers.admission import admission_note
from hubbub.packs.peers.arguments import Arguments, Target
from hubbub.packs.peers.contract_tool import (
    NON_DESTRUCTIVE,
    READ_ONLY,
    SESSION,
    TARGET,
    ContractTool,
    Fields,
    Result,
    integer,
)
from hubbub.packs.peers.event_queue import EventFilter
from hubbub.packs.peers.file_tools import describe_folders
from hubbub.packs.peers.js_json import JsonError
from hubbub.packs.peers.profiles import active_profile
from hubbub.packs.peers.room import SendResult
from hubbub.packs.peers.session import Session
from hubbub.packs.peers.session_options import connect_fields, read_options
from hubbub.packs.peers.sessions import Sessions

_EVENTS_DEFAULT_AND_MAX: Final = (50, limits.PEER_EVENTS_READ)
_WAIT_MS_DEFAULT_AND_MAX: Final = (0, limits.PEER_EVENTS_WAIT_MS)
_SEND: Final[Fields] = {**SESSION, "data": {"description": "Any JSON value; it arrives unchanged."}, **TARGET}
_RECEIVE: Final[Fields] = {
    **SESSION,
    "max_events": integer("Maximum number of events to return.", *_EVENTS_DEFAULT_AND_MAX),
    "wait_ms": integer("How long to wait for an event if none is queued.", *_WAIT_MS_DEFAULT_AND_MAX, minimum=0),
    "types": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Return only events of these types, such as data_received or file_*; others stay queued.",
    },
}
_NEEDS_SESSION: Final = ("session_id",)
_RELIABILITY: Final = (
    "Ordered and complete while a channel is open. Messages to absent peers are not stored. "
    "Whether two networks can connect depends on them; a TURN relay helps but does not guarantee it."
)


def register_core_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""
    _register_sessions(server, sessions)
    _register_messages(server, sessions)
    _register_status(server, sessions)
    _register_capabilities(server, sessions)
    _register_sync(server, sessions)


def _register_sessions(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_connect", connect_fields(sessions.settings), ("room",), NON_DESTRUCTIVE).register(server)
    async def connect(arguments: Arguments) -> Result:
        """Join a room and connect to its peers. Pass the session_id of the result to the other tools."""
        profile = active_profile(server)
        options = read_options(
            arguments,
            sessions.settings,
            sessions.secrets,
            has_files=profile.has("vdo_file_"),
            has_state=profile.has("vdo_state_"),
        )
        session = await sessions.open(options, arguments.owner)
        return {"ok": True, **session.status(), "effective_config": session.options.effective_config()}


def _register_messages(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_send", _SEND, ("session_id", "data"), NON_DESTRUCTIVE).register(server)
    async def send(arguments: Arguments) -> Result:
        """Send data to one peer, or to all. ok is true if the channel of at least one peer accepted it."""
        session, target = sessions.get(arguments), arguments.target()
        data = arguments.require("data")
        used_target = _resolve_target(session, target)
        try:
            sent = session.room.send(data, to=_recipient(used_target, target))
        except JsonError as error:
            raise ArgumentsInvalid(f"invalid data: {error}") from error
        return _format_sent(session, sent, used_target, _recipient(used_target, target))

    @ContractTool("vdo_receive", _RECEIVE, _NEEDS_SESSION, NON_DESTRUCTIVE).register(server)
    async def receive(arguments: Arguments) -> Result:
        """Return and remove queued events: messages, peers, files, state. With wait_ms, wait for one."""
        session = sessions.get(arguments)
        wait_ms = arguments.count("wait_ms", *_WAIT_MS_DEFAULT_AND_MAX, minimum=0)
        events = await session.events.read(
            arguments.count("max_events", *_EVENTS_DEFAULT_AND_MAX), wait_ms / 1000, _read_filter(arguments)
        )
        return {
            "ok": True,
            "session_id": session.id,
            "event_count": len(events),
            "events": events,
            "remaining_events": len(session.events),
            "dropped_events": session.events.dropped,
        }


def _register_status(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_status", SESSION, _NEEDS_SESSION, READ_ONLY).register(server)
    async def status(arguments: Arguments) -> Result:
        """Return the status of a session and its peers."""
        session = sessions.get(arguments)
        return {"ok": True, **session.status(), "sync_peers": session.sync_peers()}

    @ContractTool("vdo_disconnect", SESSION, _NEEDS_SESSION, NON_DESTRUCTIVE).register(server)
    async def disconnect(arguments: Arguments) -> Result:
        """Leave the room and end the session."""
        session = sessions.get(arguments)
        return {"ok": True, "session_id": session.id, "closed_at": await sessions.end(session)}

    @ContractTool("vdo_list_sessions", {}, (), READ_ONLY).register(server)
    async def list_sessions(arguments: Arguments) -> Result:
        """List the open sessions."""
        return {"ok": True, "sessions": [session.status() for session in sessions.owned_by(arguments.owner)]}


def _register_capabilities(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_capabilities", {}, (), READ_ONLY).register_with_context(server)
    async def capabilities(arguments: Arguments, context: Context) -> Result:
        """Return what this server supports, and the active tool profile."""
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
            "tool_profile": profile.to_result(),
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
            **({"files": describe_folders(sessions.settings.files)} if has_files else {}),
        }


def _register_sync(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_sync_peers", SESSION, _NEEDS_SESSION, READ_ONLY).register(server)
    async def sync_peers(arguments: Arguments) -> Result:
        """List the peers of a session: identity, authentication and capabilities."""
        session = sessions.get(arguments)
        peers = session.sync_peers()
        return {"ok": True, "session_id": session.id, "peer_count": len(peers), "peers": peers}

    @ContractTool("vdo_sync_announce", {**SESSION, **TARGET}, _NEEDS_SESSION, NON_DESTRUCTIVE).register(server)
    async def sync_announce(arguments: Arguments) -> Result:
        """Send a hello to one peer, or to all, now instead of at the next interval."""
        session, target = sessions.get(arguments), arguments.target()
        used_target = _resolve_target(session, target)
        to = _recipient(used_target, target)
        return _format_sent(session, session.room.announce(to=to), used_target, to)


def _read_filter(arguments: Arguments) -> EventFilter:
    types = arguments["types"]
    if isinstance(types, str):
        types = [types]
    if not isinstance(types, list):
        return EventFilter()
    return EventFilter(
        tuple(each.strip() for each in types[: limits.PEER_EVENT_TYPES] if isinstance(each, str) and each.strip())
    )


def _resolve_target(session: Session, target: Target) -> Any:
    """Return the target as the result shows it: an object unchanged, a name as the uuid of its peer."""
    return target.given if isinstance(target.given, dict) else session.resolve(target.name)


def _recipient(used_target: Any, target: Target) -> str | None:
    return target.name if isinstance(used_target, dict) else used_target


def _format_sent(session: Session, sent: SendResult, used_target: Any, to: str | None) -> Result:
    result = {"ok": sent.ok, "session_id": session.id, "used_target": used_target, "sent_count": len(sent.recipients)}
    if sent.failed:
        result["failed"] = dict(sent.failed)
    if "not_admitted" in sent.failed.values():
        result |= admission_note(session.room, to)
    return result
