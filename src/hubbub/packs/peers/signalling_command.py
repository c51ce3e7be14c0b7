"""The command `hubbub signal`: a signalling server, through which peers find each other.

It relays encrypted descriptions until two peers are connected, and sees nothing of what they exchange then. It listens
on loopback by default.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hubbub.pack import format_address, listen_error, require_loopback, run_service
from hubbub.packs.peers import limits
from hubbub.packs.peers.signalling_router import SignalLimits


def main(arguments: list[str]) -> int:
    """Run the server until a signal arrives; return the exit code.

    Raises: SettingsError.
    """
    options = _parser().parse_args(arguments)
    require_loopback(options.host, f"--host {options.host}", "use it to connect peers", insecure=options.insecure)
    return run_service("signalling server", _serve(options))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub signal", description="Run a signalling server, through which peers find each other."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on  [default: 127.0.0.1]")
    parser.add_argument("--port", default=8765, type=int, help="port; 0 takes a free one  [default: 8765]")
    parser.add_argument(
        "--allowed-origin",
        action="append",
        default=[],
        metavar="URL",
        help="origin of web pages that may connect; may be repeated",
    )
    parser.add_argument(
        "--max-clients",
        type=_positive_int,
        default=limits.SIGNAL_CLIENTS,
        metavar="N",
        help="maximum number of clients",
    )
    parser.add_argument(
        "--max-clients-per-address",
        type=_positive_int,
        default=limits.SIGNAL_CLIENTS_PER_ADDRESS,
        metavar="N",
        help="maximum number of clients from one address",
    )
    parser.add_argument(
        "--max-clients-per-room",
        type=_positive_int,
        default=limits.SIGNAL_CLIENTS_PER_ROOM,
        metavar="N",
        help="maximum number of clients in one room",
    )
    parser.add_argument(
        "--idle-s",
        type=float,
        default=limits.SIGNAL_IDLE_S,
        metavar="SECONDS",
        help="disconnect clients that are silent for this long",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow an address that other machines can reach; they can use the server too",
    )
    return parser


def _positive_int(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


@asynccontextmanager
async def _serve(options: Namespace) -> AsyncIterator[str]:
    from hubbub.packs.peers.signalling_server import SignalServer

    signal_limits = SignalLimits(
        clients=options.max_clients,
        clients_per_address=options.max_clients_per_address,
        clients_per_room=options.max_clients_per_room,
    )
    server = SignalServer(signal_limits, allowed_origins=options.allowed_origin, idle_s=options.idle_s)
    try:
        async with server.running(options.host, options.port) as port:
            yield f"ws://{format_address(options.host, port)}"
    except (OSError, OverflowError) as error:
        raise listen_error(options.host, options.port, error) from error
