"""Finds the model of an endpoint that has only one, if none was named."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.agent.errors import ModelHttpError
from hubbub.client.addresses import check_url, shown_url
from hubbub.errors import DeadlineExceeded, SettingsError
from hubbub.net.client import HttpClient
from hubbub.net.egress import egress_policy
from hubbub.net.redirects import describe_redirect
from hubbub.settings import Secret

_MOST_NAMED: Final = 10


async def only_model(url: str, key: Secret | None, allow_private_network: bool | None = None) -> str:
    """Return the name of the only model.

    Raises:
        SettingsError: there are several, or the endpoint lists none; the message says to give `--model`.
        TransportError, DeadlineExceeded, ModelError: it cannot be reached.
    """
    check_url(url, ("https", "http"))
    names = _names(
        await _fetch(f"{url.rstrip('/').removesuffix('/chat/completions')}/models", key, allow_private_network)
    )
    if len(names) == 1:
        return names[0]
    known = f": {', '.join(names[:_MOST_NAMED])}{', …' if len(names) > _MOST_NAMED else ''}" if names else ""
    raise SettingsError(f"say which model with --model{known}")


async def _fetch(url: str, key: Secret | None, allow_private_network: bool | None) -> bytes:
    door = HttpClient(egress_policy(urlsplit(url).hostname or "", allow_private_network))
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key.reveal()}"} if key else {})
    try:
        async with asyncio.timeout(bounds.FETCH_S):
            answer = await door.send("GET", url, headers=headers)
            if answer.status in (401, 403):
                message = f"The model's endpoint answered with status {answer.status}"
                raise ModelHttpError(message, status=answer.status)
            if 300 <= answer.status < 400:
                told = describe_redirect(url, answer.status, answer.header("Location"))
                raise ModelHttpError(told, status=answer.status)
            return await answer.read(bounds.RESPONSE_BYTES) if answer.is_success else b""
    except TimeoutError:
        raise DeadlineExceeded(f"The list of models of {shown_url(url)}", bounds.FETCH_S) from None
    finally:
        await door.close()


def _names(body: bytes) -> list[str]:
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    entries = found.get("data") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        return []
    return [str(each["id"]) for each in entries if isinstance(each, dict) and each.get("id")]
