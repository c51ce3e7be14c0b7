"""Runs servers: on stdio, or over HTTP with our own HTTP server."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError, SettingsError
from hubbub.observe import configure_logging
from hubbub.server.connection import Connection
from hubbub.server.import_guard import refuse_during_import
from hubbub.server.server import Server
from hubbub.settings import ServeSettings

if TYPE_CHECKING:
    import socket

    from hubbub.hub.hub import Hub
    from hubbub.server.http.app import HttpApp
    from hubbub.settings import Sources
    from hubbub.transports.http_server import HttpServer
    from hubbub.transports.server_tls import TlsFiles

logger = logging.getLogger("hubbub.app")
DEFAULT_SETTINGS = ServeSettings()
_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_FLAG: Final = re.compile(r"--([a-z][a-z-]*)")
_TERMINAL_HINT = "waits for JSON-RPC messages on stdin: usually an MCP client starts it and sends them; Ctrl+D ends it"


def serve_stdio(server: Server, *, limit: int | None = None) -> int:
    """Serve one client on stdin and stdout until it closes them; return the exit code of the process."""
    from hubbub.server.call_recording import record_calls
    from hubbub.transports import stdio
    from hubbub.transports.signals import stop_signals

    record_calls(server)
    source, sink = stdio.claim_streams()
    if os.isatty(source):
        _write_stderr(f"{server.info.name} {_TERMINAL_HINT}\n")

    async def main() -> None:
        stopped = asyncio.Event()
        with stop_signals(stopped.set), _log_lifetime(server, "stdio"):
            async with server.running():
                await stdio.serve(
                    partial(Connection, server), source, sink, stopped, limit=limit or server.message_bytes
                )
        if not await _cancel_tasks() or server.is_in_threads:
            _exit_now(0)

    asyncio.run(main())
    return 0


async def _cancel_tasks() -> bool:
    """Cancel the tasks that still run; return whether they ended in time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return not tasks or not (await asyncio.wait(tasks, timeout=bounds.EXIT_DELAY_MAX_S))[1]


