"""The parameters of every method, each decoded once from the raw request.

A wrong parameter does not raise here: the era of a message decides which error
it gets, and the era is itself read from the parameters. So `decode_params`
returns `_meta` and either the parameters or the error to raise later. A tool that is called
as a method takes `params` as its arguments and refuses them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import InvalidParams, InvalidRequest
from hubbub.protocol.calls import NO_META, Implementation, Meta

EMPTY_PARAMS = Raw(b"{}")
_NULL = b"null"
_NULL_BYTES = len(_NULL)


class Params(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """Parameters that every method may have."""

    meta: Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")


class PageParams(Params, kw_only=True):
    """`*/list`"""

    cursor: str | UnsetType = UNSET


class RoundParams(Params, kw_only=True):
    """Parameters of methods that may request input from the caller before they answer."""

    input_responses: Raw | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class CallToolParams(RoundParams):
    """`tools/call`. Null arguments must be replaced with `fill_arguments`, which `decode_params` does."""

    name: str
    arguments: Raw = EMPTY_PARAMS


class GetPromptParams(RoundParams):
    """`prompts/get`"""

    name: str
    arguments: dict[str, str] = {}


class ReadResourceParams(RoundParams):
    """`resources/read`"""

    uri: str


class SubscribeParams(Params):
    """`resources/subscribe` and `resources/unsubscribe`"""

    uri: str


class InitializeParams(Params):
    """`initialize`; everything but the version may be missing. Capabilities are checked when a session stores them."""

    protocol_version: str
    capabilities: Raw = EMPTY_PARAMS
    client_info: Implementation | UnsetType = UNSET


class SetLevelParams(Params):
    """`logging/setLevel`"""

    level: str


class CompletionArgument(msgspec.Struct):
    """The argument being typed."""

    name: str
    value: str


class CompletionContext(msgspec.Struct, frozen=True):
    """The arguments already given."""

    arguments: dict[str, str] = {}


class Reference(msgspec.Struct):
    """What is being completed: a prompt by name or a resource template by URI."""

    type: Literal["ref/prompt", "ref/resource"]
    name: str = ""
    uri: str = ""


class CompleteParams(Params):
    """`completion/complete`"""

    ref: Reference
    argument: CompletionArgument
    context: CompletionContext = CompletionContext()


class ListenFilter(msgspec.Struct, rename="camel", frozen=True):
    """The changes that a `subscriptions/listen` request subscribes to."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []


class ListenParams(Params):
    """`subscriptions/listen`"""

    notifications: ListenFilter = ListenFilter()


class CancelledParams(Params):
    """`notifications/cancelled`"""

    request_id: Raw | UnsetType = UNSET
    reason: str = ""


_PARAMS_BY_METHOD: dict[str, type[Params]] = {
    "initialize": InitializeParams,
    "logging/setLevel": SetLevelParams,
    "tools/list": PageParams,
    "tools/call": CallToolParams,
    "resources/list": PageParams,
    "resources/templates/list": PageParams,
    "resources/read": ReadResourceParams,
    "resources/subscribe": SubscribeParams,
    "resources/unsubscribe": SubscribeParams,
    "prompts/list": PageParams,
    "prompts/get": GetPromptParams,
    "completion/complete": CompleteParams,
    "subscriptions/listen": ListenParams,
    "notifications/cancelled": CancelledParams,
}


@cache
def _loose_decoder() -> msgspec.json.Decoder[dict[str, Raw]]:
    return msgspec.json.Decoder(dict[str, Raw])


_decoders: dict[str, Callable[[Raw], Any]] = {}
"""By method; each is created on first use, because most sessions use few methods."""


def _make_decoder(method: str) -> Callable[[Raw], Any]:
    struct = _PARAMS_BY_METHOD.get(method)
    if struct is None:
        return _common_decoder()
    decode = _decoders[method] = msgspec.json.Decoder(struct).decode
    return decode


@cache
def _common_decoder() -> Callable[[Raw], Params]:
    return msgspec.json.Decoder(Params).decode


def decode_params(method: str, raw: Raw) -> tuple[Any, Meta]:
    """Decode parameters for a method; an error is returned in place of the parameters."""
    decode = _decoders.get(method) or _make_decoder(method)
    try:
        params = decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        if memoryview(raw)[0] not in b"{[":
            return InvalidRequest("`params` must be an object or an array"), NO_META
        return InvalidParams(f"Invalid params for {method}: {format_decode_error(error)}"), _decode_meta(raw)
    if method == "tools/call" and len(params.arguments) == _NULL_BYTES:  # not in `__post_init__`, a call from C
        params.arguments = fill_arguments(params.arguments)
    meta = params.meta
    return params, (NO_META if meta is UNSET else meta)


def fill_arguments(arguments: Raw) -> Raw:
    """Return the arguments of a tool; null counts as empty."""
    return EMPTY_PARAMS if bytes(arguments) == _NULL else arguments


def _decode_meta(raw: Raw) -> Meta:
    try:
        meta = _common_decoder()(raw).meta
    except (msgspec.DecodeError, RecursionError):
        return _decode_version(raw)
    return NO_META if meta is UNSET else meta


def _decode_version(raw: Raw) -> Meta:
    """Read only the version of an invalid `_meta`, so that the error has the form of its era."""
    try:
        meta = _loose_decoder().decode(_loose_decoder().decode(raw)["_meta"])
        version = msgspec.json.decode(meta["io.modelcontextprotocol/protocolVersion"], type=str)
    except (msgspec.DecodeError, RecursionError, KeyError):
        return NO_META
    return Meta(version=version)


def format_decode_error(error: Exception) -> str:
    """msgspec's message without the `$` of the root in its paths."""
    return str(error).replace("`$.", "`").replace(" - at `$`", "")
