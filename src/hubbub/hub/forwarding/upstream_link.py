"""The link to one remote server: its default session, which is kept connected, and the pool of further sessions.

Chooses the session of each forwarded call. Subscriptions to resources are carried by the default session, and also by
every session that may report changes which the default session does not: sessions of the principals that subscribed,
and sessions with a process of their own.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.known_eras import KnownEras
from hubbub.client.reconnecting_client import ReconnectingClient
from hubbub.client.subscriptions import ChangeEvent
from hubbub.errors import ConnectionClosed, HubbubError, Overloaded, RemoteError
from hubbub.hub.forwarding.forwarded_call import (
    ALL_CAPABILITIES,
    INPUT_METHODS,
    CapabilityBridge,
    ForwardedCall,
    client_scope,
)
from hubbub.hub.forwarding.process_folder import add_process_folders
from hubbub.hub.forwarding.session_pool import SessionPool
from hubbub.hub.forwarding.session_profile import select_profile
from hubbub.hub.forwarding.upstream_session import UpstreamSession
from hubbub.hub.upstream import ReportEvent, UpstreamOptions
from hubbub.net.backoff import Backoff
from hubbub.ports import Authorizer, Sealer
from hubbub.protocol.calls import Caller, Principal, RawReply
from hubbub.shares import Shares


class UpstreamLink:
    """The sessions with one server, and the changes that it reports on them."""

    def __init__(
        self,
        config: ServerConfig,
        options: UpstreamOptions,
        sealer: Sealer,
        *,
        backoff: Backoff,
        known_eras: KnownEras,
        make_room: Callable[[Callable[[str], bool]], bool],
        on_connection: Callable[[], None],
        on_change: Callable[[ChangeEvent, Client | None], None],
        on_renewed: Callable[[], None],
        on_event: ReportEvent,
        authorizer_for: Callable[[Principal], Authorizer] | None = None,
    ) -> None:
        """Make the link without connecting.

        Args:
            config: How the server is reached.
            options: The limits of its sessions.
            sealer: Seals request states.
            backoff: Delays between attempts to connect.
            known_eras: Remembers whether it is a legacy server.
            make_room: See `SessionPool`.
            on_connection: Called when the default session was opened or lost, or is tried again.
            on_change: Gets changes of lists and subscribed resources, with the client that reported them;
                None instead of a client whose session belongs to one principal.
            on_renewed: Called when the server may have been replaced, so that its lists must be read again.
            on_event: Gets what the audit journal records.
            authorizer_for: Returns what authorizes the sessions of a principal; None: the `auth` of the config.
        """
        self._config = msgspec.structs.replace(config, capabilities={})
        self._known_eras = known_eras
        self._authorizer_for = authorizer_for
        self._keeps_client_sessions = options.sessions == "own"
        self._on_connection = on_connection
        self._on_change = on_change
        self._on_renewed = on_renewed
        self.bridge = CapabilityBridge(config.id, sealer)
        self.connection = ReconnectingClient(
            config.id, self._make_default, backoff=backoff, on_change=self._connection_changed
        )
        self.pool = SessionPool(
            options,
            config.id,
            self._make_pooled,
            are_processes=config.transport == "stdio",
            make_room=make_room,
            on_start=self._session_started,
            on_end=self._session_ended,
            on_event=on_event,
        )
        self.watch = ResourceWatch(self.pool, self.connection.get_client)
        self._default: UpstreamSession | None = None
        self._sole_caller: Caller | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self.pool) + (self.connection.client is not None)

    async def close(self) -> None:
        """End every session."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self.pool.close(), self.connection.close(), *self._tasks, return_exceptions=True)

    def set_sole_caller(self, caller: Caller) -> None:
        """Declare the capabilities of this caller on the default session, because there is no other client.

        Without it such a client would need a second session with a legacy server, which on stdio is a process.
        """
        if caller.scope is not None:
            self._sole_caller = caller

    def config_with(self, capabilities: Mapping[str, Any]) -> ServerConfig:
        """The config of another session, with the known protocol version, so that it needs no probe."""
        default_client = self.connection.client
        version = self._config.protocol_version if default_client is None else default_client.protocol_version
        return msgspec.structs.replace(self._config, capabilities=capabilities, protocol_version=version)

    # -- forwarding a call ---------------------------------------------------------------

    def acquire_nowait(self, forwarded: ForwardedCall) -> UpstreamSession | None:
        """Return a session with the call added to it, if the call can use one without waiting."""
        default = self._default
        if default is None or default.scope is not None or self.connection.open_client is not default.client:
            return None
        profile = select_profile(forwarded, default, self.bridge, keeps_client_sessions=self._keeps_client_sessions)
        if profile is not None:
            return self.pool.acquire_nowait(forwarded, profile)
        default.calls[forwarded] = None
        return default

    async def acquire(self, forwarded: ForwardedCall, deadline: float) -> UpstreamSession:
        """Return a session with the call added to it; opens one if needed.

        Raises: errors of `hubbub.errors`, or `TimeoutError` after the deadline.
        """
        default = self._default
        if default is None or self.connection.open_client is not default.client:
            error = self.connection.error
            # A refused handshake does not answer this call.
            connection_error = None if isinstance(error, RemoteError) else error
            raise connection_error or ConnectionClosed(f"The connection to {self._config.id} was closed")
        if default.scope is not None and default.scope == forwarded.scope:
            await default.set_level(forwarded.call.caller.log_level)
            profile = None
        else:
            profile = select_profile(forwarded, default, self.bridge, keeps_client_sessions=self._keeps_client_sessions)
        if profile is None:
            default.calls[forwarded] = None
            return default
        has_logging = not default.client.revision.stateless and "logging" in default.client.server_capabilities
        level = forwarded.call.caller.log_level if has_logging else None
        return await self.pool.acquire(forwarded, profile, level, deadline)

    def forward(
        self, forwarded: ForwardedCall, session: UpstreamSession, timeout_s: float
    ) -> Coroutine[Any, Any, RawReply]:
        """Send a call on the session that was acquired for it."""
        call, client = forwarded.call, session.client
        is_modern = client.revision.rounds
        returns_input = is_modern and call.caller.revision.rounds and call.method in INPUT_METHODS
        return client.forward(
            call,
            back=forwarded,
            timeout_s=timeout_s,
            client_meta=self.bridge.client_meta(client, call.caller) if is_modern else b"",
            resolve_input=not returns_input,
            request_state=self.bridge.open_state(call) if returns_input else None,
        )

    def release(self, session: UpstreamSession, forwarded: ForwardedCall, *, is_answered: bool) -> None:
        """Remove a call that has ended from its session."""
        if session.profile is None:
            session.remove(forwarded, is_answered=is_answered)
        else:
            self.pool.release(session, forwarded, is_answered=is_answered)

    # -- making sessions -----------------------------------------------------------------

    def _make_default(self) -> Client:
        self._default = UpstreamSession(None, self._make_default_client)
        if self._sole_caller is not None:
            self._default.scope = client_scope(self._sole_caller)
        return self._default.client

    def _make_default_client(self, session: UpstreamSession) -> Client:
        config = self._config
        if self._sole_caller is not None:
            config = msgspec.structs.replace(config, capabilities=self.bridge.capabilities(self._sole_caller))
        client = Client(
            config,
            on_change=lambda change: self._report_change(change, client),
            uncorrelated=session,
            known_eras=self._known_eras,
        )
        client.on_renewed = self._on_renewed
        return client

    def _make_pooled(self, session: UpstreamSession, capabilities: Mapping[str, Any]) -> Client:
        config, default_client = self.config_with(capabilities), self.connection.client
        assert session.profile is not None
        principal = session.profile.principal
        if self._authorizer_for is not None:
            config = msgspec.structs.replace(config, auth=self._authorizer_for(session.principal))
        if session.profile.tenant:
            config = config.for_tenant(session.profile.tenant)
            if self.pool.are_processes:
                config, session.process_folder = add_process_folders(config)
        if (
            default_client is not None
            and default_client.revision.listen
            and (principal is None or not self.pool.are_processes)
        ):
            return Client(config, uncorrelated=session)
        # Many legacy servers report a change only on the session in which it happened.

        def on_change(change: ChangeEvent) -> None:
            if principal is None:
                session.reports_changes = True
                self._report_change(change, client)
            elif change.kind == "resource":
                self._report_change(msgspec.structs.replace(change, principal=principal), client)
            else:
                self._report_change(change, None)

        client = Client(config, on_change=on_change, uncorrelated=session)
        return client

    # -- changes -------------------------------------------------------------------------

    def _connection_changed(self) -> None:
        client = self.connection.client
        if client is not None:
            self.bridge.reset()
            if client.revision.stateless:
                client.declare(ALL_CAPABILITIES)  # for lists: each call carries the capabilities of its caller
            self.pool.correlates = client.correlates_calls
            for uri in self.watch.uris():
                self._spawn(self._watch_again(uri))
        self._on_connection()

    def _session_started(self, session: UpstreamSession) -> Awaitable[None]:
        return self.watch.watch_on(session)

    def _session_ended(self, session: UpstreamSession) -> None:
        """Lists may have changed if the session was a process that reported changes."""
        if session.process_folder is not None:
            asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, session.process_folder, True)
        if self.pool.are_processes and session.reports_changes:
            self._on_renewed()

    async def _watch_again(self, uri: str) -> None:
        if await self.watch.watch_again(uri):
            self._on_change(ChangeEvent("resource", uri), None)  # Changes may have been missed.

    def _report_change(self, change: ChangeEvent, client: Client | None) -> None:
        if change.kind != "resource" or change.uri in self.watch:
            self._on_change(change, client)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class ResourceWatch:
    """The watched resources of one upstream."""

    def __init__(self, pool: SessionPool, default_client: Callable[[], Awaitable[Client]]) -> None:
        self._pool = pool
        self._get_default_client = default_client
        """Returns the client of the default session, after connecting if needed."""
        self._watched_uris: dict[str, set[str | None]] = {}
        """The principals that watch each resource; None stands for callers without an identity."""
        self._shares = Shares(bounds.UPSTREAM_WATCHED_RESOURCES)

    def __contains__(self, uri: str) -> bool:
        return uri in self._watched_uris

    def uris(self) -> list[str]:
        """Every watched resource."""
        return list(self._watched_uris)

    async def add(self, uri: str, principal: str | None) -> None:
        """Watch a resource for a principal.

        Raises:
            Overloaded: too many resources are watched.
            RemoteError: no session knows it.
        """
        is_new = uri not in self._watched_uris
        if not is_new and principal in self._watched_uris[uri]:
            await self._subscribe(uri, principal, with_default=False)
            return
        if not self._shares.has_room(principal or ""):
            raise Overloaded("resources that are watched at one server", self._shares.limit)
        self._shares.take(principal or "")
        self._watched_uris.setdefault(uri, set()).add(principal)
        try:
            await self._subscribe(uri, principal, with_default=is_new)
        except BaseException:
            self._forget(uri, principal)
            raise

    async def _subscribe(self, uri: str, principal: str | None, *, with_default: bool) -> None:
        clients = [await self._get_default_client()] if with_default else []
        clients += [session.client for session in self._sessions({principal})]
        failures: list[RemoteError] = []
        for client in clients:
            try:
                await client.subscribe(uri)
            except RemoteError as error:
                failures.append(error)
        if failures and len(failures) == len(clients):
            raise failures[0]

    def _forget(self, uri: str, principal: str | None) -> None:
        principals = self._watched_uris.get(uri, set())
        if principal in principals:
            principals.discard(principal)
            self._shares.give_back(principal or "")
        if not principals:
            self._watched_uris.pop(uri, None)

    async def remove(self, uri: str, default_client: Client | None) -> None:
        """Stop watching a resource; `default_client` is the client of the default session, if it is connected."""
        principals = self._watched_uris.pop(uri, None)
        if principals is None:
            return
        for principal in principals:
            self._shares.give_back(principal or "")
        if default_client is None:
            return
        for client in (default_client, *(session.client for session in self._sessions(principals))):
            await client.unsubscribe(uri)

    async def watch_on(self, session: UpstreamSession) -> None:
        """Watch the resources of its callers on a session that was just started."""
        for uri, principals in list(self._watched_uris.items()):
            if not self._is_watched_on(session, principals):
                continue
            try:
                await session.client.subscribe(uri)
            except RemoteError:
                continue  # It has no such resource.

    async def watch_again(self, uri: str) -> bool:
        """Watch a resource on a new default session; return whether that succeeded."""
        try:
            await (await self._get_default_client()).subscribe(uri)
        except HubbubError:
            return False  # It was lost again, which repeats this; or the resource no longer exists.
        return True

    def _sessions(self, principals: set[str | None]) -> list[UpstreamSession]:
        return [session for session in self._pool.open_sessions() if self._is_watched_on(session, principals)]

    def _is_watched_on(self, session: UpstreamSession, principals: set[str | None]) -> bool:
        assert session.profile is not None
        principal = session.profile.principal
        if principal not in principals:
            return False
        return self._pool.are_processes or (principal is not None and not session.client.revision.listen)
