"""One document from one address that the operator named: bounded, in time, without detours.

The address comes from the settings, never from a caller, so there is no rule here about
which addresses may be reached. aiohttp is loaded with the first fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge

if TYPE_CHECKING:
    from aiohttp import StreamReader


async def fetch(url: str) -> bytes:
    """The body of a successful answer.

    Raises:
        MessageTooLarge: it is larger than we keep.
        ConnectionClosed: there is no such answer.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=bounds.FETCH_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ConnectionClosed(f"{url} answered with status {answer.status}")
            body = await _read(answer.content)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ConnectionClosed(f"{url} cannot be reached: {type(error).__name__}") from error
    if len(body) > bounds.KEY_FILE_BYTES:
        raise MessageTooLarge(f"The document at {url}", bounds.KEY_FILE_BYTES)
    return body


async def _read(content: StreamReader) -> bytes:
    """Everything, or one chunk more than we keep."""
    chunks, size = [], 0
    async for chunk in content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > bounds.KEY_FILE_BYTES:
            break
    return b"".join(chunks)
