"""Legacy sessions over HTTP: a bounded table that drops idle sessions.

An idle session takes little memory: parts that only some sessions need (requests to the client,
streams, running calls) are created when they are first used.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from hubbub import bounds
from hubbub.errors import Overloaded
from hubbub.protocol.calls import ANONYMOUS, Caller, Implementation, Notification, Principal
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.server.client_sessions import ClientSessionInfo, Matches
from hubbub.server.http.cookies import read_cookie
from hubbub.server.http.streams import EventStore, Stream
from hubbub.server.pending_requests import PendingRequests
from hubbub.server.running_calls import RunningCalls
from hubbub.server.subscriptions import RESOURCE_UPDATED, Broadcaster
from hubbub.shares import Shares

logger = logging.getLogger("hubbub.sessions")

SESSION_HEADER = b"mcp-session-id"
_ID_BYTES = 18
_ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{24}")
"""What `secrets.token_urlsafe` returns for these bytes; cookies of plain callers contain a dot."""

_NO_STREAMS: dict[int, Stream] = {}
"""Never changed: most sessions have no stream, and need no dict."""


def is_session_id(text: str) -> bool:
    """Whether a text has the form of a session id, known or not."""
    return _ID_PATTERN.fullmatch(text) is not None


class Session:
    """One legacy client over many HTTP requests."""

    __slots__ = (
        "_finished_streams",
        "_get_streams",
        "_last_stream_id",
        "_pending_requests",
        "_running_calls",
        "_store",
        "_streams",
        "caller",
        "id",
        "last_used_at",
        "opened_at",
        "owner",
    )

    def __init__(self, identifier: str, caller: Caller, now: float, store: EventStore) -> None:
        self.id = identifier
        self._store = store
        self.caller = caller
        self.owner = caller.owner
        self.last_used_at = now
        self.opened_at = time.time()
        self._last_stream_id = 0
        self._running_calls: RunningCalls | None = None
        self._pending_requests: PendingRequests | None = None
        self._streams = self._finished_streams = _NO_STREAMS
        """Streams by their ids; those that have finished are moved when the next one is made."""
        self._get_streams: list[Stream] | None = None

    @property
    def running_calls(self) -> RunningCalls:
        """Calls that the client waits for, or may reconnect for."""
        if self._running_calls is None:
            self._running_calls = RunningCalls()
        return self._running_calls

    @property
    def pending_requests(self) -> PendingRequests:
        """Pending requests to the client."""
        if self._pending_requests is None:
            self._pending_requests = PendingRequests()
        return self._pending_requests

    def open_stream(self) -> Stream:
        """Open a stream for one call.

        Raises:
            Overloaded: too many are open.
        """
        stream = self._make_stream()
        self._streams[stream.id] = stream
        return stream

    def store_response(self, response: bytes) -> bytes:
        """Store a response as a complete stream of its own; return that stream, encoded.

        Raises:
            Overloaded: too many streams are open.
        """
        stream = self._make_stream()
        self._finished_streams[stream.id] = stream
        start = stream.prime() if self.caller.revision.resumes_streams else b""
        event = stream.append(response)
        stream.finish()
        return start + event

    def _make_stream(self) -> Stream:
        """Make a stream, and drop the oldest of those that have finished."""
        streams, finished = self._streams, self._finished_streams
        if streams is _NO_STREAMS:
            self._streams, self._finished_streams = streams, finished = {}, {}
        elif streams:
            for known in [known for known in streams.values() if known.is_finished]:
                finished[known.id] = streams.pop(known.id)
        while len(finished) > bounds.RESUMABLE_STREAMS_PER_SESSION:
            finished.pop(next(iter(finished))).discard()
        if len(streams) + len(finished) >= bounds.STREAMS_PER_SESSION:
            raise Overloaded("streams in this session", bounds.STREAMS_PER_SESSION)
        self._last_stream_id += 1
        return Stream(self._last_stream_id, self._store, self.owner)

    def open_get_stream(self) -> Stream:
        """Open a stream for messages that belong to no call, such as changes."""
        stream = self.open_stream()
        unfinished = [known for known in self._get_streams or [] if not known.is_finished]
        unread = [known for known in unfinished if not known.has_reader]
        for known in unread[: max(0, len(unread) - bounds.RESUMABLE_STREAMS_PER_SESSION)]:
            known.finish()
        self._get_streams = [known for known in unfinished if not known.is_finished] + [stream]
        return stream

    def find_stream(self, identifier: int) -> Stream | None:
        """Return a stream that can still be resumed."""
        return self._streams.get(identifier) or self._finished_streams.get(identifier)

    @property
    def scope(self) -> str | None:
        """The scope of the client's state."""
        return self.caller.state_scope

    @property
    def principal(self) -> str:
        """The name of the client's principal."""
        return self.caller.principal.name

    @property
    def watching(self) -> set[str]:
        """The URIs of the resources that it is subscribed to."""
        return self.caller.watching

    @property
    def in_flight(self) -> int:
        """Number of running calls."""
        return len(self._running_calls or ())

    @property
    def is_in_use(self) -> bool:
        """Whether a call is running or a GET stream is being read."""
        return bool(self._running_calls) or any(stream.has_reader for stream in self._get_streams or [])

    def handle_change(self, note: Notification) -> None:
        """Append a change to one of the session's GET streams, if it has any."""
        if not self._get_streams or (note.method == RESOURCE_UPDATED and note.params.uri not in self.caller.watching):
            return
        # On one stream only: one that is being read, or else the newest, from which it can be fetched later.
        stream = next((known for known in reversed(self._get_streams) if known.has_reader), self._get_streams[-1])
        stream.append(encode_notification(note.method, note.params))

    def end_streams(self) -> None:
        """End the GET streams. Calls continue, but requests to the client fail."""
        if self._pending_requests is not None:
            self._pending_requests.close()
        for stream in self._get_streams or []:
            stream.finish()

    def close(self) -> None:
        """Cancel running calls and drop all streams."""
        if self._pending_requests is not None:
            self._pending_requests.close()
        for stream in (*self._streams.values(), *self._finished_streams.values()):
            stream.discard()
        if self._running_calls is not None:
            self._running_calls.cancel_all()


