"""Legacy sessions over HTTP: a bounded table that forgets what is idle.

An idle session is kept small: what only some sessions need (questions, streams,
running calls) is made when it is first needed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import Overloaded
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.model import Caller, Note
from hubbub.server.audience import RESOURCE_UPDATED, Audience
from hubbub.server.http.streams import EventStore, Stream
from hubbub.server.questions import Questions

OWN_STREAM = 0
"""The stream of what belongs to no call: changes, and whatever the server says by itself."""


class Session:
    """One legacy client over many HTTP requests."""

    __slots__ = ("_questions", "_store", "_streams", "caller", "id", "last_stream", "running", "seen")

    def __init__(self, identifier: str, caller: Caller, now: float, store: EventStore) -> None:
        self.id = identifier
        self._store = store
        self.caller = caller
        self.seen = now
        self.last_stream = OWN_STREAM
        self.running: dict[bytes, asyncio.Task[object] | None] | None = None
        self._questions: Questions | None = None
        self._streams: dict[int, Stream] | None = None

    @property
    def questions(self) -> Questions:
        """What the client still owes an answer to."""
        if self._questions is None:
            self._questions = Questions()
        return self._questions

    def open_stream(self) -> Stream:
        """A new stream for one call."""
        self.last_stream += 1
        stream = Stream(self.last_stream, self._store)
        self._keep(stream)
        return stream

    def own_stream(self) -> Stream:
        """The stream of the session itself, from when the client first listens to it."""
        stream = self.find_stream(OWN_STREAM)
        if stream is None:
            stream = Stream(OWN_STREAM, self._store)
            self._keep(stream)
        return stream

    def find_stream(self, identifier: int) -> Stream | None:
        """A stream that can still be taken up."""
        return None if self._streams is None else self._streams.get(identifier)

    def hear(self, note: Note) -> None:
        """Put a change on the session's own stream, if the client listens."""
        stream = self.find_stream(OWN_STREAM)
        if stream is None or (note.method == RESOURCE_UPDATED and note.params.uri not in self.caller.watching):
            return
        stream.append(encode_notification(note.method, note.params))

    def close(self) -> None:
        """End everything that belongs to the session."""
        if self._questions is not None:
            self._questions.close()
        for stream in (self._streams or {}).values():
            stream.discard()
        for task in (self.running or {}).values():
            if task is not None:
                task.cancel()

    def _keep(self, stream: Stream) -> None:
        if self._streams is None:
            self._streams = {}
        self._streams[stream.id] = stream
        finished = [key for key, known in self._streams.items() if known.finished]
        while len(self._streams) > bounds.STREAMS_OF_ONE_SESSION and finished:
            self._streams.pop(finished.pop(0)).discard()
        if len(self._streams) > bounds.STREAMS_OF_ONE_SESSION:
            del self._streams[stream.id]
            raise Overloaded("streams in this session", bounds.STREAMS_OF_ONE_SESSION)


class Sessions:
    """Every open session of an endpoint, the one least recently used first."""

    def __init__(
        self,
        audience: Audience,
        *,
        limit: int = bounds.SESSIONS,
        idle_s: float = bounds.SESSION_IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._audience = audience
        self._limit = limit
        self._idle_s = idle_s
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._store = EventStore()

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
        return session

    def find(self, identifier: str, principal: str) -> Session | None:
        """The session of that id, if it belongs to this principal; it counts as used."""
        session = self._sessions.get(identifier)
        if session is None or session.caller.principal.name != principal:
            return None
        session.seen = self._clock()
        # Move to the end, so that the idle ones gather at the front.
        self._sessions[identifier] = self._sessions.pop(identifier)
        return session

    def close(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.id, None)
        self._audience.remove(session)
        session.close()

    def close_all(self) -> None:
        """End every session."""
        for session in list(self._sessions.values()):
            self.close(session)

    def sweep(self) -> None:
        """End what has been idle for too long; looks only as far as the first that has not."""
        oldest = self._clock() - self._idle_s
        for session in list(self._sessions.values()):
            if session.seen >= oldest:
                return
            if session.running:
                session.seen = self._clock()
                continue
            self.close(session)
