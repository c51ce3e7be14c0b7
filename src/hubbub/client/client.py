"""The client of one server.

    async with Client(ServerConfig(id="files", command="mcp-files")) as client:
        for tool in await client.tools(): ...
        result = await client.call_tool("read", {"path": "a.txt"})

Speaks whichever era the server does. Lists and reads are asked again after a lost
session, calls of tools never: what they do must not happen twice. It is a `Peer` too
(`request`, `notify`), for those who pass calls on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw

from hubbub.client import links, passing, rounds
from hubbub.client.cache import Cache
from hubbub.client.config import ServerConfig, positive_seconds
from hubbub.client.handlers import Elicit, Handlers, Roots, Sample
from hubbub.client.listing import all_pages
from hubbub.client.passing import Passing
from hubbub.client.requests import Progress, Request
from hubbub.client.results import (
    CompletionResult,
    PromptResult,
    PromptsPage,
    Received,
    ResourceResult,
    ResourcesPage,
    ServerInfo,
    TemplatesPage,
    ToolResult,
    ToolsPage,
    decode_result,
)
from hubbub.client.rpc import JsonRpcClient
from hubbub.client.session import Session
from hubbub.client.tool_headers import Send, ToolHeaders
from hubbub.client.watching import ACKNOWLEDGED, Change, Listening, read_change, subscription_id
from hubbub.errors import ConnectionClosed, HubbubError, InvalidParams
from hubbub.ports import Link, Peer
from hubbub.protocol.model import Call, Note, RawReply, Reply
from hubbub.protocol.params import ListenFilter
from hubbub.protocol.revisions import Era, Revision
from hubbub.protocol.wire import MessageParams, PromptEntry, ResourceEntry, TemplateEntry, ToolEntry

logger = logging.getLogger("hubbub.client")

R = TypeVar("R", bound=Received)


class Client:
    """One server. An async context manager; `start` and `close` do the same by hand."""

    def __init__(
        self,
        config: ServerConfig | Mapping[str, Any],
        *,
        elicitation: Elicit | None = None,
        sampling: Sample | None = None,
        roots: Roots | None = None,
        on_log: Callable[[MessageParams], Any] | None = None,
        on_change: Callable[[Change], Any] | None = None,
        on_notification: Callable[[str, Any], Any] | None = None,
        link: Callable[[ServerConfig], Link] | None = None,
        stray: Peer | None = None,
        is_guarded: bool = False,
    ) -> None:
        """`stray` gets what the server asks and says without telling which call it is about.

        `is_guarded`: a server that we start ends with this process, even if that is killed.
        """
        self.config = ServerConfig.coerce(config)
        self._handlers = Handlers(elicitation=elicitation, sampling=sampling, roots=roots)
        self._on_log = on_log
        self._on_change = on_change
        self._on_notification = on_notification
        self._open_link = link
        self._stray = stray
        self._is_guarded = is_guarded
        self.on_renewed: Callable[[], Any] | None = None
        """Called after the server forgot our session and we have a new one."""
        self._cache = Cache(keeps_private=self.config.headers_provider is None)
        self._tool_headers = ToolHeaders()
        self._listening: list[Listening] = []
        self._watched: dict[str, Listening | None] = {}
        self._starting = asyncio.Lock()
        self._is_closed = False
        self._lost = asyncio.Event()
        capabilities = {**self._handlers.capabilities(), **self.config.capabilities}
        self._session = Session(self.config, capabilities, self._converse)
        self._session.renewed = self._restore

    def __repr__(self) -> str:
        return f"<Client {self.config.id!r}>"

    # -- life ------------------------------------------------------------------------

    async def start(self) -> Self:
        """Connect and agree on a version; again is nothing.

        Raises:
            ProtocolVersionNotSupported: there is no version that both speak.
            TransportError, ConnectionClosed, DeadlineExceeded, RemoteError: it cannot be reached.
        """
        async with self._starting:
            if self._is_closed:
                raise ConnectionClosed("The client is closed")
            if self._session.agreement is None:
                try:
                    await self._session.establish()
                    if self._on_change is not None and self._session.revision.listen:
                        self._session.rpc.spawn(self._listen_to_all())
                except BaseException:
                    await self.close()
                    raise
        return self

    async def close(self) -> None:
        """Part with the server; from any task, and as often as you like."""
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
        """Whether it was started and can still be asked."""
        return self._session.agreement is not None and not self._lost.is_set()

    async def wait_lost(self) -> HubbubError | None:
        """Wait until the connection is gone for good; why, if it was not closed by us."""
        await self._lost.wait()
        return None if self._is_closed else self._session.rpc.failure

    # -- what the server is ------------------------------------------------------------

    @property
    def server_info(self) -> ServerInfo:
        """Who it says it is."""
        agreement = self._session.agreement
        return ServerInfo() if agreement is None else agreement.server_info

    @property
    def server_capabilities(self) -> dict[str, Any]:
        """What it says it can do."""
        agreement = self._session.agreement
        return {} if agreement is None else agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """What it says about its use."""
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
        """What the version agreed on can express."""
        return self._session.revision

    @property
    def tells_calls_apart(self) -> bool:
        """Whether each request has a stream of its own, so that what comes before its answer is about it."""
        return self._session.rpc.link.is_http

    @property
    def sends_tool_headers(self) -> bool:
        """Whether arguments of tools travel in headers too, where tools ask for that."""
        return self._session.rpc.link.is_http and self._session.revision.stateless

    def speaking(self, capabilities: Mapping[str, Any], log_level: str | None) -> bytes:
        """What a `Passing` needs as `speaker` to speak for someone with these capabilities."""
        return self._session.speaking(capabilities, log_level)

    # -- tools -------------------------------------------------------------------------

    async def list_tools(self, cursor: str | None = None, *, timeout_s: float | None = None) -> ToolsPage:
        """One page of tools. Over HTTP, tools whose headers cannot be sent are left out."""
        page = await self._page("tools/list", ToolsPage, cursor, timeout_s)
        if self.sends_tool_headers:
            page.tools = self._tool_headers.learn(page.tools)
        return page

    async def tools(self, *, timeout_s: float | None = None) -> list[ToolEntry]:
        """Every tool; the limit of time is for each page."""
        return await all_pages(lambda cursor: self.list_tools(cursor, timeout_s=timeout_s), lambda page: page.tools)

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
            RemoteError: the server refused.
            DeadlineExceeded: it did not answer in time, and was told to stop.
            TransportError, ConnectionClosed: the way to it broke; `may_have_executed` tells what that means.
        """
        if not name.strip():
            raise InvalidParams("A tool call needs the name of a tool")
        params: dict[str, Any] = {"name": name, "arguments": {} if arguments is None else arguments}
        if meta is not None:
            params["_meta"] = meta
        raw = await self._call(params, timeout_s=timeout_s, progress=progress)
        return decode_result(raw, ToolResult)

    async def _call(self, params: dict[str, Any], **options: Any) -> Raw:
        if not self.sends_tool_headers:
            return await self._ask("tools/call", params, **options)
        return await self._with_tool_headers(
            params["name"],
            params.get("arguments"),
            lambda headers: self._ask("tools/call", params, headers=headers, **options),
        )

    async def _with_tool_headers(self, name: str, arguments: Any, send: Send) -> Raw:
        """Call a tool with the headers that it wants."""
        base = self._session.headers_of_call(name)
        return await self._tool_headers.send(base, {"name": name, "arguments": arguments}, send, self._learn_anew)

    async def _learn_anew(self) -> None:
        self._cache.drop("tools/list")
        await self.tools()

    # -- resources -----------------------------------------------------------------------

    async def list_resources(self, cursor: str | None = None, *, timeout_s: float | None = None) -> ResourcesPage:
        """One page of resources."""
        return await self._page("resources/list", ResourcesPage, cursor, timeout_s)

    async def resources(self, *, timeout_s: float | None = None) -> list[ResourceEntry]:
        """Every resource."""
        return await all_pages(
            lambda cursor: self.list_resources(cursor, timeout_s=timeout_s), lambda page: page.resources
        )

    async def list_templates(self, cursor: str | None = None, *, timeout_s: float | None = None) -> TemplatesPage:
        """One page of resource templates."""
        return await self._page("resources/templates/list", TemplatesPage, cursor, timeout_s)

    async def templates(self, *, timeout_s: float | None = None) -> list[TemplateEntry]:
        """Every resource template."""
        return await all_pages(
            lambda cursor: self.list_templates(cursor, timeout_s=timeout_s), lambda page: page.resource_templates
        )

    async def read_resource(self, uri: str, *, timeout_s: float | None = None) -> ResourceResult:
        """The contents of a resource."""
        return await self._kept("resources/read", {"uri": uri}, uri, ResourceResult, timeout_s)

    async def subscribe(self, uri: str, *, timeout_s: float | None = None) -> None:
        """Hear of changes of a resource through `on_change`."""
        if self._session.revision.listen:
            if uri not in self._watched:
                self._watched[uri] = None
                self._watched[uri] = await self.listen(uris=[uri], timeout_s=timeout_s)
            return
        await self._ask("resources/subscribe", {"uri": uri}, timeout_s=timeout_s, repeatable=True)
        self._watched[uri] = None

    async def unsubscribe(self, uri: str, *, timeout_s: float | None = None) -> None:
        """Hear of them no more."""
        listening = self._watched.pop(uri, None)
        if listening is not None:
            await listening.close()
        elif not self._session.revision.listen:
            await self._ask("resources/unsubscribe", {"uri": uri}, timeout_s=timeout_s, repeatable=True)

    # -- prompts, completion ---------------------------------------------------------------

    async def list_prompts(self, cursor: str | None = None, *, timeout_s: float | None = None) -> PromptsPage:
        """One page of prompts."""
        return await self._page("prompts/list", PromptsPage, cursor, timeout_s)

    async def prompts(self, *, timeout_s: float | None = None) -> list[PromptEntry]:
        """Every prompt."""
        return await all_pages(lambda cursor: self.list_prompts(cursor, timeout_s=timeout_s), lambda page: page.prompts)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> PromptResult:
        """A prompt, filled in."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return decode_result(await self._ask("prompts/get", params, timeout_s=timeout_s, repeatable=True), PromptResult)

    async def complete(
        self,
        reference: Mapping[str, str],
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> CompletionResult:
        """Suggestions for an argument of a prompt or a template.

        The reference is `{"type": "ref/prompt", "name": ...}` or `{"type": "ref/resource", "uri": ...}`.
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": context}
        raw = await self._ask("completion/complete", params, timeout_s=timeout_s, repeatable=True)
        return decode_result(raw, CompletionResult)

    # -- the rest --------------------------------------------------------------------------

    async def ping(self, *, timeout_s: float | None = None) -> None:
        """Ask whether it is there; a modern server is asked who it is instead."""
        method = "server/discover" if self._session.revision.stateless else "ping"
        await self._ask(method, {}, timeout_s=timeout_s, repeatable=True)

    async def set_level(self, level: str, *, timeout_s: float | None = None) -> None:
        """Which log messages to hear of through `on_log`; a modern server learns it with each request."""
        self._session.log_level = level
        if not self._session.revision.stateless:
            await self._ask("logging/setLevel", {"level": level}, timeout_s=timeout_s, repeatable=True)

    async def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: list[str] | None = None,
        timeout_s: float | None = None,
    ) -> Listening:
        """Hear of these changes through `on_change`, until closed. Only modern servers need to be asked.

        Raises:
            InvalidParams: the server is a legacy one; it pushes, and `subscribe` is for its resources.
        """
        if not self._session.revision.listen:
            raise InvalidParams("A legacy server tells of changes unasked; subscribe to resources with `subscribe`")
        wanted = ListenFilter(tools, prompts, resources, uris or [])
        listening = Listening(self._session, wanted)
        self._listening = [*(open_ for open_ in self._listening if not open_.is_over), listening]
        seconds = self.config.timeout_s if timeout_s is None else positive_seconds("timeout_s", timeout_s)
        await listening.start(seconds)
        return listening

    # -- a Peer ----------------------------------------------------------------------------

    async def request(self, call: Call) -> Reply:
        """Pass a call on, raw both ways; progress and questions go to `call.back`."""
        return await passing.request(self, self._session, call)

    def pass_on(self, call: Call, how: Passing) -> Coroutine[Any, Any, RawReply]:
        """Pass a call on in the name of its caller."""
        return passing.pass_on(self, self._session, call, how)

    async def notify(self, note: Note) -> None:
        """Pass a notification on."""
        await self._session.notify(note.method, note.params)

    # -- inside ----------------------------------------------------------------------------

    async def _page(self, method: str, kind: type[R], cursor: str | None, timeout_s: float | None) -> R:
        return await self._kept(method, {} if cursor is None else {"cursor": cursor}, cursor, kind, timeout_s)

    async def _kept(
        self, method: str, params: dict[str, Any], key: str | None, kind: type[R], timeout_s: float | None
    ) -> R:
        if self._session.agreement is not None and self._session.revision.caching:
            found: R | None = self._cache.get(method, key)
            if found is not None:
                return found
        raw = await self._ask(method, params, timeout_s=timeout_s, repeatable=True)
        result = decode_result(raw, kind)
        if self._session.revision.caching:
            self._cache.put(method, key, result)
        return result

    async def _ask(self, method: str, params: dict[str, Any], *, plays: bool = True, **options: Any) -> Raw:
        """The raw answer; if `plays`, only after all that the server wants to know before."""
        raw = await self._session.request(method, params, **options)
        if plays and self._session.revision.rounds and not rounds.is_complete(raw):
            return await self._play(method, params, raw, **options)
        return raw

    async def _play(self, method: str, params: dict[str, Any], raw: Raw, **options: Any) -> Raw:
        """The complete answer behind one that asks something."""
        back = options.get("back")

        async def send(repeated: dict[str, Any]) -> Raw:
            return await self._session.request(method, repeated, **options)

        async def answer(asked: str, raw_params: Raw) -> Any:
            return await self._answer_for(back, asked, raw_params)

        return await rounds.play(raw, params, send, answer)

    def _converse(self, over_old_pair: bool) -> JsonRpcClient:
        if self._open_link is not None:
            link = self._open_link(self.config)
        else:
            link = links.open_link(self.config, over_old_pair=over_old_pair, is_guarded=self._is_guarded)
        return JsonRpcClient(
            link,
            timeout_s=self.config.timeout_s,
            answer=self._answer,
            notified=self._notified,
            lost=lambda error: self._take_loss(link),
            on_line=self.config.on_stdout_line,
            guesses=self._stray is None,
        )

    def _take_loss(self, link: Link) -> None:
        if self._session.agreement is not None and self._session.rpc.link is link:
            self._lost.set()

    async def _answer(self, method: str, params: Raw, request: Request | None) -> Any:
        return await self._answer_for(request.back if request is not None else self._stray, method, params)

    async def _answer_for(self, back: Any, method: str, params: Raw) -> Any:
        if back is not None:
            return await passing.ask_back(back, self._session, method, params)
        return await self._handlers.answer(method, params)

    def _notified(self, method: str, params: Raw, request: Request | None) -> Any:
        if method == ACKNOWLEDGED:
            identifier = subscription_id(params)
            for listening in self._listening:
                if identifier == b"%d" % listening.id:
                    listening.acknowledge(params)
            return None
        change = read_change(method, params)
        if change is not None:
            self._cache.outdate(change)
            return self._on_change(change) if self._on_change is not None else None
        if request is not None and request.back is not None:
            return passing.tell_back(request.back, Note(method, params))
        if request is None and self._stray is not None:
            return passing.tell_back(self._stray, Note(method, params))
        if method == "notifications/message" and self._on_log is not None:
            return self._on_log(msgspec.json.decode(params, type=MessageParams))
        if self._on_notification is not None:
            return self._on_notification(method, msgspec.json.decode(params))
        return None

    def _restore(self) -> None:
        """A new session knows nothing of what the old one was told."""
        self._cache.clear()
        self._session.rpc.spawn(self._restore_session())
        if self.on_renewed is not None:
            self.on_renewed()

    async def _restore_session(self) -> None:
        try:
            if self._session.log_level is not None:
                await self._session.request("logging/setLevel", {"level": self._session.log_level})
            for uri in list(self._watched):
                await self._session.request("resources/subscribe", {"uri": uri})
        except HubbubError as error:
            logger.warning("a renewed session with %s lacks something: %s", self.config.id, error.message)

    async def _listen_to_all(self) -> None:
        try:
            await self.listen(tools=True, prompts=True, resources=True)
        except HubbubError as error:
            logger.debug("%s does not tell of changes: %s", self.config.id, error.message)
