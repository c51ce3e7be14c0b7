"""Legacy sessions over HTTP: a bounded table that forgets what is idle.

An idle session is kept small: what only some sessions need (questions, streams,
running calls) is made when it is first needed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from hubbub import bounds
from hubbub.errors import Overloaded
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.model import Caller, Note
from hubbub.server.audience import RESOURCE_UPDATED, Audience
from hubbub.server.http.streams import EventStore, Stream
from hubbub.server.questions import Questions

logger = logging.getLogger("hubbub.sessions")


class Session:
    """One legacy client over many HTTP requests."""

    __slots__ = ("_last_stream", "_own", "_questions", "_store", "_streams", "caller", "id", "running", "seen")

    def __init__(self, identifier: str, caller: Caller, now: float, store: EventStore) -> None:
        self.id = identifier
        self._store = store
        self.caller = caller
        self.seen = now
        self._last_stream = 0
        self.running: dict[bytes, asyncio.Task[object] | None] | None = None
        self._questions: Questions | None = None
        self._streams: dict[int, Stream] | None = None
        self._own: list[Stream] | None = None

    @property
    def questions(self) -> Questions:
        """What the client still owes an answer to."""
        if self._questions is None:
            self._questions = Questions()
        return self._questions

    def open_stream(self) -> Stream:
        """A new stream for one call.

        Raises:
            Overloaded: too many are open.
        """
        streams = self._streams = {} if self._streams is None else self._streams
        finished = [known for known in streams.values() if known.finished]
        for known in finished[: max(0, len(finished) - bounds.STREAMS_TO_RESUME)]:
            streams.pop(known.id).discard()
        if len(streams) >= bounds.STREAMS_OF_ONE_SESSION:
            raise Overloaded("streams in this session", bounds.STREAMS_OF_ONE_SESSION)
        self._last_stream += 1
        stream = streams[self._last_stream] = Stream(self._last_stream, self._store)
        return stream

    def open_own_stream(self) -> Stream:
        """A new stream for what belongs to no call: changes that the session is told of."""
        stream = self.open_stream()
        own = [known for known in self._own or [] if not known.finished]
        unread = [known for known in own if not known.is_read]
        for known in unread[: max(0, len(unread) - bounds.STREAMS_TO_RESUME)]:
            known.finish()
        self._own = [known for known in own if not known.finished] + [stream]
        return stream

    def find_stream(self, identifier: int) -> Stream | None:
        """A stream that can still be taken up."""
        return None if self._streams is None else self._streams.get(identifier)

    @property
    def scope(self) -> str | None:
        """Where the client's state lives."""
        return self.caller.state_scope

    @property
    def watching(self) -> set[str]:
        """The resources that it is told of."""
        return self.caller.watching

    @property
    def is_in_use(self) -> bool:
        """Whether something of it runs or is being read."""
        return bool(self.running) or any(stream.is_read for stream in self._own or [])

    def hear(self, note: Note) -> None:
        """Put a change on one of the session's own streams, if there ever was one."""
        if not self._own or (note.method == RESOURCE_UPDATED and note.params.uri not in self.caller.watching):
            return
        # Never on two streams at once; on one that is read, or else on the newest, where it can be fetched.
        stream = next((known for known in reversed(self._own) if known.is_read), self._own[-1])
        stream.append(encode_notification(note.method, note.params))

    def end_streams(self) -> None:
        """Let end by itself what would never end; what runs goes on, but nobody can be asked any more."""
        if self._questions is not None:
            self._questions.close()
        for stream in self._own or []:
            stream.finish()

    def close(self) -> None:
        """End everything that belongs to the session."""
        if self._questions is not None:
            self._questions.close()
        for stream in (self._streams or {}).values():
            stream.discard()
        running, self.running = self.running or {}, None
        tasks = [task for task in running.values() if task is not None]
        running.clear()
        for task in tasks:
            task.cancel()


class Sessions:
    """Every open session of an endpoint, the one least recently used first."""

    def __init__(
        self,
        audience: Audience,
        *,
        limit: int = bounds.SESSIONS,
        idle_s: float = bounds.SESSION_IDLE_S,
        clock: Callable[[], float] = time.monotonic,
        store: EventStore | None = None,
        ended: Callable[[str | None], None] = lambda scope: None,
    ) -> None:
        self._ended = ended
        self._audience = audience
        self._limit = limit
        self._idle_s = idle_s
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._store = EventStore() if store is None else store

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller) -> Session:
        """A new session; only after its `initialize` has proved valid.

        Raises:
            Overloaded: there are too many, and none is idle.
        """
        self.sweep()
        if len(self._sessions) >= self._limit:
            raise Overloaded("sessions", self._limit)
        session = Session(secrets.token_urlsafe(18), caller, self._clock(), self._store)
        caller.scope = session.id
        self._sessions[session.id] = session
        self._audience.add(session)
        _log("session_opened", session)
        return session

    def find(self, identifier: str, principal: str) -> Session | None:
        """The session of that id, if it belongs to this principal; it counts as used."""
        session = self._sessions.get(identifier)
        if session is None or session.caller.principal.name != principal:
            return None
        session.seen = self._clock()
        self._sessions.move_to_end(identifier)  # so that the idle ones gather at the front
        return session

    def close(self, session: Session, reason: str = "ended") -> None:
        """End a session."""
        _log("session_closed", session, reason=reason)
        self._sessions.pop(session.id, None)
        self._audience.remove(session)
        session.close()
        self._ended(session.scope)

    def end_streams(self) -> None:
        """Let every session's own streams end, so that the process can."""
        for session in self._sessions.values():
            session.end_streams()

    def sweep(self) -> None:
        """End what has been idle for too long; looks only as far as the first that has not."""
        now = self._clock()
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.seen >= now - self._idle_s:
                return
            if session.is_in_use:
                session.seen = now
                self._sessions.move_to_end(session.id)
            else:
                self.close(session, "idle")


def _log(event: str, session: Session, **more: str) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        # Whoever knows the id has the session, so the log gets another name for it.
        name = blake2b(session.id.encode(), digest_size=6).hexdigest()
        caller = session.caller
        fields = {"session": name, "principal": caller.principal.name, "revision": caller.revision.version}
        logger.debug(event, extra={**fields, **more})
