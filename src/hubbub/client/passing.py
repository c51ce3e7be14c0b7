"""A client as a peer: calls that are passed on raw, with their way back.

Parameters and results are taken apart one level deep at most. The caller's progress
token is replaced by ours on the way out and put back on the way in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from hubbub.errors import InvalidParams
from hubbub.ports import Peer
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.model import NO_META, Call, Caller, Note, RawReply
from hubbub.protocol.params import CompleteParams, Reference
from hubbub.protocol.wire import ProgressParams

if TYPE_CHECKING:
    from hubbub.client.client import Client
    from hubbub.client.session import Session

_REPEATABLE = frozenset(
    (
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    )
)
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
_OURS = "io.modelcontextprotocol/"
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class Passing(msgspec.Struct, frozen=True, kw_only=True):
    """How a call is passed on that somebody else has made."""

    back: Peer
    """Where progress, logs and questions of this call go."""
    timeout_s: float | None = None
    speaker: bytes = b""
    """What `Session.speaking` gave for the caller, where each request says who asks."""
    plays_rounds: bool = True
    """Whether questions that a modern server answers with are put to `back`, or are the answer."""
    request_state: str | None = None
    """The server's own state, if the caller brings one back."""


async def request(client: Client, session: Session, call: Call) -> RawReply:
    """Send a call to the client's server, and give its result as it came."""
    return await pass_on(client, session, call, Passing(back=call.back, timeout_s=_seconds_left(call)))


async def pass_on(client: Client, session: Session, call: Call, how: Passing) -> RawReply:
    """Send a call in its caller's name. Names are those of `call.params`; the rest is taken from `call.raw`."""
    params = _params(call)
    if how.request_state is not None:
        params["requestState"] = how.request_state
    token = call.meta.progress_token
    options: dict[str, Any] = {
        "back": how.back,
        "timeout_s": how.timeout_s,
        "speaker": how.speaker,
        "plays": how.plays_rounds,
    }
    if token is not UNSET:

        def progress(params: ProgressParams) -> Any:
            return how.back.notify(Note("notifications/progress", params))

        options |= {"progress": progress, "token": token}
    if call.method == "tools/call":
        raw = await client._call(params, **options)
    else:
        raw = await client._ask(call.method, params, repeatable=call.method in _REPEATABLE, **options)
    return RawReply(body=raw, revision=session.revision)


def _params(call: Call) -> dict[str, Any]:
    try:
        params: dict[str, Any] = dict(_decode(call.raw))
        key = _NAMED.get(call.method)
        if key is not None:
            given = getattr(call.params, key, None)
            params[key] = _decode_text(params[key]) if given is None else given
        elif isinstance(call.params, CompleteParams):
            params["ref"] = _reference(call.params.ref, params["ref"])
        meta = params.pop("_meta", None)
        if meta is not None:
            kept = {key: value for key, value in _decode(meta).items() if not key.startswith(_OURS)}
            kept.pop("progressToken", None)
            if kept:
                params["_meta"] = kept
    except (msgspec.DecodeError, KeyError) as error:
        raise InvalidParams(f"Invalid params for {call.method}: {error}") from None
    return params


def _reference(reference: Reference, raw: Raw) -> dict[str, Any]:
    kind = "name" if reference.type == "ref/prompt" else "uri"
    return {**_decode(raw), kind: getattr(reference, kind)}


def _seconds_left(call: Call) -> float | None:
    if call.deadline is None:
        return None

    return max(0.001, call.deadline - asyncio.get_running_loop().time())


async def ask_back(back: Peer, session: Session, method: str, params: Raw) -> Any:
    """Pass a server's question on to whoever asked us."""
    caller = Caller(revision=session.revision, capabilities=session.capabilities)
    question = Call(id=NULL, method=method, raw=params, params=params, meta=NO_META, caller=caller, back=back)
    reply = await back.request(question)
    return reply.body if isinstance(reply, RawReply) else reply
