"""An upstream in this process: a pack, or a server written in Python.

Calls go directly to the server in their caller's own revision, without translation. They have a deadline, a limit and
a circuit breaker as calls to remote servers have, because a tool that hangs must not block its callers. Its lists are
read with list requests, as any client reads them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client.subscriptions import LIST_CHANGED_METHODS as CHANGED_LISTS
from hubbub.client.subscriptions import ChangeEvent
from hubbub.errors import DeadlineExceeded, HubbubError, UpstreamUnavailable
from hubbub.hub.admission import Breaker, Breakers, CallLimiter
from hubbub.hub.forwarding.forwarded_call import NoCaller
from hubbub.hub.forwarding.tenant_sessions import TenantSessions
from hubbub.hub.snapshot import EMPTY_SNAPSHOT, Entry, Snapshot, parse_entries
from hubbub.hub.upstream import Phase, ReportEvent, SessionInfo, Upstream, UpstreamOptions, UpstreamState
from hubbub.hub.upstream_health import state_for
from hubbub.protocol.calls import NO_META, Call, Caller, Notification, Principal, Reply
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.params import PageParams
from hubbub.protocol.revisions import NEWEST_MODERN
from hubbub.protocol.shape import shape
from hubbub.server.methods import capabilities
from hubbub.server.server import Server
from hubbub.server.subscriptions import EVERY_SCOPE, RESOURCE_UPDATED

logger = logging.getLogger("hubbub.hub")

_LISTS: Final = {
    "tools": ("tools/list", "tools", "name"),
    "prompts": ("prompts/list", "prompts", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
}
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_entries = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class LocalUpstream:
    """A server in this process; its lifespan is open from `start` to `close`."""

    def __init__(self, id: str, server: Server, options: UpstreamOptions) -> None:
        self.id = id
        self.server = server
        self.on_change: Callable[[Upstream, ChangeEvent], None] | None = None
        self.on_state: Callable[[Upstream], None] | None = None
        self.on_event: ReportEvent | None = None
        self._options = options
        self._snapshot = EMPTY_SNAPSHOT
        self._watched_uris: set[str] = set()
        self._is_outdated = False
        self._refresh_task: asyncio.Task[None] | None = None
        self._run_task: asyncio.Task[None] | None = None
        self._stop_event = asyncio.Event()
        self._limiter = CallLimiter(f"calls to {id}", options.max_calls, options.max_waiting)
        self._breakers = Breakers(options.breaker_failures)
        self._phase: Phase = "idle"
        self._since = time.time()
        self._calls = self._failures = 0

    def __repr__(self) -> str:
        return f"<LocalUpstream {self.id!r}: {self._phase}>"

    @property
    def snapshot(self) -> Snapshot:
        """The lists as they were last read."""
        return self._snapshot

    @property
    def state(self) -> UpstreamState:
        """Current state and counters."""
        return UpstreamState(
            id=self.id,
            phase="down" if self._phase == "ready" and not self._breakers.is_closed else self._phase,
            transport="local",
            era=NEWEST_MODERN.era,
            version=NEWEST_MODERN.version,
            reason=None if self._breakers.is_closed else self._breakers.reason,
            retry_in_s=self._breakers.retry_in_s,
            since=self._since,
            in_flight=self._limiter.running + self._limiter.yielded,
            waiting=self._limiter.waiting,
            calls=self._calls,
            failures=self._failures,
        )

    def state_for(self, caller: Caller) -> UpstreamState:
        """The state as it is for a caller."""
        return state_for(caller, self.state, self._breakers)

    # -- lifecycle -----------------------------------------------------------------------

    async def start(self) -> None:
        """Open the server's lifespan, and read its lists.

        Raises: the exceptions of the lifespan.
        """
        if self._run_task is not None:
            return
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._run_task = asyncio.create_task(self._run(opened))
        try:
            await opened
        except asyncio.CancelledError:
            self._stop_event.set()
            raise
        await self.refresh()

    async def close(self, drain_s: float | None = None) -> None:
        """Take no more calls, let those that run finish, then close the lifespan."""
        self._set_phase("closing")
        try:
            async with asyncio.timeout(bounds.UPSTREAM_DRAIN_TIMEOUT_S if drain_s is None else drain_s):
                await self._limiter.wait_until_idle()
        except TimeoutError:
            pass  # They go on for as long as their callers wait.
        self._stop_event.set()
        if self._refresh_task is not None:
            self._refresh_task.cancel()
        if self._run_task is not None:
            await asyncio.wait([self._run_task])

    async def _run(self, opened: asyncio.Future[None]) -> None:
        """Open and close the lifespan in one task, because some context managers must be closed by their own task."""
        try:
            async with self.server.running():
                self.server.broadcaster.add(self)
                self._set_phase("ready")
                if not opened.done():  # `start` may have been cancelled
                    opened.set_result(None)
                await self._stop_event.wait()
                self.server.broadcaster.remove(self)
        except BaseException as error:
            self._set_phase("down")
            if isinstance(error, asyncio.CancelledError):
                opened.cancel()
                raise
            if not opened.done():
                opened.set_exception(error)
            elif isinstance(error, Exception):
                logger.warning("lifespan_failed", extra={"server": self.id}, exc_info=True)
            else:
                raise

    # -- calls ---------------------------------------------------------------------------

    async def request(self, call: Call) -> Reply:
        """Hand the call to the server."""
        if self._phase != "ready" and not (self._phase == "closing" and self.holds(call)):
            raise UpstreamUnavailable(self.id, "it is not running")
        breaker = self._breakers.get(call.caller)
        if not breaker.admit():
            raise UpstreamUnavailable(self.id, breaker.reason, breaker.retry_in_s)
        owner = call.caller.owner
        deadline = asyncio.get_running_loop().time() + self._options.timeout_s
        if call.deadline is not None:
            deadline = min(deadline, call.deadline)
        try:
            await self._limiter.acquire(deadline, owner)
        except BaseException:
            breaker.record_abandoned()
            raise
        try:
            return await self._forward(call, asyncio.timeout_at(deadline), breaker)
        finally:
            self._limiter.release(owner)

    async def _forward(self, call: Call, limit: asyncio.Timeout, breaker: Breaker) -> Reply:
        self._calls += 1
        if call.caller.capabilities:
            call = msgspec.structs.replace(call, back=_ReturnPath(call, self._limiter, limit))
        try:
            async with limit:
                reply = await self.server.peer.request(call)
        except TimeoutError:
            error = DeadlineExceeded(f"The answer to {call.method}", self._options.timeout_s)
            raise self._record_failure(error, breaker) from None
        except asyncio.CancelledError:
            breaker.record_abandoned()
            raise
        except HubbubError:
            self._record_answer(breaker)
            raise
        self._record_answer(breaker)
        return reply

    def _record_answer(self, breaker: Breaker) -> None:
        was_closed = breaker.is_closed
        breaker.record_success()
        if not was_closed and self.on_state is not None:
            self.on_state(self)

    def _record_failure(self, error: HubbubError, breaker: Breaker) -> UpstreamUnavailable:
        self._failures += 1
        breaker.record_failure(error.message)
        if not breaker.is_closed and self.on_state is not None:
            self.on_state(self)
        return UpstreamUnavailable(self.id, error.message, breaker.retry_in_s, may_have_executed=True)

    def holds(self, call: Call) -> bool:
        """Whether a call resumes a suspended call of the server."""
        return self.server.rounds.can_resume(call)

    async def notify(self, note: Notification) -> None:
        """Hand the notification to the server."""
        await self.server.peer.notify(note)

    # -- lists and changes ---------------------------------------------------------------

    async def refresh(self) -> None:
        """Read all lists."""
        before = self._snapshot
        found: dict[str, Any] = {name: await self._read_list(*list_spec) for name, list_spec in _LISTS.items()}
        info = self.server.info
        self._snapshot = Snapshot(
            **found,
            capabilities=capabilities(),
            instructions=self.server.instructions_for(),
            revision=NEWEST_MODERN,
            name=info.name,
            version=info.version,
            title=None if info.title is UNSET else info.title,
        )
        if self.on_change is not None:
            for name in ("tools", "prompts"):
                if getattr(before, name) != found[name]:
                    self.on_change(self, ChangeEvent(name))
            if (before.resources, before.templates) != (found["resources"], found["templates"]):
                self.on_change(self, ChangeEvent("resources"))

    async def subscribe(self, uri: str, principal: str | None = None) -> None:
        """Report changes of a resource through `on_change`."""
        self._watched_uris.add(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Stop reporting changes of a resource."""
        self._watched_uris.discard(uri)

    @property
    def scope(self) -> str:
        """It receives the changes of all scopes and forwards them."""
        return EVERY_SCOPE

    @property
    def principal(self) -> None:
        """None: it receives all changes and forwards them."""

    @property
    def caller(self) -> None:
        """None, for the same reason."""

    def expect_capable(self, uniform_version: str | None = None) -> bool:
        """Do nothing: it lists the same tools to every client."""
        return False

    def set_sole_caller(self, caller: Caller) -> None:
        """Do nothing: each call carries the capabilities of its caller."""

    def end_scope(self, scope: str) -> None:
        """Notify the server that the session of a caller has ended."""
        self.server.end_scope(scope)

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the suspended calls of revoked callers."""
        self.server.end_revoked(is_revoked)

    def use_tenants(self, tenants: TenantSessions) -> None:
        """There are no sessions with a server in this process; the number of tenants decides when it is down."""
        self._breakers.count_tenants = lambda: len(tenants.names())

    def sessions(self) -> list[SessionInfo]:
        """Return none: a server in this process has no sessions."""
        return []

    async def end_sessions(self, matches: Callable[[Principal], bool], drain_s: float) -> int:
        """End the suspended calls of these principals."""
        self.server.rounds.end_callers(matches)
        return 0

    async def retire_sessions(self, drain_s: float) -> int:
        """Do nothing: a server in this process has no sessions."""
        return 0

    @property
    def watching(self) -> set[str]:
        """The resources whose changes it receives."""
        return self._watched_uris

    def handle_change(self, note: Notification) -> None:
        """Handle a notification of the server about a change."""
        if note.method == RESOURCE_UPDATED:
            if note.params.uri in self._watched_uris and self.on_change is not None:
                self.on_change(self, ChangeEvent("resource", note.params.uri, note.scope, note.principal))
        elif note.method in CHANGED_LISTS:
            self._is_outdated = True
            if self._refresh_task is None or self._refresh_task.done():
                self._refresh_task = asyncio.create_task(self._refresh_while_outdated())

    async def _refresh_while_outdated(self) -> None:
        while self._is_outdated:
            self._is_outdated = False
            await self.refresh()

    async def _read_list(self, method: str, member: str, key: str) -> tuple[Entry, ...]:
        found: list[dict[str, Raw]] = []
        cursor: Any = UNSET
        while True:
            reply = await self.server.request(_make_list_call(method, PageParams(cursor=cursor)))
            members = _decode(msgspec.json.encode(shape(reply, NEWEST_MODERN, {})))
            found += _decode_entries(members[member])
            if "nextCursor" not in members:
                return tuple(self._with_scopes(method, entry) for entry in parse_entries(found, key))
            cursor = msgspec.json.decode(members["nextCursor"], type=str)

    def _with_scopes(self, method: str, entry: Entry) -> Entry:
        """An entry with its required scopes, which lists do not contain."""
        server = self.server
        if method == "tools/list":
            declared: Any = server.tools.find(entry.name)
        else:
            declared = server.prompts.get(entry.name) if method == "prompts/list" else server.resources.get(entry.name)
        scopes = frozenset() if declared is None else declared.scopes
        return msgspec.structs.replace(entry, scopes=scopes) if scopes else entry

    def _set_phase(self, phase: Phase) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, time.time()
            if self.on_state is not None:
                self.on_state(self)


class _ReturnPath:
    """The `ReturnPath` of one call: while its caller answers a request, its timeout is paused and its slot is free."""

    def __init__(self, call: Call, limiter: CallLimiter, limit: asyncio.Timeout) -> None:
        self._back = call.back
        self._owner = call.caller.owner
        self._limiter = limiter
        self._limit = limit

    async def request(self, call: Call) -> Reply:
        """Send a request to the caller."""
        loop, when = asyncio.get_running_loop(), self._limit.when()
        if when is None:  # another request to the caller is pending
            return await self._back.request(call)
        left = when - loop.time()
        self._reschedule(None)
        self._limiter.yield_slot(self._owner)
        try:
            return await self._back.request(call)
        finally:
            self._limiter.retake_slot(self._owner)
            self._reschedule(loop.time() + left)

    def _reschedule(self, when: float | None) -> None:
        with suppress(RuntimeError):  # The call has ended, but a task that it left behind still sends requests.
            self._limit.reschedule(when)

    async def notify(self, note: Notification) -> None:
        """Send a notification to the caller."""
        await self._back.notify(note)

    def send_nowait(self, note: Notification) -> bool:
        """Queue a notification on the caller's own return path."""
        return self._back.send_nowait(note)

    async def release(self) -> None:
        """End the caller's open stream."""
        await self._back.release()


def _make_list_call(method: str, params: PageParams) -> Call:
    """A list request of the hub itself, with every scope; the front filters the items for each caller."""
    caller = Caller(revision=NEWEST_MODERN, has_every_scope=True)
    raw = Raw(msgspec.json.encode(params))
    return Call(id=NULL, method=method, raw=raw, params=params, meta=NO_META, caller=caller, back=NoCaller())
