"""Declared inputs: parameters that the user is asked for before the handler starts.

    async def book(flight: str, seat: Annotated[Seat, Ask("Which seat?")]) -> Booking

`seat` is not part of the tool's schema. The question is sent before the handler runs, so
nothing is suspended while the user decides: in the modern era the answers arrive with
the repeated request, and any node can serve it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from hubbub.errors import InvalidParams, ToolError
from hubbub.protocol.calls import Call
from hubbub.protocol.elicitation_forms import decode_form, form_schema, require_form_support
from hubbub.protocol.results import InputRequired
from hubbub.rounds import read_responses

if TYPE_CHECKING:
    from hubbub.server.context import Context


class Ask:
    """Marks a parameter whose value comes from the user: `Annotated[Form, Ask("…")]`."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.form: Any = None
        """The parameter's type, filled in when the tool is registered."""

    def question(self) -> dict[str, Any]:
        """The question as an entry of `inputRequests`."""
        params = {"mode": "form", "message": self.message, "requestedSchema": form_schema(self.form)}
        return {"method": "elicitation/create", "params": params}


class _ElicitResponse(msgspec.Struct):
    action: str
    content: Raw = Raw(b"{}")


def read_declared_inputs(asks: Mapping[str, Ask], call: Call) -> dict[str, Any] | InputRequired:
    """Return the declared inputs of a modern call, or the questions that are not answered yet."""
    responses = read_responses(call.params.input_responses)
    unanswered = {key: ask.question() for key, ask in asks.items() if key not in responses}
    if unanswered:
        require_form_support(call.caller)
        return InputRequired(result_type="input_required", input_requests=unanswered)
    return {key: _decode_accepted(key, ask, responses[key]) for key, ask in asks.items()}


async def ask_declared_inputs(asks: Mapping[str, Ask], context: Context) -> dict[str, Any]:
    """Ask all questions at once, of a caller that can answer while the call runs."""
    answers = await asyncio.gather(*(context.elicit(ask.message, ask.form, key=key) for key, ask in asks.items()))
    for key, answer in zip(asks, answers, strict=True):
        if not answer.accepted:
            raise _declined_error(key, answer.action)
    return {key: answer.content for key, answer in zip(asks, answers, strict=True)}


def _decode_accepted(key: str, ask: Ask, raw: Raw) -> Any:
    try:
        answer = msgspec.json.decode(raw, type=_ElicitResponse)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"The response for input {key!r} is invalid: {error}") from None
    if answer.action == "accept":
        return decode_form(answer.content, ask.form)
    raise _declined_error(key, answer.action)


def _declined_error(key: str, action: str) -> ToolError:
    return ToolError(f"The user did not provide {key!r} ({action}), so the tool did not run")
