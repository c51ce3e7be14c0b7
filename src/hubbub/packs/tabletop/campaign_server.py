"""`hubbub campaign-server`: keeps campaigns for servers in other processes.

It answers whoever reaches its port, so it listens to this machine only unless told otherwise.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from hubbub import bounds
from hubbub.net.listening import refuse_strangers
from hubbub.packs.tabletop.choosing import given_url, quieten_grpc
from hubbub.packs.tabletop.failures import Failure
from hubbub.packs.tabletop.settings import TabletopSettings
from hubbub.settings import Secret, gather, read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hubbub.packs.tabletop.backend import Backend
    from hubbub.packs.tabletop.rpc import RpcServer

USUAL_ADDRESS: Final = "localhost:8080"


def main(arguments: list[str]) -> int:
    """Serve until a signal comes; the exit code.

    Raises: HubbubError.
    """
    given = _parser().parse_args([_long(argument) for argument in arguments])
    flags = {"--addr": given.addr} if given.addr is not None else {}
    settings = read_settings(TabletopSettings, gather(flags), ("packs", "tabletop"))
    address = settings.addr or USUAL_ADDRESS
    check_address(address, insecure=given.insecure)
    database = settings.database if given.database is None else Secret(given.database)
    quieten_grpc()
    asyncio.run(_serve(address, given_url(database)))
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="hubbub campaign-server", description="Keep campaigns for `hubbub serve --addr …`.")
    parser.add_argument("--addr", metavar="HOST:PORT", help=f"address to listen on  [default: {USUAL_ADDRESS}]")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:///FILE or postgresql://…; also HUBBUB_TABLETOP_DATABASE  [default: a file in the data folder]",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that others can reach; they may do everything"
    )
    return parser


def _long(argument: str) -> str:
    """`-addr=…` as `--addr=…`, the way Go programs take it."""
    return f"-{argument}" if argument.partition("=")[0] == "-addr" else argument


def check_address(address: str, *, insecure: bool) -> None:
    """Refuse an address that strangers reach, unless that is meant.

    Raises: SettingsError.
    """
    if not insecure:
        refuse_strangers(address.rpartition(":")[0], f"--addr {address}", "change every campaign")


async def _serve(address: str, url: str | None) -> None:
    from hubbub.packs.tabletop.store_backend import StoreBackend

    stopped = asyncio.Event()
    _on_signals(stopped.set)
    async with running(StoreBackend(url), address) as port:
        host = address.rpartition(":")[0]
        sys.stderr.write(f"hubbub: campaign server listens on {host}:{port} · Ctrl+C stops it\n")
        sys.stderr.flush()
        await stopped.wait()


@asynccontextmanager
async def running(backend: Backend, address: str) -> AsyncIterator[int]:
    """A campaign server that runs meanwhile; gives its port, and closes the backend at the end.

    Raises: Failure, if the database cannot be opened or the address is taken.
    """
    from hubbub.packs.tabletop.grpc_service import handlers
    from hubbub.packs.tabletop.rpc import RpcServer

    try:
        await backend.check()
        server = RpcServer(handlers(backend))
        port = await server.start(address)
        watch = asyncio.create_task(_watch(server, backend))
        try:
            yield port
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            await server.stop(bounds.TABLE_GRACE_S)
    finally:
        await backend.close()


async def _watch(server: RpcServer, backend: Backend) -> None:
    """Let the health service know when the database comes and goes."""
    while True:
        await asyncio.sleep(bounds.TABLE_HEALTH_S)
        try:
            await backend.check()
        except Failure:
            await server.tell(is_well=False)
        else:
            await server.tell(is_well=True)


def _on_signals(stop: Callable[[], Any]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows, where Ctrl+C interrupts the loop itself.
            return
