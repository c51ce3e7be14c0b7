"""`hubbub signal`: the place where peers meet.

It hands on sealed descriptions until two peers have found each other, and sees nothing
of what they exchange then. It listens to this machine only, unless told otherwise.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from hubbub import bounds
from hubbub.net.listening import cannot_listen, refuse_strangers
from hubbub.packs.peers.signal_rules import SignalLimits


def main(arguments: list[str]) -> int:
    """Serve until a signal comes; the exit code.

    Raises: SettingsError.
    """
    given = _parser().parse_args(arguments)
    check_address(given.host, insecure=given.insecure)
    try:
        asyncio.run(_serve(given))
    except (OSError, OverflowError) as error:
        raise cannot_listen(given.host, given.port, error) from error
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="hubbub signal", description="Let peers find each other (see the pack `peers`).")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on  [default: 127.0.0.1]")
    parser.add_argument("--port", default=8765, type=int, help="port; 0 takes a free one  [default: 8765]")
    parser.add_argument(
        "--allowed-origin",
        action="append",
        default=[],
        metavar="URL",
        help="a web site whose pages may use it; may be repeated",
    )
    parser.add_argument("--max-clients", type=_count, default=bounds.SIGNAL_CLIENTS, metavar="N", help="at once")
    parser.add_argument(
        "--max-clients-per-address",
        type=_count,
        default=bounds.SIGNAL_CLIENTS_OF_ONE_ADDRESS,
        metavar="N",
        help="at once",
    )
    parser.add_argument(
        "--max-clients-per-room", type=_count, default=bounds.SIGNAL_CLIENTS_OF_ONE_ROOM, metavar="N", help="at once"
    )
    parser.add_argument(
        "--idle-s", type=float, default=bounds.SIGNAL_IDLE_S, metavar="SECONDS", help="silence after which one is gone"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that others can reach; they may meet here too"
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def check_address(host: str, *, insecure: bool) -> None:
    """Refuse an address that strangers reach, unless that is meant.

    Raises: SettingsError.
    """
    if not insecure:
        refuse_strangers(host, f"--host {host}", "let peers meet there")


async def _serve(given: Namespace) -> None:
    from hubbub.packs.peers.signal_server import SignalServer

    limits = SignalLimits(
        clients=given.max_clients,
        clients_of_one_address=given.max_clients_per_address,
        clients_of_one_room=given.max_clients_per_room,
    )
    stopped = asyncio.Event()
    _on_signals(stopped.set)
    server = SignalServer(limits, allowed_origins=given.allowed_origin, idle_s=given.idle_s)
    async with server.running(given.host, given.port) as port:
        host = f"[{given.host}]" if ":" in given.host else given.host
        sys.stderr.write(f"hubbub: signalling server listens on ws://{host}:{port} · Ctrl+C stops it\n")
        sys.stderr.flush()
        await stopped.wait()


def _on_signals(stop: Callable[[], Any]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows, where Ctrl+C interrupts the loop itself.
            return
