"""Which method does what: the `Peer` half of a server.

Each era has its own table of methods, so that a method that an era does not have is
simply not there. Handlers answer in full; `hubbub.protocol.shape` trims for the revision.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

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

Method = Callable[[Any, Call], Awaitable[Reply]]
_QUESTIONS = ("elicitation", "sampling", "roots")


class Dispatch:
    """Answers calls with what the server declared."""

    _methods: ClassVar[dict[str, dict[str, Method]]]

    async def request(self: Server, call: Call) -> Reply:
        """Answer one call in its caller's revision."""
        method = self._methods[call.caller.revision.era].get(call.method)
        if method is None:
            return await self._call_by_name(call)
        if isinstance(call.params, InvalidParams):
            raise call.params
        return await method(self, call)

    async def notify(self: Server, note: Note) -> None:
        """Client notifications that concern the whole server: none does today."""

    # -- tools ---------------------------------------------------------------

    async def _call_tool(self: Server, call: Call) -> Reply:
        params = call.params
        tool = self.tools.get(params.name)
        if tool is None:
            raise ToolNotFound(params.name, [known.name for known in self._visible_tools()])
        if not self.view.shows(tool):
            raise ArgumentsInvalid(f"Tool {tool.name!r} is disabled by the active profile")
        return await self._run_tool(tool, params.arguments, call)

    async def _run_tool(self: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
        try:
            if tool.converses and call.caller.revision.rounds:
                return await self._converse_with_tool(tool, arguments, call)
            reply = await tool.run(arguments, call, self)
            if reply.is_error is True and not call.caller.revision.is_mcp:
                failure = failure_in(reply)
                failure.result = reply
                raise failure
            return reply
        except ToolFailure as failure:
            failure.plain_code = tool.plain_code
            failure.as_result = tool.fails_as_result
            raise
        except MissingCapability as missing:
            if call.caller.revision.rounds:
                raise
            raise ToolError(missing.message) from missing

    async def _converse_with_tool(self: Server, tool: Tool, arguments: msgspec.Raw, call: Call) -> Reply:
        answers: dict[str, Any] = {}
        if call.params.request_state is UNSET and tool.asks:
            outcome = answers_or_questions(tool.asks, call)
            if isinstance(outcome, Reply):
                return outcome
            answers = outcome
        return await self._converse(call, lambda inner: tool.run(arguments, inner, self, answers))

    async def _converse(self: Server, call: Call, start: Callable[[Call], Any]) -> Reply:
        """Run something that may ask, in the era where questions are results."""
        if call.params.request_state is not UNSET:
            return await self.rounds.resume(call)
        if not any(call.caller.can(name) for name in _QUESTIONS):
            reply: Reply = await start(call)
            return reply
        return await self.rounds.begin(call, start)

    async def _call_by_name(self: Server, call: Call) -> Reply:
        """In the plain dialect a tool is also a method, and its arguments are the params."""
        tool = self.tools.get(call.method)
        if call.caller.revision.is_mcp or tool is None or not self.view.shows(tool):
            raise MethodNotFound(call.method)
        return bare_result(await self._run_tool(tool, call.raw, call))

    async def _list_tools(self: Server, call: Call) -> Reply:
        revision = call.caller.revision
        places = self.tools.places
        shown, cursor = page(
            self._visible_tools(), call.params.cursor, lambda tool: places[tool.name], self.sealer, purpose="tools"
        )
        return self._cacheable(wire.ToolsReply(tools=[tool.entry(revision) for tool in shown], next_cursor=cursor))

    def _visible_tools(self: Server) -> list[Tool]:
        return [tool for tool in self.tools.all() if self.view.shows(tool)]

    # -- resources -----------------------------------------------------------

    async def _list_resources(self: Server, call: Call) -> Reply:
        entries = self.resources.entries()
        shown, cursor = page(entries, call.params.cursor, itemgetter(0), self.sealer, purpose="resources")
        return self._cacheable(wire.ResourcesReply(resources=[entry for _, entry in shown], next_cursor=cursor))

    async def _list_templates(self: Server, call: Call) -> Reply:
        entries = [template.template_entry for template in self.resources.templates()]
        places = self.resources.places
        shown, cursor = page(
            entries, call.params.cursor, lambda entry: places[entry.uri_template], self.sealer, purpose="templates"
        )
        return self._cacheable(wire.TemplatesReply(resource_templates=shown, next_cursor=cursor))

    async def _read_resource(self: Server, call: Call) -> Reply:
        uri = call.params.uri

        async def read(inner: Call) -> Reply:
            contents = await self.resources.read(uri, inner, self)
            return self._cacheable(wire.ReadReply(contents=contents))

        found = self.resources.find(uri)
        if found is not None and found[0].converses and call.caller.revision.rounds:
            return await self._converse(call, read)
        return await read(call)

    async def _subscribe(self: Server, call: Call) -> Reply:
        uri, watching = call.params.uri, call.caller.watching
        if self.resources.find(uri) is None and all(entry.uri != uri for _, entry in self.resources.entries()):
            raise ResourceNotFound(uri)
        if uri not in watching and len(watching) >= bounds.SUBSCRIPTIONS:
            raise Overloaded("subscriptions", bounds.SUBSCRIPTIONS)
        watching.add(uri)
        return wire.EmptyReply()

    async def _unsubscribe(self: Server, call: Call) -> Reply:
        call.caller.watching.discard(call.params.uri)
        return wire.EmptyReply()

    # -- prompts and completion ------------------------------------------------

    async def _list_prompts(self: Server, call: Call) -> Reply:
        prompts = list(self.prompts.values())
        places = self.prompt_places
        shown, cursor = page(
            prompts, call.params.cursor, lambda prompt: places[prompt.name], self.sealer, purpose="prompts"
        )
        return self._cacheable(wire.PromptsReply(prompts=[prompt.entry for prompt in shown], next_cursor=cursor))

    async def _get_prompt(self: Server, call: Call) -> Reply:
        params = call.params
        prompt = self.prompts.get(params.name)
        if prompt is None:
            raise PromptNotFound(params.name)
        if prompt.converses and call.caller.revision.rounds:
            return await self._converse(call, lambda inner: prompt.get(params.arguments, inner, self))
        return await prompt.get(params.arguments, call, self)

    async def _complete(self: Server, call: Call) -> Reply:
        return await self.completions.complete(call.params, self.threads)

    # -- the connection itself -------------------------------------------------

    async def _initialize(self: Server, call: Call) -> Reply:
        return wire.InitializeReply(
            protocol_version=call.caller.revision.version,
            capabilities=self._capabilities(call),
            server_info=self.info,
            instructions=UNSET if self.instructions is None else self.instructions,
        )

    async def _discover(self: Server, call: Call) -> Reply:
        reply = wire.DiscoverReply(
            supported_versions=list(MODERN),
            capabilities=self._capabilities(call),
            instructions=UNSET if self.instructions is None else self.instructions,
        )
        return self._cacheable(reply)

    def _capabilities(self: Server, call: Call) -> dict[str, Any]:
        capabilities: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
        }
        if call.caller.revision.completions_flag:
            capabilities["completions"] = {}
        return capabilities

    async def _ping(self: Server, call: Call) -> Reply:
        return wire.EmptyReply()

    async def _set_level(self: Server, call: Call) -> Reply:
        level = call.params.level
        if level not in LOG_LEVELS:
            raise InvalidParams(f"Invalid params: there is no level {level!r}; use one of {', '.join(LOG_LEVELS)}")
        call.caller.log_level = level
        return wire.EmptyReply()

    async def _listen(self: Server, call: Call) -> Reply:
        wanted = call.params.notifications
        if len(wanted.resource_subscriptions) > bounds.SUBSCRIPTIONS or len(self.audience) >= bounds.LISTENERS:
            raise Overloaded("subscriptions", bounds.SUBSCRIPTIONS)
        if self.audience.listens_of(call.back) >= bounds.LISTENS:
            raise Overloaded("open listens", bounds.LISTENS)
        listen = Listen(call, wanted)
        accepted = msgspec.to_builtins(wanted)
        note = Note("notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": listen.tag})
        self.audience.add(listen)  # It keeps what happens while a slow client has not yet read that it is heard.
        try:
            await call.back.notify(note)
            await listen.relay()
        finally:
            self.audience.remove(listen)
        return wire.EmptyReply(meta=listen.tag)

    def _cacheable(self: Server, reply: Reply) -> Reply:
        reply.ttl_ms, reply.cache_scope = self.cache.ttl_ms, self.cache.scope
        return reply


_EVERY_ERA: dict[str, Any] = {
    "tools/list": Dispatch._list_tools,
    "tools/call": Dispatch._call_tool,
    "resources/list": Dispatch._list_resources,
    "resources/templates/list": Dispatch._list_templates,
    "resources/read": Dispatch._read_resource,
    "prompts/list": Dispatch._list_prompts,
    "prompts/get": Dispatch._get_prompt,
    "completion/complete": Dispatch._complete,
}
_LEGACY: dict[str, Any] = _EVERY_ERA | {
    "initialize": Dispatch._initialize,
    "ping": Dispatch._ping,
    "logging/setLevel": Dispatch._set_level,
    "resources/subscribe": Dispatch._subscribe,
    "resources/unsubscribe": Dispatch._unsubscribe,
}
_MODERN: dict[str, Any] = _EVERY_ERA | {
    "server/discover": Dispatch._discover,
    "subscriptions/listen": Dispatch._listen,
}
Dispatch._methods = {"modern": _MODERN, "legacy": _LEGACY, "plain": _LEGACY}
