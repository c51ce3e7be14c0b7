"""One document from one address that the operator named: bounded, in time, without detours.

The address comes from the settings, never from a caller, so it may be on this machine or
in the network around it.
"""

from __future__ import annotations

import asyncio

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge, TransportError
from hubbub.net.door import Door
from hubbub.net.egress import ANYWHERE


async def fetch(url: str) -> bytes:
    """The body of a successful answer.

    Raises:
        MessageTooLarge: it is larger than we keep.
        ConnectionClosed: there is no such answer.
    """
    door = Door(ANYWHERE)
    try:
        async with asyncio.timeout(bounds.FETCH_S):
            answer = await door.send("GET", url, headers={})
            if answer.status != 200:
                raise ConnectionClosed(f"{url} answered with status {answer.status}")
            return await answer.read(bounds.KEY_FILE_BYTES)
    except TransportError as error:
        if error.code == "HTTP_BODY_TOO_LARGE":
            raise MessageTooLarge(f"The document at {url}", bounds.KEY_FILE_BYTES) from error
        raise ConnectionClosed(f"{url} cannot be reached: {error.message}") from error
    except TimeoutError as error:
        raise ConnectionClosed(f"{url} cannot be reached: TimeoutError") from error
    finally:
        await door.close()
