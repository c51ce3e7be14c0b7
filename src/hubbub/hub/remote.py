"""An upstream that is reached through a client: a command, an address.

Connected when first needed and kept so. Each call goes out in its caller's name: on the one
session of a modern server, which is told with every request who asks, or on a session
for this caller where a legacy server has to know from the start. A call is sent once, ever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.keeping import Keeper
from hubbub.client.passing import Passing
from hubbub.client.watching import Change
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    ProtocolVersionNotSupported,
    RemoteError,
    TransportError,
    UpstreamUnavailable,
)
from hubbub.hub.breaker import Breaker
from hubbub.hub.lists import Lists
from hubbub.hub.passage import Passage, scope_of
from hubbub.hub.questions import Questions, askable
from hubbub.hub.sessions import Pool, UpstreamSession, kind_for
from hubbub.hub.slots import Slots
from hubbub.hub.snapshot import Snapshot
from hubbub.hub.upstream import Phase, Upstream, UpstreamOptions, UpstreamState
from hubbub.net.backoff import Backoff
from hubbub.ports import Sealer
from hubbub.protocol.error_forms import in_dialect
from hubbub.protocol.model import Call, Caller, Note, RawReply, Reply
from hubbub.server.rounds import Rounds

_NO_ANSWER: Final = (TransportError, ConnectionClosed, DeadlineExceeded, ProtocolVersionNotSupported)


class RemoteUpstream:
    """A server elsewhere."""

    def __init__(
        self,
        config: ServerConfig,
        options: UpstreamOptions,
        sealer: Sealer,
        *,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        self.id = config.id
        self.on_change: Callable[[Upstream, Change], None] | None = None
        self.on_state: Callable[[Upstream], None] | None = None
        self._config = msgspec.structs.replace(config, capabilities={})
        self._options = options
        self._keeps_own = options.sessions == "own"
        self._slots = Slots(f"calls to {config.id}", options.max_calls, options.max_waiting)
        self._breaker = Breaker(options.breaker_failures, backoff=backoff())
        self._keeper = Keeper(config.id, self._make_home, backoff=backoff(), on_change=self._kept)
        self._pool = Pool(
            options,
            config.id,
            self._make_session,
            are_processes=config.transport == "stdio",
            make_room=lambda: self._rounds.give_one_up(after_s=bounds.UNANSWERED_S),
            on_start=self._watch_here_too,
            on_end=self._session_ended,
        )
        self._lists = Lists(
            config.id, self._keeper.ready, list_s=options.list_s, on_change=self._changed, on_outcome=self._listed
        )
        self._questions = Questions(config.id, sealer)
        self._rounds = Rounds(sealer)
        self._home: UpstreamSession | None = None
        self._only: Caller | None = None
        self._watched: dict[str, None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._phase: Phase = "idle"
        self._since = time.time()
        self._is_closing = False
        self._calls = self._failures = 0

    def __repr__(self) -> str:
        return f"<RemoteUpstream {self.id!r}: {self._phase}>"

    # -- what is known of it -----------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The last good lists."""
        return self._lists.snapshot

    @property
    def state(self) -> UpstreamState:
        """How it is doing now."""
        revision = self.snapshot.revision
        return UpstreamState(
            id=self.id,
            phase=self._phase,
            transport=self._config.transport,
            era="" if revision is None else revision.era,
            version="" if revision is None else revision.version,
            reason=self._reason(),
            retry_in_s=self._retry_in_s(),
            since=self._since,
            in_flight=self._slots.running + self._slots.lent,
            waiting=self._slots.waiting,
            calls=self._calls,
            failures=self._failures,
            sessions=len(self._pool) + (self._keeper.client is not None),
            is_stale=self._is_stale,
        )

    @property
    def _is_stale(self) -> bool:
        return self._lists.is_stale or self._phase == "down"

    def _reason(self) -> str | None:
        if self._keeper.client is None and self._keeper.error is not None:
            return self._keeper.error.message
        return None if self._breaker.is_closed else self._breaker.reason

    def _retry_in_s(self) -> float | None:
        """When calls are let through again, or the server is tried again by itself."""
        waits = [] if self._breaker.retry_in_s is None else [self._breaker.retry_in_s]
        if self._keeper.retry_at is not None:
            waits.append(max(self._keeper.retry_at - asyncio.get_running_loop().time(), 0.0))
        return min(waits, default=None)

    # -- life ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to do: it is reached when first needed."""

    async def refresh(self) -> None:
        """Connect if need be and list everything; a failure leaves the last lists."""
        if self._is_closing:
            return
        if not self._breaker.is_closed and self._keeper.client is None:
            return  # It was tried just now, and will be again; this is not the time.
        await self._lists.refresh()

    async def close(self, drain_s: float = bounds.UPSTREAM_DRAIN_S) -> None:
        """Take no more calls, let those that run finish, then part with the server."""
        self._is_closing = True
        self._set_phase()
        try:
            async with asyncio.timeout(drain_s):
                await self._slots.idle()
        except TimeoutError:
            pass  # They are told when their session ends.
        await self._lists.close()
        await self._rounds.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._pool.close(), self._keeper.close(), *self._tasks, return_exceptions=True)

    def dedicate(self, caller: Caller) -> None:
        """There is only this one client, as on stdio: the first session may declare what it can be asked.

        Without it such a client would need a second session with a legacy server, which on stdio is a process.
        """
        if caller.scope is not None:
            self._only = caller

    def _make_home(self) -> Client:
        self._home = UpstreamSession(None, self._make_first)
        if self._only is not None:
            self._home.owner = scope_of(self._only)
        return self._home.client

    def _make_first(self, session: UpstreamSession) -> Client:
        config = self._config
        if self._only is not None:
            config = msgspec.structs.replace(config, capabilities=self._questions.capabilities(self._only))
        client = Client(config, on_change=lambda change: self._heard(change, client), stray=session, is_guarded=True)
        client.on_renewed = self._renewed
        return client

    def _make_session(self, session: UpstreamSession, capabilities: Mapping[str, Any]) -> Client:
        # What the server speaks is known: there is nothing to find out again.
        first = self._keeper.client
        version = self._config.protocol_version if first is None else first.protocol_version
        config = msgspec.structs.replace(self._config, capabilities=capabilities, protocol_version=version)
        if first is not None and first.revision.listen:
            return Client(config, stray=session, is_guarded=True)
        # Many legacy servers tell of a change only the session in which it happened.

        def heard(change: Change) -> None:
            session.has_told = True
            self._heard(change, client)

        client = Client(config, on_change=heard, stray=session, is_guarded=True)
        return client

    # -- calls ---------------------------------------------------------------------------

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Pass a call on, once; see `Upstream`."""
        client = self._keeper.client
        if self._is_closing or client is None or not client.is_open or not self._breaker.is_closed:
            return self._request(call)
        if call.caller.revision.rounds and not client.revision.rounds:
            return self._request(call)
        return self._serve(call)  # nothing comes between: the way of most calls

    async def _request(self, call: Call) -> Reply:
        if self._is_closing:
            if self._rounds.holds(call):
                return await self._rounds.resume(call)
            raise self._unavailable(call, "it is being taken out of the hub")
        client = self._keeper.client
        if client is None or not client.is_open or not self._breaker.is_closed:
            client = await self._reach(call)
        if call.caller.revision.rounds and not client.revision.rounds and call.method in askable:
            # The caller comes back for more, the server only pushes: the call waits here in between.
            if call.params.request_state is not UNSET:
                return await self._rounds.resume(call)
            if self._questions.can_be_asked(call.caller):
                return await self._rounds.begin(call, self._serve)
        return await self._serve(call)

    def holds(self, call: Call) -> bool:
        """Whether a call comes back for an exchange that waits here."""
        return self._rounds.holds(call)

    async def notify(self, note: Note) -> None:
        """Notifications of clients concern no upstream today."""

    async def _reach(self, call: Call) -> Client:
        """The first session's client, after connecting if need be and if it is time for that."""
        if not self._breaker.admit():
            raise self._unavailable(call, self._breaker.reason)
        was_trial = not self._breaker.is_closed
        if (client := self._keeper.open_client) is not None:
            return client  # `_serve` tells how the trial went
        self._set_phase()
        seconds = self._seconds(call)
        try:
            async with asyncio.timeout(seconds):
                return await self._keeper.ready()
        except TimeoutError:
            raise self._failed(call, DeadlineExceeded(f"The connection to {self.id}", seconds)) from None
        except HubbubError as error:
            raise self._failed(call, error, may_have_executed=False) from None
        except asyncio.CancelledError:
            if was_trial:
                self._breaker.abandoned()
            raise

    async def _serve(self, call: Call) -> Reply:
        deadline = self._loop_time() + self._seconds(call)
        if not self._slots.take_now():
            await self._slots.take(deadline)
        self._calls += 1
        passage = Passage(call, self._slots)
        is_answered = False
        session: UpstreamSession | None = None
        try:
            session = self._first_session(passage) or await self._session(passage, deadline)
            client = session.client
            reply = await client.pass_on(call, self._how(passage, client, deadline))
            is_answered = True
            self._succeeded()
            self._finish(reply, call, client)
            return reply
        except RemoteError as error:
            is_answered = True
            self._succeeded()
            raise in_dialect(error, call, self._revision(session)) from None
        except _NO_ANSWER as error:
            if isinstance(error, DeadlineExceeded) and session is not None and call.deadline is None:
                # Of the time that is set, some was spent on the way here.
                error = DeadlineExceeded(f"The answer to {call.method}", self._options.timeout_s)
            raise self._failed(call, error) from None
        except TimeoutError:
            raise self._failed(call, DeadlineExceeded(f"A session with {self.id}", self._options.timeout_s)) from None
        finally:
            if not is_answered:
                self._breaker.abandoned()
            self._slots.give_back()
            if session is not None:
                self._part(session, passage, is_answered=is_answered)
            if not is_answered:
                passage.stop_telling()
            elif passage.has_untold:
                await passage.settled()

    def _how(self, passage: Passage, client: Client, deadline: float) -> Passing:
        call = passage.call
        is_modern = client.revision.rounds
        passes_rounds = is_modern and call.caller.revision.rounds and call.method in askable
        return Passing(
            back=passage,
            timeout_s=max(deadline - self._loop_time(), 0.001),
            speaker=self._questions.speaker(client, call.caller) if is_modern else b"",
            plays_rounds=not passes_rounds,
            request_state=self._questions.state_of(call) if passes_rounds else None,
        )

    def _finish(self, reply: RawReply, call: Call, client: Client) -> None:
        """What a modern server's answer needs before its caller gets it."""
        if not client.revision.rounds:
            return
        if call.caller.revision.rounds and call.method in askable:
            self._questions.seal_state(reply, call)
        if call.caller.revision.structured == "object" and call.method == "tools/call":
            reply.wraps = call.params.name in self.snapshot.wrapped

    def _first_session(self, passage: Passage) -> UpstreamSession | None:
        """The first session, if a call that brings nothing of its own can just go there."""
        home = self._home
        if home is None or home.owner is not None or self._keeper.open_client is not home.client:
            return None
        if kind_for(passage, home, self._questions, keeps_own=self._keeps_own) is not None:
            return None
        home.passages[passage] = None
        return home

    async def _session(self, passage: Passage, deadline: float) -> UpstreamSession:
        home = self._home
        if home is None or self._keeper.open_client is not home.client:
            raise self._keeper.error or ConnectionClosed(f"The connection to {self.id} was closed")
        if home.owner is not None and home.owner == passage.scope:
            await home.set_level(passage.call.caller.log_level)
            kind = None
        else:
            kind = kind_for(passage, home, self._questions, keeps_own=self._keeps_own)
        if kind is None:
            home.passages[passage] = None
            return home
        return await self._pool.join(passage, kind, deadline)

    def _part(self, session: UpstreamSession, passage: Passage, *, is_answered: bool) -> None:
        if session.kind is None:
            session.leave(passage, is_answered=is_answered)
        else:
            self._pool.part(session, passage, is_answered=is_answered)

    def _loop_time(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _seconds(self, call: Call) -> float:
        seconds = self._options.timeout_s
        if call.deadline is not None:
            seconds = min(seconds, max(call.deadline - self._loop_time(), 0.001))
        return seconds

    # -- failing -------------------------------------------------------------------------

    def _succeeded(self) -> None:
        self._breaker.succeeded()
        if self._phase == "down":
            self._set_phase()
            self._renewed()  # Nobody knows what happened meanwhile.

    def _failed(self, call: Call, error: HubbubError, *, may_have_executed: bool | None = None) -> UpstreamUnavailable:
        self._failures += 1
        self._breaker.failed(error.message)
        self._set_phase()
        if may_have_executed is None:
            may_have_executed = getattr(error, "may_have_executed", True)
        return self._unavailable(call, error.message, may_have_executed=may_have_executed)

    def _unavailable(self, call: Call, reason: str, *, may_have_executed: bool = False) -> UpstreamUnavailable:
        error = UpstreamUnavailable(self.id, reason, self._retry_in_s(), may_have_executed=may_have_executed)
        if call.method == "tools/call":
            error.has_schema = self.snapshot.promises_data(call.params.name)
        return error

    def _revision(self, session: UpstreamSession | None) -> Any:
        return None if session is None else session.client.revision

    # -- what changes ----------------------------------------------------------------------

    async def subscribe(self, uri: str) -> None:
        """Hear of changes of a resource, also after the server was restarted."""
        self._watched[uri] = None
        try:
            async with asyncio.timeout(self._options.timeout_s):
                await (await self._keeper.ready()).subscribe(uri)
                for client in self._processes():
                    await client.subscribe(uri)
        except TimeoutError:
            raise DeadlineExceeded(f"The subscription at {self.id}", self._options.timeout_s) from None
        except RemoteError:
            self._watched.pop(uri, None)
            raise

    def end_scope(self, scope: str) -> None:
        """Nothing: a server elsewhere knows its own sessions."""

    async def unsubscribe(self, uri: str) -> None:
        """Hear of them no more."""
        if self._watched.pop(uri, UNSET) is UNSET or self._keeper.client is None:
            return
        for client in (self._keeper.client, *self._processes()):
            await client.unsubscribe(uri)

    def _processes(self) -> list[Client]:
        """Sessions that are servers of their own, which know nothing of what happens in the others."""
        return self._pool.clients() if self._pool.are_processes else []

    async def _watch_here_too(self, session: UpstreamSession) -> None:
        if not self._pool.are_processes:
            return
        for uri in self._watched:
            try:
                await session.client.subscribe(uri)
            except RemoteError:
                continue  # It has no such resource.

    def _session_ended(self, session: UpstreamSession) -> None:
        """What only that process had is gone with it."""
        if self._pool.are_processes and session.has_told:
            self._renewed()

    def _kept(self) -> None:
        """The keeper has a client, or has lost it, or waits."""
        if self._keeper.client is not None:
            self._questions.forget_speakers()
            self._pool.tells_calls_apart = self._keeper.client.tells_calls_apart
            self._breaker.let_try()
            self._renewed()
            for uri in self._watched:
                self._spawn(self._watch_again(uri))
        self._set_phase()

    def _renewed(self) -> None:
        """The server may be another than it was."""
        if not self._is_closing:
            self._lists.outdate("tools", "prompts", "resources", "templates")

    async def _watch_again(self, uri: str) -> None:
        try:
            await (await self._keeper.ready()).subscribe(uri)
        except HubbubError:
            return  # It is lost again, and this will be done again; or it has no such resource any more.
        self._changed(Change("resource", uri))  # Nobody knows what happened meanwhile.

    def _heard(self, change: Change, teller: Client) -> None:
        if change.kind == "resource":
            if change.uri in self._watched:
                self._changed(change)
        elif not self._is_closing:
            self._lists.take(change, teller)

    def _changed(self, change: Change) -> None:
        if self.on_change is not None:
            self.on_change(self, change)

    def _listed(self, error: HubbubError | None) -> None:
        if error is None:
            self._breaker.succeeded()
        self._set_phase(is_news=True)

    def _set_phase(self, *, is_news: bool = False) -> None:
        before = self._phase
        self._phase = self._now()
        if self._phase != before:
            self._since = time.time()
        if (self._phase != before or is_news) and self.on_state is not None:
            self.on_state(self)

    def _now(self) -> Phase:
        if self._is_closing:
            return "closing"
        if not self._keeper.is_started:
            return "idle"
        if self._keeper.client is not None:
            return "ready" if self._breaker.is_closed else "down"
        return "connecting" if self._keeper.error is None else "down"

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
