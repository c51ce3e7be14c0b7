"""Requests over one session whose results stay raw JSON: the client's own, and calls that it forwards.

Adds what a session does not know: the headers of tools, and input that a modern server requires before its result.
Parameters and results of a forwarded call are decoded one level deep at most. Its caller's progress token is replaced
by ours on the way out and put back on the way in.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client import input_required
from hubbub.client.requests import NO_HEADERS, Progress, Request
from hubbub.client.session import Session
from hubbub.errors import DefinitionError, InvalidParams, RemoteError
from hubbub.ports import ReturnPath
from hubbub.protocol.calls import NO_META, Call, Caller, Notification, RawReply
from hubbub.protocol.error_codes import HEADER_MISMATCH
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.mcp_headers import encode_value, find_argument, header_parameters
from hubbub.protocol.params import CallToolParams, CompleteParams, Reference
from hubbub.protocol.results import ProgressParams, ToolEntry

logger = logging.getLogger("hubbub.client")

Send = Callable[[Mapping[str, str]], Awaitable[Raw]]
Answer = Callable[[ReturnPath | None, str, Raw], Awaitable[Any]]
"""Answers a server's request, given the return path of the call that it is about, its method and parameters."""

_REPEATABLE: Final = frozenset(
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
_NAME_MEMBERS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
_RESERVED_PREFIX: Final = "io.modelcontextprotocol/"
_PROGRESS_TOKEN: Final = "progressToken"
_CACHED_META_BYTES: Final = 1024
_TOOL_CALL: Final = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":%b%b}}'


class _Meta(msgspec.Struct):
    meta: Raw = msgspec.field(default=Raw(b""), name="_meta")


_decode_meta = msgspec.json.Decoder(_Meta).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class ToolHeaders:
    """The parameters of tool calls that are repeated in headers (`x-mcp-header`), read from the server's tool lists."""

    def __init__(self) -> None:
        self._parameters: dict[str, dict[str, tuple[str, ...]]] = {}

    def read_annotations(self, tools: list[ToolEntry]) -> list[ToolEntry]:
        """Read the annotations; return the tools that can be called, and log a warning for each other one."""
        callable_tools = []
        for tool in tools:
            self._parameters.pop(tool.name, None)
            try:
                schema = tool.input_schema
                if isinstance(schema, Mapping) and (parameters := header_parameters(schema)):
                    self._parameters[tool.name] = parameters
            except DefinitionError as error:
                logger.warning("the tool %r was left out of a server's list: %s", tool.name[:128], error.message)
                continue
            callable_tools.append(tool)
        while len(self._parameters) > bounds.LIST_ITEMS:  # a server that keeps renaming its tools
            del self._parameters[next(iter(self._parameters))]
        return callable_tools

    async def send(
        self, base: Mapping[str, str], name: str, arguments: Any, send: Send, refresh: Callable[[], Awaitable[None]]
    ) -> Raw:
        """Send a call with its known headers; if they do not match, read the list of tools again and send once more."""
        try:
            return await send(self.add_headers(base, name, arguments))
        except RemoteError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # Refused before it ran: the known headers of the tool are missing or out of date.
        await refresh()
        return await send(self.add_headers(base, name, arguments))

    def add_headers(self, base: Mapping[str, str], name: str, arguments: Any) -> Mapping[str, str]:
        """Return `base` with the headers that a tool requires; raises as `headers_for` does."""
        if name not in self._parameters:
            return base
        return {**base, **self.headers_for({"name": name, "arguments": arguments})}

    def headers_for(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of one call.

        Raises:
            InvalidParams: an argument cannot be written as a header.
        """
        parameters = self._parameters.get(params["name"])
        if not parameters:
            return {}
        arguments = params.get("arguments")
        if isinstance(arguments, Raw):
            arguments = msgspec.json.decode(arguments)
        headers = {}
        for header, path in parameters.items():
            value = find_argument(arguments, path)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, str | int):
                headers[header] = encode_value(value)
            elif value is not None:
                raise InvalidParams(
                    f"The argument {'.'.join(path)} is sent as a header; it must be a string, an integer or a boolean"
                )
        return headers


class ForwardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one call is forwarded; see `Client.forward`."""

    back: ReturnPath
    timeout_s: float | None = None
    client_meta: bytes = b""
    resolve_input: bool = True
    request_state: str | None = None


class RawCalls:
    """Sends requests over one session and forwards calls."""

    def __init__(
        self,
        session: Session,
        tool_headers: ToolHeaders,
        answer: Answer,
        list_tools: Callable[[float | None], Awaitable[Any]],
    ) -> None:
        """`list_tools` reads the list of tools again, within the given time, to update `tool_headers`."""
        self._session = session
        self._tool_headers = tool_headers
        self._answer = answer
        self._list_tools = list_tools

    async def request(self, method: str, params: dict[str, Any], *, resolve_input: bool = True, **options: Any) -> Raw:
        """Send a request and return its result; with `resolve_input`, answer input that a modern server requires."""
        raw = await self._session.request(method, params, **options)
        if resolve_input and self._session.revision.rounds and not input_required.is_complete(raw):
            return await self._resolve_input(method, params, raw, **options)
        return raw

    async def call_tool(self, params: dict[str, Any], **options: Any) -> Raw:
        """Send a tool call once and return its result."""
        if not self._session.sends_tool_headers:
            return await self.request("tools/call", params, **options)

        def send(headers: Mapping[str, str]) -> Awaitable[Raw]:
            return self.request("tools/call", params, headers=headers, **options)

        async def refresh() -> None:
            await self._list_tools(options.get("timeout_s"))

        name = params["name"]
        base = self._session.tool_call_headers(name)
        return await self._tool_headers.send(base, name, params.get("arguments"), send, refresh)

    def forward(self, call: Call, options: ForwardOptions) -> Coroutine[Any, Any, RawReply]:
        """Send a call on behalf of its caller. Names are those of `call.params`; the rest is taken from `call.raw`."""
        if call.method == "tools/call" and isinstance(call.params, CallToolParams):
            return self._forward_tool_call(call, options)
        return self._forward(call, options)

    async def request_back(self, back: ReturnPath, method: str, params: Raw) -> Any:
        """Forward a server's request to the caller of the call that it is about."""
        caller = Caller(revision=self._session.revision, capabilities=self._session.capabilities)
        call = Call(id=NULL, method=method, raw=params, params=params, meta=NO_META, caller=caller, back=back)
        reply = await back.request(call)
        return reply.body if isinstance(reply, RawReply) else reply

    async def _forward(self, call: Call, options: ForwardOptions) -> RawReply:
        params = _forwarded_params(call)
        if options.request_state is not None:
            params["requestState"] = options.request_state
        raw = await self.request(
            call.method,
            params,
            resolve_input=options.resolve_input,
            repeatable=call.method in _REPEATABLE,
            **self._request_options(call, options),
        )
        return RawReply(body=self._hide(raw), revision=self._session.revision)

    async def _forward_tool_call(self, call: Call, options: ForwardOptions) -> RawReply:
        """Forward a tool call, the most frequent kind: build it from raw parts, without decoding arguments."""
        session = self._session
        seconds = session.timeout_s if options.timeout_s is None else options.timeout_s
        if not session.is_ready:
            await session.wait_until_ready(seconds)
        revision = session.revision
        sends_headers = revision.stateless and session.rpc.transport.is_http
        headers = self._headers_for(call.params) if sends_headers else NO_HEADERS
        try:
            raw = await session.send(self._build_tool_request(call, options, headers), seconds)
        except RemoteError as error:
            if error.code != HEADER_MISMATCH or not sends_headers:
                raise
            # Refused before it ran: the known headers of the tool are missing or out of date.
            await self._list_tools(seconds)
            headers = self._headers_for(call.params)
            raw = await session.send(self._build_tool_request(call, options, headers), seconds)
        if revision.rounds and options.resolve_input and not input_required.is_complete(raw):
            raw = await self._resolve_input(
                "tools/call", _forwarded_params(call), raw, **self._request_options(call, options)
            )
        return RawReply(body=self._hide(raw), revision=revision)

    def _headers_for(self, params: CallToolParams) -> Mapping[str, str]:
        base = self._session.tool_call_headers(params.name)
        return self._tool_headers.add_headers(base, params.name, params.arguments)

    def _build_tool_request(self, call: Call, options: ForwardOptions, headers: Mapping[str, str]) -> Request:
        session, params = self._session, call.params
        rpc = session.rpc
        token = None if call.meta.progress_token is UNSET else call.meta.progress_token
        identifier = rpc.next_id()
        more = b""
        if params.input_responses is not UNSET:
            more = b',"inputResponses":%b' % params.input_responses
        if options.request_state is not None:
            more += b',"requestState":%b' % _encode(options.request_state)
        forwarded = None if call.meta is NO_META else _forwarded_meta(call.raw)
        meta = session.meta(forwarded, None if token is None else identifier, options.client_meta)
        if meta:
            more += b',"_meta":%b' % meta
        body = _TOOL_CALL % (identifier, _encode(params.name), params.arguments, more)
        return Request(
            identifier,
            call.method,
            body,
            rpc.new_response_future(),
            headers,
            session.revision.stateless,
            None if token is None else self._progress_forwarder(options.back),
            options.back,
            token,
        )

    def _request_options(self, call: Call, options: ForwardOptions) -> dict[str, Any]:
        found: dict[str, Any] = {
            "back": options.back,
            "timeout_s": options.timeout_s,
            "client_meta": options.client_meta,
        }
        if call.meta.progress_token is not UNSET:
            found |= {"progress": self._progress_forwarder(options.back), "token": call.meta.progress_token}
        return found

    def _progress_forwarder(self, back: ReturnPath) -> Progress:
        def forward(params: ProgressParams) -> Awaitable[None] | None:
            if params.message is not UNSET:
                params.message = self._hide(params.message)
            return notify_back(back, Notification("notifications/progress", params))

        return forward

    async def _resolve_input(self, method: str, params: dict[str, Any], raw: Raw, **options: Any) -> Raw:
        """Answer the input that a result requires, until the result is complete."""
        back = options.get("back")

        async def send(next_params: dict[str, Any]) -> Raw:
            return await self._session.request(method, next_params, **options)

        async def answer(request_method: str, raw_params: Raw) -> Any:
            return await self._answer(back, request_method, raw_params)

        return await input_required.resolve_input(raw, params, send, answer)

    def _hide(self, value: Any) -> Any:
        return self._session.rpc.transport.hide(value)


def notify_back(back: ReturnPath, note: Notification) -> Awaitable[None] | None:
    """Forward a notification to a caller; the result, if any, must be awaited."""
    return None if back.send_nowait(note) else back.notify(note)


def seconds_left(call: Call) -> float | None:
    """Return the time until the deadline of a call, if it has one."""
    if call.deadline is None:
        return None
    return max(0.001, call.deadline - asyncio.get_running_loop().time())


def _forwarded_meta(raw: Raw) -> Mapping[str, Raw] | None:
    """Return the members of `_meta` that are forwarded between caller and server."""
    try:
        meta = bytes(_decode_meta(raw).meta)
        if not meta:
            return None
        # Most clients send the same members with every call, except for progress tokens.
        is_repeated = len(meta) <= _CACHED_META_BYTES and _PROGRESS_TOKEN.encode() not in meta
        return _select_forwarded(meta) if is_repeated else _select_forwarded.__wrapped__(meta)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params for tools/call: {error}") from None


@functools.lru_cache(maxsize=64)
def _select_forwarded(meta: bytes) -> Mapping[str, Raw]:
    return {
        key: value
        for key, value in _decode(meta).items()
        if key != _PROGRESS_TOKEN and not key.startswith(_RESERVED_PREFIX)
    }


def _forwarded_params(call: Call) -> dict[str, Any]:
    try:
        params: dict[str, Any] = dict(_decode(call.raw))
        key = _NAME_MEMBERS.get(call.method)
        if key is not None:
            parsed = getattr(call.params, key, None)
            params[key] = _decode_text(params[key]) if parsed is None else parsed
        elif isinstance(call.params, CompleteParams):
            params["ref"] = _forwarded_reference(call.params.ref, params["ref"])
        meta = params.pop("_meta", None)
        if meta is not None:
            members = {key: value for key, value in _decode(meta).items() if not key.startswith(_RESERVED_PREFIX)}
            members.pop(_PROGRESS_TOKEN, None)
            if members:
                params["_meta"] = members
    except (msgspec.DecodeError, KeyError) as error:
        raise InvalidParams(f"Invalid params for {call.method}: {error}") from None
    return params


def _forwarded_reference(reference: Reference, raw: Raw) -> dict[str, Any]:
    kind = "name" if reference.type == "ref/prompt" else "uri"
    return {**_decode(raw), kind: getattr(reference, kind)}
