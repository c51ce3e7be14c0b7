"""The methods of MCP: one function for each, and a table of them for each era.

A method that an era does not have is not in its table. The functions return complete
replies; `hubbub.protocol.shape` trims them for the revision. `Server.request` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import (
    ArgumentsInvalid,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    Overloaded,
    PromptNotFound,
    ResourceNotFound,
    ToolError,
    ToolFailure,
    ToolNotFound,
)
from hubbub.protocol import results
from hubbub.protocol.calls import LOG_LEVELS, Call, Caller, Notification, Reply
from hubbub.protocol.revisions import MODERN
from hubbub.protocol.schema import as_values
from hubbub.protocol.shape import to_tool_error, unwrap_result
from hubbub.server.declared_inputs import read_declared_inputs
from hubbub.server.pagination import paginate
from hubbub.server.subscriptions import Subscription
from hubbub.server.tools import Tool
from hubbub.server.views import EVERYTHING

if TYPE_CHECKING:
    from hubbub.server.prompts import Prompt
    from hubbub.server.resources import ResourceFunction
    from hubbub.server.server import Server

Method = Callable[[Any, Call], Coroutine[Any, Any, Reply]]
_CLIENT_CAPABILITIES = ("elicitation", "sampling", "roots")

# -- tools ---------------------------------------------------------------


def call_tool(server: Server, call: Call) -> Coroutine[Any, Any, Reply]:
    params, tools = call.params, server.tools
    get = tools.get
    tool = get(params.name) or tools.find(params.name)
    if tool is None or (tool.scopes and not call.caller.sees_tool(tool.scopes)):
        raise _unknown_tool(server, call)
    if tool.scopes:
        call.caller.require(tool.scopes)
    if server.view is not EVERYTHING and not server.view.shows(tool):
        raise _add_error_form(tool, ArgumentsInvalid(f"Tool {tool.name!r} is disabled by the active profile"))
    return run_tool(server, tool, params.arguments, call)


def _unknown_tool(server: Server, call: Call) -> ToolNotFound:
    known = visible_tools(server, call.caller)
    return ToolNotFound(call.params.name, [server.tools.listed_name(tool) for tool in known])


async def run_tool(server: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
    try:
        if tool.may_request_input and call.caller.revision.rounds:
            return await run_tool_with_input(server, tool, arguments, call)
        if tool.is_direct:  # the same as `tool.run`, without two coroutines
            positional = tool.positional
            try:
                if positional is not None:
                    value = await tool.function(*as_values(positional.read(arguments)))
                else:
                    value = await tool.function(**tool.arguments.decode(arguments))
            except BaseException as error:
                tool.handler.raise_error(error)
            reply = tool.make_result(value)
        else:
            reply = await tool.run(arguments, call, server)
        if reply.is_error is True and not call.caller.revision.is_mcp:
            tool_failure = to_tool_error(reply)
            tool_failure.result = reply
            raise tool_failure
        return reply
    except ToolFailure as failure:
        _add_error_form(tool, failure)
        raise
    except MissingCapability as missing:
        if call.caller.revision.rounds:
            raise
        raise ToolError(missing.message) from missing


def _add_error_form(tool: Tool, failure: ToolFailure) -> ToolFailure:
    """Add the error form that the tool declares to a failure."""
    failure.plain_code = tool.errors.plain_code
    if isinstance(failure, ArgumentsInvalid) and failure.code is None:
        failure.code = tool.errors.invalid_code
    failure.as_result = tool.errors.as_result
    failure.has_schema = tool.has_output_schema
    return failure


async def run_tool_with_input(server: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
    answers: dict[str, Any] = {}
    if call.params.request_state is UNSET and tool.declared_inputs:
        inputs = read_declared_inputs(tool.declared_inputs, call)
        if isinstance(inputs, Reply):
            return inputs
        answers = inputs
    return await run_with_input(server, call, lambda inner: tool.run(arguments, inner, server, answers))


async def run_with_input(server: Server, call: Call, start: Callable[[Call], Any]) -> Reply:
    """Run a modern call that may require input, or resume it with the input responses."""
    if call.params.request_state is not UNSET:
        return await server.rounds.resume(call)
    if not any(call.caller.can(name) for name in _CLIENT_CAPABILITIES):
        reply: Reply = await start(call)
        return reply
    return await server.rounds.begin(call, start)


async def call_by_name(server: Server, call: Call) -> Reply:
    """Call a tool by its name as the method, with its arguments as the params: the plain dialect."""
    tool = server.tools.get(call.method)
    if call.caller.revision.is_mcp or tool is None or not _is_visible(server, tool, call.caller):
        raise MethodNotFound(call.method)
    call.caller.require(tool.scopes)
    return unwrap_result(await run_tool(server, tool, call.raw, call))


async def list_tools(server: Server, call: Call) -> Reply:
    revision = call.caller.revision
    order = server.tools.order
    tools = visible_tools(server, call.caller)
    shown, cursor = paginate(
        tools,
        call.params.cursor,
        lambda tool: order[tool.name],
        server.sealer,
        purpose="tools",
        principal=call.caller.principal,
    )
    entries = [tool.entry(revision) for tool in shown]
    if server.tools.lists_safe_names:
        entries = [
            msgspec.structs.replace(entry, name=server.tools.listed_name(tool))
            for entry, tool in zip(entries, shown, strict=True)
        ]
    return add_cache_hint(server, results.ToolsReply(tools=entries, next_cursor=cursor))


def visible_tools(server: Server, caller: Caller) -> list[Tool]:
    return [tool for tool in server.tools.all() if _is_visible(server, tool, caller)]


def _is_visible(server: Server, tool: Tool, caller: Caller) -> bool:
    return caller.sees_tool(tool.scopes) and server.view.shows(tool)


# -- resources -----------------------------------------------------------


async def list_resources(server: Server, call: Call) -> Reply:
    entries = server.resources.entries(call.caller)
    shown, cursor = paginate(
        entries, call.params.cursor, itemgetter(0), server.sealer, purpose="resources", principal=call.caller.principal
    )
    return add_cache_hint(server, results.ResourcesReply(resources=[entry for _, entry in shown], next_cursor=cursor))


async def list_templates(server: Server, call: Call) -> Reply:
    entries = [template.template_entry for template in server.resources.templates(call.caller)]
    order = server.resources.order
    shown, cursor = paginate(
        entries,
        call.params.cursor,
        lambda entry: order[entry.uri_template],
        server.sealer,
        purpose="templates",
        principal=call.caller.principal,
    )
    return add_cache_hint(server, results.TemplatesReply(resource_templates=shown, next_cursor=cursor))


async def read_resource(server: Server, call: Call) -> Reply:
    uri = call.params.uri

    async def read(inner: Call) -> Reply:
        contents = await server.resources.read(uri, inner, server)
        return add_cache_hint(server, results.ReadReply(contents=contents))

    found = server.resources.find(uri, call.caller)
    if found is not None and found[0].may_request_input and call.caller.revision.rounds:
        return await run_with_input(server, call, read)
    return await read(call)


async def subscribe(server: Server, call: Call) -> Reply:
    uri, watching = call.params.uri, call.caller.watching
    resources, caller = server.resources, call.caller
    if resources.find(uri, caller) is None and all(entry.uri != uri for _, entry in resources.entries(caller)):
        raise ResourceNotFound(uri)
    check_subscriptions(watching | {uri})
    watching.add(uri)
    return results.EmptyReply()


def check_subscriptions(uris: Collection[str]) -> None:
    """Check the subscriptions of one client against the limits.

    Raises:
        Overloaded: the resources are too many, or their URIs together too long.
    """
    if len(uris) > bounds.SUBSCRIPTIONS:
        raise Overloaded("subscriptions", bounds.SUBSCRIPTIONS)
    if sum(map(len, uris)) > bounds.SUBSCRIPTION_CHARACTERS:
        raise Overloaded("characters of subscribed URIs", bounds.SUBSCRIPTION_CHARACTERS)


async def unsubscribe(server: Server, call: Call) -> Reply:
    call.caller.watching.discard(call.params.uri)
    return results.EmptyReply()


# -- prompts and completion ------------------------------------------------


async def list_prompts(server: Server, call: Call) -> Reply:
    prompts = [prompt for prompt in server.prompts.values() if call.caller.holds(prompt.scopes)]
    order = server.prompt_order
    shown, cursor = paginate(
        prompts,
        call.params.cursor,
        lambda prompt: order[prompt.name],
        server.sealer,
        purpose="prompts",
        principal=call.caller.principal,
    )
    return add_cache_hint(server, results.PromptsReply(prompts=[prompt.entry for prompt in shown], next_cursor=cursor))


async def get_prompt(server: Server, call: Call) -> Reply:
    params = call.params
    prompt = server.prompts.get(params.name)
    if prompt is None or not call.caller.holds(prompt.scopes):
        raise PromptNotFound(params.name)
    if prompt.may_request_input and call.caller.revision.rounds:
        return await run_with_input(server, call, lambda inner: prompt.get(params.arguments, inner, server))
    return await prompt.get(params.arguments, call, server)


async def complete(server: Server, call: Call) -> Reply:
    reference = call.params.ref
    declared: Prompt | ResourceFunction | None = (
        server.prompts.get(reference.name) if reference.type == "ref/prompt" else server.resources.get(reference.uri)
    )
    if declared is not None and not call.caller.holds(declared.scopes):
        return results.CompleteReply(completion=results.Completion([], total=0, has_more=False))
    return await server.completions.complete(call.params, server.threads, call.caller.owner)


# -- the connection itself -------------------------------------------------


async def initialize(server: Server, call: Call) -> Reply:
    instructions = server.instructions_for(call.caller)
    return results.InitializeReply(
        protocol_version=call.caller.revision.version,
        capabilities=capabilities(),
        server_info=server.info,
        instructions=UNSET if instructions is None else instructions,
    )


async def discover(server: Server, call: Call) -> Reply:
    instructions = server.instructions_for(call.caller)
    reply = results.DiscoverReply(
        supported_versions=list(MODERN),
        capabilities=capabilities(),
        instructions=UNSET if instructions is None else instructions,
    )
    return add_cache_hint(server, reply)


def capabilities() -> dict[str, Any]:
    return {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    }


async def ping(server: Server, call: Call) -> Reply:
    return results.EmptyReply()


async def set_level(server: Server, call: Call) -> Reply:
    level = call.params.level
    if level not in LOG_LEVELS:
        raise InvalidParams(f"Invalid params: unknown log level {level!r}; use one of {', '.join(LOG_LEVELS)}")
    call.caller.log_level = level
    return results.EmptyReply()


async def listen(server: Server, call: Call) -> Reply:
    listen_filter = call.params.notifications
    owner, listens = call.caller.owner, server.broadcaster.subscription_shares
    check_subscriptions(listen_filter.resource_subscriptions)
    if not listens.has_room(owner):
        raise Overloaded("open `subscriptions/listen` streams of all clients", listens.limit)
    if server.broadcaster.count_subscriptions(call.back) >= bounds.LISTEN_STREAMS_PER_CONNECTION:
        raise Overloaded("open `subscriptions/listen` streams of this connection", bounds.LISTEN_STREAMS_PER_CONNECTION)
    listen = Subscription(call, listen_filter, lambda uri: server.may_watch(uri, call.caller))
    accepted = msgspec.to_builtins(listen_filter)
    note = Notification("notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": listen.meta})
    listens.take(owner)
    server.broadcaster.add(
        listen
    )  # before the acknowledgement, which a slow client may delay: changes are kept meanwhile
    try:
        await call.back.notify(note)
        await listen.send_changes()
    finally:
        server.broadcaster.remove(listen)
        listens.give_back(owner)
    return results.EmptyReply(meta=listen.meta)


class CacheHint:
    """How long clients may keep lists and reads, and whether they may share them."""

    def __init__(self, ttl_ms: int = 0, *, public: bool = False) -> None:
        self.ttl_ms = ttl_ms
        self.scope = "public" if public else "private"


def add_cache_hint(server: Server, reply: Reply) -> Reply:
    # Results that depend on the caller must not be cached for others.
    is_public = server.cache.scope == "public" and not server.scoped_names()
    reply.ttl_ms, reply.cache_scope = server.cache.ttl_ms, "public" if is_public else "private"
    return reply


_COMMON_METHODS: dict[str, Any] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
}
_LEGACY_METHODS: dict[str, Any] = _COMMON_METHODS | {
    "initialize": initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
}
_MODERN_METHODS: dict[str, Any] = _COMMON_METHODS | {
    "server/discover": discover,
    "subscriptions/listen": listen,
}
METHODS: dict[str, dict[str, Method]] = {"modern": _MODERN_METHODS, "legacy": _LEGACY_METHODS, "plain": _LEGACY_METHODS}
