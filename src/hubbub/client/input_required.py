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
from hubbub.protocol.params import EMPTY_PARAMS

Send = Callable[[dict[str, Any]], Awaitable[Raw]]
Answer = Callable[[str, Raw], Awaitable[Any]]


class _ResultType(msgspec.Struct, rename="camel"):
    result_type: str | UnsetType = UNSET


class _InputRequest(msgspec.Struct):
    method: str
    params: Raw = EMPTY_PARAMS


class _InputRequired(msgspec.Struct, rename="camel"):
    input_requests: dict[str, _InputRequest] = {}
    request_state: str | UnsetType = UNSET


_decode_result_type = msgspec.json.Decoder(_ResultType).decode
_decode_required = msgspec.json.Decoder(_InputRequired).decode


async def resolve_input(raw: Raw, params: dict[str, Any], send: Send, answer: Answer) -> Raw:
    """Return the complete result, after answering all input that the server requires.

    Raises:
        InputRefused: the client cannot answer it, or there were too many rounds.
        InvalidResponse: the result type is unknown.
    """
    empty_round_backoff = Backoff(bounds.EMPTY_ROUND_PAUSES_S, jitter=0)
    for _ in range(bounds.CLIENT_ROUNDS):
        if is_complete(raw):
            return raw
        required = _read_input_required(raw)
        next_params = dict(params)
        if required.input_requests:
            next_params["inputResponses"] = await _collect_responses(required, answer)
        else:
            await asyncio.sleep(empty_round_backoff.next_s())
        if required.request_state is not UNSET:
            next_params["requestState"] = required.request_state
        raw = await send(next_params)
    if is_complete(raw):
        return raw
    raise InputRefused(f"The server still requires input after {bounds.CLIENT_ROUNDS} rounds, the limit")


def is_complete(raw: Raw) -> bool:
    """Whether this is a complete result; if not, input is required.

    Raises:
        InvalidResponse: it is neither.
    """
    try:
        kind = _decode_result_type(raw).result_type
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's result cannot be read: {error}") from None
    if kind is UNSET or kind == "complete":
        return True
    if kind != "input_required":
        raise InvalidResponse(f"The server's result is of an unknown type: {kind[:64]!r}")
    return False


def _read_input_required(raw: Raw) -> _InputRequired:
    try:
        required = _decode_required(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidResponse(f"The server's input_required result cannot be read: {error}") from None
    if not required.input_requests and required.request_state is UNSET:
        raise InvalidResponse("The server's input_required result has neither inputRequests nor requestState")
    return required


async def _collect_responses(required: _InputRequired, answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, request in required.input_requests.items():
        try:
            found[key] = await answer(request.method, request.params)
        except MethodNotFound:
            raise InputRefused(f"The server requires {request.method}, but the client has no handler for it") from None
    return found
