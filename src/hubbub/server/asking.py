"""Inputs declared as parameters: asked of the person before the handler starts.

    async def book(flight: str, seat: Annotated[Seat, Ask("Which seat?")]) -> Booking

`seat` is not part of the tool's schema. Since nothing has run when the question
goes out, nothing is parked while the person thinks: in the modern era the answers
arrive with the repeated request, and any node can serve it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import InvalidParams, MissingCapability, ToolError
from hubbub.protocol.forms import decode_form, form_schema
from hubbub.protocol.model import Call, Caller
from hubbub.protocol.wire import InputRequired

if TYPE_CHECKING:
    from hubbub.server.context import Context


class Ask:
    """Marks a parameter whose value comes from the person: `Annotated[Form, Ask("…")]`."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.form: Any = None
        """The parameter's type, filled in when the tool is registered."""

    def question(self) -> dict[str, Any]:
        """The question as an entry of `inputRequests`."""
        params = {"mode": "form", "message": self.message, "requestedSchema": form_schema(self.form)}
        return {"method": "elicitation/create", "params": params}


class _Answer(msgspec.Struct):
    action: str
    content: Raw = Raw(b"{}")


def read_responses(raw: Raw | UnsetType) -> dict[str, Raw]:
    """The `inputResponses` of a repeated request.

    Raises:
        InvalidParams: they are not an object of objects.
    """
    if raw is UNSET:
        return {}
    try:
        responses = msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        raise InvalidParams("`inputResponses` must be an object with one answer for each question") from None
    for key, value in responses.items():
        if memoryview(value)[0] != ord("{"):
            raise InvalidParams(f"The answer {key!r} in `inputResponses` must be an object")
    return responses


def require_form(caller: Caller) -> None:
    """Ask only where a person can fill in a form.

    Raises:
        MissingCapability: the client cannot ask a person, or only lets them open pages.
    """
    declared = caller.capabilities.get("elicitation")
    # Without a mode it is the only one there was at first; with one it must be this.
    only_others = isinstance(declared, dict) and "url" in declared and "form" not in declared
    if only_others or caller.revision.elicitation == "none" or not caller.can("elicitation"):
        raise MissingCapability({"elicitation": {"form": {}} if only_others else {}})


def answers_or_questions(asks: Mapping[str, Ask], call: Call) -> dict[str, Any] | InputRequired:
    """The declared inputs of a modern call, or the questions that are still open."""
    responses = read_responses(call.params.input_responses)
    missing = {key: ask.question() for key, ask in asks.items() if key not in responses}
    if missing:
        require_form(call.caller)
        return InputRequired(result_type="input_required", input_requests=missing)
    return {key: _accepted(key, ask, responses[key]) for key, ask in asks.items()}


async def gather_answers(asks: Mapping[str, Ask], context: Context) -> dict[str, Any]:
    """Ask everything at once, of a caller who can be asked while the call is open."""
    answers = await asyncio.gather(*(context.elicit(ask.message, ask.form, key=key) for key, ask in asks.items()))
    for key, answer in zip(asks, answers, strict=True):
        if not answer.accepted:
            raise _declined(key, answer.action)
    return {key: answer.content for key, answer in zip(asks, answers, strict=True)}


def _accepted(key: str, ask: Ask, raw: Raw) -> Any:
    try:
        answer = msgspec.json.decode(raw, type=_Answer)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"The answer {key!r} is not one: {error}") from None
    if answer.action == "accept":
        return decode_form(answer.content, ask.form)
    raise _declined(key, answer.action)


def _declined(key: str, action: str) -> ToolError:
    return ToolError(f"The person did not answer {key!r} ({action}), so nothing was done")
