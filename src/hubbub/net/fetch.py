"""Fetch one document from a configured address, with limits on size and time and without redirects.

The address comes from the settings, never from a caller, so it may be on this machine or
in the local network.
"""

from __future__ import annotations

import asyncio

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge, ResponseTooLarge, TransportError
from hubbub.net.client import UNREACHABLE, HttpClient
from hubbub.net.egress import ANY_ADDRESS
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.net.redirects import describe_redirect


async def fetch(url: str, rules: EgressRules = NO_RULES) -> bytes:
    """Return the body of a response with status 200.

    Raises:
        MessageTooLarge: it is larger than `KEY_FILE_BYTES`.
        ConnectionClosed: the request failed, or its status is not 200.
    """
    http_client = HttpClient(ANY_ADDRESS, rules=rules)
    try:
        async with asyncio.timeout(bounds.PUBLIC_KEY_FETCH_TIMEOUT_S):
            response = await http_client.send("GET", url, headers={})
            if 300 <= response.status < 400:
                raise ConnectionClosed(f"{url}: {describe_redirect(url, response.status, response.header('Location'))}")
            if response.status != 200:
                raise ConnectionClosed(f"{url} answered with status {response.status}")
            return await response.read(bounds.KEY_FILE_BYTES)
    except ResponseTooLarge as error:
        raise MessageTooLarge(f"The document at {url}", bounds.KEY_FILE_BYTES) from error
    except TransportError as error:
        raise ConnectionClosed(f"{url} cannot be reached: {error.message.removeprefix(UNREACHABLE)}") from error
    except TimeoutError as error:
        raise ConnectionClosed(f"{url} did not answer within {bounds.PUBLIC_KEY_FETCH_TIMEOUT_S:g} s") from error
    finally:
        await http_client.close()
