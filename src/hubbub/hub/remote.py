"""An upstream that is reached through a client: a command or a URL.

It is connected when first needed, and kept connected. A modern server gets the capabilities of the caller with each
request; a legacy server needs them when a session starts, so callers that declare some get sessions of their own. A
call is never sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.known_eras import DEFAULT_KNOWN_ERAS, KnownEras
from hubbub.client.subscriptions import ChangeEvent
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    EgressRefused,
    HubbubError,
    InvalidParams,
    ProtocolVersionNotSupported,
    RemoteError,
    TransportError,
    UpstreamUnavailable,
)
from hubbub.hub.admission import Breakers, CallLimiter
from hubbub.hub.capable_tools import CapableTools, check_capable
from hubbub.hub.forwarding.forwarded_call import INPUT_METHODS, ForwardedCall, accepts_client_requests
from hubbub.hub.forwarding.tenant_sessions import TenantSessions
from hubbub.hub.forwarding.upstream_link import UpstreamLink
from hubbub.hub.forwarding.upstream_session import UpstreamSession
from hubbub.hub.list_fetcher import LIST_KINDS
from hubbub.hub.list_refresher import ListRefresher
from hubbub.hub.snapshot import Snapshot
from hubbub.hub.upstream import ReportEvent, SessionInfo, Upstream, UpstreamOptions, UpstreamState
from hubbub.hub.upstream_health import UpstreamHealth, state_for
from hubbub.net.backoff import Backoff
from hubbub.oauth.errors import UserLoginRequired
from hubbub.ports import Sealer
from hubbub.protocol.calls import ANONYMOUS, Call, Caller, Notification, Principal, Reply
from hubbub.protocol.error_codes import translate_error
from hubbub.rounds import Rounds

if TYPE_CHECKING:
    from hubbub.hub.upstream_logins.server_logins import ServerLogins


_NO_ANSWER_ERRORS: Final = (TransportError, ConnectionClosed, DeadlineExceeded, ProtocolVersionNotSupported)


class RemoteUpstream:
    """A server outside this process."""

    def __init__(
        self,
        config: ServerConfig,
        options: UpstreamOptions,
        sealer: Sealer,
        *,
        backoff: Callable[[], Backoff] = Backoff,
        known_eras: KnownEras = DEFAULT_KNOWN_ERAS,
    ) -> None:
        self.id = config.id
        self.on_change: Callable[[Upstream, ChangeEvent], None] | None = None
        self.on_state: Callable[[Upstream], None] | None = None
        self.on_event: ReportEvent | None = None
        self._host = urlsplit(config.url or "").hostname or ""
        if config.secrets is not None and config.secrets.on_event is None:
            config.secrets.on_event = self._report_secret
        self._transport = config.transport
        self._options = options
        self._keeps_client_sessions = options.sessions == "own"
        self.logins = _make_logins(config) if options.per_user else None
        """The logins of users; None: all calls are sent with the `auth` of the config."""
        if self.logins is not None:
            config = msgspec.structs.replace(config, auth=self.logins.definitions)
        self._limiter = CallLimiter(f"calls to {config.id}", options.max_calls, options.max_waiting)
        self._breakers = Breakers(options.breaker_failures, backoff)
        self._rounds = Rounds(sealer)
        self._link = UpstreamLink(
            config,
            options,
            sealer,
            backoff=backoff(),
            known_eras=known_eras,
            make_room=partial(self._rounds.drop_oldest, after_s=bounds.UNANSWERED_INPUT_MAX_S),
            on_connection=self._connection_changed,
            on_change=self._handle_change,
            on_renewed=self._refresh_lists,
            on_event=self._report_event,
            authorizer_for=None if self.logins is None else self.logins.authorizer_for,
        )
        self._connection = self._link.connection
        self._health = UpstreamHealth(config, self._connection, self._breakers, self._report_state)
        self._capable_tools = CapableTools(config.id, self._link.config_with, options.list_s)
        self._lists = ListRefresher(
            config.id,
            self._connection.get_client,
            list_s=options.list_s,
            capable=self._capable_tools,
            on_change=self._report_change,
            on_outcome=self._on_lists_read,
            # Resources belong to the account of a user: `upstream_logins.user_resources` lists them.
            kinds=LIST_KINDS if self.logins is None else [kind for kind in LIST_KINDS if kind != "resources"],
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls = 0

    def __repr__(self) -> str:
        return f"<RemoteUpstream {self.id!r}: {self._health.phase}>"

    # -- state -------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The last good lists."""
        return self._lists.snapshot

    @property
    def state(self) -> UpstreamState:
        """Current state and counters."""
        revision = self.snapshot.revision
        return UpstreamState(
            id=self.id,
            phase=self._health.phase,
            transport=self._transport,
            era="" if revision is None else revision.era,
            version="" if revision is None else revision.version,
            reason=self._health.reason,
            retry_in_s=self._health.retry_in_s(),
            since=self._health.since,
            in_flight=self._limiter.running + self._limiter.yielded,
            waiting=self._limiter.waiting,
            calls=self._calls,
            failures=self._health.failures,
            sessions=len(self._link),
            is_stale=self._lists.is_stale or self._health.phase == "down",
        )

    def state_for(self, caller: Caller) -> UpstreamState:
        """The state as it is for a caller."""
        return state_for(caller, self.state, self._breakers)

    # -- lifecycle -----------------------------------------------------------------------

    async def start(self) -> None:
        """Do nothing: the server is connected when first needed."""

    async def refresh(self) -> None:
        """Connect if needed and read all lists; a failure keeps the last lists."""
        if self._health.is_closing:
            return
        if not self._breakers.is_closed and self._connection.client is None:
            return  # It failed just now; the breaker decides when it is tried again.
        await self._lists.refresh()

    async def close(self, drain_s: float | None = None) -> None:
        """Take no more calls, let running calls finish, then disconnect."""
        self._health.is_closing = True
        self._health.update()
        try:
            async with asyncio.timeout(bounds.UPSTREAM_DRAIN_TIMEOUT_S if drain_s is None else drain_s):
                await self._limiter.wait_until_idle()
        except TimeoutError:
            pass  # Their callers get an error when the session ends.
        await self._lists.close()
        await self._rounds.close()
        await self._link.close()
        if self.logins is not None:
            await self.logins.close()

    def set_sole_caller(self, caller: Caller) -> None:
        """Declare the capabilities of this caller on the default session, because there is no other client."""
        self._link.set_sole_caller(caller)

    def expect_capable(self, uniform_version: str | None = None) -> bool:
        """List tools for capable clients too; return whether the lists must be read again."""
        revision = self.snapshot.revision
        return self._capable_tools.enable(uniform_version) and revision is not None and not revision.stateless

    # -- calls ---------------------------------------------------------------------------

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Forward a call, once; see `Upstream`."""
        client = self._connection.client
        if (
            self._health.is_closing
            or client is None
            or not client.is_open
            or not self._breakers.get(call.caller).is_closed
        ):
            return self._request(call)
        if call.caller.revision.rounds and not client.revision.rounds:
            return self._request(call)
        return self._forward(call)  # the path of most calls

    async def _request(self, call: Call) -> Reply:
        if self._health.is_closing:
            if self._rounds.can_resume(call):
                return await self._rounds.resume(call)
            raise self._make_unavailable(call, "it is being removed from the hub")
        client = self._connection.client
        if client is None or not client.is_open or not self._breakers.get(call.caller).is_closed:
            client = await self._connect_for(call)
        if call.caller.revision.rounds and not client.revision.rounds and call.method in INPUT_METHODS:
            # A modern caller answers in a new request, but a legacy server waits within the call: it is suspended here.
            if call.params.request_state is not UNSET:
                return await self._rounds.resume(call)
            if accepts_client_requests(call.caller):
                return await self._rounds.begin(call, self._forward)
        return await self._forward(call)

    def holds(self, call: Call) -> bool:
        """Whether a call resumes a call that is suspended here."""
        return self._rounds.can_resume(call)

    async def notify(self, note: Notification) -> None:
        """Do nothing: notifications of clients are not forwarded."""

    async def _connect_for(self, call: Call) -> Client:
        """The client of the default session, after connecting if needed and if the breaker admits the call."""
        breaker = self._breakers.get(call.caller)
        if not breaker.admit():
            raise self._make_unavailable(call, breaker.reason)
        was_trial = not breaker.is_closed
        if (client := self._connection.open_client) is not None:
            return client  # `_forward` reports the outcome of the trial call
        self._health.update()
        seconds = self._timeout_for(call)
        try:
            async with asyncio.timeout(seconds):
                return await self._connection.get_client()
        except TimeoutError:
            raise self._record_failure(call, DeadlineExceeded(f"The connection to {self.id}", seconds)) from None
        except UserLoginRequired:
            breaker.record_abandoned()
            raise
        except HubbubError as error:
            raise self._record_failure(call, error, may_have_executed=False) from None
        except asyncio.CancelledError:
            if was_trial:
                breaker.record_abandoned()
            raise

    async def _forward(self, call: Call) -> Reply:
        if self.snapshot.capable_only:
            check_capable(call, self.snapshot.capable_only)
        deadline = self._loop_time() + self._timeout_for(call)
        forwarded = ForwardedCall(call, self._limiter, keeps_client_sessions=self._keeps_client_sessions)
        if not self._limiter.acquire_nowait(forwarded.owner):
            await self._limiter.acquire(deadline, forwarded.owner)
        self._calls += 1
        is_answered = False
        session: UpstreamSession | None = None
        link = self._link
        try:
            session = link.acquire_nowait(forwarded) or await link.acquire(forwarded, deadline)
            reply = await link.forward(forwarded, session, max(deadline - self._loop_time(), 0.001))
            is_answered = True
            self._record_success(call)
            if session.client.revision.rounds:
                link.bridge.finish_reply(reply, call, self.snapshot)
            return reply
        except RemoteError as error:
            if session is None:  # The server refused a new session; that does not answer the call.
                raise self._record_failure(call, error, may_have_executed=False) from None
            is_answered = True
            self._record_success(call)
            raise translate_error(error, call, session.client.revision) from None
        except UserLoginRequired:
            raise
        except _NO_ANSWER_ERRORS as error:
            if isinstance(error, DeadlineExceeded) and session is not None and call.deadline is None:
                # Report the configured time: a part of it was spent before the request was sent.
                error = DeadlineExceeded(f"The answer to {call.method}", self._options.timeout_s)
            raise self._record_failure(call, error) from None
        except TimeoutError:
            raise self._record_failure(
                call, DeadlineExceeded(f"A session with {self.id}", self._options.timeout_s)
            ) from None
        finally:
            if not is_answered:
                self._breakers.get(call.caller).record_abandoned()
            self._limiter.release(forwarded.owner)
            if session is not None:
                link.release(session, forwarded, is_answered=is_answered)
            if not is_answered:
                forwarded.stop_sending()
            elif forwarded.has_pending:
                await forwarded.flush()

    def _loop_time(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _timeout_for(self, call: Call) -> float:
        seconds = self._options.timeout_s
        if call.deadline is not None:
            seconds = min(seconds, max(call.deadline - self._loop_time(), 0.001))
        return seconds

    # -- failures ------------------------------------------------------------------------

    def _record_success(self, call: Call) -> None:
        if self._health.record_success(call.caller):
            self._refresh_lists()  # Changes may have been missed.

    def _record_failure(
        self, call: Call, error: HubbubError, *, may_have_executed: bool | None = None
    ) -> UpstreamUnavailable:
        self._report_refusal(error, call.caller.principal)
        reason = self._health.record_failure(call.caller, error)
        if may_have_executed is None:
            may_have_executed = not isinstance(error, TransportError) or error.may_have_executed
        return self._make_unavailable(call, reason, may_have_executed=may_have_executed)

    def _make_unavailable(self, call: Call, reason: str, *, may_have_executed: bool = False) -> UpstreamUnavailable:
        since = self._health.since if self._health.phase == "down" else None
        wait_s = self._health.retry_in_s(self._breakers.get(call.caller))
        error = UpstreamUnavailable(self.id, reason, wait_s, may_have_executed=may_have_executed, since=since)
        if call.method == "tools/call":
            error.has_schema = self.snapshot.has_output_schema(call.params.name)
        return error

    # -- changes -----------------------------------------------------------------------------

    async def subscribe(self, uri: str, principal: str | None = None) -> None:
        """Report changes of a resource, also after the server was restarted."""
        if self.logins is not None:
            # The default session has the login of another user.
            raise InvalidParams(
                f"Resources of {self.id} cannot be subscribed to, because each user logs in there separately; read "
                "them again instead"
            )
        try:
            async with asyncio.timeout(self._options.timeout_s):
                await self._link.watch.add(uri, principal)
        except TimeoutError:
            raise DeadlineExceeded(f"The subscription at {self.id}", self._options.timeout_s) from None

    def end_scope(self, scope: str) -> None:
        """Do nothing: a remote server manages its own sessions."""

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the calls of revoked callers that wait here for input, and their sessions with the server."""
        self._rounds.end_revoked(is_revoked)
        self._link.pool.end_revoked(is_revoked)

    # -- sessions of principals ----------------------------------------------------------

    def use_tenants(self, tenants: TenantSessions) -> None:
        """Count the sessions of tenants in this table."""
        self._link.pool.tenants = tenants
        self._breakers.count_tenants = lambda: len(tenants.names())

    def sessions(self) -> list[SessionInfo]:
        """Describe the sessions, except the default session."""
        return self._link.pool.infos()

    async def end_sessions(self, matches: Callable[[Principal], bool], drain_s: float) -> int:
        """End the sessions of these principals, and their calls that wait here for input."""
        self._rounds.end_callers(matches)
        return await self._link.pool.end(matches, drain_s)

    async def reconnect(self) -> None:
        """Replace the default session, because its login has ended."""
        if (client := self._connection.client) is not None:
            await client.close()

    async def retire_sessions(self, drain_s: float) -> int:
        """Use the present sessions of principals for no new calls."""
        return await self._link.pool.end(lambda principal: True, drain_s)

    # -- changes of the server -----------------------------------------------------------

    async def unsubscribe(self, uri: str) -> None:
        """Stop reporting changes of a resource."""
        await self._link.watch.remove(uri, self._connection.client)

    def _connection_changed(self) -> None:
        if self._connection.client is not None:
            self._breakers.allow_trial()
            self._refresh_lists()
        self._health.update()

    def _refresh_lists(self) -> None:
        """Read all lists again, because the server may have been replaced."""
        if not self._health.is_closing:
            self._lists.mark_outdated(*LIST_KINDS)

    def _handle_change(self, change: ChangeEvent, client: Client | None) -> None:
        """Handle a change; `client` is None if the session belongs to one principal."""
        if change.kind == "resource":
            self._report_change(change)
        elif not self._health.is_closing:
            self._lists.handle_change(change, client)

    def _report_change(self, change: ChangeEvent) -> None:
        if self.on_change is not None:
            self.on_change(self, change)

    def _on_lists_read(self, error: HubbubError | None) -> None:
        if error is None:
            self._breakers.shared.record_success()
        else:
            self._report_refusal(error, ANONYMOUS)
        self._health.update(always_notify=True)

    def _report_state(self) -> None:
        if self.on_state is not None:
            self.on_state(self)

    def _report_event(self, event: str, principal: Principal, facts: Mapping[str, str | int | float | bool]) -> None:
        if self.on_event is not None:
            self.on_event(event, principal, facts)

    def _report_secret(self, event: str, facts: Mapping[str, str]) -> None:
        """Report that a secret was read for a tenant, or for the hub itself."""
        tenant = facts["tenant"]
        principal = Principal(f"tenant {tenant}", tenant=tenant) if tenant else ANONYMOUS
        self._report_event(event, principal, {"secret": facts["secret"], "source": facts["source"]})

    def _report_refusal(self, error: HubbubError, principal: Principal) -> None:
        """Report a connection that the egress rules refused, without the address that the host has."""
        if isinstance(error, EgressRefused):
            self._report_event("egress.refused", principal, {"host": self._host})


def _make_logins(config: ServerConfig) -> ServerLogins:
    from hubbub.hub.upstream_logins.server_logins import ServerLogins  # Most servers have none.

    return ServerLogins(config)
