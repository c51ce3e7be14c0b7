"""The client of one server.

    async with Client(ServerConfig(id="files", command="mcp-files")) as client:
        for tool in await client.tools(): ...
        result = await client.call_tool("read", {"path": "a.txt"})

Uses the era of the server. After a lost session, lists and reads are sent again, but
tool calls never: their effects must not happen twice. It is a `Peer` too
(`request`, `notify`); `forward` sends a call on behalf of its caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw

from hubbub.client.config import ServerConfig, open_transport
from hubbub.client.handlers import Elicit, Handlers, Roots, Sample
from hubbub.client.known_eras import DEFAULT_KNOWN_ERAS, KnownEras
from hubbub.client.pagination import collect_items
from hubbub.client.raw_calls import ForwardOptions, RawCalls, ToolHeaders, notify_back, seconds_left
from hubbub.client.requests import Progress, Request
from hubbub.client.results import (
    CompletionResult,
    PromptResult,
    PromptsPage,
    ResourceResult,
    ResourcesPage,
    ServerInfo,
    TemplatesPage,
    ToolsPage,
    decode_result,
)
from hubbub.client.rpc import JsonRpcClient
from hubbub.client.session import Session
from hubbub.client.subscriptions import (
    LISTEN_ACKNOWLEDGED,
    ChangeEvent,
    ListenStream,
    ResultCache,
    Subscriptions,
    read_change,
    read_log,
)
from hubbub.errors import ConnectionClosed, HubbubError, InvalidParams
from hubbub.ports import ClientTransport, InMemoryServer, ReturnPath
from hubbub.protocol.calls import Call, Notification, RawReply, Reply
from hubbub.protocol.params import ListenFilter
from hubbub.protocol.results import (
    DecodedResult,
    LogMessage,
    PromptEntry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
    ToolResult,
)
from hubbub.protocol.revisions import Era, Revision

logger = logging.getLogger("hubbub.client")

R = TypeVar("R", bound=DecodedResult)


class Client:
    """A client of one server. Use it as an async context manager, or call `start` and `close`."""

    def __init__(
        self,
        config: ServerConfig | Mapping[str, Any] | InMemoryServer,
        *,
        protocol_version: str | None = None,
        elicitation: Elicit | None = None,
        sampling: Sample | None = None,
        roots: Roots | None = None,
        on_log: Callable[[LogMessage], Any] | None = None,
        on_change: Callable[[ChangeEvent], Any] | None = None,
        on_notification: Callable[[str, Any], Any] | None = None,
        link: Callable[[ServerConfig], ClientTransport] | None = None,
        uncorrelated: ReturnPath | None = None,
        known_eras: KnownEras = DEFAULT_KNOWN_ERAS,
    ) -> None:
        """Take a config, or a `Server` in this process; `protocol_version` replaces that of the config.

        `uncorrelated` gets the server's requests and notifications that name no call; for clients that forward.

        `known_eras` remembers servers that are legacy ones, so that they are not probed again.

        `on_change` also gets a `ChangeEvent` for each list, and each watched resource, after a lost session was renewed
        or a broken listen stream was opened again, because changes may have been missed.
        """
        self.config = ServerConfig.coerce(config)
        if protocol_version is not None:
            self.config = msgspec.structs.replace(self.config, protocol_version=protocol_version)
        self._handlers = Handlers(elicitation=elicitation, sampling=sampling, roots=roots)
        self._on_log, self._on_notification = on_log, on_notification
        self._make_transport = link
        self._uncorrelated = uncorrelated
        self.on_renewed: Callable[[], Any] | None = None
        """Called after a lost session was replaced by a new one."""
        self._cache = ResultCache(keeps_private=self.config.headers_provider is None)
        self._tool_headers = ToolHeaders()
        self._starting = asyncio.Lock()
        self._is_closed = False
        self._lost = asyncio.Event()
        capabilities = {**self._handlers.capabilities(), **self.config.capabilities}
        self._session = Session(self.config, capabilities, self._make_rpc, known_eras)
        self._session.on_renewed = self._restore
        self._subscriptions = Subscriptions(self._session, self._cache, on_change, self.config.timeout_s)
        self._calls = RawCalls(self._session, self._tool_headers, self._answer_for, self._refresh_tools)

    def __repr__(self) -> str:
        return f"<Client {self.config.id!r}>"

    # -- lifecycle -------------------------------------------------------------------

    async def start(self) -> Self:
        """Connect and agree on a version; does nothing if already connected.

        Raises:
            ProtocolVersionNotSupported: client and server have no version in common.
            TransportError, ConnectionClosed, DeadlineExceeded, RemoteError: the server cannot be reached.
        """
        async with self._starting:
            if self._is_closed:
                raise ConnectionClosed("The client is closed")
            if self._session.agreement is None:
                try:
                    await self._session.establish()
                    self._subscriptions.start()
                except BaseException:
                    await self.close()
                    raise
        return self

    async def close(self) -> None:
        """Disconnect from the server. May be called from any task, and more than once."""
        self._is_closed = True
        self._lost.set()
        await self._session.rpc.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether it was started and is still connected."""
        return self._session.agreement is not None and not self._lost.is_set()

    async def wait_lost(self) -> HubbubError | None:
        """Wait until the connection is lost for good; return the reason, or None if the client was closed."""
        await self._lost.wait()
        return None if self._is_closed else self._session.rpc.failure

    # -- the server ---------------------------------------------------------------------

    @property
    def server_info(self) -> ServerInfo:
        """The name and version that the server reports."""
        agreement = self._session.agreement
        return ServerInfo() if agreement is None else agreement.server_info

    @property
    def server_capabilities(self) -> dict[str, Any]:
        """The capabilities that the server declares."""
        agreement = self._session.agreement
        return {} if agreement is None else agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for its use."""
        agreement = self._session.agreement
        return None if agreement is None else agreement.instructions

    @property
    def protocol_version(self) -> str:
        """The version agreed on."""
        return self._session.revision.version

    @property
    def era(self) -> Era:
        """`modern` or `legacy`."""
        return self._session.era

    @property
    def revision(self) -> Revision:
        """The features of the version agreed on."""
        return self._session.revision

    @property
    def correlates_calls(self) -> bool:
        """Whether each request has a stream of its own, so that messages on it belong to that request."""
        return self._session.rpc.transport.is_http

    @property
    def process_id(self) -> int | None:
        """The id of the process that it started, for a server on stdio."""
        return getattr(self._session.rpc.transport, "pid", None)

    @property
    def sends_tool_headers(self) -> bool:
        """Whether arguments of tools are also sent in headers, if tools ask for that."""
        return self._session.sends_tool_headers

    def hide(self, value: Any) -> Any:
        """Mask the secrets of the server's config in its JSON, raw or decoded; for callers that forward it."""
        return self._session.rpc.transport.hide(value)

    def declare(self, capabilities: Mapping[str, Any]) -> None:
        """Declare these capabilities to a modern server with each further request."""
        self._session.declare(capabilities)

    def client_meta(self, capabilities: Mapping[str, Any], log_level: str | None) -> bytes:
        """Make `client_meta` of `forward` for a caller with these capabilities; empty if the server is a legacy one."""
        return self._session.client_meta(capabilities, log_level)

    # -- tools -------------------------------------------------------------------------

    async def list_tools(self, cursor: str | None = None, *, timeout_s: float | None = None) -> ToolsPage:
        """Return one page of tools. Over HTTP, tools whose headers cannot be sent are left out."""
        page = await self._fetch_page("tools/list", ToolsPage, cursor, timeout_s)
        if self.sends_tool_headers:
            page.tools = self._tool_headers.read_annotations(page.tools)
        return page

    async def tools(self, *, timeout_s: float | None = None) -> list[ToolEntry]:
        """Return all tools. `timeout_s` is for all pages together, here and in the lists below."""
        return await collect_items(self, self.list_tools, lambda page: page.tools, timeout_s)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | Raw | None = None,
        *,
        timeout_s: float | None = None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult:
        """Call a tool, once. A failed tool is a result with `is_error`.

        Raises:
            RemoteError: the server refused the call.
            DeadlineExceeded: the server did not answer in time; the call was cancelled.
            TransportError, ConnectionClosed: the connection broke; `may_have_executed` says if the call may have run.
        """
        if not name.strip():
            raise InvalidParams("The name of the tool is empty")
        params: dict[str, Any] = {"name": name, "arguments": {} if arguments is None else arguments}
        if meta is not None:
            params["_meta"] = meta
        raw = await self._calls.call_tool(params, timeout_s=timeout_s, progress=progress)
        return decode_result(raw, ToolResult)

    async def _refresh_tools(self, timeout_s: float | None) -> None:
        self._cache.drop("tools/list")
        await self.tools(timeout_s=timeout_s)

    # -- resources -----------------------------------------------------------------------

    async def list_resources(self, cursor: str | None = None, *, timeout_s: float | None = None) -> ResourcesPage:
        """Return one page of resources."""
        return await self._fetch_page("resources/list", ResourcesPage, cursor, timeout_s)

    async def resources(self, *, timeout_s: float | None = None) -> list[ResourceEntry]:
        """Return all resources."""
        return await collect_items(self, self.list_resources, lambda page: page.resources, timeout_s)

    async def list_templates(self, cursor: str | None = None, *, timeout_s: float | None = None) -> TemplatesPage:
        """Return one page of resource templates."""
        return await self._fetch_page("resources/templates/list", TemplatesPage, cursor, timeout_s)

    async def templates(self, *, timeout_s: float | None = None) -> list[TemplateEntry]:
        """Return all resource templates."""
        return await collect_items(self, self.list_templates, lambda page: page.resource_templates, timeout_s)

    async def read_resource(self, uri: str, *, timeout_s: float | None = None) -> ResourceResult:
        """Return the contents of a resource."""
        return await self._request_cached("resources/read", {"uri": uri}, uri, ResourceResult, timeout_s)

    async def subscribe(self, uri: str, *, timeout_s: float | None = None) -> None:
        """Subscribe to changes of a resource, which are passed to `on_change`."""
        await self._subscriptions.add(uri, timeout_s)

    async def unsubscribe(self, uri: str, *, timeout_s: float | None = None) -> None:
        """End the subscription to a resource."""
        await self._subscriptions.remove(uri, timeout_s)

    # -- prompts, completion ---------------------------------------------------------------

    async def list_prompts(self, cursor: str | None = None, *, timeout_s: float | None = None) -> PromptsPage:
        """Return one page of prompts."""
        return await self._fetch_page("prompts/list", PromptsPage, cursor, timeout_s)

    async def prompts(self, *, timeout_s: float | None = None) -> list[PromptEntry]:
        """Return all prompts."""
        return await collect_items(self, self.list_prompts, lambda page: page.prompts, timeout_s)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> PromptResult:
        """Return the messages of a prompt, with its arguments filled in."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return decode_result(
            await self._calls.request("prompts/get", params, timeout_s=timeout_s, repeatable=True), PromptResult
        )

    async def complete(
        self,
        reference: Mapping[str, str],
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> CompletionResult:
        """Return suggestions for an argument of a prompt or a template.

        The reference is `{"type": "ref/prompt", "name": ...}` or `{"type": "ref/resource", "uri": ...}`.
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        raw = await self._calls.request("completion/complete", params, timeout_s=timeout_s, repeatable=True)
        return decode_result(raw, CompletionResult)

    # -- other methods ---------------------------------------------------------------------

    async def ping(self, *, timeout_s: float | None = None) -> None:
        """Check that the server responds, with `ping`, or `server/discover` if it is a modern one."""
        method = "server/discover" if self._session.revision.stateless else "ping"
        await self._calls.request(method, {}, timeout_s=timeout_s, repeatable=True)

    async def set_level(self, level: str, *, timeout_s: float | None = None) -> None:
        """Set the least level of log messages for `on_log`; a modern server gets it with each request."""
        self._session.log_level = level
        if not self._session.revision.stateless:
            await self._calls.request("logging/setLevel", {"level": level}, timeout_s=timeout_s, repeatable=True)

    async def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: list[str] | None = None,
        timeout_s: float | None = None,
    ) -> ListenStream:
        """Receive these changes through `on_change`, until the stream is closed. Only modern servers need this.

        Raises:
            InvalidParams: the server is a legacy one; it sends list changes by itself, `subscribe` is for resources.
        """
        return await self._subscriptions.listen(ListenFilter(tools, prompts, resources, uris or []), timeout_s)

    # -- a Peer ----------------------------------------------------------------------------

    async def request(self, call: Call) -> Reply:
        """Forward a call within its deadline; the server's notifications and requests go to `call.back`."""
        return await self.forward(call, timeout_s=seconds_left(call))

    def forward(
        self,
        call: Call,
        *,
        back: ReturnPath | None = None,
        timeout_s: float | None = None,
        client_meta: bytes = b"",
        resolve_input: bool = True,
        request_state: str | None = None,
    ) -> Coroutine[Any, Any, RawReply]:
        """Send a call on behalf of its caller and return the undecoded result, without the server's secrets.

        Args:
            call: Names and URIs are taken from `call.params`, everything else from `call.raw`.
            back: Where progress, log messages and requests of the server go; `call.back` if not given.
            timeout_s: Time for the answer, without the time in which the caller answers a request of the server.
            client_meta: Describes the caller to a modern server; made by the method of that name.
            resolve_input: Whether input that a modern server requires is requested through `back`;
                otherwise its `input_required` result is returned.
            request_state: The server's state from an earlier `input_required` result.

        Raises: as `call_tool`. A tool call is sent once; calls without effects are sent again after a lost session.
        """
        options = ForwardOptions(
            back=call.back if back is None else back,
            timeout_s=timeout_s,
            client_meta=client_meta,
            resolve_input=resolve_input,
            request_state=request_state,
        )
        return self._calls.forward(call, options)

    async def notify(self, note: Notification) -> None:
        """Forward a notification."""
        await self._session.notify(note.method, note.params)

    # -- internals -------------------------------------------------------------------------

    async def _fetch_page(self, method: str, kind: type[R], cursor: str | None, timeout_s: float | None) -> R:
        return await self._request_cached(method, {} if cursor is None else {"cursor": cursor}, cursor, kind, timeout_s)

    async def _request_cached(
        self, method: str, params: dict[str, Any], key: str | None, kind: type[R], timeout_s: float | None
    ) -> R:
        if self._session.agreement is not None and self._session.revision.caching:
            found: R | None = self._cache.get(method, key)
            if found is not None:
                return found
        raw = await self._calls.request(method, params, timeout_s=timeout_s, repeatable=True)
        result = decode_result(raw, kind)
        if self._session.revision.caching:
            self._cache.put(method, key, result)
        return result

    def _make_rpc(self, over_http_sse: bool) -> JsonRpcClient:
        if self._make_transport is not None:
            transport = self._make_transport(self.config)
        else:
            transport = open_transport(self.config, over_http_sse=over_http_sse)
        return JsonRpcClient(
            transport,
            timeout_s=self.config.timeout_s,
            answer=self._answer,
            on_notification=self._handle_notification,
            on_lost=lambda error: self._handle_loss(transport),
            on_line=self.config.on_stdout_line,
            correlates=self._uncorrelated is None,
        )

    def _handle_loss(self, transport: ClientTransport) -> None:
        if self._session.agreement is not None and self._session.rpc.transport is transport:
            self._lost.set()

    async def _answer(self, method: str, params: Raw, request: Request | None) -> Any:
        return await self._answer_for(request.back if request is not None else self._uncorrelated, method, params)

    async def _answer_for(self, back: ReturnPath | None, method: str, params: Raw) -> Any:
        if back is not None:
            return await self._calls.request_back(back, method, self.hide(params))
        return await self._handlers.answer(method, params)

    def _handle_notification(self, method: str, params: Raw, request: Request | None) -> Any:
        if method == LISTEN_ACKNOWLEDGED:
            return self._subscriptions.acknowledge(params)
        change = read_change(method, params)
        if change is not None:
            return self._subscriptions.handle_change(change)
        back = self._uncorrelated if request is None else request.back
        if back is not None:
            return notify_back(back, Notification(method, self.hide(params)))
        if method == "notifications/message" and self._on_log is not None:
            log_message = read_log(params)
            return None if log_message is None else self._on_log(log_message)
        return None if self._on_notification is None else self._on_notification(method, msgspec.json.decode(params))

    def assume_changed(self) -> None:
        """Drop every cached result and call `on_change` for each list, as after a reconnect."""
        self._subscriptions.assume_changed()

    def _restore(self) -> None:
        self._subscriptions.restore()
        if self.on_renewed is not None:
            self.on_renewed()
