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
from hubbub.packs.tabletop.choosing import given_token, given_url, quieten_grpc, read_pem
from hubbub.packs.tabletop.failures import Failure
from hubbub.packs.tabletop.settings import TabletopSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.rpc import RpcServer, ServerTls

USUAL_ADDRESS: Final = "localhost:8080"


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives; return the exit code.

    Raises: HubbubError.
    """
    given = _parser().parse_args([_long(argument) for argument in arguments])
    flags = {"--addr": given.addr} if given.addr is not None else {}
    settings = read_pack_settings(TabletopSettings, "tabletop", flags)
    address = settings.addr or USUAL_ADDRESS
    tls = _tls(given.tls_cert, given.tls_key)
    token = given_token(settings)
    is_protected = token is not None and tls is not None
    host = address.rpartition(":")[0]
    require_loopback(host, f"--addr {address}", "change every campaign", insecure=given.insecure or is_protected)
    database = settings.database if given.database is None else Secret(given.database)
    quieten_grpc()
    return run_service("campaign server", _running_for_operator(address, given_url(database), token, tls))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="hubbub campaign-server", description="Keep campaigns for `hubbub serve --addr …`.")
    parser.add_argument("--addr", metavar="HOST:PORT", help=f"address to listen on  [default: {USUAL_ADDRESS}]")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///FILE or postgresql://…; also HUBBUB_TABLETOP_DATABASE  [default: a file in the data folder]",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate in PEM; with it the server speaks TLS")
    parser.add_argument("--tls-key", metavar="FILE", help="its key in PEM")
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


def _tls(certificate: str | None, key: str | None) -> ServerTls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise SettingsError("--tls-cert and --tls-key go together; give both")
    from hubbub.packs.tabletop.rpc import ServerTls

    return ServerTls(read_pem(certificate, "--tls-cert"), read_pem(key, "--tls-key"))


def _long(argument: str) -> str:
    """Convert `-addr=…` to `--addr=…`: Go programs accept both."""
    return f"-{argument}" if argument.partition("=")[0] == "-addr" else argument


@asynccontextmanager
async def _running_for_operator(
    address: str, url: str | None, token: str | None, tls: ServerTls | None
) -> AsyncIterator[str]:
    from hubbub.packs.tabletop.store_backend import StoreBackend

    try:
        async with running(StoreBackend(url), address, token=token, tls=tls) as port:
            yield f"{address.rpartition(':')[0]}:{port}"
    except Failure as failure:
        raise type(failure)(failure.reason) from failure  # The operator reads this, so it may have details.


@asynccontextmanager
async def running(
    backend: Backend, address: str, *, token: str | None = None, tls: ServerTls | None = None
) -> AsyncIterator[int]:
    """Run a campaign server; yields its port, and closes the backend at the end.

    Raises:
        Failure: the database cannot be opened.
        SettingsError: the address cannot be listened on.
    """
    from hubbub.packs.tabletop.grpc_backend import handlers
    from hubbub.packs.tabletop.rpc import RpcServer

    try:
        await backend.check()
        server = RpcServer(handlers(backend), token=token, tls=tls)
        port = await server.start(address)
        watch = asyncio.create_task(_watch(server, backend))
        try:
            yield port
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            await server.stop(limits.TABLE_GRACE_S)
    finally:
        await backend.close()


async def _watch(server: RpcServer, backend: Backend) -> None:
    """Update the health service when the database becomes available or unavailable."""
    while True:
        await asyncio.sleep(limits.TABLE_HEALTH_S)
        try:
            await backend.check()
        except Failure:
            await server.tell(is_well=False)
        else:
            await server.tell(is_well=True)
