"""Declared inputs: parameters that the person is asked for before the handler starts.

    async def book(flight: str, seat: Annotated[Seat, Ask("Which seat?")]) -> Booking

`seat` is not part of the tool's schema. The question is sent before the handler runs, so
nothing is suspended while the person thinks: in the modern era the answers arrive with
the repeated request, and any node can serve it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from hubbub.errors import InvalidParams, MissingCapability, ToolError
from hubbub.protocol.forms import decode_form, form_schema
from hubbub.protocol.model import Call, Caller
from hubbub.protocol.wire import InputRequired
from hubbub.rounds import read_responses

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


def require_form(caller: Caller) -> None:
    """Check that the client can show forms to a person.

    Raises:
        MissingCapability: the client cannot ask a person, or can only open URLs.
    """
    declared = caller.capabilities.get("elicitation")
    # `elicitation` without a mode means forms, the only mode in its first revision.
    only_others = isinstance(declared, dict) and "url" in declared and "form" not in declared
    if only_others or caller.revision.elicitation == "none" or not caller.can("elicitation"):
        raise MissingCapability({"elicitation": {"form": {}} if only_others else {}})


def answers_or_questions(asks: Mapping[str, Ask], call: Call) -> dict[str, Any] | InputRequired:
    """Return the declared inputs of a modern call, or the questions that are not answered yet."""
    responses = read_responses(call.params.input_responses)
    missing = {key: ask.question() for key, ask in asks.items() if key not in responses}
    if missing:
        require_form(call.caller)
        return InputRequired(result_type="input_required", input_requests=missing)
    return {key: _accepted(key, ask, responses[key]) for key, ask in asks.items()}


async def gather_answers(asks: Mapping[str, Ask], context: Context) -> dict[str, Any]:
    """Ask all questions at once, of a caller that can answer while the call runs."""
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
