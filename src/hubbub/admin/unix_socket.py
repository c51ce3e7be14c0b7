"""Serves administration to the user who runs the hub, at a Unix socket in the private state folder.

The socket has the permissions 0600, its folder 0700, and the kernel reports who connects: only the same user and root
are served, as an operator. It speaks HTTP, at `/mcp/admin` only, so that commands reach it with the usual client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.admin.access import local_operator
from hubbub.errors import SettingsError
from hubbub.ports import HttpExchange, WebSocketExchange
from hubbub.protocol.calls import Principal
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import EdgeSettings
from hubbub.security.gate import Gate as EdgeGate
from hubbub.server.http.endpoint import Endpoint
from hubbub.server.responses import respond_refusal
from hubbub.server.server import Server
from hubbub.server.views import ADMIN_VIEW
from hubbub.settings.folders import make_private_folder, state_folder
from hubbub.settings.serve import ServeSettings
from hubbub.transports.connection_limits import ConnectionLimits
from hubbub.transports.http_server import HttpServer
from hubbub.transports.listeners import is_in_use, listen_unix
from hubbub.transports.peer_credentials import can_read_peers

logger = logging.getLogger("hubbub.admin")

ADMIN_PATH: Final = f"/mcp/{ADMIN_VIEW}"
MAX_CONNECTIONS: Final = 32
"""Concurrent connections to the socket."""
DRAIN_S: Final = 2.0
"""How long running requests may continue after the hub stops."""
_FOLDER: Final = "hubs"
_SUFFIX: Final = ".sock"
_PATH_BYTES: Final = 100
"""The longest path of a Unix socket; systems allow 104 to 108 bytes with the final zero."""
_STALE_AFTER_S: Final = 60.0
"""Younger sockets may belong to a hub that starts now."""
_ROOT: Final = 0


class AdminSocket:
    """The socket of one hub, while `running`. A hub works without it, so problems are logged and not raised."""

    def __init__(self, front: Server, folder: Path | None = None) -> None:
        """`front` is the server of the hub that has the view `admin`."""
        self._front = front
        self._folder = folder
        self.path: str | None = None
        """Where it listens now."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen while the block runs; then remove the socket."""
        with ExitStack() as stack:
            listener = None
            if not can_read_peers():
                logger.info("admin_socket_unavailable", extra={"reason": "this system does not report who connects"})
            else:
                try:
                    self.path = self._choose_path(stack)
                    listener = stack.enter_context(listen_unix(self.path, 0o600))
                except (OSError, SettingsError) as error:
                    self.path = None
                    logger.warning("admin_socket_unavailable", extra={"reason": str(error)})
            if listener is None:
                yield
                return
            endpoint = Endpoint(
                self._front,
                gate=_OperatorGate(),
                max_sessions=MAX_CONNECTIONS,
                max_streams=MAX_CONNECTIONS,
                max_requests=MAX_CONNECTIONS,
            )
            http = _make_http_server(endpoint)
            tasks = [asyncio.create_task(http.serve(listener)), asyncio.create_task(_sweep(endpoint))]
            try:
                yield
            finally:
                self.path = None
                http.stop()
                await asyncio.wait(tasks[:1])
                tasks[1].cancel()

    def _choose_path(self, stack: ExitStack) -> str:
        folder = (state_folder() if self._folder is None else self._folder) / _FOLDER
        make_private_folder(folder)
        folder.chmod(0o700)
        _remove_stale(folder)
        name = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        path = folder / name
        if len(os.fsencode(path)) <= _PATH_BYTES:
            return str(path)
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-"))  # its permissions are 0700
        return str(Path(temporary) / name)


class _OperatorGate:
    """Admits every request as the local operator: who connects was checked before the first byte was read."""

    def __init__(self) -> None:
        self._edge = EdgeGate(EdgeSettings())
        self._operator = local_operator()

    def admit_nowait(self, headers: Headers, path: str = "") -> Principal | Refusal | None:
        return self._edge.check(headers) or self._operator

    async def __call__(self, headers: Headers, client: str, target: RequestTarget) -> Principal | Refusal:
        return self._edge.check(headers) or self._operator

    def check(self, headers: Headers, any_origin: bool = False) -> Refusal | None:
        return self._edge.check(headers, any_origin)

    async def recheck(self, headers: Headers) -> Principal | Refusal:
        return self._operator

    def is_revoked(self, principal: str) -> bool:
        return False


def _make_http_server(endpoint: Endpoint) -> HttpServer:
    async def serve(exchange: HttpExchange) -> None:
        if exchange.path == ADMIN_PATH:
            await endpoint.serve(exchange)
        else:
            await respond_refusal(exchange, Refusal(404, f"This socket serves only {ADMIN_PATH}"))

    async def refuse_websocket(exchange: WebSocketExchange) -> None:
        await exchange.refuse(Refusal(404, f"This socket serves only {ADMIN_PATH}, over HTTP"))

    defaults = ServeSettings()
    limits = ConnectionLimits(
        message_bytes=bounds.MESSAGE_BYTES,
        head_bytes=defaults.max_head_bytes,
        head_s=defaults.head_s,
        body_s=defaults.body_s,
        slow_reader_s=defaults.slow_reader_s,
        connections=MAX_CONNECTIONS,
        drain_s=DRAIN_S,
        idle_s=defaults.idle_s,
        pipelined_requests=defaults.max_pipelined_requests,
        unfinished_bytes=4 * bounds.MESSAGE_BYTES,
    )
    uids = frozenset({os.getuid(), _ROOT})
    return HttpServer(serve, refuse_websocket, limits, end_streams=endpoint.end_streams, allowed_uids=uids)


async def _sweep(endpoint: Endpoint) -> None:
    while True:
        await asyncio.sleep(bounds.SWEEP_INTERVAL_S)
        try:
            endpoint.sweep()
        except Exception:
            logger.exception("ending idle sessions of administration failed")


def _remove_stale(folder: Path) -> None:
    """Remove the sockets of hubs that were killed."""
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            if time.time() - path.lstat().st_mtime > _STALE_AFTER_S and path.is_socket() and not is_in_use(path):
                path.unlink(missing_ok=True)
        except OSError:
            continue
