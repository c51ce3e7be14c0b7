"""The tools of the shared state: write, read, delete and synchronise keys."""

from typing import Any, Final

from hubbub import ArgumentsInvalid, Server
from hubbub.packs.peers.admission import admission_note
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.contract_tool import (
    ACTS,
    DESTROYS,
    READS,
    SESSION,
    TARGET,
    ContractTool,
    Fields,
    Result,
    boolean,
    string,
)
from hubbub.packs.peers.sessions import Sessions
from hubbub.packs.peers.state_sync import StateSync, fields_of

_SET: Final[Fields] = {
    **SESSION,
    "key": string("Which key."),
    "value": {"description": "Any JSON."},
    "broadcast": boolean("Tell all peers at once; otherwise they hear of it with the next comparison.", True),
    **TARGET,
}
_DELETE: Final[Fields] = {**SESSION, "key": string("The key to delete.")}
_GET: Final[Fields] = {
    **SESSION,
    "key": string("Which key; all if left out."),
    "include_meta": boolean("Tell by whom and when each was written, too.", False),
}
_SYNC: Final[Fields] = {
    **SESSION,
    "mode": string(
        "Ask for all that others have, or send all that is here.", enum=["request", "send"], default="request"
    ),
    **TARGET,
}


def register_state_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""

    @ContractTool("vdo_state_set", _SET, ("session_id", "key"), ACTS).on(server)
    async def state_set(arguments: Arguments) -> Result:
        """Write a key of the shared state. The last write wins, and all peers come to agree on it."""
        session, target = sessions.of(arguments), arguments.target()
        key = arguments["key"]
        if not isinstance(key, str) or not key.strip():
            raise ArgumentsInvalid("key is required")
        entry = session.state.set(key, arguments["value"])
        is_for_peers = target.name is not None or arguments.flag("broadcast", True)
        if is_for_peers:
            session.state.send(entry, session.resolve(target.name))
        shown = fields_of(entry)
        if "value" not in arguments:
            del shown["value"]
        note = admission_note(session.room, target.name) if is_for_peers else {}
        return {"ok": True, "session_id": session.id, "entry": shown, **note}

    @ContractTool("vdo_state_get", _GET, ("session_id",), READS).on(server)
    async def state_get(arguments: Arguments) -> Result:
        """Read a key of the shared state, or all of it."""
        session, key = sessions.of(arguments), arguments.text("key") or None
        has_meta = arguments.flag("include_meta", False)
        value = _everything(session.state, has_meta) if key is None else _one(session.state, key, has_meta)
        return {"ok": True, "session_id": session.id, "key": key, "include_meta": has_meta, "value": value}

    @ContractTool("vdo_state_sync", _SYNC, ("session_id",), ACTS).on(server)
    async def state_sync(arguments: Arguments) -> Result:
        """Compare with one peer, or with all, without waiting for the next time."""
        session, target = sessions.of(arguments), arguments.target()
        mode = arguments.choice("mode", ("request", "send"), "request")
        used = session.resolve(target.name)
        ok = session.state.ask(used) if mode == "request" else await session.state.send_all(used)
        note = {} if ok else admission_note(session.room, used)
        return {"ok": ok, "session_id": session.id, "mode": mode, "used_target": used, **note}

    @ContractTool("vdo_state_delete", _DELETE, ("session_id", "key"), DESTROYS).on(server)
    async def state_delete(arguments: Arguments) -> Result:
        """Delete a key of the shared state, here and at all peers; peers that run the original keep it as null."""
        session, key = sessions.of(arguments), arguments.needed_text("key")
        return {
            "ok": True,
            "session_id": session.id,
            "key": key,
            "deleted": session.state.delete(key) is not None,
            **admission_note(session.room, None),
        }


def _one(state: StateSync, key: str, has_meta: bool) -> Any:
    entry = state.shared.get(key)
    if entry is None:
        return None
    return fields_of(entry) if has_meta else entry.value


def _everything(state: StateSync, has_meta: bool) -> Any:
    entries = state.shared.entries
    if has_meta:
        return {"entries": [fields_of(entry) for entry in entries], "actor_clock": state.shared.actor_clock}
    return {entry.key: entry.value for entry in entries}
