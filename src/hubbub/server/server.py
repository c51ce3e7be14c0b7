"""The server: tools, resources and prompts written as functions, served to any client.

    server = Server("weather")

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast: ...

A `Server` is a `Peer`, independent of transports: `hubbub.app` runs it on one, `Server.asgi` makes it an ASGI app.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DefinitionError, HubbubError
from hubbub.observe import Metric
from hubbub.ports import ConnectionFactory, Peer, Sealer, TenantDirectory
from hubbub.protocol.calls import Call, Caller, Implementation, Notification, Reply
from hubbub.protocol.content import Annotations
from hubbub.protocol.results import Icon, ToolAnnotations, UpdatedParams
from hubbub.protocol.revisions import SUPPORTED_VERSIONS
from hubbub.protocol.shape import identity_meta
from hubbub.rounds import Rounds
from hubbub.security.sealer import Sealer as KeyedSealer
from hubbub.server.completion import Completions, Suggest
from hubbub.server.decorators import F, apply_decorator, make_decorator
from hubbub.server.events import Events, ToolChange
from hubbub.server.methods import METHODS, CacheHint, Method, call_by_name
from hubbub.server.middleware import Middleware, check_middleware, with_middleware
from hubbub.server.pagination import StableOrder
from hubbub.server.prompts import Prompt
from hubbub.server.registry import ToolRegistry
from hubbub.server.resources import ResourceFunction, ResourceProvider, Resources
from hubbub.server.shared_run import SharedRun
from hubbub.server.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, Broadcaster
from hubbub.server.threads import Threads
from hubbub.server.tools import Tool, ToolErrors
from hubbub.server.views import EVERYTHING, View

if TYPE_CHECKING:
    from hubbub.net.egress_rules import EgressRules
    from hubbub.server.asgi import AsgiApp, AsgiOptions
    from hubbub.server.public_routes import PublicRoute
    from hubbub.settings.oauth import OAuthSettings

logger = logging.getLogger("hubbub.server")
_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}
HealthCheck = Callable[[], Awaitable[str | None]]
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server:
    """A set of tools, resources and prompts under one name."""

    _all_methods: ClassVar = METHODS
    _call_by_name: ClassVar[Method] = call_by_name

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
        self._methods = self._all_methods  # in the instance, where lookup is faster than in the class
        self.info = Implementation(name, version, title if title is not None else UNSET)
        self.identity = identity_meta(self.info)
        self.instructions = instructions
        self.events = Events()
        self.tools = ToolRegistry(self.events)
        self.resources = Resources(lambda: self.broadcaster.publish(Notification(RESOURCES_CHANGED)))
        self.prompts: dict[str, Prompt] = {}
        self.prompt_order = StableOrder()
        self.completions = Completions()
        self.broadcaster = Broadcaster()
        self.threads = Threads()
        self._has_own_sealer = sealer is not None
        self.sealer: Sealer = sealer if sealer is not None else KeyedSealer()
        self.rounds = Rounds(self.sealer)
        self.cache = cache if cache is not None else CacheHint()
        self.state: Any = None
        """The value that the lifespan yielded, while the server runs."""
        self.views: Mapping[str, Server] = {}
        """Servers at the same address that show a subset, by the name of their view."""
        self.health_checks: list[HealthCheck] = []
        """Each returns a problem of something that the server depends on, or None."""
        self.message_bytes = bounds.MESSAGE_BYTES
        """The largest message accepted, unless the settings name another size."""
        self.exit_notification: str | None = None
        """The notification with which a client on stdio ends the process, besides closing its input."""
        self.metrics: list[Metric] = []
        """Metrics that `/metrics` shows in addition to those of calls."""
        self.peer: Peer = self
        """The server as callers reach it: itself, with the peers around it that count, trace or limit its calls."""
        self.tenants: TenantDirectory | None = None  # whose users may call over HTTP; None: callers have no tenants
        self.egress: EgressRules | None = None  # rules for fetching the keys of tokens; None: there are none
        self.oauth: OAuthSettings | None = None  # the section `[oauth]`; None: there is none
        self.public_routes: dict[str, PublicRoute] = {}  # served without authentication; a path ending in / is a prefix
        self._scope_listeners: list[Callable[[str], object]] = []
        self._lifespan: Lifespan | None = None
        self._lifespans: list[Lifespan] = []
        self._is_running = False
        self._shared_run = SharedRun(f"server {name!r}", self._open_lifespans)
        if lifespan is not None:
            self.lifespan(lifespan)
        self.profiles = dict(profiles or {})
        self.view = EVERYTHING
        if profile is not None:
            self.use_profile(profile)
        self.events.on("toolChange", self._publish_tool_change)

    # -- registration -----------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        scopes: Collection[str] = (),
        errors: ToolErrors | None = None,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        scopes: Collection[str] = (),
        errors: ToolErrors | None = None,
    ) -> Any:
        """Register a function as a tool: `@server.tool`, or with options `@server.tool(name=...)`.

        Args:
            name: Name of the tool; default: the function's.
            description: What the model reads; default: the function's docstring, without its parameter section.
            title: Name to show to people.
            input_schema: JSON Schema of the arguments; default: made from the function's parameters.
            output_schema: JSON Schema of the result; default: made from the function's return type.
            annotations: Hints on what the tool does, such as `ToolAnnotations(read_only_hint=True)`.
            icons: Pictures that clients may show.
            meta: `_meta` of the tool in `tools/list`; keys have a prefix of your own, as in `example.com/team`.
            scopes: Scopes that a caller needs; for others the tool does not exist.
            errors: How failures are reported, for callers that expect a fixed form.

        Raises:
            DefinitionError: the function cannot be a tool; the message says why.
        """

        def register(target: Any) -> None:
            tool = Tool(
                target,
                name=name,
                description=description,
                title=title,
                input_schema=input_schema,
                output_schema=output_schema,
                annotations=annotations,
                icons=icons,
                meta=meta,
                scopes=scopes,
                errors=errors,
            )
            self.tools.register(tool)

        return apply_decorator(function, register)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        scopes: Collection[str] = (),
    ) -> Callable[[F], F]:
        """Register a function for a URI or a URI template.

        Args:
            uri: `config://app`, or a template with variables: `users://{id}`.
            name: Name of the resource; default: the function's.
            title: Name to show to people.
            description: What it is; default: the function's docstring.
            mime_type: Type of its contents; default: depends on what the function returns.
            annotations: Audience, priority and last modification.
            scopes: Scopes that a caller needs; for others the resource does not exist.

        Raises:
            DefinitionError: the function's parameters are not the template's variables.
        """

        def register(target: Any) -> None:
            resource = ResourceFunction(
                target,
                uri,
                name=name,
                title=title,
                description=description,
                mime_type=mime_type,
                annotations=annotations,
                scopes=scopes,
            )
            self.resources.add(resource)

        return make_decorator(register)

    def add_resources(self, provider: ResourceProvider) -> None:
        """Serve everything that a provider lists."""
        self.resources.add_provider(provider)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        scopes: Collection[str] = (),
    ) -> Callable[[F], F]: ...
    def prompt(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        scopes: Collection[str] = (),
    ) -> Any:
        """Register a function as a prompt: `@server.prompt`, or with options `@server.prompt(name=...)`.

        Args:
            name: Name of the prompt; default: the function's.
            title: Name to show to people.
            description: What it is for; default: the function's docstring, without its parameter section.
            icons: Pictures that clients may show.
            scopes: Scopes that a caller needs; for others the prompt does not exist.

        Raises:
            DefinitionError: the function cannot be a prompt; the message says why.
        """

        def register(target: Callable[..., Any]) -> None:
            prompt = Prompt(target, name=name, title=title, description=description, icons=icons, scopes=scopes)
            self.prompts[prompt.name] = prompt
            self.prompt_order.add(prompt.name)
            self.broadcaster.publish(Notification(PROMPTS_CHANGED))

        return apply_decorator(function, register)

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt; return whether there was one."""
        if self.prompts.pop(name, None) is None:
            return False
        self.prompt_order.remove(name)
        self.broadcaster.publish(Notification(PROMPTS_CHANGED))
        return True

    def completion(self, reference: str, argument: str) -> Callable[[Suggest], Suggest]:
        """Let a function suggest values for an argument of the prompt or URI template `reference`."""
        return make_decorator(lambda target: self.completions.add(reference, argument, target))

    def lifespan(self, lifespan: Lifespan) -> Lifespan:
        """Open this context manager while the server runs; what it yields is `Context.lifespan`.

        Raises:
            DefinitionError: the server already has a lifespan, or this is a generator without `@asynccontextmanager`.
        """
        if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
            raise DefinitionError(f"{lifespan!r} is a generator; decorate it with `@asynccontextmanager` of contextlib")
        if self._lifespan is not None:
            raise DefinitionError("the server already has a lifespan; add another one with `server.add_lifespan`")
        self._lifespan = lifespan
        return lifespan

    def add_lifespan(self, lifespan: Lifespan) -> None:
        """Open another context manager while the server runs: after the server's own lifespan, in the order added.

        What it yields is not used: `Context.lifespan` is what the server's own lifespan yields.
        """
        self._lifespans.append(lifespan)

    def use_profile(self, profile: str) -> None:
        """Show only what this profile shows."""
        if profile not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise DefinitionError(f"unknown profile {profile!r}; profiles of this server: {known}")
        self.view = self.profiles[profile]
        self.broadcaster.publish(Notification(TOOLS_CHANGED))

    def middleware(self, middleware: Middleware) -> Middleware:
        """Run an `async def middleware(call, call_next)` around every request; `await call_next(call)` gives the reply.

        It may inspect or change the call and the reply, return a reply of its own, or raise an error of `hubbub`.
        The middleware that was added first is the outermost.

        Raises:
            DefinitionError: it is not an async function of two arguments.
        """
        check_middleware(middleware)
        self.wrap(partial(with_middleware, middleware))
        return middleware

    def wrap(self, wrapper: Callable[[Peer], Peer]) -> None:
        """Wrap the server in a peer, outside everything added before; unlike middleware, it also sees notifications."""
        self.peer = wrapper(self.peer)

    def offer_sealer(self, sealer: Sealer) -> None:
        """Use this sealer, unless the server is running or was made with a sealer of its own."""
        if not (self._has_own_sealer or self._is_running):
            self.sealer = sealer
            self.rounds = Rounds(sealer)

    # -- requests -----------------------------------------------------------

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Answer one call in its caller's revision."""
        method = self._methods[call.caller.revision.era].get(call.method)
        if method is None:
            return self._call_by_name(call)
        if isinstance(call.params, HubbubError):
            raise call.params
        return method(self, call)

    @property
    def protocol_versions(self) -> tuple[str, ...]:
        """The MCP revisions that it supports, oldest first."""
        return SUPPORTED_VERSIONS

    def instructions_for(self, caller: Caller | None = None) -> str | None:
        """Return the instructions that a client gets when it connects."""
        return self.instructions

    def tool_headers(self, name: str, caller: Caller) -> Mapping[str, tuple[str, ...]]:
        """Return the arguments of a tool that HTTP clients mirror in headers."""
        get = self.tools.get
        tool = get(name) or self.tools.find(name)
        return tool.headers if tool is not None and tool.headers and caller.holds(tool.scopes) else _NO_HEADERS

    def tool_scopes(self, name: str, caller: Caller) -> frozenset[str]:
        """Return the scopes that a tool requires; none if the caller sees no tool of this name."""
        tool = self.tools.find(name)
        return tool.scopes if tool is not None and caller.sees_tool(tool.scopes) else frozenset()

    async def notify(self, note: Notification) -> None:
        """Ignore notifications: MCP defines none that concerns the whole server."""

    # -- notifications -----------------------------------------------------------

    def resource_updated(self, uri: str, *, scope: str | None = None, principal: str | None = None) -> None:
        """Notify the subscribers of a resource that it changed, or only those with this scope or principal."""
        self.broadcaster.publish(Notification(RESOURCE_UPDATED, UpdatedParams(uri), scope, principal))

    def on_scope_end(self, listener: Callable[[str], object]) -> None:
        """Call `listener` with each `Context.scope` whose session has ended, so that its state can be dropped."""
        self._scope_listeners.append(listener)

    def end_scope(self, scope: str | None) -> None:
        """Call the listeners of `on_scope_end`, because a session has ended."""
        if scope is None:
            return
        for listener in self._scope_listeners:
            try:
                listener(scope)
            except Exception:
                logger.exception("a listener of on_scope_end failed")

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the suspended calls of revoked callers."""
        self.rounds.end_revoked(is_revoked)

    def may_watch(self, uri: str, caller: Caller) -> bool:
        """Whether a caller may subscribe to a resource; undeclared resources are open to all."""
        return self.resources.find(uri) is None or self.resources.find(uri, caller) is not None

    @property
    def hides_items(self) -> bool:
        """Whether a policy hides something from some callers, so that metrics and problems are for operators only."""
        return False

    def scoped_names(self) -> list[str]:
        """The tools, resources and prompts that require scopes."""
        tools = [tool.name for tool in self.tools.all() if tool.scopes]
        resources = [function.uri for function in self.resources.functions() if function.scopes]
        return tools + resources + [prompt.name for prompt in self.prompts.values() if prompt.scopes]

    async def problems(self) -> list[str]:
        """Return what keeps the server from being ready."""
        found = [await check() for check in self.health_checks]
        return [problem for problem in found if problem is not None]

    async def degradations(self) -> list[str]:
        """Return the problems of a server that still works; called if there are no `problems`."""
        return []

    def has_method(self, name: str) -> bool:
        """Whether this is a method of MCP, in any era, and not the name of a tool."""
        return any(name in methods for methods in self._methods.values())

    @property
    def is_running(self) -> bool:
        """Whether the lifespans are open."""
        return self._is_running

    @property
    def is_in_threads(self) -> bool:
        """Whether synchronous functions, which cannot be stopped, are still running."""
        return self.threads.is_running

    def _publish_tool_change(self, change: ToolChange) -> None:
        params = {"type": change.type, "toolName": change.tool_name, "timestamp": change.timestamp}
        # All clients are notified, but only some may see the name of a tool that requires scopes.
        is_secret = change.tool_name in self.tools.scoped
        self.broadcaster.publish(Notification(TOOLS_CHANGED) if is_secret else Notification(TOOLS_CHANGED, params))

    def asgi(self, **options: Unpack[AsgiOptions]) -> AsgiApp:
        """Return the server as an ASGI app, to be served by any ASGI server or mounted in Starlette or FastAPI.

        The options are those of `hubbub serve` of the same name; variables and settings files are not
        read. Without `key_file` or `jwt_keys` it answers only at loopback addresses and Unix sockets, unless
        `insecure` is set; with them, default rate limits apply unless `limits` sets others.

        Raises: SettingsError.
        """
        from hubbub.server.asgi import make_app

        return make_app(self, options)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the server while the block runs: the first user opens the lifespans, the last one closes them.

        Raises: DefinitionError, if it is in use in another event loop; whatever a lifespan raises, now or later.
        """
        return self._shared_run.use_in_task()

    @asynccontextmanager
    async def in_memory(self) -> AsyncIterator[ConnectionFactory]:
        """Run the server for a client in this process, as `running` does; used by `Client(server)`."""
        from hubbub.server.connection import Connection  # late: it imports this module

        async with self._shared_run.use():
            yield partial(Connection, self)

    @asynccontextmanager
    async def _open_lifespans(self) -> AsyncIterator[None]:
        """Open the lifespans while the block runs; afterwards close everything that the server owns."""
        async with AsyncExitStack() as stack:
            if self._lifespan is not None:
                self.state = await stack.enter_async_context(self._lifespan(self))
            for lifespan in self._lifespans:
                await stack.enter_async_context(lifespan(self))
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False
                self.broadcaster.end_subscriptions()
                await self.rounds.close()
                self.threads.close()
