"""An upstream in this process: a pack, a server written in Python.

Calls go straight to the server in their caller's own revision, and nothing is translated.
They have a deadline, a limit and a breaker like those of a server elsewhere: a tool that hangs
here must not hold its callers either. Its lists are asked for as any client would ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client.watching import LISTS as CHANGED_LISTS
from hubbub.client.watching import Change
from hubbub.errors import DeadlineExceeded, HubbubError, UpstreamUnavailable
from hubbub.hub.breaker import Breaker
from hubbub.hub.slots import Slots
from hubbub.hub.snapshot import EMPTY_SNAPSHOT, Entry, Snapshot, entries
from hubbub.hub.upstream import Phase, Upstream, UpstreamOptions, UpstreamState
from hubbub.ports import Peer
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.model import NO_META, Call, Caller, Note, Reply
from hubbub.protocol.params import PageParams
from hubbub.protocol.revisions import NEWEST_MODERN
from hubbub.protocol.shape import shape
from hubbub.server.audience import EVERY_SCOPE, RESOURCE_UPDATED
from hubbub.server.methods import capabilities
from hubbub.server.server import Server

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
        self.on_change: Callable[[Upstream, Change], None] | None = None
        self.on_state: Callable[[Upstream], None] | None = None
        self._options = options
        self._snapshot = EMPTY_SNAPSHOT
        self._watched: set[str] = set()
        self._outdated = False
        self._refreshing: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._slots = Slots(f"calls to {id}", options.max_calls, options.max_waiting)
        self._breaker = Breaker(options.breaker_failures)
        self._phase: Phase = "idle"
        self._since = time.time()
        self._calls = self._failures = 0

    def __repr__(self) -> str:
        return f"<LocalUpstream {self.id!r}: {self._phase}>"

    @property
    def snapshot(self) -> Snapshot:
        """Its lists."""
        return self._snapshot

    @property
    def state(self) -> UpstreamState:
        """How it is doing now."""
        return UpstreamState(
            id=self.id,
            phase="down" if self._phase == "ready" and not self._breaker.is_closed else self._phase,
            transport="local",
            era=NEWEST_MODERN.era,
            version=NEWEST_MODERN.version,
            reason=None if self._breaker.is_closed else self._breaker.reason,
            retry_in_s=self._breaker.retry_in_s,
            since=self._since,
            in_flight=self._slots.running + self._slots.lent,
            waiting=self._slots.waiting,
            calls=self._calls,
            failures=self._failures,
        )

    # -- life ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the server's lifespan, and read its lists.

        Raises: whatever the lifespan raises.
        """
        if self._running is not None:
            return
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(opened))
        try:
            await asyncio.shield(opened)
        except asyncio.CancelledError:
            self._stop.set()
            raise
        await self.refresh()

    async def close(self, drain_s: float = bounds.UPSTREAM_DRAIN_S) -> None:
        """Take no more calls, let those that run finish, then close the lifespan."""
        self._set_phase("closing")
        try:
            async with asyncio.timeout(drain_s):
                await self._slots.idle()
        except TimeoutError:
            pass  # They go on for as long as their callers wait.
        self._stop.set()
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self, opened: asyncio.Future[None]) -> None:
        """One task opens and closes the lifespan: it may hold things that only their own task may close."""
        try:
            async with self.server.running():
                self.server.audience.add(self)
                self._set_phase("ready")
                opened.set_result(None)
                await self._stop.wait()
                self.server.audience.remove(self)
        except BaseException as error:
            self._set_phase("down")
            if opened.done():
                raise
            if isinstance(error, asyncio.CancelledError):
                opened.cancel()
                raise
            opened.set_exception(error)

    # -- calls ---------------------------------------------------------------------------

    async def request(self, call: Call) -> Reply:
        """Hand the call to the server."""
        if self._phase != "ready" and not (self._phase == "closing" and self.holds(call)):
            raise UpstreamUnavailable(self.id, "it is not running")
        if not self._breaker.admit():
            raise UpstreamUnavailable(self.id, self._breaker.reason, self._breaker.retry_in_s)
        deadline = asyncio.get_running_loop().time() + self._options.timeout_s
        if call.deadline is not None:
            deadline = min(deadline, call.deadline)
        try:
            await self._slots.take(deadline)
        except BaseException:
            self._breaker.abandoned()
            raise
        try:
            return await self._serve(call, asyncio.timeout_at(deadline))
        finally:
            self._slots.give_back()

    async def _serve(self, call: Call, limit: asyncio.Timeout) -> Reply:
        self._calls += 1
        if call.caller.capabilities:
            call = msgspec.structs.replace(call, back=_Way(call.back, self._slots, limit))
        try:
            async with limit:
                reply = await self.server.peer.request(call)
        except TimeoutError:
            raise self._failed(DeadlineExceeded("The answer", self._options.timeout_s)) from None
        except asyncio.CancelledError:
            self._breaker.abandoned()
            raise
        except HubbubError:
            self._answered()
            raise
        self._answered()
        return reply

    def _answered(self) -> None:
        was_closed = self._breaker.is_closed
        self._breaker.succeeded()
        if not was_closed and self.on_state is not None:
            self.on_state(self)

    def _failed(self, error: HubbubError) -> UpstreamUnavailable:
        self._failures += 1
        self._breaker.failed(error.message)
        if not self._breaker.is_closed and self.on_state is not None:
            self.on_state(self)
        return UpstreamUnavailable(self.id, error.message, self._breaker.retry_in_s, may_have_executed=True)

    def holds(self, call: Call) -> bool:
        """Whether a call comes back for an exchange that waits in the server."""
        return self.server.rounds.holds(call)

    async def notify(self, note: Note) -> None:
        """Hand the notification to the server."""
        await self.server.peer.notify(note)

    # -- lists and changes ---------------------------------------------------------------

    async def refresh(self) -> None:
        """Read all lists."""
        before = self._snapshot
        found: dict[str, Any] = {name: await self._list(*where) for name, where in _LISTS.items()}
        info = self.server.info
        self._snapshot = Snapshot(
            **found,
            capabilities=capabilities(self.server, _asking("server/discover", PageParams(), self.server)),
            instructions=self.server.instructions,
            revision=NEWEST_MODERN,
            name=info.name,
            version=info.version,
            title=None if info.title is UNSET else info.title,
        )
        if self.on_change is not None:
            for name in ("tools", "prompts"):
                if getattr(before, name) != found[name]:
                    self.on_change(self, Change(name))
            if (before.resources, before.templates) != (found["resources"], found["templates"]):
                self.on_change(self, Change("resources"))

    async def subscribe(self, uri: str) -> None:
        """Hear of changes of a resource through `on_change`."""
        self._watched.add(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Hear of them no more."""
        self._watched.discard(uri)

    @property
    def scope(self) -> str:
        """Whose changes it is told of: everybody's."""
        return EVERY_SCOPE

    def dedicate(self, caller: Caller) -> None:
        """Nothing: it is told with each call who asks."""

    def end_scope(self, scope: str) -> None:
        """A caller's session has ended."""
        self.server.end_scope(scope)

    @property
    def watching(self) -> set[str]:
        """The resources that it is told of."""
        return self._watched

    def hear(self, note: Note) -> None:
        """The server tells of a change."""
        if note.method == RESOURCE_UPDATED:
            if note.params.uri in self._watched and self.on_change is not None:
                self.on_change(self, Change("resource", note.params.uri, note.scope))
        elif note.method in CHANGED_LISTS:
            self._outdated = True
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh_while_outdated())

    async def _refresh_while_outdated(self) -> None:
        while self._outdated:
            self._outdated = False
            await self.refresh()

    async def _list(self, method: str, member: str, key: str) -> tuple[Entry, ...]:
        found: list[dict[str, Raw]] = []
        cursor: Any = UNSET
        while True:
            reply = await self.server.request(_asking(method, PageParams(cursor=cursor), self.server))
            members = _decode(msgspec.json.encode(shape(reply, NEWEST_MODERN, {})))
            found += _decode_entries(members[member])
            if "nextCursor" not in members:
                return entries(found, key)
            cursor = msgspec.json.decode(members["nextCursor"], type=str)

    def _set_phase(self, phase: Phase) -> None:
        if phase != self._phase:
            self._phase, self._since = phase, time.time()
            if self.on_state is not None:
                self.on_state(self)