def _exit_now(code: int) -> None:
    """Exit without waiting for tools that cannot be stopped; the interpreter would wait for their threads."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def run(
    server: Server | Hub,
    transport: Literal["stdio", "http"] = "stdio",
    *,
    host: str | None = None,
    port: int | None = None,
    unix_socket: str | None = None,
    tls_cert_file: str | None = None,
    tls_key_file: str | None = None,
    tls_client_ca_file: str | None = None,
    config: str | None = None,
    key_file: str | None = None,
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    limits: Sequence[str] | None = None,
    insecure: bool | None = None,
) -> None:
    """Serve until the client disconnects, or over HTTP until a signal arrives: the last line of a server script.

    Settings are read as for `hubbub serve`: arguments take precedence over variables (`HUBBUB_…`),
    and these over the settings file, which must be trusted. Invalid settings end the process
    with one line on stderr and exit code 2.

    Raises: DefinitionError, if it is called while `hubbub serve` loads the script.
    """
    refuse_during_import()
    is_hub = not isinstance(server, Server)
    if not isinstance(server, Server):
        server = server.front()
    given = {
        "host": host,
        "port": port,
        "unix_socket": unix_socket,
        "tls_cert_file": tls_cert_file,
        "tls_key_file": tls_key_file,
        "tls_client_ca_file": tls_client_ca_file,
        "config": config,
        "key_file": key_file,
        "allowed_hosts": allowed_hosts,
        "allowed_origins": allowed_origins,
        "limits": limits,
        "insecure": insecure,
    }
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "host" in arguments or "port" in arguments:
        arguments["http_addr"] = None  # it would take precedence over both
        arguments.setdefault("unix_socket", None)
    try:
        settings, sources = _read_script_settings({**arguments, "transport": transport})
        _apply_display_settings(server, settings, sources)
        _apply_tenants(server, settings, sources, is_hub=is_hub)
        _apply_oauth(server, sources)
        raise SystemExit(_serve(server, settings))
    except HubbubError as error:
        _warn(error.message)
        raise SystemExit(_EXIT_USAGE if isinstance(error, SettingsError) else _EXIT_FAILED) from None


def _read_script_settings(arguments: Mapping[str, Any]) -> tuple[ServeSettings, Sources]:
    from hubbub.assembly.serve_settings import read_serve_settings
    from hubbub.settings import collect_sources

    sources = collect_sources({}, arguments=arguments, ignore_untrusted=True)
    settings = read_serve_settings(sources, _warn)
    if not logging.getLogger().handlers:  # The script may have configured logging itself.
        from hubbub.security.redact import redact

        configure_logging(settings.log_level, settings.log_format, redact=redact)
    return settings, sources


def _apply_display_settings(server: Server, settings: ServeSettings, sources: Sources) -> None:
    if settings.tool_names == "safe":
        server.tools.lists_safe_names = True
    if settings.tool_profile is not None:
        from hubbub.assembly.pack_installation import InstalledPart, lenient_profile, use_profile

        with lenient_profile(sources, _warn):
            use_profile(server, settings.tool_profile, [InstalledPart("script", (), dict(server.profiles))])


def _apply_tenants(server: Server, settings: ServeSettings, sources: Sources, *, is_hub: bool) -> None:
    from hubbub.assembly.tenants import apply_tenants, load_governance

    apply_tenants(server, settings, load_governance(sources), is_hub=is_hub)


def _apply_oauth(server: Server, sources: Sources) -> None:
    from hubbub.assembly.settings_checks import read_oauth_section

    server.oauth = read_oauth_section(sources)


def _serve(server: Server, settings: ServeSettings) -> int:
    if settings.transport == "stdio":
        return serve_stdio(server, limit=settings.max_message_bytes)
    announcement = f"{server.info.name} serves {{}}/mcp{settings.unix_socket_note}\n"
    return serve_http(server, settings, on_started=lambda url: _write_stderr(announcement.format(url)))


def _warn(message: str) -> None:
    """Write one line to stderr, with `host` instead of `--host`: a script has no flags."""
    text = _FLAG.sub(lambda flag: flag[1].replace("-", "_"), message)
    _write_stderr(f"hubbub: {' '.join(text.split())}\n")


def serve_http(
    server: Server, settings: ServeSettings = DEFAULT_SETTINGS, *, on_started: Callable[[str], None] = lambda url: None
) -> int:
    """Serve any number of clients over HTTP until a signal stops the process; return its exit code."""
    from hubbub.server.http.app import HttpApp
    from hubbub.server.public_routes import IdentifiesPeople
    from hubbub.transports import http_server
    from hubbub.transports.open_files import fit_connections
    from hubbub.transports.signals import stop_signals

    settings = msgspec.structs.replace(settings, max_connections=fit_connections(settings.max_connections))
    app = HttpApp(server, settings)
    http = make_http_server(app, settings)

    async def main(listener: socket.socket) -> None:
        url = _url(settings, listener)
        if isinstance(server, IdentifiesPeople):
            server.base_url = url
        address = url if settings.unix_socket is None else f"unix:{settings.unix_socket}"
        with stop_signals(http.stop), _log_lifetime(server, address):
            async with app.running():
                await http.serve(listener, lambda: on_started(url))

    with open_listener(settings) as listener, asyncio.Runner(loop_factory=http_server.new_event_loop) as runner:
        runner.run(main(listener))
    return 0


def open_listener(settings: ServeSettings) -> AbstractContextManager[socket.socket]:
    """Listen on the address or the Unix socket of the settings.

    Raises: SettingsError, if it cannot be used.
    """
    from hubbub.transports import listeners

    if settings.unix_socket is not None:
        return listeners.listen_unix(settings.unix_socket, int(settings.unix_socket_mode, 8))
    return listeners.listen(*settings.address, reuse_port=settings.reuse_port)


def _read_tls_files(settings: ServeSettings) -> TlsFiles | None:
    if settings.tls_cert_file is None:
        return None
    from hubbub.transports.server_tls import TlsFiles

    return TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)


def make_http_server(app: HttpApp, settings: ServeSettings) -> HttpServer:
    """Create the HTTP server of an app with the limits and certificates from the settings.

    Raises: SettingsError, if the certificates cannot be used.
    """
    from hubbub.server.http.app import RESPONSE_HEADERS
    from hubbub.transports import http_server

    limits = http_server.ConnectionLimits(
        message_bytes=app.message_bytes,
        head_bytes=settings.max_head_bytes,
        head_s=settings.head_s,
        body_s=settings.body_s,
        slow_reader_s=settings.slow_reader_s,
        connections=settings.max_connections,
        drain_s=settings.drain_s,
        idle_s=settings.idle_s,
        pipelined_requests=settings.max_pipelined_requests,
        unfinished_bytes=max(settings.max_unfinished_bytes, 4 * app.message_bytes),
    )
    return http_server.HttpServer(
        app.serve,
        app.serve_websocket,
        limits,
        headers=RESPONSE_HEADERS,
        cut_off=app.cut_off,
        end_streams=app.end_streams,
        trusted_proxies=settings.proxied_by,
        tls=_read_tls_files(settings),
    )


@contextmanager
def _log_lifetime(server: Server, address: str) -> Iterator[None]:
    fields = {"address": address, "server": server.info.name, "version": server.info.version}
    logger.info("started", extra=fields)
    try:
        yield
    finally:
        logger.info("stopped", extra=fields)


def _url(settings: ServeSettings, listener: socket.socket) -> str:
    """Return the URL of the server; on a Unix socket, the one that clients use besides its path."""
    from hubbub.net.bind_address import format_address

    scheme = "http" if settings.tls_cert_file is None else "https"
    if settings.unix_socket is not None:
        return f"{scheme}://{settings.bind_host}"
    return f"{scheme}://{format_address(settings.address[0], listener.getsockname()[1])}"


def _write_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
