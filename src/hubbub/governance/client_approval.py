"""Asking the person at the caller's own client for an approval, through elicitation.

The client is trusted to show the question to a person. Where clients answer it by themselves, set `via = "queue"`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from hubbub.errors import HubbubError
from hubbub.governance.approval_errors import ApprovalDenied, ApprovalInvalid
from hubbub.governance.approvals import ApprovalRequest, Approvals, MarkedCall
from hubbub.protocol.calls import NO_META, Call, Caller, RawReply
from hubbub.protocol.elicitation_forms import supports_forms
from hubbub.protocol.jsonrpc import NULL

Via: TypeAlias = Literal["auto", "client", "queue"]

_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve this call",
            "description": "Whether the call may be made, once, with exactly these arguments",
            "default": False,
        }
    },
    "required": ["approve"],
}


class _Form(msgspec.Struct):
    approve: bool


class _Response(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: Raw = Raw(b"{}")


_decode_response: Final = msgspec.json.Decoder(_Response).decode
_decode_form: Final = msgspec.json.Decoder(_Form).decode


def asks_client(via: Via, caller: Caller) -> bool:
    """Whether this caller's own client is asked, by the setting `via`."""
    return via == "client" or (via == "auto" and supports_forms(caller))


def must_suspend(via: Via, caller: Caller) -> bool:
    """Whether `approve_call` has to run in `Rounds`: a stateless client answers in another request."""
    return caller.revision.rounds and asks_client(via, caller) and supports_forms(caller)


async def approve_call(
    approvals: Approvals,
    call: Call,
    marked: MarkedCall,
    policy_version: Callable[[], str],
    before_asking: Callable[[ApprovalRequest], Awaitable[None]] | None = None,
) -> ApprovalRequest:
    """Return the approval of a call, which is used up by that; ask for it where the settings say.

    `policy_version` returns the version that is in force when the person has answered. `before_asking` is awaited
    before the client is asked; if it raises, nobody is.

    Raises:
        ApprovalRequired, ApprovalDenied, ApprovalInvalid, ApprovalsFull, ArgumentsInvalid: it must not be made now.
    """
    if not asks_client(approvals.settings.via, call.caller):
        return approvals.require(marked)
    request = approvals.open_for_client(marked)
    try:
        if before_asking is not None:
            await before_asking(request)
        denied = await _ask(call, request)
    except BaseException:
        with suppress(ApprovalDenied, ApprovalInvalid):
            approvals.close_for_client(
                request, denied="the call ended before a person answered", policy_version=request.policy_version
            )
        raise
    approvals.close_for_client(request, denied=denied, policy_version=policy_version())
    return request


async def ask_client(call: Call, request: ApprovalRequest) -> bool:
    """Ask the person at the caller's client. Only accepting the form with `approve` set counts as approval."""
    return not await _ask(call, request)


async def _ask(call: Call, request: ApprovalRequest) -> str:
    """Ask, and return why the call is not approved; empty if it is."""
    caller = call.caller
    if not supports_forms(caller):
        return "its client cannot ask a person, because it does not support elicitation"
    params: dict[str, Any] = {"mode": "form", "message": describe_request(request), "requestedSchema": _FORM}
    if caller.revision.elicitation == "form":
        del params["mode"]
    raw = Raw(msgspec.json.encode(params))
    question = Call(
        id=NULL,
        method="elicitation/create",
        raw=raw,
        params=None,
        meta=NO_META,
        caller=caller,
        back=call.back,
    )
    until = asyncio.get_running_loop().time() + request.expires - request.created
    try:
        async with asyncio.timeout_at(until if call.deadline is None else min(until, call.deadline)):
            reply = await call.back.request(question)
    except TimeoutError:
        return "no person answered in time"
    except HubbubError as error:
        return f"no person could be asked: {error.message}"
    body = reply.body if isinstance(reply, RawReply) else Raw(msgspec.json.encode(reply))
    return _read_answer(body)


def _read_answer(body: Raw) -> str:
    try:
        response = _decode_response(body)
        if response.action == "decline":
            return "the person declined it"
        if response.action == "cancel":
            return "the person dismissed the question"
        return "" if _decode_form(response.content).approve else "the person did not approve it"
    except msgspec.DecodeError as error:
        return f"the answer of its client is invalid: {error}"


def describe_request(request: ApprovalRequest) -> str:
    """Describe a request for the person who decides; the arguments come last, because they may contain any text."""
    because = f"\nReason: {request.reason}" if request.reason else ""
    part = "" if request.preview_is_complete else " (shortened)"
    return (
        f"Approve a call of the tool {request.tool!r} on the server {request.server!r}?{because}\n"
        f"Arguments{part}:\n{request.preview or 'none'}"
    )
