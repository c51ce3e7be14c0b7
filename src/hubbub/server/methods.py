"""Which method does what: one function for each, and a table of them for each era.

A method that an era does not have is simply not in its table. The functions answer in
full; `hubbub.protocol.shape` trims for the revision. `Server.request` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
from hubbub.protocol import wire
from hubbub.protocol.model import LOG_LEVELS, Call, Note, Reply
from hubbub.protocol.revisions import MODERN
from hubbub.protocol.shape import bare_result, failure_in
from hubbub.server.asking import answers_or_questions
from hubbub.server.audience import Listen
from hubbub.server.pages import page
from hubbub.server.tools import Tool

if TYPE_CHECKING:
    from hubbub.server.server import Server

Method = Callable[[Any, Call], Coroutine[Any, Any, Reply]]
_QUESTIONS = ("elicitation", "sampling", "roots")

# -- tools ---------------------------------------------------------------


def call_tool(server: Server, call: Call) -> Coroutine[Any, Any, Reply]:
    params = call.params
    tool = server.tools.find(params.name)
    if tool is None:
        raise ToolNotFound(params.name, [server.tools.listed_name(known) for known in visible_tools(server)])
    if not server.view.shows(tool):
        raise ArgumentsInvalid(f"Tool {tool.name!r} is disabled by the active profile")
    return run_tool(server, tool, params.arguments, call)


async def run_tool(server: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
    try:
        if tool.converses and call.caller.revision.rounds:
            return await converse_with_tool(server, tool, arguments, call)
        reply = await tool.run(arguments, call, server)
        if reply.is_error is True and not call.caller.revision.is_mcp:
            said = failure_in(reply)
            said.result = reply
            raise said
        return reply
    except ToolFailure as failure:
        failure.plain_code = tool.plain_code
        if isinstance(failure, ArgumentsInvalid) and failure.code is None:
            failure.code = tool.invalid_code
        failure.as_result = tool.fails_as_result
        failure.has_schema = tool.has_output_schema
        raise
    except MissingCapability as missing:
        if call.caller.revision.rounds:
            raise
        raise ToolError(missing.message) from missing


async def converse_with_tool(server: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
    answers: dict[str, Any] = {}
    if call.params.request_state is UNSET and tool.asks:
        outcome = answers_or_questions(tool.asks, call)
        if isinstance(outcome, Reply):
            return outcome
        answers = outcome
    return await converse(server, call, lambda inner: tool.run(arguments, inner, server, answers))


async def converse(server: Server, call: Call, start: Callable[[Call], Any]) -> Reply:
    """Run something that may ask, in the era where questions are results."""
    if call.params.request_state is not UNSET:
        return await server.rounds.resume(call)
    if not any(call.caller.can(name) for name in _QUESTIONS):
        reply: Reply = await start(call)
        return reply
    return await server.rounds.begin(call, start)


async def call_by_name(server: Server, call: Call) -> Reply:
    """In the plain dialect a tool is also a method, and its arguments are the params."""
    tool = server.tools.get(call.method)
    if call.caller.revision.is_mcp or tool is None or not server.view.shows(tool):
        raise MethodNotFound(call.method)
    return bare_result(await run_tool(server, tool, call.raw, call))


async def list_tools(server: Server, call: Call) -> Reply:
    revision = call.caller.revision
    places = server.tools.places
    shown, cursor = page(
        visible_tools(server), call.params.cursor, lambda tool: places[tool.name], server.sealer, purpose="tools"
    )
    entries = [tool.entry(revision) for tool in shown]
    if server.tools.lists_safe_names:
        entries = [
            msgspec.structs.replace(entry, name=server.tools.listed_name(tool))
            for entry, tool in zip(entries, shown, strict=True)
        ]
    return cacheable(server, wire.ToolsReply(tools=entries, next_cursor=cursor))


def visible_tools(server: Server) -> list[Tool]:
    return [tool for tool in server.tools.all() if server.view.shows(tool)]


# -- resources -----------------------------------------------------------


async def list_resources(server: Server, call: Call) -> Reply:
    entries = server.resources.entries()
    shown, cursor = page(entries, call.params.cursor, itemgetter(0), server.sealer, purpose="resources")
    return cacheable(server, wire.ResourcesReply(resources=[entry for _, entry in shown], next_cursor=cursor))


async def list_templates(server: Server, call: Call) -> Reply:
    entries = [template.template_entry for template in server.resources.templates()]
    places = server.resources.places
    shown, cursor = page(
        entries, call.params.cursor, lambda entry: places[entry.uri_template], server.sealer, purpose="templates"
    )
    return cacheable(server, wire.TemplatesReply(resource_templates=shown, next_cursor=cursor))


async def read_resource(server: Server, call: Call) -> Reply:
    uri = call.params.uri

    async def read(inner: Call) -> Reply:
        contents = await server.resources.read(uri, inner, server)
        return cacheable(server, wire.ReadReply(contents=contents))

    found = server.resources.find(uri)
    if found is not None and found[0].converses and call.caller.revision.rounds:
        return await converse(server, call, read)
    return await read(call)


async def subscribe(server: Server, call: Call) -> Reply:
    uri, watching = call.params.uri, call.caller.watching
    if server.resources.find(uri) is None and all(entry.uri != uri for _, entry in server.resources.entries()):
        raise ResourceNotFound(uri)
    if uri not in watching and len(watching) >= bounds.SUBSCRIPTIONS:
        raise Overloaded("subscriptions", bounds.SUBSCRIPTIONS)
    watching.add(uri)
    return wire.EmptyReply()


async def unsubscribe(server: Server, call: Call) -> Reply:
    call.caller.watching.discard(call.params.uri)
    return wire.EmptyReply()


# -- prompts and completion ------------------------------------------------


async def list_prompts(server: Server, call: Call) -> Reply:
    prompts = list(server.prompts.values())
    places = server.prompt_places
    shown, cursor = page(
        prompts, call.params.cursor, lambda prompt: places[prompt.name], server.sealer, purpose="prompts"
    )
    return cacheable(server, wire.PromptsReply(prompts=[prompt.entry for prompt in shown], next_cursor=cursor))


async def get_prompt(server: Server, call: Call) -> Reply:
    params = call.params
    prompt = server.prompts.get(params.name)
    if prompt is None:
        raise PromptNotFound(params.name)
    if prompt.converses and call.caller.revision.rounds:
        return await converse(server, call, lambda inner: prompt.get(params.arguments, inner, server))
    return await prompt.get(params.arguments, call, server)


async def complete(server: Server, call: Call) -> Reply:
    return await server.completions.complete(call.params, server.threads)


# -- the connection itself -------------------------------------------------


async def initialize(server: Server, call: Call) -> Reply:
    return wire.InitializeReply(
        protocol_version=call.caller.revision.version,
        capabilities=capabilities(server, call),
        server_info=server.info,
        instructions=UNSET if server.instructions is None else server.instructions,
    )


async def discover(server: Server, call: Call) -> Reply:
    reply = wire.DiscoverReply(
        supported_versions=list(MODERN),
        capabilities=capabilities(server, call),
        instructions=UNSET if server.instructions is None else server.instructions,
    )
    return cacheable(server, reply)


def capabilities(server: Server, call: Call) -> dict[str, Any]:
    capabilities: dict[str, Any] = {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "logging": {},
    }
    if call.caller.revision.completions_flag:
        capabilities["completions"] = {}
    return capabilities


async def ping(server: Server, call: Call) -> Reply:
    return wire.EmptyReply()


async def set_level(server: Server, call: Call) -> Reply:
    level = call.params.level
    if level not in LOG_LEVELS:
        raise InvalidParams(f"Invalid params: there is no level {level!r}; use one of {', '.join(LOG_LEVELS)}")
    call.caller.log_level = level
    return wire.EmptyReply()


async def listen(server: Server, call: Call) -> Reply:
    wanted = call.params.notifications
    if len(wanted.resource_subscriptions) > bounds.SUBSCRIPTIONS or len(server.audience) >= bounds.LISTENERS:
        raise Overloaded("subscriptions", bounds.SUBSCRIPTIONS)
    if server.audience.listens_of(call.back) >= bounds.LISTENS:
        raise Overloaded("open listens", bounds.LISTENS)
    listen = Listen(call, wanted)
    accepted = msgspec.to_builtins(wanted)
    note = Note("notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": listen.tag})
    server.audience.add(listen)  # It keeps what happens while a slow client has not yet read that it is heard.
    try:
        await call.back.notify(note)
        await listen.relay()
    finally:
        server.audience.remove(listen)
    return wire.EmptyReply(meta=listen.tag)


def cacheable(server: Server, reply: Reply) -> Reply:
    reply.ttl_ms, reply.cache_scope = server.cache.ttl_ms, server.cache.scope
    return reply


_EVERY_ERA: dict[str, Any] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
}
_LEGACY: dict[str, Any] = _EVERY_ERA | {
    "initialize": initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
}
_MODERN: dict[str, Any] = _EVERY_ERA | {
    "server/discover": discover,
    "subscriptions/listen": listen,
}
METHODS: dict[str, dict[str, Method]] = {"modern": _MODERN, "legacy": _LEGACY, "plain": _LEGACY}
