"""The tools of the shared state: write, read, delete and synchronise keys."""

from typing import Any, Final

from hubbub import ArgumentsInvalid, Server
from hubbub.packs.peers.admission import admission_note
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.contract_tool import (
    DESTRUCTIVE,
    NON_DESTRUCTIVE,
    READ_ONLY,
    SESSION,
    TARGET,
    ContractTool,
    Fields,
    Result,
    boolean,
    string,
)
from hubbub.packs.peers.sessions import Sessions
from hubbub.packs.peers.state_sync import StateSync, entry_fields

_SET: Final[Fields] = {
    **SESSION,
    "key": string("The key to write."),
    "value": {"description": "Any JSON value."},
    "broadcast": boolean("Send it to all peers now; otherwise they get it with the next synchronisation.", True),
    **TARGET,
}
_DELETE: Final[Fields] = {**SESSION, "key": string("The key to delete.")}
_GET: Final[Fields] = {
    **SESSION,
    "key": string("The key to read; all keys if left out."),
    "include_meta": boolean("Include the writer, clock and time of each entry.", False),
}
_SYNC: Final[Fields] = {
    **SESSION,
    "mode": string(
        "Request the entries of peers, or send all entries to them.", enum=["request", "send"], default="request"
    ),
    **TARGET,
}


def register_state_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""

    @ContractTool("vdo_state_set", _SET, ("session_id", "key"), NON_DESTRUCTIVE).register(server)
    async def state_set(arguments: Arguments) -> Result:
        """Write a key of the shared state. The last write wins, and all peers converge on it."""
        session, target = sessions.get(arguments), arguments.target()
        key = arguments["key"]
        if not isinstance(key, str) or not key.strip():
            raise ArgumentsInvalid("key is required")
        entry = session.state.set(key, arguments["value"])
        is_for_peers = target.name is not None or arguments.flag("broadcast", True)
        if is_for_peers:
            session.state.send(entry, session.resolve(target.name))
        fields = entry_fields(entry)
        if "value" not in arguments:
            del fields["value"]
        note = admission_note(session.room, target.name) if is_for_peers else {}
        return {"ok": True, "session_id": session.id, "entry": fields, **note}

    @ContractTool("vdo_state_get", _GET, ("session_id",), READ_ONLY).register(server)
    async def state_get(arguments: Arguments) -> Result:
        """Read a key of the shared state, or all of it."""
        session, key = sessions.get(arguments), arguments.text("key") or None
        has_meta = arguments.flag("include_meta", False)
        value = _read_all(session.state, has_meta) if key is None else _read_key(session.state, key, has_meta)
        return {"ok": True, "session_id": session.id, "key": key, "include_meta": has_meta, "value": value}

    @ContractTool("vdo_state_sync", _SYNC, ("session_id",), NON_DESTRUCTIVE).register(server)
    async def state_sync(arguments: Arguments) -> Result:
        """Synchronise the state with one peer, or with all, now instead of at the next heartbeat."""
        session, target = sessions.get(arguments), arguments.target()
        mode = arguments.choice("mode", ("request", "send"), "request")
        used_target = session.resolve(target.name)
        ok = (
            session.state.request_snapshots(used_target)
            if mode == "request"
            else await session.state.send_all(used_target)
        )
        note = {} if ok else admission_note(session.room, used_target)
        return {"ok": ok, "session_id": session.id, "mode": mode, "used_target": used_target, **note}

    @ContractTool("vdo_state_delete", _DELETE, ("session_id", "key"), DESTRUCTIVE).register(server)
    async def state_delete(arguments: Arguments) -> Result:
        """Delete a key of the shared state, here and at all peers; VDO.Ninja bridges keep it as null."""
        session, key = sessions.get(arguments), arguments.required_text("key")
        return {
            "ok": True,
            "session_id": session.id,
            "key": key,
            "deleted": session.state.delete(key) is not None,
            **admission_note(session.room, None),
        }


def _read_key(state: StateSync, key: str, has_meta: bool) -> Any:
    entry = state.shared.get(key)
    if entry is None:
        return None
    return entry_fields(entry) if has_meta else entry.value


def _read_all(state: StateSync, has_meta: bool) -> Any:
    entries = state.shared.entries
    if has_meta:
        return {"entries": [entry_fields(entry) for entry in entries], "actor_clock": state.shared.actor_clock}
    return {entry.key: entry.value for entry in entries}
