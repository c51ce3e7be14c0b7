"""The composition root: puts servers on transports. The only place that wires the layers together."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from hubbub import bounds
from hubbub.observe import calls_are_logged, log_call, log_cut_off
from hubbub.ports import Connect
from hubbub.server.connection import Connection
from hubbub.server.loading import refuse_while_loading
from hubbub.server.server import Server
from hubbub.settings import ServeSettings

if TYPE_CHECKING:
    from hubbub.security.gate import Gate
    from hubbub.security.sealed import Sealer
    from hubbub.transports.http_server import HttpServer, Site

logger = logging.getLogger("hubbub.app")
DEFAULT_SETTINGS = ServeSettings()
_AT_A_TERMINAL = "waits for JSON-RPC messages on stdin: usually an MCP client starts it and sends them; Ctrl+D ends it"


def connector(server: Server) -> Connect:
    """Makes the connection of one client to this server, for any transport with two byte streams."""
    return partial(Connection, server)


def serve_stdio(server: Server, *, limit: int = bounds.MESSAGE_BYTES) -> int:
    """Serve one client on stdin and stdout until it leaves; the exit code of the process."""
    from hubbub.transports import stdio
    from hubbub.transports.signals import stop_signals

    _watch_calls(server)
    source, sink = stdio.claim_streams()
    if os.isatty(source):
        _say(f"{server.info.name} {_AT_A_TERMINAL}\n")

    async def main() -> None:
        stopped = asyncio.Event()
        with stop_signals(stopped.set), _logged_life(server, "stdio"):
            async with server.running():
                await stdio.serve(connector(server), source, sink, stopped, limit=limit)
        if not await _all_ended() or server.is_in_threads:
            _leave(0)

    asyncio.run(main())
    return 0


async def _all_ended() -> bool:
    """Cancel what still runs; whether it ended in time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return not tasks or not (await asyncio.wait(tasks, timeout=bounds.LEAVE_S))[1]


