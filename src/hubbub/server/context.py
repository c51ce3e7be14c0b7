"""The context of a call: lets a handler report progress, log, and ask the user or the model of the client.

A handler gets one by declaring a parameter of type `Context`. Requests to the client work in
both eras; `call.back` decides how they are sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import ConnectionClosed, InvalidParams, MissingCapability
from hubbub.protocol.calls import NO_META, Call, Caller, Notification, RawReply
from hubbub.protocol.content import Text
from hubbub.protocol.elicitation_forms import decode_form, form_schema, require_form_support
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.results import LogMessage, ProgressParams, Root

if TYPE_CHECKING:
    from hubbub.server.server import Server

T = TypeVar("T")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_TOKEN_FIRST_BYTES = b'"-0123456789'


class ElicitationResult(msgspec.Struct, Generic[T], frozen=True):
    """The user's answer; `content` is None unless they accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        """Whether the user filled in the form or opened the URL."""
        return self.action == "accept"


class SamplingMessage(msgspec.Struct):
    """One message to or from the client's model."""

    role: Literal["user", "assistant"]
    content: Any


class SamplingResult(msgspec.Struct, rename="camel"):
    """The answer of the client's model."""

    role: str
    content: Any
    model: str = ""
    stop_reason: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The answer's text."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        return "".join(part.get("text", "") for part in parts if isinstance(part, dict))


