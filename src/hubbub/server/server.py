"""The server: tools, resources and prompts written as functions, served to any client.

    server = Server("weather")

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast: ...

A `Server` is a `Peer`: `request` answers one call in whatever revision it came. It
knows nothing of bytes or transports; `hubbub.app` puts it on one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar, overload

from msgspec import UNSET

from hubbub.errors import DefinitionError, InvalidParams
from hubbub.observe import Figure
from hubbub.ports import Peer, Sealer
from hubbub.protocol.model import Call, Implementation, Note, Reply
from hubbub.protocol.revisions import SUPPORTED_VERSIONS
from hubbub.protocol.shape import identity_meta
from hubbub.protocol.wire import UpdatedParams
from hubbub.security.sealed import Sealer as KeyedSealer
from hubbub.server.audience import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, Audience
from hubbub.server.completion import Completions, Suggest
from hubbub.server.events import Events, ToolChange
from hubbub.server.methods import METHODS, call_by_name
from hubbub.server.pages import Places
from hubbub.server.prompts import Prompt
from hubbub.server.registry import ToolRegistry
from hubbub.server.resources import ResourceFunction, ResourceProvider, Resources
from hubbub.server.rounds import Rounds
from hubbub.server.threads import Threads
from hubbub.server.tools import Tool
from hubbub.server.views import EVERYTHING, View

logger = logging.getLogger("hubbub.server")

F = TypeVar("F", bound=Callable[..., Any])
_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
HealthCheck = Callable[[], Awaitable[str | None]]
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class CacheHint:
    """How long clients may keep lists and reads, and whether they may share them."""

    def __init__(self, ttl_ms: int = 0, *, public: bool = False) -> None:
        self.ttl_ms = ttl_ms
        self.scope = "public" if public else "private"


class Server:
    """A set of tools, resources and prompts under one name."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        title: str | None = None,
        instructions: str | None = None,
        lifespan: Lifespan | None = None,
        profiles: Mapping[str, View] | None = None,
        profile: str | None = None,
        cache: CacheHint | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self.info = Implementation(name, version, title if title is not None else UNSET)
        self.identity = identity_meta(self.info)
        self.instructions = instructions
        self.events = Events()
        self.tools = ToolRegistry(self.events)
        self.resources = Resources(lambda: self.audience.publish(Note(RESOURCES_CHANGED)))
        self.prompts: dict[str, Prompt] = {}
        self.prompt_places = Places()
        self.completions = Completions()
        self.audience = Audience()
        self.threads = Threads()
        self._has_own_sealer = sealer is not None
        self.sealer: Sealer = sealer if sealer is not None else KeyedSealer()
        self.rounds = Rounds(self.sealer)
        self.cache = cache if cache is not None else CacheHint()
        self.state: Any = None
        """What the lifespan yielded, while the server runs."""
        self.views: Mapping[str, Server] = {}
        """Servers at the same address that show less, by the name of what they show."""
        self.health_checks: list[HealthCheck] = []
        """Each says what is wrong with something the server depends on, or None."""
        self.figures: list[Figure] = []
        """What `/metrics` shows of the server besides its calls."""
        self.peer: Peer = self
        """The server as callers reach it: itself, inside whatever counts, traces or limits its calls."""
        self._scope_listeners: list[Callable[[str], object]] = []
        self._lifespans: list[Lifespan] = [lifespan] if lifespan is not None else []
        self.profiles = dict(profiles or {})
        self.view = EVERYTHING
        if profile is not None:
            self.use_profile(profile)
        self.events.on("toolChange", self._publish_tool_change)

    # -- declaring -----------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool; the options are those of `Tool`."""
        return _decorate(function, lambda target: self.tools.register(Tool(target, **options)))

    def resource(self, uri: str, **options: Any) -> Callable[[F], F]:
        """Register a function for a URI or a URI template; the options are those of `ResourceFunction`."""
        return _decorator(lambda target: self.resources.add(ResourceFunction(target, uri, **options)))

    def add_resources(self, provider: ResourceProvider) -> None:
        """Serve everything that a provider lists."""
        self.resources.add_provider(provider)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a prompt; the options are those of `Prompt`."""

        def add(target: Callable[..., Any]) -> None:
            prompt = Prompt(target, **options)
            self.prompts[prompt.name] = prompt
            self.prompt_places.add(prompt.name)
            self.audience.publish(Note(PROMPTS_CHANGED))

        return _decorate(function, add)

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt; whether there was one."""
        if self.prompts.pop(name, None) is None:
            return False
        self.prompt_places.remove(name)
        self.audience.publish(Note(PROMPTS_CHANGED))
        return True

    def completion(self, reference: str, argument: str) -> Callable[[Suggest], Suggest]:
        """Let a function suggest values for an argument of the prompt or URI template `reference`."""
        return _decorator(lambda target: self.completions.add(reference, argument, target))

    def lifespan(self, lifespan: Lifespan) -> Lifespan:
        """Add a context manager that is open while the server runs."""
        self._lifespans.append(lifespan)
        return lifespan

    def use_profile(self, profile: str) -> None:
        """Show only what this profile shows."""
        if profile not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise DefinitionError(f"there is no profile {profile!r}; known: {known}")
        self.view = self.profiles[profile]
        self.audience.publish(Note(TOOLS_CHANGED))

    def wrap(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Put something around every call: a function from a peer to a peer."""
        self.peer = wrapper(self.peer)

    def offer_sealer(self, sealer: Sealer) -> None:
        """Seal with this from now on, unless the server was made with a sealer of its own."""
        if not self._has_own_sealer:
            self.sealer = sealer
            self.rounds = Rounds(sealer)

    # -- answering -----------------------------------------------------------

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Answer one call in its caller's revision."""
        method = METHODS[call.caller.revision.era].get(call.method)
        if method is None:
            return call_by_name(self, call)
        if isinstance(call.params, InvalidParams):
            raise call.params
        return method(self, call)

    @property
    def protocol_versions(self) -> tuple[str, ...]:
        """The revisions of MCP that it speaks, oldest first."""
        return SUPPORTED_VERSIONS

    def tool_headers(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Which arguments of a tool HTTP clients mirror in headers."""
        tool = self.tools.find(name)
        return _NO_HEADERS if tool is None else tool.headers

    async def notify(self, note: Note) -> None:
        """Client notifications that concern the whole server: none does today."""

    # -- telling -------------------------------------------------------------

    def resource_updated(self, uri: str, *, scope: str | None = None) -> None:
        """Tell whoever watches this resource that it changed; with a `Context.scope`, only who has that scope."""
        self.audience.publish(Note(RESOURCE_UPDATED, UpdatedParams(uri), scope))

    def on_scope_end(self, listener: Callable[[str], object]) -> None:
        """Call `listener` with each `Context.scope` whose session has ended: what was kept for it can go."""
        self._scope_listeners.append(listener)

    def end_scope(self, scope: str | None) -> None:
        """A session has ended. Called by whoever keeps sessions."""
        if scope is None:
            return
        for listener in self._scope_listeners:
            try:
                listener(scope)
            except Exception:
                logger.exception("something was not told that a session has ended")

    async def problems(self) -> list[str]:
        """What keeps the server from being ready."""
        found = [await check() for check in self.health_checks]
        return [problem for problem in found if problem is not None]

    @property
    def is_in_threads(self) -> bool:
        """Whether functions that cannot be stopped still run."""
        return self.threads.is_running

    def _publish_tool_change(self, change: ToolChange) -> None:
        params = {"type": change.type, "toolName": change.tool_name, "timestamp": change.timestamp}
        self.audience.publish(Note(TOOLS_CHANGED, params))

    # -- running -------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the lifespan, and close everything the server owns afterwards."""
        async with AsyncExitStack() as stack:
            for lifespan in self._lifespans:
                self.state = await stack.enter_async_context(lifespan(self))
            try:
                yield
            finally:
                self.audience.end_listens()
                await self.rounds.close()
                self.threads.close()


def _decorator(register: Callable[[Any], object]) -> Callable[[F], F]:
    def decorate(target: F) -> F:
        register(target)
        return target

    return decorate


def _decorate(function: Any, register: Callable[[Any], object]) -> Any:
    """For decorators that work with and without options."""
    decorate = _decorator(register)
    return decorate if function is None else decorate(function)
