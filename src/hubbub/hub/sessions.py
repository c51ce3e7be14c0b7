"""The sessions with one legacy upstream: whatever belongs to one client is never shared with another.

A legacy server knows what a client can be asked from the start of a session, and on a pipe
its questions do not say which call they are about. So callers who can be asked something get
a session that declares just that. Where questions come on the stream of their call, callers
of one kind share it; elsewhere each has one alone for as long as a call of theirs runs. The first
session (`home`) declares nothing and serves the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.errors import HubbubError, MethodNotFound, Overloaded, RemoteError
from hubbub.hub.passage import LOG, Passage
from hubbub.hub.questions import Questions
from hubbub.hub.upstream import UpstreamOptions
from hubbub.protocol.model import Call, Note, Reply

logger = logging.getLogger("hubbub.hub")

_LOOK_S: Final = 1.0
"""How often whoever waits for a session looks whether another could be ended."""


class Kind(msgspec.Struct, frozen=True):
    """What callers of one session have in common."""

    capabilities: bytes = b"{}"
    """As JSON in canonical order."""
    log_level: str | None = None
    is_alone: bool = False
    """Whether the server may learn something on it that is only one client's, as the roots are."""


class UpstreamSession:
    """One session, and the calls that it carries. A `Peer` for what the server says without naming a call."""

    def __init__(self, kind: Kind | None, make: Callable[[UpstreamSession], Client]) -> None:
        self.kind = kind
        """None: the first session, on which nobody is asked anything, unless it has an owner."""
        self.owner: object = None
        """Whose it is now, or was last, where one alone has it."""
        self.asks_strays = False
        """Whether the server asked something without saying about which call."""
        self.has_learnt = False
        """Whether the server knows something of its owner now that no other client's calls may meet."""
        self.has_told = False
        """Whether the server told of changes on it."""
        self.passages: dict[Passage, None] = {}
        self._left: dict[object, frozenset[Passage]] = {}
        """Clients that gave up a call which the server may still work on, and the calls that ran then."""
        self._level: str | None = None
        self.idle_since = 0.0
        self.starting: asyncio.Task[None] | None = None
        self.client = make(self)

    @property
    def is_clean(self) -> bool:
        """Whether nothing of an earlier caller can turn up any more."""
        return not self._left

    async def set_level(self, level: str | None) -> None:
        """From now on the server logs from this level on, if it can."""
        if level is None or level == self._level:
            return
        self._level = level
        try:
            await self.client.set_level(level)
        except RemoteError as error:
            logger.debug("a server does not take a log level: %s", error.message)

    def leave(self, passage: Passage, *, is_answered: bool) -> None:
        """A call has ended."""
        del self.passages[passage]
        self.has_learnt = self.has_learnt or passage.has_told_roots
        if not is_answered:
            self._keep_in_mind(passage)
        elif self._left and self.kind is None:
            # Who answers what was asked later has read that the other was given up. That is enough for logs;
            # where clients are asked something, a server that does not heed it must never ask the next one.
            self._left = {scope: older for scope, older in self._left.items() if passage in older}

    def _keep_in_mind(self, passage: Passage) -> None:
        """Somebody gave up a call that the server may still say something about."""
        is_quiet = self.client.era == "modern" and passage.call.caller.least_log_level is None
        if is_quiet and self.kind is None and self.owner is None:
            return  # Nobody is asked anything here, and a modern server does not log for those who do not listen.
        self._left[passage.scope] = frozenset(self.passages)
        if len(self._left) > bounds.UPSTREAM_WAITING:
            del self._left[next(iter(self._left))]

    async def request(self, call: Call) -> Reply:
        """A question about no call in particular: it can only be for the one client whose calls are here."""
        self.asks_strays = True
        is_nobodys = self.kind is None and self.owner is None
        while True:
            passage = None if is_nobodys else self._only_client(self.passages)
            if passage is None:
                raise MethodNotFound(call.method)
            if not passage.has_untold:
                return await passage.request(call)
            # That call may be answered meanwhile, and nobody hears a question after its answer: choose again.
            await passage.settled()

    async def notify(self, note: Note) -> None:
        """A message about no call in particular."""
        self.tell(note)

    def tell(self, note: Note) -> None:
        """The same; whose it is is decided at once, so that no answer overtakes it."""
        passage = self._heard_by(note)
        if passage is not None:
            passage.tell(note)

    def _heard_by(self, note: Note) -> Passage | None:
        if note.method != LOG:
            return None
        listening = [passage for passage in self.passages if passage.call.caller.least_log_level is not None]
        # A modern server logs only for those who want it; of a legacy one it could be anybody's.
        is_modern = self.client.era == "modern"
        passage = self._only_client(listening if is_modern else self.passages)
        if passage is None:
            logger.debug("a log of a server was dropped: it could be about the call of any of several clients")
        return passage

    def _only_client(self, passages: Any) -> Passage | None:
        """The newest call of the only client that this can be about."""
        found: Passage | None = None
        for passage in passages:
            if found is not None and passage.scope != found.scope:
                return None
            found = passage
        return None if found is None or self._left.keys() - {found.scope} else found


