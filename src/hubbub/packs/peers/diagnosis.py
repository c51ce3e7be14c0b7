"""What `hubbub doctor` looks at: which WebRTC library there is, and whether peers can meet."""

from __future__ import annotations

import asyncio

from hubbub import Check
from hubbub.errors import TransportError
from hubbub.net.door import Door
from hubbub.net.egress import ANYWHERE
from hubbub.packs.peers.engine import available_engines, load_engine
from hubbub.packs.peers.failures import EngineMissing
from hubbub.packs.peers.settings import PeersSettings


async def engine(settings: PeersSettings) -> Check:
    """The engine that would be used."""
    try:
        name = load_engine(settings.engine).name
    except EngineMissing as missing:
        return Check("engine", False, "no WebRTC library", missing.message)
    others = [other for other in available_engines() if other != name]
    return Check("engine", True, f"{name}; {', '.join(others)} is there too" if others else name)


async def addresses(settings: PeersSettings) -> Check:
    """Whether this machine has an address that peers can reach; loopback alone is none."""
    try:
        connection = load_engine(settings.engine).connection()
    except EngineMissing as missing:
        return Check("addresses", False, "no WebRTC library", missing.message)
    try:
        connection.create_channel("doctor")
        count = (await connection.offer()).count("a=candidate:")
    finally:
        await connection.close()
    if count:
        return Check("addresses", True, f"{count} found")
    return Check("addresses", False, "no network besides loopback", "connect this machine to a network")


async def signalling(settings: PeersSettings) -> Check:
    """Whether the signalling server answers. None is no fault: it may be started later."""
    door = Door(ANYWHERE)
    try:
        async with asyncio.timeout(3):
            socket = await door.open_socket(settings.host, headers={}, protocols=(), limit=1024)
            await socket.close()
    except (TransportError, TimeoutError):
        return Check("signalling", True, f"none at {settings.host}", "run `hubbub signal` before peers connect")
    finally:
        await door.close()
    return Check("signalling", True, f"{settings.host} answers")