def _leave(code: int) -> None:
    """Exit without waiting for tools that cannot be stopped, as the interpreter would."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def run(
    server: Server, transport: Literal["stdio", "http"] = "stdio", *, host: str = "127.0.0.1", port: int = 3000
) -> None:
    """Serve until the client leaves, or over HTTP until a signal comes: the last line of a script that is a server.

    Whatever else can be set, `hubbub serve` sets.

    Raises: DefinitionError, if `hubbub serve` loads the script at this moment.
    """
    refuse_while_loading()
    if transport == "stdio":
        raise SystemExit(serve_stdio(server))
    settings = ServeSettings(host=host, port=port)
    announce = f"{server.info.name} serves {{}}/mcp\n"
    raise SystemExit(serve_http(server, settings, started=lambda url: _say(announce.format(url))))


def serve_http(
    server: Server, settings: ServeSettings = DEFAULT_SETTINGS, *, started: Callable[[str], None] = lambda url: None
) -> int:
    """Serve any number of clients over HTTP until the process is told to stop; its exit code."""
    from hubbub.transports import http_server
    from hubbub.transports.signals import stop_signals

    host, port = settings.address
    gate = _gate(settings, host)
    server.offer_sealer(_sealer(settings))
    _watch_calls(server)
    listener = http_server.listen(host, port)

    async def main() -> None:
        url = _url(host, listener.getsockname()[1])
        site = _site(server, settings, gate, lambda: started(url))
        http = _http(site, settings)
        with stop_signals(http.stop), _logged_life(server, url):
            async with server.running():
                await http_server.serve(http, listener)

    with asyncio.Runner(loop_factory=http_server.new_event_loop) as runner:
        runner.run(main())
    return 0


@contextmanager
def _logged_life(server: Server, address: str) -> Iterator[None]:
    fields = {"address": address, "server": server.info.name, "version": server.info.version}
    logger.info("started", extra=fields)
    try:
        yield
    finally:
        logger.info("stopped", extra=fields)


def _watch_calls(server: Server) -> None:
    """Trace and log calls, if anybody wants to know."""
    _trace_if_wanted(server)
    if calls_are_logged():
        from hubbub.server.measured import Measured

        server.wrap(lambda peer: Measured(peer, log_call))


def _trace_if_wanted(server: Server) -> None:
    # Asked of every start, so it must not load anything where the answer is no.
    if "opentelemetry.sdk.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in os.environ):
        return
    from hubbub.server import tracing

    if tracing.is_wanted():
        server.wrap(tracing.traced)


def _http(site: Site, settings: ServeSettings) -> HttpServer:
    """The HTTP server of a site, with the bounds as set."""
    from hubbub.server.http.endpoint import API_VERSION
    from hubbub.transports import http_server

    limits = http_server.Limits(
        message_bytes=settings.max_message_bytes,
        head_bytes=settings.max_head_bytes,
        head_s=settings.head_s,
        body_s=settings.body_s,
        slow_reader_s=settings.slow_reader_s,
        connections=settings.max_connections,
        drain_s=settings.drain_s,
    )
    headers = [("x-mcp-version", API_VERSION)]
    return http_server.prepare(site, headers=headers, limits=limits, trusted_proxies=settings.proxied_by)


def _sealer(settings: ServeSettings) -> Sealer:
    """With a key that outlives the process: clients come back."""
    from pathlib import Path

    from hubbub.security.sealed import Sealer
    from hubbub.security.sealing_key import kept_key, read_key

    if settings.sealing_key_file is None:
        return Sealer(load=kept_key)
    return Sealer([read_key(Path(settings.sealing_key_file))])


def _gate(settings: ServeSettings, host: str) -> Gate:
    """Who may come in. Refuses settings that would let everybody in from everywhere."""
    from hubbub.security.gate import Authenticator, EdgeSettings, Gate

    authenticators: list[Authenticator] = []
    if settings.key_file is not None:
        from pathlib import Path

        from hubbub.security.keys import ApiKeys

        authenticators.append(ApiKeys(Path(settings.key_file)))
    if settings.jwt_keys is not None:
        from hubbub.net.fetch import fetch
        from hubbub.security.jwt import JwtSettings, open_tokens

        jwt = JwtSettings(keys=settings.jwt_keys, issuer=settings.jwt_issuer, audience=settings.jwt_audience)
        authenticators.append(open_tokens(jwt, fetch))
    edge = EdgeSettings(
        bind_host=host,
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        insecure=settings.insecure,
    )
    return Gate(edge, authenticators)


def _site(server: Server, settings: ServeSettings, gate: Gate, started: Callable[[], None]) -> Site:
    """Everything between the socket and the server."""
    from hubbub.observe import Metrics
    from hubbub.security.quotas import Quotas, limits_for
    from hubbub.server.http.endpoint import Endpoint
    from hubbub.server.http.streams import EventStore
    from hubbub.server.measured import Measured
    from hubbub.transports import http, old_pair, websocket
    from hubbub.transports.cors import Cors
    from hubbub.transports.http_server import Site

    metrics = Metrics()
    server.wrap(lambda peer: Measured(peer, metrics.call))

    def cut_off(reason: str, address: str) -> None:
        metrics.cut_off(reason)
        log_cut_off(reason, address)

    limits = limits_for(settings.address[0], _limits(settings))
    quotas = Quotas(limits) if limits else None
    count_for = None if quotas is None else quotas.count_for
    pair = old_pair.OldPair(
        connector(server),
        limit=settings.max_streams,
        queue_bytes=settings.max_queue_bytes,
        count_for=count_for,
        cut_off=cut_off,
    )
    endpoint = Endpoint(
        server,
        gate=gate,
        quotas=quotas,
        mode=settings.response,
        old_pair=pair,
        metrics=metrics,
        most_sessions=settings.max_sessions,
        session_idle_s=settings.session_idle_s,
        most_streams=settings.max_streams,
        store=EventStore(most_events=settings.max_stored_events, most_bytes=settings.max_stored_bytes),
    )
    limit = settings.max_message_bytes
    sockets = websocket.WebSockets(
        connector(server),
        endpoint.admit,
        limit=limit,
        most_connections=settings.max_streams,
        queue_bytes=settings.max_queue_bytes,
        count_for=count_for,
        cut_off=cut_off,
        metrics=metrics,
    )
    for figure in server.figures:
        metrics.add(figure)
    metrics.gauge("websockets", "Open WebSockets.", lambda: len(sockets))
    metrics.gauge("old_streams", "Open streams of GET /sse.", lambda: len(pair))
    within_cors = http.application(endpoint.serve, limit=limit)
    pages = Cors(within_cors, settings.allowed_origins, check=gate.check, answered=metrics.response)
    over_http = http.application(endpoint.serve, limit=limit, pages=pages)

    def app(scope: http.Scope, receive: http.Receive, send: http.Send) -> Awaitable[None]:
        serve = over_http if scope["type"] == "http" else sockets
        return serve(scope, receive, send)

    def end_streams() -> None:
        endpoint.end_streams()
        pair.end_streams()
        sockets.end()

    return Site(app, started, endpoint.sweep, end_streams, cut_off)


def _limits(settings: ServeSettings) -> tuple[str, ...] | None:
    """The limits as set: None for the usual ones, none at all for `off`."""
    return () if settings.limits == ("off",) else settings.limits or None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
