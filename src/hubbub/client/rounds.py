"""Resolves `input_required` results of modern servers (multi round-trip requests, MRTR).

Each round sends the same request again, with a new id, the answers, and the server's
state unchanged. A round belongs to one request; nothing of it is shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import InputRefused, InvalidResponse, MethodNotFound
from hubbub.net.backoff import Backoff
from hubbub.protocol.params import EMPTY

Send = Callable[[dict[str, Any]], Awaitable[Raw]]
Answer = Callable[[str, Raw], Awaitable[Any]]


class _Kind(msgspec.Struct, rename="camel"):
    result_type: str | UnsetType = UNSET


class _Question(msgspec.Struct):
    method: str
    params: Raw = EMPTY


class _InputRequired(msgspec.Struct, rename="camel"):
    input_requests: dict[str, _Question] = {}
    request_state: str | UnsetType = UNSET


_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_required = msgspec.json.Decoder(_InputRequired).decode


async def play(raw: Raw, params: dict[str, Any], send: Send, answer: Answer) -> Raw:
    """Return the complete result, after answering all input that the server requires.

    Raises:
        InputRefused: the client cannot answer it, or there were too many rounds.
        InvalidResponse: the result type is unknown.
    """
    pause = Backoff(bounds.EMPTY_ROUND_PAUSES_S, jitter=0)
    for _ in range(bounds.CLIENT_ROUNDS):
        if is_complete(raw):
            return raw
        required = _read(raw)
        repeated = dict(params)
        if required.input_requests:
            repeated["inputResponses"] = await _answers(required, answer)
        else:
            await asyncio.sleep(pause.next_s())
        if required.request_state is not UNSET:
            repeated["requestState"] = required.request_state
        raw = await send(repeated)
    if is_complete(raw):
        return raw
    raise InputRefused(f"The server answered with a question {bounds.CLIENT_ROUNDS} times; that is enough")


def is_complete(raw: Raw) -> bool:
    """Whether this is a complete result; if not, input is required.

    Raises:
        InvalidResponse: it is neither.
    """
    try:
        kind = _decode_kind(raw).result_type
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's answer cannot be read: {error}") from None
    if kind is UNSET or kind == "complete":
        return True
    if kind != "input_required":
        raise InvalidResponse(f"The server's answer is of an unknown type: {kind[:64]!r}")
    return False


def _read(raw: Raw) -> _InputRequired:
    try:
        required = _decode_required(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's question cannot be read: {error}") from None
    if not required.input_requests and required.request_state is UNSET:
        raise InvalidResponse("The server wants input and does not say which")
    return required


async def _answers(required: _InputRequired, answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, question in required.input_requests.items():
        try:
            found[key] = await answer(question.method, question.params)
        except MethodNotFound:
            raise InputRefused(f"The server asks for {question.method}, and nobody here answers that") from None
    return found
