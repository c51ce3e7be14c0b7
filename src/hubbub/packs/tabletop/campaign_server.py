"""`hubbub campaign-server`: serves campaigns to servers in other processes.

Without a token it serves every caller that reaches its port, so it listens on loopback only; any other address
requires a token and TLS, or `--insecure`.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from hubbub import Secret, SettingsError
from hubbub.pack import read_pack_settings, require_loopback, run_service
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.backend_factory import read_database_url, read_pem, read_token, silence_grpc
from hubbub.packs.tabletop.failures import Failure
from hubbub.packs.tabletop.settings import TabletopSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.rpc import RpcServer, ServerTls

DEFAULT_ADDRESS: Final = "localhost:8080"


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives; return the exit code.

    Raises: HubbubError.
    """
    options = _make_parser().parse_args([_to_long_flag(argument) for argument in arguments])
    flags = {"--addr": options.addr} if options.addr is not None else {}
    settings = read_pack_settings(TabletopSettings, "tabletop", flags)
    address = settings.addr or DEFAULT_ADDRESS
    tls = _read_tls(options.tls_cert, options.tls_key)
    token = read_token(settings)
    is_protected = token is not None and tls is not None
    host = address.rpartition(":")[0]
    require_loopback(host, f"--addr {address}", "change every campaign", insecure=options.insecure or is_protected)
    database = settings.database if options.database is None else Secret(options.database)
    silence_grpc()
    return run_service("campaign server", _serve_for_operator(address, read_database_url(database), token, tls))


def _make_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub campaign-server", description="Store campaigns for servers that run `hubbub serve --addr …`."
    )
    parser.add_argument("--addr", metavar="HOST:PORT", help=f"address to listen on  [default: {DEFAULT_ADDRESS}]")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///FILE or postgresql://…; also HUBBUB_TABLETOP_DATABASE  [default: a file in the data folder]",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate in PEM; turns on TLS")
    parser.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, in PEM")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen on a public address without a token and TLS; every caller then has full access",
    )
    parser.epilog = (
        "Callers must send the token of HUBBUB_TABLETOP_TOKEN (or the file that HUBBUB_TABLETOP_TOKEN_FILE names), "
        "if one is set. Only health checks need no token. Reflection is on."
    )
    return parser


def _read_tls(certificate: str | None, key: str | None) -> ServerTls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise SettingsError("--tls-cert and --tls-key must be used together")
    from hubbub.packs.tabletop.rpc import ServerTls

    return ServerTls(read_pem(certificate, "--tls-cert"), read_pem(key, "--tls-key"))


def _to_long_flag(argument: str) -> str:
    """Convert `-addr=…` to `--addr=…`: Go programs accept both."""
    return f"-{argument}" if argument.partition("=")[0] == "-addr" else argument


@asynccontextmanager
async def _serve_for_operator(
    address: str, url: str | None, token: str | None, tls: ServerTls | None
) -> AsyncIterator[str]:
    from hubbub.packs.tabletop.store_backend import StoreBackend

    try:
        async with serve_backend(StoreBackend(url), address, token=token, tls=tls) as port:
            yield f"{address.rpartition(':')[0]}:{port}"
    except Failure as failure:
        raise type(failure)(failure.reason) from failure  # The operator reads this, so it may have details.


@asynccontextmanager
async def serve_backend(
    backend: Backend, address: str, *, token: str | None = None, tls: ServerTls | None = None
) -> AsyncIterator[int]:
    """Run a campaign server; yields its port, and closes the backend at the end.

    Raises:
        Failure: the database cannot be opened.
        SettingsError: the address cannot be listened on.
    """
    from hubbub.packs.tabletop.grpc_backend import make_handlers
    from hubbub.packs.tabletop.rpc import RpcServer

    try:
        await backend.check()
        server = RpcServer(make_handlers(backend), token=token, tls=tls)
        port = await server.start(address)
        health_task = asyncio.create_task(_watch_health(server, backend))
        try:
            yield port
        finally:
            health_task.cancel()
            await asyncio.wait([health_task])
            await server.stop(limits.SHUTDOWN_GRACE_S)
    finally:
        await backend.close()


async def _watch_health(server: RpcServer, backend: Backend) -> None:
    """Update the health service when the database becomes available or unavailable."""
    while True:
        await asyncio.sleep(limits.HEALTH_INTERVAL_S)
        try:
            await backend.check()
        except Failure:
            await server.set_health(is_healthy=False)
        else:
            await server.set_health(is_healthy=True)
