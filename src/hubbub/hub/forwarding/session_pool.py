"""The sessions with one legacy upstream: nothing that belongs to one client is ever shared with another.

A legacy server learns at the start of a session which requests its client answers, and on a pipe its requests do not
name the call that they are about. So callers who declared a capability get a session that declares exactly that. Where
requests of the server come on the stream of their call, callers with the same profile share a session; elsewhere each
has one alone for as long as a call of theirs runs. The default session declares nothing and serves the rest.

Authenticated callers never use the default session, in any era: each principal has its own sessions (on stdio:
processes), and at most its share of them. A session ends when it was idle for long enough, when it is too old, or when
its principal is logged out: it gets no more calls, and calls in flight have some time to finish. Sessions of revoked
credentials end at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.rpc import mark_retrieved
from hubbub.errors import ConnectionClosed, Overloaded
from hubbub.hub.forwarding.forwarded_call import ForwardedCall
from hubbub.hub.forwarding.session_profile import SessionProfile
from hubbub.hub.forwarding.tenant_sessions import NO_LIMIT, Lifetimes, TenantSessions
from hubbub.hub.forwarding.upstream_session import UpstreamSession
from hubbub.hub.upstream import ReportEvent, SessionInfo, UpstreamOptions
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.shares import Shares, tenant_of

logger = logging.getLogger("hubbub.hub")


class SessionPool:
    """The sessions with one upstream, besides the default session."""

    def __init__(
        self,
        options: UpstreamOptions,
        upstream: str,
        make: Callable[[UpstreamSession, Mapping[str, Any]], Client],
        *,
        are_processes: bool,
        make_room: Callable[[Callable[[str], bool]], bool],
        on_start: Callable[[UpstreamSession], Awaitable[None]],
        on_end: Callable[[UpstreamSession], None],
        on_event: ReportEvent = lambda event, principal, facts: None,
    ) -> None:
        self._options = options
        self._upstream = upstream
        self._make = make
        self.are_processes = are_processes
        self._make_room = make_room
        """Called when no session is free, to end an abandoned call of one of the owners that match."""
        self._on_start = on_start
        self._on_end = on_end
        self._on_event = on_event
        """Called when a session of a principal was opened or ends, for the audit journal."""
        self._sessions: dict[UpstreamSession, None] = {}
        self._by_profile: dict[SessionProfile, dict[UpstreamSession, None]] = {}
        """The same sessions by profile: there may be thousands, and every call looks for those of its own."""
        self.tenants = TenantSessions()
        """Limits of the sessions of each tenant; all pools of a hub share one object."""
        self._default_lifetimes = Lifetimes(options.idle_s)
        self._open_shares = Shares(self.session_limit)
        """Shares of all sessions, by `SessionProfile.owner`."""
        self._shares = Shares(self.session_limit)
        """Shares of the sessions that carry calls, by `SessionProfile.owner`."""
        self._queue = Shares(options.max_waiting)
        self._waiters: dict[asyncio.Future[None], str] = {}
        """Calls that wait for a session, with their owners."""
        self._close_tasks: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_time = NO_LIMIT
        """When the timer ends."""
        self.correlates = False
        """Whether the server's requests come on the stream of their call."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def session_limit(self) -> int:
        """The largest number of sessions; where they are not processes, at least one for each concurrent call."""
        if self.are_processes:
            return self._options.max_sessions
        return max(self._options.max_sessions, self._options.max_calls)

    def open_sessions(self) -> list[UpstreamSession]:
        """The sessions that are connected."""
        return [session for session in self._sessions if session.client.is_open]

    def acquire_nowait(self, forwarded: ForwardedCall, profile: SessionProfile) -> UpstreamSession | None:
        """Like `acquire`, but only if there is a session that needs neither to be started nor another log level."""
        if forwarded.call.caller.log_level is not None:
            return None
        is_exclusive = self._is_exclusive(profile)
        session = self._find_session(forwarded, profile, is_exclusive=is_exclusive)
        if session is None or not session.was_opened:
            return None
        self._add_call(session, forwarded, is_exclusive=is_exclusive)
        return session

    async def acquire(
        self, forwarded: ForwardedCall, profile: SessionProfile, level: str | None, deadline: float
    ) -> UpstreamSession:
        """Return a started session, with the call added to it; the server logs `level` and above.

        Raises:
            Overloaded: other callers use every session, or the tenant has too many.
            HubbubError: the session cannot be started.
        """
        is_exclusive = self._is_exclusive(profile)
        while True:
            session = self._find_session(forwarded, profile, is_exclusive=is_exclusive) or self._open_session(
                profile, forwarded.call.caller.principal
            )
            if session is not None:
                break
            await self._wait_for_session(profile, deadline)
        self._add_call(session, forwarded, is_exclusive=is_exclusive)
        try:
            await self._ensure_started(session, deadline)
            if profile.log_level is None:
                await session.lower_log_level(level)
        except BaseException:
            self.release(session, forwarded, is_answered=True)
            raise
        return session

    def release(self, session: UpstreamSession, forwarded: ForwardedCall, *, is_answered: bool) -> None:
        """Remove a call that has ended from its session; others may then use it, if it is clean."""
        session.remove(forwarded, is_answered=is_answered)
        if not session.calls and session.profile is not None:
            self._shares.give_back(session.owner)
        if session.sends_uncorrelated and self.correlates:
            self.correlates = False
            session.scope = session.scope or forwarded.scope
        if session.calls:
            return
        if session not in self._sessions:
            self._wake_waiters()
            return
        session.idle_since = now = asyncio.get_running_loop().time()
        stays = session.is_clean or session.declares_nothing or self._options.sessions == "own"
        if session.is_ending or not session.client.is_open or not stays:
            self._drop(session, session.end_reason if session.client.is_open else "lost")
        elif session.scope is forwarded:
            self._drop_unless_reusable(session)
        if self._waiters:
            self._wake_waiters()
        lifetimes = self.tenants.lifetimes.get(session.principal.tenant, self._default_lifetimes)
        due_at = min(now + lifetimes.idle_s, session.opened_at + lifetimes.max_s)
        if due_at < self._sweep_time:
            self._sweep_at(due_at)

    def infos(self) -> list[SessionInfo]:
        """Describe every session."""
        now = asyncio.get_running_loop().time()
        return [session.describe(self._upstream, now) for session in self._sessions]

    async def end(self, matches: Callable[[Principal], bool], drain_s: float) -> int:
        """End the sessions of these principals: at once for new calls; calls in flight have `drain_s` to finish.

        Returns their number after they were closed.
        """
        found = [session for session in self._sessions if matches(session.principal)]
        for session in found:
            self._retire(session, "ended", drain_s)
        for session in found:
            await session.closed.wait()
        return len(found)

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the sessions of principals whose credential was revoked, at once and with their calls.

        A rotated key counts as revoked only after the time that its running calls have to finish.
        """
        names = {session.principal.name for session in self._sessions if session.principal is not ANONYMOUS}
        revoked = set(filter(is_revoked, names))
        for session in [session for session in self._sessions if session.principal.name in revoked]:
            self._drop(session, "revoked")

    async def close(self) -> None:
        """Close every session."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for session in list(self._sessions):
            self._drop(session, "stopped")
        self._wake_waiters()
        if self._close_tasks:
            await asyncio.wait(self._close_tasks)

    # -- choosing a session ----------------------------------------------------------

    def _is_exclusive(self, profile: SessionProfile) -> bool:
        """Whether a call of this profile must not share its session with other clients."""
        if profile.is_exclusive or self._options.sessions == "own":
            return True
        return not self.correlates and (profile.accepts_client_requests or profile.principal is None)

    def _add_call(self, session: UpstreamSession, forwarded: ForwardedCall, *, is_exclusive: bool) -> None:
        if not session.calls:
            self._shares.take(session.owner)
        session.calls[forwarded] = None
        if is_exclusive:
            session.scope = forwarded.scope

    def _find_session(
        self, forwarded: ForwardedCall, profile: SessionProfile, *, is_exclusive: bool
    ) -> UpstreamSession | None:
        found = self._by_profile.get(profile)
        if found is None:
            return None
        free = None
        has_room = self._shares.has_room(profile.principal or "")
        now = asyncio.get_running_loop().time()
        for session in list(found):
            if session.is_ending:
                continue
            if self._expires_at(session) <= now:
                self._retire(session, "expired")
                continue
            if not session.client.is_open and session.start_task is not None and session.start_task.done():
                if not session.calls:
                    self._drop(session, "lost")
                continue
            if not has_room and not session.calls:
                continue
            if not is_exclusive or session.scope == forwarded.scope:
                return session
            if free is None and not session.calls and self._is_reusable(session):
                free = session
        return free

    def _is_reusable(self, session: UpstreamSession) -> bool:
        return session.is_clean and not session.has_client_state and self._options.sessions == "shared"

    def _open_session(self, profile: SessionProfile, principal: Principal) -> UpstreamSession | None:
        """Make a session, in place of an idle one if there are too many; None if that is not possible.

        Raises: Overloaded, if the tenant has too many.
        """
        if not self._shares.has_room(profile.owner):
            return None
        self.tenants.make_room(principal.tenant, is_process=self.are_processes)
        if len(self._sessions) >= self.session_limit:
            idle = self._pick_idle(profile.owner)
            if idle is None:
                return None
            self._evict(idle)
        capabilities = msgspec.json.decode(profile.capabilities)
        session = UpstreamSession(profile, lambda session: self._make(session, capabilities), principal)
        session.client.on_renewed = partial(self._report, "session.reinit", session)
        session.opened_at = session.idle_since = asyncio.get_running_loop().time()
        self._sessions[session] = None
        self._open_shares.take(profile.owner)
        self._by_profile.setdefault(profile, {})[session] = None
        self.tenants.add(principal.tenant, session, self._evict, is_process=self.are_processes)
        self._sweep_at(self._due_at(session))
        return session

    def _pick_idle(self, owner: str) -> UpstreamSession | None:
        """Return the idle session that a new one of this owner replaces; None if there is none that it may replace.

        The first choice is the oldest session of the owner; then one of its tenant, if the tenant has its fair share;
        then one of the tenant with the most sessions. A tenant with at most its fair share loses none to another.
        """
        tenant, shares = tenant_of(owner), self._open_shares
        fair_share = shares.fair_share(owner)
        replaces_own = bool(tenant) and shares.usage(owner)[0] + 1 > fair_share

        def may_replace(other: str) -> bool:
            return tenant_of(other) in ("", tenant) or shares.usage(other)[0] > fair_share

        def order(session: UpstreamSession) -> tuple[bool, bool, int, int, float]:
            other = session.owner
            used_by_tenant, used = shares.usage(other)
            is_preferred = replaces_own and tenant_of(other) == tenant
            return other != owner, not is_preferred, -used_by_tenant, -used, session.idle_since

        idle = (session for session in self._sessions if not session.calls and may_replace(session.owner))
        return min(idle, key=order, default=None)

    async def _ensure_started(self, session: UpstreamSession, deadline: float) -> None:
        if session.start_task is None:
            session.start_task = asyncio.create_task(self._start(session))
            session.start_task.add_done_callback(mark_retrieved)
        if not session.start_task.done():
            async with asyncio.timeout_at(deadline):
                await asyncio.wait([session.start_task])
        if session.start_task.cancelled():  # the pool was closed
            raise ConnectionClosed(f"The connection to {self._upstream} was closed")
        session.start_task.result()

    async def _start(self, session: UpstreamSession) -> None:
        assert session.profile is not None
        try:
            await session.client.start()
            await session.set_level(session.profile.log_level)
            await self._on_start(session)
            self._report("session.open", session)
            session.was_opened = True
        except Exception:
            self._drop(session, "failed")
            raise

    async def _wait_for_session(self, profile: SessionProfile, deadline: float) -> None:
        owner = profile.owner
        if not self._queue.has_room(owner):
            raise self._make_overloaded()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.take(owner)
        self._waiters[waiter] = owner
        try:
            async with asyncio.timeout_at(deadline):
                while not waiter.done():
                    self._end_abandoned_call(profile)
                    await asyncio.wait([waiter], timeout=bounds.SESSION_RECHECK_INTERVAL_S)
        except TimeoutError:
            raise self._make_overloaded() from None
        finally:
            del self._waiters[waiter]
            self._queue.give_back(owner)

    def _end_abandoned_call(self, profile: SessionProfile) -> None:
        """End an abandoned call to free its session: of the same owner or tenant, or of any if they use no session."""
        owner, tenant = profile.owner, tenant_of(profile.owner)
        used_by_tenant, used = self._shares.usage(owner)
        if owner and (self._make_room(lambda other: other == owner) or used):
            return
        if tenant and used_by_tenant:
            self._make_room(lambda other: tenant_of(other) == tenant)
        else:
            self._make_room(lambda other: True)

    def _make_overloaded(self) -> Overloaded:
        hint = f"the operator can raise max_sessions of the server {self._upstream}"
        return Overloaded(f"sessions with {self._upstream}", self.session_limit, hint)

    def _wake_waiters(self) -> None:
        """Wake the calls that wait for a session, first those whose tenant, and there whose owner, has the fewest."""
        for waiter in sorted(self._waiters, key=lambda waiter: self._shares.usage(self._waiters[waiter])):
            if not waiter.done():
                waiter.set_result(None)

    # -- closing sessions ------------------------------------------------------------

    def _drop_unless_reusable(self, session: UpstreamSession) -> None:
        """Drop a session whose scope is a call that has ended, unless other clients can use it."""
        if not self._is_reusable(session):
            self._drop(session)

    def _retire(self, session: UpstreamSession, reason: str, drain_s: float | None = None) -> None:
        """Give a session no more calls, and close it after its calls in flight, or when their time is over."""
        session.is_ending, session.end_reason = True, reason
        if not session.calls:
            self._drop(session, reason)
            return
        seconds = bounds.UPSTREAM_DRAIN_TIMEOUT_S if drain_s is None else drain_s
        asyncio.get_running_loop().call_later(seconds, self._drop, session, reason)

    def _evict(self, session: UpstreamSession) -> None:
        self._drop(session, "evicted")

    def _forget(self, session: UpstreamSession) -> bool:
        """Remove a session; return whether it was there."""
        if session not in self._sessions:
            return False
        del self._sessions[session]
        assert session.profile is not None
        self._open_shares.give_back(session.owner)
        alike = self._by_profile[session.profile]
        del alike[session]
        if not alike:
            del self._by_profile[session.profile]
        self.tenants.remove(session.principal.tenant, session)
        return True

    def _drop(self, session: UpstreamSession, reason: str = "finished") -> None:
        if not self._forget(session):
            return
        task = asyncio.create_task(self._close_session(session))
        self._close_tasks.add(task)
        task.add_done_callback(self._close_tasks.discard)
        if not session.was_opened:
            return
        try:
            self._report("session.evict" if reason == "evicted" else "session.close", session, reason)
        except Exception:  # The session ends even if that cannot be recorded.
            logger.exception("session_end_not_recorded", extra={"server": self._upstream})

    async def _close_session(self, session: UpstreamSession) -> None:
        try:
            if session.start_task is not None and not session.start_task.done():
                session.start_task.cancel()
            await session.client.close()
        except Exception:
            logger.exception("closing a session with %s failed", self._upstream)
        finally:
            try:
                self._on_end(session)
            finally:
                session.closed.set()

    def _report(self, event: str, session: UpstreamSession, reason: str = "") -> None:
        if session.principal is not ANONYMOUS:
            facts: dict[str, str | int | float] = {"transport": session.client.config.transport}
            if reason:
                age_s = asyncio.get_running_loop().time() - session.opened_at
                facts |= {"reason": reason, "age_s": round(age_s, 3)}
            self._on_event(event, session.principal, facts)

    def _lifetimes(self, session: UpstreamSession) -> Lifetimes:
        return self.tenants.lifetimes.get(session.principal.tenant, self._default_lifetimes)

    def _expires_at(self, session: UpstreamSession) -> float:
        """Return the time on the loop's clock from which calls do not get a session any more."""
        return session.opened_at + self.tenants.lifetimes.get(session.principal.tenant, self._default_lifetimes).max_s

    def _due_at(self, session: UpstreamSession) -> float:
        """When a session ends unless it gets a call, on the loop's clock."""
        expires_at = self._expires_at(session)
        return expires_at if session.calls else min(session.idle_since + self._lifetimes(session).idle_s, expires_at)

    def _sweep_at(self, when: float) -> None:
        """Sweep at this time, or earlier if that is planned already."""
        if when >= self._sweep_time:
            return
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._sweep_time = when
        self._sweep_timer = asyncio.get_running_loop().call_at(when, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer, self._sweep_time = None, NO_LIMIT
        now, next_due_at = asyncio.get_running_loop().time(), NO_LIMIT
        try:
            for session in list(self._sessions):
                if session.is_ending:
                    continue
                due_at = self._due_at(session)
                if due_at <= now:
                    self._retire(session, "expired" if self._expires_at(session) <= now else "idle")
                else:
                    next_due_at = min(next_due_at, due_at)
        except Exception:
            next_due_at = now
            logger.exception("sweeping the sessions with %s failed", self._upstream)
        finally:
            self._sweep_at(max(next_due_at, now + bounds.SWEEP_INTERVAL_S))
