"""Finds the model of an endpoint that has only one, if none was named."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.agent.errors import ModelHttpError
from hubbub.client.urls import check_url, redact_url
from hubbub.errors import DeadlineExceeded, SettingsError
from hubbub.net.client import HttpClient
from hubbub.net.egress import egress_policy
from hubbub.net.redirects import describe_redirect
from hubbub.settings import Secret

_MAX_LISTED_MODELS: Final = 10


async def only_model(url: str, key: Secret | None, allow_private_network: bool | None = None) -> str:
    """Return the name of the only model.

    Raises:
        SettingsError: there are several, or the endpoint lists none; the message says to give `--model`.
        TransportError, DeadlineExceeded, ModelError: it cannot be reached.
    """
    check_url(url, ("https", "http"))
    names = _parse_names(
        await _fetch(f"{url.rstrip('/').removesuffix('/chat/completions')}/models", key, allow_private_network)
    )
    if len(names) == 1:
        return names[0]
    if not names:
        raise SettingsError("the endpoint does not list its models; give --model NAME")
    known = f"{', '.join(names[:_MAX_LISTED_MODELS])}{', …' if len(names) > _MAX_LISTED_MODELS else ''}"
    raise SettingsError(f"the endpoint has several models; choose one with --model: {known}")


async def _fetch(url: str, key: Secret | None, allow_private_network: bool | None) -> bytes:
    http_client = HttpClient(egress_policy(urlsplit(url).hostname or "", allow_private_network))
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key.reveal()}"} if key else {})
    try:
        async with asyncio.timeout(bounds.PUBLIC_KEY_FETCH_TIMEOUT_S):
            response = await http_client.send("GET", url, headers=headers)
            if response.status in (401, 403):
                message = f"The model's endpoint answered with status {response.status}"
                raise ModelHttpError(message, status=response.status)
            if 300 <= response.status < 400:
                reason = describe_redirect(url, response.status, response.header("Location"))
                raise ModelHttpError(reason, status=response.status)
            return await response.read(bounds.RESPONSE_BYTES) if response.is_success else b""
    except TimeoutError:
        raise DeadlineExceeded(f"The list of models of {redact_url(url)}", bounds.PUBLIC_KEY_FETCH_TIMEOUT_S) from None
    finally:
        await http_client.close()


def _parse_names(body: bytes) -> list[str]:
    try:
        answer: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return []
    return [str(each["id"]) for each in entries if isinstance(each, dict) and each.get("id")]
