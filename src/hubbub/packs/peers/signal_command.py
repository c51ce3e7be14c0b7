"""The command `hubbub signal`: a signalling server, where peers find each other.

It relays encrypted descriptions until two peers are connected, and sees nothing of what they exchange then. It listens
on loopback by default.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hubbub.pack import format_address, listen_error, require_loopback, run_service
from hubbub.packs.peers import limits
from hubbub.packs.peers.signal_rules import SignalLimits


def main(arguments: list[str]) -> int:
    """Run the server until a signal arrives; return the exit code.

    Raises: SettingsError.
    """
    given = _parser().parse_args(arguments)
    require_loopback(given.host, f"--host {given.host}", "let peers meet there", insecure=given.insecure)
    return run_service("signalling server", _running(given))


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
    parser.add_argument("--max-clients", type=_count, default=limits.SIGNAL_CLIENTS, metavar="N", help="at once")
    parser.add_argument(
        "--max-clients-per-address",
        type=_count,
        default=limits.SIGNAL_CLIENTS_OF_ONE_ADDRESS,
        metavar="N",
        help="at once",
    )
    parser.add_argument(
        "--max-clients-per-room", type=_count, default=limits.SIGNAL_CLIENTS_OF_ONE_ROOM, metavar="N", help="at once"
    )
    parser.add_argument(
        "--idle-s", type=float, default=limits.SIGNAL_IDLE_S, metavar="SECONDS", help="silence after which one is gone"
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


@asynccontextmanager
async def _running(given: Namespace) -> AsyncIterator[str]:
    from hubbub.packs.peers.signal_server import SignalServer

    signal_limits = SignalLimits(
        clients=given.max_clients,
        clients_of_one_address=given.max_clients_per_address,
        clients_of_one_room=given.max_clients_per_room,
    )
    server = SignalServer(signal_limits, allowed_origins=given.allowed_origin, idle_s=given.idle_s)
    try:
        async with server.running(given.host, given.port) as port:
            yield f"ws://{format_address(given.host, port)}"
    except (OSError, OverflowError) as error:
        raise listen_error(given.host, given.port, error) from error