class Sessions:
    """Open sessions of an endpoint, the least recently used first."""

    def __init__(
        self,
        broadcaster: Broadcaster,
        *,
        limit: int | None = None,
        idle_s: float | None = None,
        clock: Callable[[], float] | None = None,
        store: EventStore | None = None,
        on_end: Callable[[str | None], None] = lambda scope: None,
    ) -> None:
        self._on_end = on_end
        self._broadcaster = broadcaster
        self._idle_s = bounds.SESSION_IDLE_S if idle_s is None else idle_s
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._uses_loop_clock = clock is None
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._store = EventStore() if store is None else store
        self._shares = Shares(bounds.SESSIONS if limit is None else limit)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller) -> Session:
        """Open a session; called after its `initialize` was found valid.

        Raises:
            Overloaded: there are too many, in all or of this owner, and none is idle.
        """
        if self._uses_loop_clock:
            self._clock = asyncio.get_running_loop().time  # looked up here, and not for each request
        self.sweep()
        session = Session(secrets.token_urlsafe(_ID_BYTES), caller, self._clock(), self._store)
        if not self._shares.has_room(session.owner):
            raise Overloaded("sessions", self._shares.limit, setting="max_sessions")
        self._shares.take(session.owner)
        caller.scope = session.id
        self._sessions[session.id] = session
        self._broadcaster.add(session)
        _log_event("session_opened", session)
        return session

    def find(self, identifier: str, principal: str) -> Session | None:
        """Return the session with that id, if it belongs to this principal, and mark it as used."""
        session = self._sessions.get(identifier)
        if session is None or session.caller.principal.name != principal:
            return None
        session.last_used_at = self._clock()
        self._sessions.move_to_end(identifier)  # so that idle sessions come first
        return session

    def find_by_headers(self, headers: Headers, principal: Principal) -> tuple[Session | None, bool]:
        """Return the session that a request belongs to, and whether it names one: in the header, or else by its cookie.

        A cookie of a session that has ended names one too: its client must get 404 for that session,
        and not a response in another dialect. Cookies of plain callers have another form.
        """
        header_value = headers.raw(SESSION_HEADER)
        if header_value is not None:
            return self._find_owned(header_value.decode("latin-1"), principal), True
        cookie = None if headers.raw(b"cookie") is None else read_cookie(headers.get(b"cookie"))
        if cookie is None:
            return None, False
        return self._find_owned(cookie, principal), is_session_id(cookie)

    def _find_owned(self, identifier: str, principal: Principal) -> Session | None:
        session = self.find(identifier, principal.name)
        if session is not None:
            session.caller.principal = principal  # the scopes of this request's credential, not of the first one
        return session

    def close(self, session: Session, reason: str = "ended") -> None:
        """End a session."""
        _log_event("session_closed", session, reason=reason)
        if self._sessions.pop(session.id, None) is not None:
            self._shares.give_back(session.owner)
        self._broadcaster.remove(session)
        session.close()
        self._on_end(session.scope)

    @property
    def owners(self) -> list[str]:
        """The owners of open sessions."""
        return self._shares.owners

    def end_owner(self, owner: str) -> None:
        """End every session of a revoked owner."""
        for session in [session for session in self._sessions.values() if session.owner == owner]:
            self.close(session, "revoked")

    def infos(self, path: str) -> list[ClientSessionInfo]:
        """Describe the sessions of authenticated callers."""
        now = self._clock()
        return [
            ClientSessionInfo(
                principal=session.caller.principal,
                kind="session",
                path=path,
                address=session.caller.address,
                client=_format_client(session.caller.info),
                version=session.caller.revision.version,
                started_at=session.opened_at,
                idle_s=0.0 if session.is_in_use else now - session.last_used_at,
                in_flight=session.in_flight,
            )
            for session in self._sessions.values()
            if session.caller.principal is not ANONYMOUS
        ]

    def retire(self, matches: Matches) -> list[Session]:
        """End the sessions of these principals, except their running calls: `close` ends those.

        Their ids are unknown from now on, and their streams end.
        """
        found = [session for session in self._sessions.values() if matches(session.caller.principal)]
        for session in found:
            del self._sessions[session.id]
            self._shares.give_back(session.owner)
            self._broadcaster.remove(session)
            session.end_streams()
        return found

    def end_streams(self) -> None:
        """End the GET streams of every session, so that the process can exit."""
        for session in self._sessions.values():
            session.end_streams()

    def sweep(self) -> None:
        """End sessions that have been idle for too long; stop at the first that has not."""
        now = self._clock()
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.last_used_at >= now - self._idle_s:
                return
            if session.is_in_use:
                session.last_used_at = now
                self._sessions.move_to_end(session.id)
            else:
                self.close(session, "idle")


def _format_client(info: Implementation | None) -> str:
    return "" if info is None else f"{info.name} {info.version}"


def _log_event(event: str, session: Session, **more: str) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        # The id gives access to the session, so the log gets a digest of it.
        name = blake2b(session.id.encode(), digest_size=6).hexdigest()
        caller = session.caller
        fields = {"session": name, "principal": caller.principal.name, "revision": caller.revision.version}
        logger.debug(event, extra={**fields, **more})
