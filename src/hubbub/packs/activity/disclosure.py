"""Decide whether something may be disclosed to this caller now, and log what was disclosed.

`filtered_sources` checks the gate before it discloses anything. The call is kept in a context variable, which a wrapper
around the server sets, so that it need not be passed through every function.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hubbub import ToolError
from hubbub.packs.activity import limits
from hubbub.packs.activity.disclosure_log import DisclosureLog, make_disclosure_log
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.transforms import extract_domain

_HEALTH_TOOL: Final = "system.health"
"""Not logged: it discloses nothing about the user, and its frequent entries would push out others."""
_LOGGED_ARGUMENTS: Final = ("period", "by", "host")
"""Arguments that are logged. Others, such as a query, may quote private data."""
_TARGET_BY_METHOD: Final = {
    "tools/call": ("tool", "name"),
    "resources/read": ("resource", "uri"),
    "prompts/get": ("prompt", "name"),
}


class Unauthenticated(ToolError):
    """The caller must authenticate to get this data."""

    def __init__(self, what: str) -> None:
        message = (
            f"{what} is disclosed only to authenticated callers, because over HTTP any user of this machine can call. "
            "Create a key with `hubbub keys create NAME --key-file FILE`, serve with `--key-file FILE` and send the "
            "key as `X-API-Key`; or let your client start the server on stdio"
        )
        super().__init__(message, code="unauthenticated", data={"kind": "unauthenticated"})


class _CallRecord:
    """One call, and what was disclosed to answer it."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.has_read_sources = False
        self.events = 0
        self.buckets = 0
        self.lines = 0
        self.titles: set[str] = set()
        self.urls: set[str] = set()


_current_call: ContextVar[_CallRecord | None] = ContextVar("current_call", default=None)


class DisclosureGate:
    """Checks that data may be disclosed, and counts what was disclosed."""

    def __init__(self, settings: ActivitySettings) -> None:
        self.pause = Pause()
        self._log = make_disclosure_log(settings)

    def check(self, *, restricted_data: str | None = None) -> None:
        """Check that data may be disclosed now.

        `restricted_data`: name of data that only authenticated callers get.

        Raises: Paused, Unauthenticated.
        """
        self.pause.check()
        record = _current_call.get()
        if record is not None:
            record.has_read_sources = True
            if restricted_data is not None and record.call.caller.is_anonymous:
                raise Unauthenticated(restricted_data)

    def count_events(self, events: Sequence[Event]) -> None:
        """Count events that the privacy rules let through."""
        record = self._record_to_count()
        if record is None:
            return
        record.events += len(events)
        record.titles.update(event.text("title") for event in events)
        record.urls.update(event.text("url") for event in events)

    def count(self, *, buckets: int = 0, lines: int = 0) -> None:
        """Count bucket names and lines of the screen."""
        record = self._record_to_count()
        if record is not None:
            record.buckets = max(record.buckets, buckets)
            record.lines += lines

    def wrap_peer(self, peer: Any) -> Any:
        """Wrap a peer, for `Server.wrap`: remember the call while it runs, then log what was disclosed."""
        return _LoggingPeer(peer, self._log)

    def _record_to_count(self) -> _CallRecord | None:
        return None if self._log is None else _current_call.get()


class _LoggingPeer:
    def __init__(self, peer: Any, log: DisclosureLog | None) -> None:
        self._peer = peer
        self._log = log

    async def request(self, call: Any) -> Any:
        record = _CallRecord(call)
        token = _current_call.set(record)
        try:
            reply = await self._peer.request(call)
        finally:
            _current_call.reset(token)
        if self._log is not None and record.has_read_sources and _call_target(call)[1] != _HEALTH_TOOL:
            self._log.write(_make_log_entry(record))
        return reply

    async def notify(self, note: Any) -> None:
        await self._peer.notify(note)


def _call_target(call: Any) -> tuple[str, str]:
    """Return `tool`, `resource` or `prompt`, and its name."""
    kind, key = _TARGET_BY_METHOD.get(call.method, ("tool", ""))
    return kind, getattr(call.params, key) if key else call.method


def _make_log_entry(record: _CallRecord) -> dict[str, Any]:
    call = record.call
    kind, name = _call_target(call)
    counts = {
        "events": record.events,
        "titles": len(record.titles - {""}),
        "sites": len({extract_domain(url) for url in record.urls} - {""}),
        "buckets": record.buckets,
        "lines": record.lines,
    }
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        **_caller_fields(call.caller),
        kind: _truncate(name),
        **_argument_fields(call),
        **{name: count for name, count in counts.items() if count},
    }


def _caller_fields(caller: Any) -> dict[str, str]:
    caller_name = "stdio" if caller.has_every_scope else caller.principal.name
    found = {"caller": _truncate(caller_name)}
    if caller.address:
        found["address"] = _truncate(caller.address)
    if caller.info is not None:
        found["client"] = _truncate(caller.info.name)
    return found


def _argument_fields(call: Any) -> dict[str, str]:
    arguments = getattr(call.params, "arguments", call.raw)
    if not isinstance(arguments, dict):
        try:
            arguments = msgspec.json.decode(arguments)
        except (ValueError, TypeError, RecursionError):
            arguments = {}
    arguments = arguments if isinstance(arguments, dict) else {}
    return {name: _truncate(arguments[name]) for name in _LOGGED_ARGUMENTS if isinstance(arguments.get(name), str)}


def _truncate(text: str) -> str:
    return text[: limits.DISCLOSURE_LOG_CHARACTERS]
