"""The MCP methods of a hub: look up the upstream of an item, and forward the call to it.

Methods of the connection itself are those of a server (`hubbub.server.methods`). Upstreams handle requests to the
caller, progress, logs and cancellation, through the return path that the call carries.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import (
    ArgumentsInvalid,
    AuditUnavailable,
    HubbubError,
    MethodNotFound,
    PromptNotFound,
    QuotaExceeded,
    RemoteError,
    ResourceNotFound,
    ToolNotFound,
)
from hubbub.governance.decision import Action, Target, TargetKind
from hubbub.hub.builtin_tools import CallArguments, builtin_target
from hubbub.hub.config import CALL, HUB_ID
from hubbub.hub.forwarding.forwarded_call import principal_name
from hubbub.hub.resource_lookup import is_hub_resource
from hubbub.hub.rewrite import (
    as_tool_call,
    make_read_call,
    unwrap_reply,
    with_arguments,
    with_name,
    with_reference,
    with_reply_uri,
    with_resource_uri,
)
from hubbub.hub.subscriptions import ResourceLocation
from hubbub.ports import PROCESS_SCOPE
from hubbub.protocol import results
from hubbub.protocol.calls import Call, Reply
from hubbub.protocol.error_codes import METHOD_NOT_FOUND
from hubbub.protocol.params import format_decode_error
from hubbub.server import methods as own

if TYPE_CHECKING:
    from hubbub.governance.governor import Governor
    from hubbub.hub.catalog import Item
    from hubbub.hub.front import Front

_decode_call = msgspec.json.Decoder(CallArguments).decode

# -- tools ---------------------------------------------------------------


def call_tool(front: Front, call: Call) -> Coroutine[Any, Any, Reply]:
    item = front.find_known_tool(call.params.name, call.caller)
    if item is not None:
        return _forward(front, call, item)
    if front.has_builtin_tool(call.params.name, call.caller):
        return _call_builtin(front, call)
    return _call_unlisted(front, call)


async def _call_unlisted(front: Front, call: Call) -> Reply:
    try:
        item = await front.find_tool(call.params.name, call.caller)
    except ToolNotFound:
        await _record_missing(front, call, "call", "tool", call.params.name)
        raise
    return await _forward(front, call, item)


async def _record_missing(front: Front, call: Call, action: Action, kind: TargetKind, name: str) -> None:
    """Let the governor count a request for what its caller does not see, and record it if it was denied.

    Raises: QuotaExceeded.
    """
    governor = front.hub.governor
    if governor is not None:
        await governor.record_missing(call, action, Target(kind, "", name), front.find_target(kind, name))


def _forward(front: Front, call: Call, item: Item) -> Coroutine[Any, Any, Reply]:
    shown_as = call.params.name
    if item.scopes:
        call.caller.require(item.scopes)
    if item.upstream_name != shown_as:
        call = with_name(call, item.upstream_name)
    return _use(front, call, "call", item.target, front.hub.peers[item.server].request, shown_as)


def _use(
    front: Front,
    call: Call,
    action: Action,
    target: Target,
    request: Callable[[Call], Coroutine[Any, Any, Reply]],
    shown_as: str = "",
) -> Coroutine[Any, Any, Reply]:
    """Send a call to the peer of its target, as the governor allows, if there is one.

    `shown_as`: the name that the caller used, for the audit journal.
    """
    governor = front.hub.governor
    if governor is None:
        return request(call)
    if governor.suspends(call, action, target):
        # A modern caller answers in another request, until when the call is suspended.
        return _ask_and_use(front, call, governor, action, target, request, shown_as=shown_as)
    return governor.run(call, action, target, request, shown_as)


async def _ask_and_use(
    front: Front,
    call: Call,
    governor: Governor,
    action: Action,
    target: Target,
    request: Callable[[Call], Coroutine[Any, Any, Reply]],
    *,
    shown_as: str,
) -> Reply:
    if front.rounds.can_resume(call):
        return await front.rounds.resume(call)
    if call.params.request_state is not UNSET:
        return await governor.run(call, action, target, request, shown_as)
    return await front.rounds.begin(call, lambda inner: governor.run(inner, action, target, request, shown_as))


async def _call_builtin(front: Front, call: Call) -> Reply:
    tool = front.tools.find(call.params.name)
    assert tool is not None
    if tool.name != CALL:
        return await _use(
            front,
            call,
            "call",
            builtin_target(tool),
            lambda inner: own.run_tool(front, tool, inner.params.arguments, inner),
        )
    try:
        requested = _decode_call(call.params.arguments)
    except msgspec.DecodeError as error:
        raise ArgumentsInvalid(f"Invalid arguments for {CALL}: {format_decode_error(error)}") from None
    inner = front.tools.find(requested.name)
    if inner is not None and inner.name == CALL:
        raise ArgumentsInvalid(f"{CALL} cannot call itself; give the name of another tool")
    try:
        return await call_tool(front, with_arguments(call, requested.name, requested.arguments))
    except ToolNotFound as missing:
        raise ArgumentsInvalid(f"{missing.message}: {requested.name}", data={"available": missing.available}) from None


async def call_by_name(front: Front, call: Call) -> Reply:
    """Call a tool as a method: in the plain dialect the params are its arguments."""
    if call.caller.revision.is_mcp:
        raise MethodNotFound(call.method)
    try:
        return unwrap_reply(await call_tool(front, as_tool_call(call, call.method)))
    except ToolNotFound:
        raise MethodNotFound(call.method) from None


async def list_tools(front: Front, call: Call) -> Reply:
    front.hub.note_capabilities(call.caller)
    await front.hub.wait_connected()
    return front.page("tools", call)


# -- resources -----------------------------------------------------------


async def list_resources(front: Front, call: Call) -> Reply:
    await front.hub.wait_connected()
    if front.hub.upstream_logins is None:
        return front.page("resources", call)
    from hubbub.hub.upstream_logins.user_resources import list_user_resources  # Most hubs have no such logins.

    return await list_user_resources(front, call)


async def list_templates(front: Front, call: Call) -> Reply:
    await front.hub.wait_connected()
    return front.page("templates", call)


async def read_resource(front: Front, call: Call) -> Reply:
    uri = call.params.uri
    if is_hub_resource(front, uri):
        target = Target("resource", HUB_ID, uri)
        return await _use(front, call, "read", target, lambda inner: own.read_resource(front, inner))
    found = front.locate_resource(uri, call.caller)
    if found is None:
        await front.hub.wait_connected()
        found = front.locate_resource(uri, call.caller)
    if found is not None:
        return await _read_located(front, call, found)
    try:
        _, reply = await _read_unlisted(front, call)
    except ResourceNotFound:
        await _record_missing(front, call, "read", "resource", uri)
        raise
    return reply


def _use_resource(
    front: Front, call: Call, location: ResourceLocation, shown_as: str = ""
) -> Coroutine[Any, Any, Reply]:
    target = Target("resource", location.server, location.uri)
    return _use(front, call, "read", target, front.hub.peers[location.server].request, shown_as)


async def _read_located(front: Front, call: Call, found: ResourceLocation) -> Reply:
    uri = call.params.uri
    if found.uri == uri:
        return await _use_resource(front, call, found)
    try:
        reply = await _use_resource(front, with_resource_uri(call, found.uri), found, uri)
        return with_reply_uri(reply, found.uri, uri)
    except ResourceNotFound:
        raise ResourceNotFound(uri) from None


async def _read_unlisted(front: Front, call: Call) -> tuple[str, Reply]:
    """Try every upstream that has resources, in order; return the first that has this unlisted URI."""
    uri = call.params.uri
    failure: HubbubError = ResourceNotFound(uri)
    for server in front.servers_with_resources(uri, call.caller):
        try:
            return server, await _use_resource(front, call, ResourceLocation(server, uri))
        except ResourceNotFound:
            continue
        except HubbubError as error:
            failure = error if isinstance(failure, ResourceNotFound) else failure
    raise failure


async def subscribe(front: Front, call: Call) -> Reply:
    uri, watching = call.params.uri, call.caller.watching
    own.check_subscriptions(watching | {uri})
    is_new = uri not in watching
    watching.add(uri)
    try:
        await _subscribe_upstream(front, call, uri)
    except BaseException:
        if is_new:
            watching.discard(uri)
        raise
    return results.EmptyReply()


async def unsubscribe(front: Front, call: Call) -> Reply:
    call.caller.watching.discard(call.params.uri)
    front.hub.subscriptions.prune()
    return results.EmptyReply()


async def _subscribe_upstream(front: Front, call: Call, uri: str) -> ResourceLocation | None:
    """Subscribe to a resource at its upstream; None for resources of the hub itself."""
    governor = front.hub.governor
    if is_hub_resource(front, uri):
        if governor is not None:
            await governor.admit(call, "subscribe", Target("resource", HUB_ID, uri))
        return None
    found = front.locate_resource(uri, call.caller)
    if found is None:
        await front.hub.wait_connected()
        found = front.locate_resource(uri, call.caller)
    if found is None:
        # Many servers accept a subscription to any URI, so a read has to show which server has it.
        try:
            server, _ = await _read_unlisted(front, make_read_call(call, uri))
        except ResourceNotFound:
            await _record_missing(front, call, "subscribe", "resource", uri)
            raise
        found = ResourceLocation(server, uri)
    if governor is not None:
        await governor.admit(call, "subscribe", Target("resource", found.server, found.uri))
    await front.hub.subscriptions.watch(found, uri, principal_name(call.caller))
    return found


async def listen(front: Front, call: Call) -> Reply:
    uris = call.params.notifications.resource_subscriptions
    own.check_subscriptions(uris)
    held_locations: list[ResourceLocation] = []
    try:
        for uri in dict.fromkeys(uris):
            try:
                location = await _subscribe_upstream(front, call, uri)
            except (QuotaExceeded, AuditUnavailable):
                raise  # the caller has to repeat the request
            except HubbubError:
                continue  # this resource is not watched; the others are
            if location is not None:
                front.hub.subscriptions.hold(location)
                held_locations.append(location)
        return await own.listen(front, call)
    finally:
        for location in held_locations:
            front.hub.subscriptions.release(location)


# -- prompts and completion ------------------------------------------------


async def list_prompts(front: Front, call: Call) -> Reply:
    await front.hub.wait_connected()
    return front.page("prompts", call)


async def get_prompt(front: Front, call: Call) -> Reply:
    try:
        item = await front.find_prompt(call.params.name, call.caller)
    except PromptNotFound:
        await _record_missing(front, call, "get", "prompt", call.params.name)
        raise
    shown_as = call.params.name
    if not item.upstream_name == item.name == shown_as:
        call = with_name(call, item.upstream_name)
    return await _use(front, call, "get", item.target, front.hub.peers[item.server].request, shown_as)


async def complete(front: Front, call: Call) -> Reply:
    reference = call.params.ref
    if reference.type == "ref/prompt":
        shown_as = reference.name
        try:
            item = await front.find_prompt(reference.name, call.caller)
        except PromptNotFound:
            await _record_missing(front, call, "complete", "prompt", reference.name)
            raise
        target = item.target
        server, changed = item.server, {"name": item.upstream_name} if item.upstream_name != reference.name else {}
    else:
        shown_as = reference.uri
        await front.hub.wait_connected()
        template = front.find_template(reference.uri, call.caller)
        found = front.locate_resource(reference.uri, call.caller)
        if template is not None:
            found = ResourceLocation(template.server, template.upstream_name)
        if found is None:
            await _record_missing(front, call, "complete", "template", reference.uri)
            raise ResourceNotFound(reference.uri)
        target = Target("resource" if template is None else "template", found.server, found.uri)
        server, changed = found.server, {"uri": found.uri} if found.uri != reference.uri else {}
    try:
        call = with_reference(call, **changed) if changed else call
        return await _use(front, call, "complete", target, front.hub.peers[server].request, shown_as)
    except RemoteError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return results.CompleteReply(completion=results.Completion([]))


# -- the connection itself -------------------------------------------------


async def _wait_for_instructions(front: Front) -> None:
    """Wait a short time for servers to connect, because clients read the instructions only once."""
    await front.hub.wait_connected(bounds.HUB_INSTRUCTIONS_WAIT_S)


async def initialize(front: Front, call: Call) -> Reply:
    if call.caller.scope == PROCESS_SCOPE:  # as on stdio: there is no other client
        front.hub.set_sole_caller(call.caller)
    front.hub.note_capabilities(call.caller)
    await _wait_for_instructions(front)
    return await own.initialize(front, call)


async def discover(front: Front, call: Call) -> Reply:
    front.hub.note_capabilities(call.caller)
    await _wait_for_instructions(front)
    return await own.discover(front, call)


_HUB_METHODS: dict[str, Any] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "initialize": initialize,
    "server/discover": discover,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "subscriptions/listen": listen,
}
METHODS: dict[str, dict[str, own.Method]] = {
    era: {name: _HUB_METHODS.get(name, method) for name, method in methods.items()}
    for era, methods in own.METHODS.items()
}
"""The methods of a server, with those that a hub forwards in place of the server's own."""
