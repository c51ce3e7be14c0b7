"""The HTTP side of a server: authentication, rate limits, CORS, endpoint, WebSockets and HTTP+SSE in one object.

It serves exchanges, whether they come from our own HTTP server or through ASGI (`hubbub.server.asgi`). Imports
no HTTP server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final

from hubbub import bounds
from hubbub.observe import Metrics, log_cut_off
from hubbub.ports import TenantDirectory
from hubbub.protocol.calls import Principal
from hubbub.protocol.dialect import AllowsPlain, allow_plain_for_all
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security.gate import Gate
from hubbub.security.key_usage import KeyUsage
from hubbub.security.rate_limits import RateLimits, effective_limits
from hubbub.security.sealer import make_sealer
from hubbub.server.call_recording import RecordingPeer, record_calls
from hubbub.server.client_sessions import ManagesClients
from hubbub.server.connection import Connection
from hubbub.server.http.authentication import check_secrets, make_authentication
from hubbub.server.http.endpoint import API_VERSION, Endpoint
from hubbub.server.http.streams import EventStore
from hubbub.server.public_routes import PublicRoutes
from hubbub.server.server import Server
from hubbub.settings import ServeSettings
from hubbub.transports.cors import Cors
from hubbub.transports.http_sse import HttpSseServer
from hubbub.transports.websocket import WebSocketServer

logger = logging.getLogger("hubbub.http")

RESPONSE_HEADERS: Final[HeaderList] = ((b"x-mcp-version", API_VERSION.encode()),)
"""Sent with every response."""


class HttpApp:
    """Serves the requests and WebSockets of one server, while `running`."""

    def __init__(self, server: Server, settings: ServeSettings) -> None:
        self._server = server
        self._key_usage = None if settings.key_file is None else KeyUsage()
        sealer = make_sealer(settings.sealing_key_file)
        authentication = make_authentication(settings, server, self._key_usage, sealer)
        self._gate = gate = authentication.gate
        self._front_door = authentication.front_door
        self.metrics = metrics = Metrics()
        self._is_recorded = False
        self.message_bytes = limit = settings.max_message_bytes or server.message_bytes
        limits = effective_limits(settings.bind_host, () if settings.limits == ("off",) else settings.limits or None)
        rate_limits = RateLimits(limits) if limits else None
        count_for = None if rate_limits is None else rate_limits.count_for
        allows_plain = _plain_rule(server.tenants)
        connect = partial(Connection, server, allows_plain=allows_plain)
        self._sse_server = sse_server = HttpSseServer(
            connect,
            limit=settings.max_streams,
            queue_bytes=settings.max_queue_bytes,
            count_for=count_for,
            cut_off=self.cut_off,
        )
        self._endpoint = endpoint = Endpoint(
            server,
            gate=gate,
            rate_limits=rate_limits,
            mode=settings.response,
            allows_plain=allows_plain,
            shows_operation=_operation_rule(server, gate),
            http_sse=sse_server,
            public_routes=server.public_routes,
            challenge_scopes=authentication.challenge_scopes,
            metrics=metrics,
            max_sessions=settings.max_sessions,
            session_idle_s=settings.session_idle_s,
            max_streams=settings.max_streams,
            max_requests=settings.max_connections,
            store=EventStore(max_events=settings.max_stored_events, max_bytes=settings.max_stored_bytes),
        )
        self._sockets = sockets = WebSocketServer(
            connect,
            endpoint.admit,
            limit=limit,
            max_connections=settings.max_streams,
            queue_bytes=settings.max_queue_bytes,
            count_for=count_for,
            cut_off=self.cut_off,
            metrics=metrics,
            register_connection=endpoint.register_connection,
        )
        for metric in server.metrics:
            metrics.add(metric)
        metrics.gauge("websockets", "Open WebSockets.", lambda: len(sockets))
        metrics.gauge("old_streams", "Open streams of GET /sse.", lambda: len(sse_server))
        self.serve = Cors(
            endpoint.serve,
            authentication.allowed_origins,
            check=gate.check,
            is_open=PublicRoutes(server.public_routes).is_open,
            on_response=metrics.response,
        ).serve
        """Serves one `HttpExchange`."""
        self.serve_websocket = sockets.serve
        """Serves one `WebSocketExchange`."""
        server.offer_sealer(sealer)
        if isinstance(server, ManagesClients):
            server.add_client_sessions(endpoint)
            if authentication.front_door is not None:
                server.add_client_grants(authentication.front_door)

    @property
    def requires_authentication(self) -> bool:
        """Whether callers must authenticate."""
        return self._gate.requires_authentication

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the server while the block runs.

        Raises: SettingsError, if a secret of its OAuth settings cannot be read.
        """
        if self._server.oauth is not None:
            await check_secrets(self._server.oauth)
        self._warn_about_unusable_scopes()
        record_calls(self._server)
        if not self._is_recorded:
            self._is_recorded = True
            self._server.wrap(lambda peer: RecordingPeer(peer, self.metrics.call))
        async with self._server.running(), nullcontext() if self._front_door is None else self._front_door.running():
            sweep_task = asyncio.ensure_future(self._sweep())
            try:
                yield
            finally:
                sweep_task.cancel()
                self.end_streams()
                if self._key_usage is not None:
                    await asyncio.to_thread(self._key_usage.save)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(bounds.SWEEP_INTERVAL_S)
            try:
                self._endpoint.sweep()
                if self._key_usage is not None:
                    await self._key_usage.save_if_due()
            except Exception:
                logger.exception("ending idle sessions failed")

    def end_streams(self) -> None:
        """End streams and WebSockets, which would otherwise stay open."""
        self._endpoint.end_streams()
        self._sse_server.end_streams()
        self._sockets.end()

    def cut_off(self, reason: str, address: str) -> None:
        """Count and log a connection that was closed because a limit was exceeded."""
        self.metrics.cut_off(reason)
        log_cut_off(reason, address)

    def _warn_about_unusable_scopes(self) -> None:
        """Warn the operator if callers are not authenticated, so that none can use what requires scopes."""
        names = [] if self._gate.requires_authentication else self._server.scoped_names()
        if names:
            logger.warning(
                "no caller can use %s: they require scopes, and callers are not authenticated; "
                "create keys with scopes (hubbub keys create --scope, --key-file) or accept tokens (--jwt-keys)",
                ", ".join(names),
            )


def _plain_rule(tenants: TenantDirectory | None) -> AllowsPlain:
    if tenants is None:
        return allow_plain_for_all
    return lambda principal: tenants.allows_plain(principal.tenant)


def _operation_rule(server: Server, gate: Gate) -> Callable[[Principal], bool]:
    """Return a function that decides who may see metrics and problems, which concern all callers.

    With tenants, only operators, who have none. With a policy, authenticated callers need the scope of operators.
    """

    def shows_operation(principal: Principal) -> bool:
        if server.tenants is not None:
            return not principal.tenant and ADMIN_SCOPE in principal.scopes
        return not (server.hides_items and gate.requires_authentication) or ADMIN_SCOPE in principal.scopes

    return shows_operation
