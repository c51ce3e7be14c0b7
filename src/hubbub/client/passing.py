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
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.model import NO_META, Call, Caller, Note, RawReply
from hubbub.protocol.wire import ProgressParams

if TYPE_CHECKING:
    from hubbub.client.client import Client
    from hubbub.client.session import Session
    from hubbub.ports import Peer

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
_OURS = "io.modelcontextprotocol/"
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


async def request(client: Client, session: Session, call: Call) -> RawReply:
    """Send a call to the client's server, and give its result as it came."""
    params = _params(call)
    token = call.meta.progress_token

    def progress(params: ProgressParams) -> Any:
        return call.back.notify(Note("notifications/progress", params))

    options: dict[str, Any] = {"back": call.back, "timeout_s": _seconds_left(call)}
    if token is not UNSET:
        options |= {"progress": progress, "token": token}
    if call.method == "tools/call":
        raw = await client._call(params, **options)
    else:
        raw = await client._ask(call.method, params, repeatable=call.method in _REPEATABLE, **options)
    return RawReply(body=raw)


def _params(call: Call) -> dict[str, Any]:
    try:
        params: dict[str, Any] = dict(_decode(call.raw))
        if call.method in ("tools/call", "prompts/get"):
            params["name"] = msgspec.json.decode(params["name"], type=str)
        elif call.method == "resources/read":
            params["uri"] = msgspec.json.decode(params["uri"], type=str)
        meta = params.pop("_meta", None)
        if meta is not None:
            kept = {key: value for key, value in _decode(meta).items() if not key.startswith(_OURS)}
            kept.pop("progressToken", None)
            if kept:
                params["_meta"] = kept
    except (msgspec.DecodeError, KeyError) as error:
        raise InvalidParams(f"Invalid params for {call.method}: {error}") from None
    return params


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
