"""Checks of `hubbub doctor`: which WebRTC library is installed, and whether peers can reach this machine."""

from __future__ import annotations

import asyncio

from hubbub import Check, TransportError
from hubbub.pack.http import ANY_ADDRESS, HttpClient
from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import available_engines, load_engine
from hubbub.packs.peers.errors import EngineMissing
from hubbub.packs.peers.settings import PeersSettings


async def engine(settings: PeersSettings) -> Check:
    """Check that the configured engine can be loaded."""
    try:
        name = load_engine(settings.engine).name
    except EngineMissing as missing:
        return Check("engine", False, "no WebRTC library is installed", missing.message)
    others = [other for other in available_engines() if other != name]
    return Check("engine", True, f"{name}; also installed: {', '.join(others)}" if others else name)


async def addresses(settings: PeersSettings) -> Check:
    """Check that this machine has an address that peers can reach; loopback does not count."""
    try:
        connection = load_engine(settings.engine).connection()
    except EngineMissing as missing:
        return Check("addresses", False, "no WebRTC library is installed", missing.message)
    try:
        connection.create_channel("doctor")
        count = (await connection.offer()).count("a=candidate:")
    finally:
        await connection.close()
    if count:
        return Check("addresses", True, f"{count} found")
    return Check("addresses", False, "no network interface besides loopback", "connect this machine to a network")


async def signalling(settings: PeersSettings) -> Check:
    """Check whether the signalling server answers. No answer is not a failure: the server may be started later."""
    http_client = HttpClient(ANY_ADDRESS)
    try:
        async with asyncio.timeout(limits.SIGNAL_CHECK_S):
            socket = await http_client.open_websocket(settings.host, headers={}, protocols=(), limit=1024)
            await socket.close()
    except (TransportError, TimeoutError):
        return Check("signalling", True, f"no answer from {settings.host}", "run `hubbub signal` before peers connect")
    finally:
        await http_client.close()
    return Check("signalling", True, f"{settings.host} answers")