class _ElicitResponse(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: Raw = Raw(b"{}")


class _RootsResponse(msgspec.Struct):
    roots: list[Root]


class Context:
    """The call that a handler is serving."""

    def __init__(self, call: Call, server: Server) -> None:
        self.call = call
        self.server = server
        self.is_cancelled = False
        """Whether the caller cancelled the call. An async handler gets `CancelledError`;
        one that runs in a thread should check this regularly."""
        self.result_meta: dict[str, Any] = {}
        """Added to `_meta` of a tool's result; use keys with a prefix of your own, as in `example.com/cost`."""
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        self._pending_futures: set[Future[Any]] = set()

    @property
    def caller(self) -> Caller:
        """The caller: principal, client name, capabilities, revision."""
        return self.call.caller

    @property
    def scope(self) -> str | None:
        """Identifies the caller's state: by its session, cookie or process, or by its principal.

        None if calls of the caller cannot be related to each other: an unauthenticated caller of the stateless era.
        """
        return self.call.caller.state_scope

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self.server.state

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the caller asked for it. `progress` must grow from call to call."""
        token = self.call.meta.progress_token
        if token is UNSET or self._is_ended or memoryview(token)[0] not in _TOKEN_FIRST_BYTES:
            return
        params = ProgressParams(token, progress, UNSET if total is None else total)
        if message is not None and (self.caller.revision.progress_message or not self.caller.revision.is_mcp):
            params.message = message
        await self.call.back.notify(Notification("notifications/progress", params))

    async def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants messages of this level."""
        if self._is_ended or not self.caller.wants_log(level):
            return
        params = LogMessage(level, data, UNSET if logger is None else logger)
        await self.call.back.notify(Notification("notifications/message", params))

    async def debug(self, data: Any) -> None:
        """Log details for debugging."""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """Log normal events."""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """Log a possible problem."""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """Log an error."""
        await self.log("error", data)

    async def elicit(self, message: str, form: type[T], *, key: str | None = None) -> ElicitationResult[T]:
        """Ask the user to fill in a form, given as a dataclass, TypedDict, Struct or model with simple fields.

        Raises:
            MissingCapability: the client cannot show forms to a user.
        """
        require_form_support(self.caller)
        params = {"mode": "form", "message": message, "requestedSchema": form_schema(form)}
        if self.caller.revision.elicitation == "form":
            del params["mode"]
        answer = await self._ask_client("elicitation/create", params, _ElicitResponse, key)
        if answer.action != "accept":
            return ElicitationResult(answer.action)
        return ElicitationResult("accept", decode_form(answer.content, form))

    async def elicit_schema(
        self, message: str, schema: dict[str, Any], *, key: str | None = None
    ) -> ElicitationResult[Any]:
        """Like `elicit`, with the form's JSON Schema given as data."""
        require_form_support(self.caller)
        params = {"message": message, "requestedSchema": schema}
        answer = await self._ask_client("elicitation/create", params, _ElicitResponse, key)
        accepted = answer.action == "accept"
        return ElicitationResult(answer.action, msgspec.json.decode(answer.content) if accepted else None)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitationResult[None]:
        """Ask the user to open a URL, for data that must not pass through the client (logins, payments)."""
        self._require_capability("elicitation", is_supported=self.caller.revision.elicitation == "url", mode="url")
        params: dict[str, Any] = {"mode": "url", "message": message, "url": url}
        if not self.caller.revision.rounds:
            params["elicitationId"] = os.urandom(12).hex()
        answer = await self._ask_client("elicitation/create", params, _ElicitResponse, key)
        return ElicitationResult(answer.action)

    async def sample(
        self,
        messages: str | list[SamplingMessage],
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        temperature: float | None = None,
        key: str | None = None,
        **more: Any,
    ) -> SamplingResult:
        """Request a completion from the client's model; `more` are further parameters of `sampling/createMessage`.

        Raises:
            MissingCapability: the client does not support sampling.
        """
        self._require_capability("sampling")
        if isinstance(messages, str):
            messages = [SamplingMessage("user", Text(messages))]
        params: dict[str, Any] = {"messages": messages, "maxTokens": max_tokens, **more}
        if system is not None:
            params["systemPrompt"] = system
        if temperature is not None:
            params["temperature"] = temperature
        return await self._ask_client("sampling/createMessage", params, SamplingResult, key)

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Return the folders and files that the client lets the server use.

        Raises:
            MissingCapability: the client does not support roots.
        """
        self._require_capability("roots")
        return (await self._ask_client("roots/list", {}, _RootsResponse, key)).roots

    async def close_stream(self) -> None:
        """End the open stream of a legacy HTTP client, which then polls for the rest.

        Useful before a long wait; does nothing if there is no stream to close.
        """
        await self.call.back.release()

    def wait(self, question: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine of this context in a synchronous handler: `context.wait(context.progress(1))`.

        Raises:
            ConnectionClosed: the call was cancelled. This is the only place where a thread can be stopped.
        """
        answer = asyncio.run_coroutine_threadsafe(question, self._loop)
        self._pending_futures.add(answer)
        if self._is_ended:
            answer.cancel()
        try:
            return answer.result()
        except CancelledError:
            raise ConnectionClosed(
                "The call has ended, so nothing more can be sent to its client; return from the handler"
            ) from None
        finally:
            self._pending_futures.discard(answer)

    def end(self) -> None:
        """Mark the call as answered or cancelled: progress and requests to the client are no longer sent."""
        self._is_ended = True
        for answer in list(self._pending_futures):
            answer.cancel()

    def _require_capability(self, capability: str, *, is_supported: bool = True, mode: str | None = None) -> None:
        if not is_supported or not self.caller.can(capability, mode):
            raise MissingCapability({capability: {} if mode is None else {mode: {}}})

    async def _ask_client(self, method: str, params: dict[str, Any], answer: type[T], key: str | None) -> T:
        raw = Raw(msgspec.json.encode(params))
        name = Raw(msgspec.json.encode(key)) if key is not None else NULL
        back, caller = self.call.back, self.caller
        question = Call(id=name, method=method, raw=raw, params=None, meta=NO_META, caller=caller, back=back)
        reply = await back.request(question)
        body = reply.body if isinstance(reply, RawReply) else Raw(msgspec.json.encode(reply))
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.ValidationError as error:
            raise InvalidParams(f"The client's response to {method} is invalid: {error}") from None