class _Way:
    """The way back of one call: while its caller is asked something, neither its time runs nor does it hold a slot."""

    def __init__(self, back: Peer, slots: Slots, limit: asyncio.Timeout) -> None:
        self._back = back
        self._slots = slots
        self._limit = limit

    async def request(self, call: Call) -> Reply:
        """Ask the caller."""
        loop, when = asyncio.get_running_loop(), self._limit.when()
        if when is None:  # it is being asked something else already
            return await self._back.request(call)
        left = when - loop.time()
        self._set_deadline(None)
        self._slots.lend()
        try:
            return await self._back.request(call)
        finally:
            self._slots.take_again()
            self._set_deadline(loop.time() + left)

    def _set_deadline(self, when: float | None) -> None:
        with suppress(RuntimeError):  # The call is over, and something that it left behind still asks.
            self._limit.reschedule(when)

    async def notify(self, note: Note) -> None:
        """Tell the caller."""
        await self._back.notify(note)


def _asking(method: str, params: PageParams, back: Peer) -> Call:
    """A question of the hub's own."""
    caller = Caller(revision=NEWEST_MODERN)
    raw = Raw(msgspec.json.encode(params))
    return Call(id=NULL, method=method, raw=raw, params=params, meta=NO_META, caller=caller, back=back)
