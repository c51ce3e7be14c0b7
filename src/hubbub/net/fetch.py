"""One document from one address that the operator named: bounded, in time, without detours.

The address comes from the settings, never from a caller, so there is no rule here about
which addresses may be reached. aiohttp is loaded with the first fetch.
"""

from __future__ import annotations

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge


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
            body = await answer.content.read(bounds.KEY_FILE_BYTES + 1)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ConnectionClosed(f"{url} cannot be reached: {type(error).__name__}") from error
    if len(body) > bounds.KEY_FILE_BYTES:
        raise MessageTooLarge(f"The document at {url}", bounds.KEY_FILE_BYTES)
    return body
