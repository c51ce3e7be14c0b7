"""One session with an upstream, and the calls that it carries.

Messages of the server that name no call go to the only client that they can be about, or to none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.errors import MethodNotFound, RemoteError
from hubbub.hub.forwarding.forwarded_call import LOG_MESSAGE, ForwardedCall
from hubbub.hub.upstream import SessionInfo
from hubbub.protocol.calls import ANONYMOUS, LOG_LEVELS, Call, Notification, Principal, Reply

if TYPE_CHECKING:
    from hubbub.hub.forwarding.session_profile import SessionProfile

logger = logging.getLogger("hubbub.hub")


class UpstreamSession:
    """One session and the calls that it carries. The `ReturnPath` of messages that name no call."""

    def __init__(
        self,
        profile: SessionProfile | None,
        make: Callable[[UpstreamSession], Client],
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.profile = profile
        """None: the default session, which declares no capabilities unless it has a scope."""
        self.owner = "" if profile is None else profile.owner
        """The owner of the share of sessions that it uses."""
        self.scope: object = None
        """`ForwardedCall.scope` of the client that has this session alone, or had it last."""
        self.sends_uncorrelated = False
        """Whether the server sent a request that names no call."""
        self.has_client_state = False
        """Whether the server knows something about that client, such as its roots, so that others must not use it."""
        self.reports_changes = False
        """Whether the server reported changes on this session."""
        self.calls: dict[ForwardedCall, None] = {}
        self._abandoned: dict[object, frozenset[ForwardedCall]] = {}
        """Clients that abandoned a call which the server may still work on, and the calls that ran then."""
        self._log_level: str | None = None
        self.principal = principal
        """The principal whose calls it carries."""
        self.opened_at = self.idle_since = 0.0
        """On the loop's clock."""
        self.started_at = time.time()
        self.is_ending = False
        """Whether it gets no more calls."""
        self.end_reason = "finished"
        self.was_opened = False
        self.closed = asyncio.Event()
        self.start_task: asyncio.Task[None] | None = None
        self.process_folder: str | None = None
        """The folder with the files of its process, deleted when the session has ended."""
        self.client = make(self)

    @property
    def declares_nothing(self) -> bool:
        """Whether none of its callers declared elicitation, sampling or roots."""
        return self.scope is None and (self.profile is None or not self.profile.accepts_client_requests)

    @property
    def is_clean(self) -> bool:
        """Whether no message about an abandoned call can arrive any more."""
        return not self._abandoned

    async def set_level(self, level: str | None) -> None:
        """Set the server's log level, if it supports that."""
        if level is None or level == self._log_level:
            return
        self._log_level = level
        try:
            await self.client.set_level(level)
        except RemoteError as error:
            logger.debug("a server refused logging/setLevel: %s", error.message)

    async def lower_log_level(self, level: str | None) -> None:
        """Lower the server's log level to this one, if it is higher; each caller gets its own level only."""
        if level is not None and (
            self._log_level is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(self._log_level)
        ):
            await self.set_level(level)

    def remove(self, forwarded: ForwardedCall, *, is_answered: bool) -> None:
        """Remove a call that has ended."""
        del self.calls[forwarded]
        self.has_client_state = self.has_client_state or forwarded.sent_roots
        if not is_answered:
            self._note_abandoned(forwarded)
        elif self._abandoned and (self.profile is None or self.declares_nothing):
            # A server that answers a later call has read the cancellation of the earlier one. That suffices for logs;
            # but where it may send requests, one that ignores cancellations must never reach the next client.
            self._abandoned = {scope: older for scope, older in self._abandoned.items() if forwarded in older}

    def _note_abandoned(self, forwarded: ForwardedCall) -> None:
        """Remember an abandoned call, because the server may still send messages about it."""
        is_quiet = self.client.era == "modern" and forwarded.call.caller.least_log_level is None
        if is_quiet and self.declares_nothing:
            return  # No requests to clients here, and a modern server logs only for callers that asked for it.
        self._abandoned[forwarded.scope] = frozenset(self.calls)
        if len(self._abandoned) > bounds.UPSTREAM_QUEUED_CALLS:
            del self._abandoned[next(iter(self._abandoned))]

    async def request(self, call: Call) -> Reply:
        """Send a request that names no call to the only client that has calls on this session."""
        self.sends_uncorrelated = True
        has_no_client = self.profile is None and self.scope is None
        while True:
            forwarded = None if has_no_client else self._sole_client_call(self.calls)
            if forwarded is None:
                raise MethodNotFound(call.method)
            if not forwarded.has_pending:
                return await forwarded.request(call)
            # That call may be answered meanwhile, and its caller reads nothing after the answer: choose again.
            await forwarded.flush()

    async def notify(self, note: Notification) -> None:
        """Queue a notification that names no call; `send_nowait` does the same."""
        self.send_nowait(note)

    def send_nowait(self, note: Notification) -> bool:
        """Queue a notification for the client that it can be about; decided at once, so that no answer overtakes it."""
        forwarded = self._find_receiver(note)
        if forwarded is not None:
            forwarded.send_nowait(note)
        return True

    async def release(self) -> None:
        """Do nothing: the streams of callers belong to their calls."""

    def _find_receiver(self, note: Notification) -> ForwardedCall | None:
        if note.method != LOG_MESSAGE or not self.client.is_open:
            return None  # before the handshake there is no call
        log_readers = [forwarded for forwarded in self.calls if forwarded.call.caller.least_log_level is not None]
        # A modern server logs only for callers that asked for it; a legacy one for any of them.
        is_modern = self.client.era == "modern"
        forwarded = self._sole_client_call(log_readers if is_modern else self.calls)
        if forwarded is None:
            logger.debug("a log message of a server was dropped: it may belong to any of several clients")
        return forwarded

    def _sole_client_call(self, candidates: Any) -> ForwardedCall | None:
        """The newest of these calls, if all of them are of one client and no other client abandoned one."""
        found: ForwardedCall | None = None
        for forwarded in candidates:
            if found is not None and forwarded.scope != found.scope:
                return None
            found = forwarded
        return None if found is None or self._abandoned.keys() - {found.scope} else found

    def describe(self, upstream: str, now: float) -> SessionInfo:
        """Describe the session; `now` is the time of the loop's clock."""
        return SessionInfo(
            server=upstream,
            principal=self.principal,
            transport=self.client.config.transport,
            started_at=self.started_at,
            age_s=now - self.opened_at,
            idle_s=0.0 if self.calls else now - self.idle_since,
            in_flight=len(self.calls),
            pid=self.client.process_id,
            is_ending=self.is_ending,
        )
