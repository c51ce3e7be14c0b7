"""A client as a peer: calls that are passed on raw, with their way back.

Parameters and results are taken apart one level deep at most. The caller's progress
token is replaced by ours on the way out and put back on the way in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from hubbub.client.requests import NO_HEADERS, Request
from hubbub.client.rounds import is_complete
from hubbub.errors import InvalidParams
from hubbub.ports import Peer
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.model import NO_META, Call, Caller, Note, RawReply
from hubbub.protocol.params import CallToolParams, CompleteParams, Reference
from hubbub.protocol.revisions import Revision
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
_TOKEN = "progressToken"
_CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":'
_ARGUMENTS = b',"arguments":'


class _Meta(msgspec.Struct):
    meta: dict[str, Raw] = msgspec.field(default_factory=dict, name="_meta")


_decode_meta = msgspec.json.Decoder(_Meta).decode
_encode = msgspec.json.Encoder().encode
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


def pass_on(client: Client, session: Session, call: Call, how: Passing) -> Coroutine[Any, Any, RawReply]:
    """Send a call in its caller's name. Names are those of `call.params`; the rest is taken from `call.raw`."""
    if call.method == "tools/call" and isinstance(call.params, CallToolParams):
        return _call_tool(client, session, call, how)
    return _ask(client, session, call, how)


async def _ask(client: Client, session: Session, call: Call, how: Passing) -> RawReply:
    params = _params(call)
    if how.request_state is not None:
        params["requestState"] = how.request_state
    repeatable = call.method in _REPEATABLE
    raw = await client._ask(call.method, params, plays=how.plays_rounds, repeatable=repeatable, **_options(call, how))
    return RawReply(body=raw, revision=session.revision)


async def _call_tool(client: Client, session: Session, call: Call, how: Passing) -> RawReply:
    """The way of most calls: written in one go from the pieces that came."""
    if session.agreement is None:
        await session.wait_for_agreement()
    revision = session.revision
    seconds = session.timeout_s if how.timeout_s is None else how.timeout_s
    if client.sends_tool_headers:

        def send(headers: Mapping[str, str]) -> Awaitable[Raw]:
            return session.send(_tool_request(session, revision, call, how, headers), seconds)

        raw = await client._with_tool_headers(call.params.name, call.params.arguments, send)
    else:
        raw = await session.send(_tool_request(session, revision, call, how, NO_HEADERS), seconds)
    if revision.rounds and how.plays_rounds and not is_complete(raw):
        raw = await client._play("tools/call", _params(call), raw, **_options(call, how))
    return RawReply(body=raw, revision=revision)


def _tool_request(
    session: Session, revision: Revision, call: Call, how: Passing, headers: Mapping[str, str]
) -> Request:
    rpc, params = session.rpc, call.params
    token = None if call.meta.progress_token is UNSET else call.meta.progress_token
    identifier = rpc.next_id()
    parts = [_CALL % identifier, _encode(params.name), _ARGUMENTS, params.arguments]
    if params.input_responses is not UNSET:
        parts += (b',"inputResponses":', params.input_responses)
    if how.request_state is not None:
        parts += (b',"requestState":', _encode(how.request_state))
    said = None if call.meta is NO_META else _other_meta(call.raw)
    meta = session.meta(said, None if token is None else identifier, how.speaker)
    parts += (b',"_meta":', meta, b"}}") if meta else (b"}}",)
    progress = None if token is None else _progress(how)
    return Request(
        identifier,
        call.method,
        b"".join(parts),
        rpc.new_answer(),
        headers,
        revision.stateless,
        progress,
        how.back,
        token,
    )


def _other_meta(raw: Raw) -> dict[str, Raw] | None:
    """What of `_meta` is between the caller and the server, and none of ours."""
    try:
        meta = _decode_meta(raw).meta
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params for tools/call: {error}") from None
    if not meta:
        return None
    return {key: value for key, value in meta.items() if key != _TOKEN and not key.startswith(_OURS)}


def _options(call: Call, how: Passing) -> dict[str, Any]:
    options: dict[str, Any] = {"back": how.back, "timeout_s": how.timeout_s, "speaker": how.speaker}
    if call.meta.progress_token is not UNSET:
        options |= {"progress": _progress(how), "token": call.meta.progress_token}
    return options


def _progress(how: Passing) -> Callable[[ProgressParams], Any]:
    return lambda params: tell_back(how.back, Note("notifications/progress", params))


def tell_back(back: Peer, note: Note) -> Awaitable[None] | None:
    """Tell whoever asked us. One that keeps what it is told in order by itself is told at once."""
    tell = getattr(back, "tell", None)
    if tell is None:
        return back.notify(note)
    tell(note)
    return None


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
            kept.pop(_TOKEN, None)
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