class Pool:
    """The sessions besides the first."""

    def __init__(
        self,
        options: UpstreamOptions,
        what: str,
        make: Callable[[UpstreamSession, Mapping[str, Any]], Client],
        *,
        are_processes: bool,
        make_room: Callable[[], Any],
        on_start: Callable[[UpstreamSession], Awaitable[None]],
        on_end: Callable[[UpstreamSession], None],
    ) -> None:
        self._options = options
        self._what = what
        self._make = make
        self.are_processes = are_processes
        self._make_room = make_room
        """Asked to end a call that nobody comes back for, when all sessions are in use."""
        self._on_start = on_start
        self._on_end = on_end
        self._sessions: dict[UpstreamSession, None] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self.tells_calls_apart = False
        """Whether the server's questions come on the stream of their call."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def most(self) -> int:
        """How many there may be. Where they cost no process, there is one for each call if need be."""
        if self.are_processes:
            return self._options.max_sessions
        return max(self._options.max_sessions, self._options.max_calls)

    def clients(self) -> list[Client]:
        """Those that can be asked now."""
        return [session.client for session in self._sessions if session.client.is_open]

    async def join(self, passage: Passage, kind: Kind, deadline: float) -> UpstreamSession:
        """The session for a call, started; the call is on it from now on.

        Raises:
            Overloaded: all are in use by others.
            HubbubError: it cannot be started.
        """
        is_alone = kind.is_alone or not self.tells_calls_apart or self._options.sessions == "own"
        while True:
            session = self._find(passage, kind, is_alone=is_alone) or self._open(kind)
            if session is not None:
                break
            await self._wait(deadline)
        session.passages[passage] = None
        if is_alone:
            session.owner = passage.scope
        try:
            await self._started(session, deadline)
        except BaseException:
            self.part(session, passage, is_answered=True)
            raise
        return session

    def part(self, session: UpstreamSession, passage: Passage, *, is_answered: bool) -> None:
        """The call has ended; the session is free for others if nothing is left of it."""
        session.leave(passage, is_answered=is_answered)
        if session.asks_strays and self.tells_calls_apart:
            self.tells_calls_apart = False
            session.owner = session.owner or passage.scope
        if session.passages or session not in self._sessions:
            return
        session.idle_since = asyncio.get_running_loop().time()
        if not session.client.is_open or not (session.is_clean or self._options.sessions == "own"):
            self._drop(session)
        elif session.owner is passage:
            self._drop_unless_reusable(session)
        self._wake()
        self._sweep_later()

    async def close(self) -> None:
        """End all of them."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for session in list(self._sessions):
            self._drop(session)
        self._wake()
        if self._closing:
            await asyncio.wait(self._closing)

    # -- finding one -----------------------------------------------------------------

    def _find(self, passage: Passage, kind: Kind, *, is_alone: bool) -> UpstreamSession | None:
        free = None
        for session in list(self._sessions):
            if session.kind != kind:
                continue
            if session.starting is not None and session.starting.done() and not session.client.is_open:
                if not session.passages:
                    self._drop(session)
                continue
            if not is_alone or session.owner == passage.scope:
                return session
            if not session.passages and self._is_reusable(session):
                free = session
        return free

    def _is_reusable(self, session: UpstreamSession) -> bool:
        return session.is_clean and not session.has_learnt and self._options.sessions == "shared"

    def _open(self, kind: Kind) -> UpstreamSession | None:
        """A new one, in place of an idle one if there are too many."""
        if len(self._sessions) >= self.most:
            idle = [session for session in self._sessions if not session.passages]
            if not idle:
                return None
            self._drop(min(idle, key=lambda session: session.idle_since))
        capabilities = msgspec.json.decode(kind.capabilities)
        session = UpstreamSession(kind, lambda session: self._make(session, capabilities))
        self._sessions[session] = None
        return session

    async def _started(self, session: UpstreamSession, deadline: float) -> None:
        if session.starting is None:
            session.starting = asyncio.create_task(self._start(session))
        if not session.starting.done():
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(session.starting)
        session.starting.result()

    async def _start(self, session: UpstreamSession) -> None:
        assert session.kind is not None
        try:
            await session.client.start()
            await session.set_level(session.kind.log_level)
            await self._on_start(session)
        except HubbubError:
            self._sessions.pop(session, None)
            raise

    async def _wait(self, deadline: float) -> None:
        if len(self._waiting) >= self._options.max_waiting:
            raise Overloaded(f"sessions with {self._what}", self.most)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                while not turn.done():
                    self._make_room()
                    await asyncio.wait([turn], timeout=_LOOK_S)
        except TimeoutError:
            raise Overloaded(f"sessions with {self._what}", self.most) from None
        finally:
            self._waiting.remove(turn)

    def _wake(self) -> None:
        """A session is free: everyone in line looks again, the first one first."""
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)

    # -- ending them -----------------------------------------------------------------

    def _drop_unless_reusable(self, session: UpstreamSession) -> None:
        """Nobody can ever own it again whose only name was that one call."""
        if not self._is_reusable(session):
            self._drop(session)

    def _drop(self, session: UpstreamSession) -> None:
        self._sessions.pop(session, None)
        task = asyncio.create_task(self._end(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _end(self, session: UpstreamSession) -> None:
        if session.starting is not None and not session.starting.done():
            session.starting.cancel()
        await session.client.close()
        self._on_end(session)

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._sessions:
            self._sweeping = asyncio.get_running_loop().call_later(self._options.idle_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for session in list(self._sessions):
            if not session.passages and now - session.idle_since >= self._options.idle_s:
                self._drop(session)
        self._sweep_later()


def kind_for(passage: Passage, home: UpstreamSession, questions: Questions, *, keeps_own: bool) -> Kind | None:
    """Which session a call needs; None: the first."""
    caller, first = passage.call.caller, home.client
    if not caller.capabilities and caller.log_level is None and home.owner is None and not keeps_own:
        return None
    is_own = keeps_own and caller.scope is not None and not first.sends_tool_headers
    if first.revision.stateless:
        return Kind(is_alone=True) if is_own else None
    capabilities = questions.capabilities(caller)
    level = caller.log_level if "logging" in first.server_capabilities else None
    if not capabilities and level is None and not is_own and home.owner is None:
        return None
    written = msgspec.json.encode(capabilities, order="sorted")
    return Kind(written, level, is_own or "roots" in capabilities)
