"""A model behind any OpenAI-compatible chat endpoint, with complete or streamed answers.

    chat = OpenAIChat("http://localhost:11434/v1", model="qwen3")

Uses the guarded client of `hubbub.net`: no redirects, a deadline, a limit on the size of responses. The key is a
secret and appears in no message. Requests are not retried here; an error says whether a retry could help, and the
tool loop does it. Streams ask for token usage; `options={"stream_options": None}` is for endpoints that refuse that
field.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec

from hubbub import bounds
from hubbub.agent.chat_response import DONE, ResponseAssembler, invalid_answer, parse_response
from hubbub.agent.errors import (
    ModelError,
    ModelHttpError,
    ModelInvalidRequest,
    ModelResponseTooLarge,
    ModelTimeout,
    ModelUnreachable,
)
from hubbub.agent.model import ModelRequest, ModelResponse, OnText
from hubbub.agent.untrusted_text import clean_text
from hubbub.client.config import Values, check_seconds, wrap_secrets
from hubbub.client.urls import check_url, redact_url
from hubbub.errors import MessageTooLarge, ResponseTooLarge, SettingsError, TransportError
from hubbub.net.client import HttpClient
from hubbub.net.egress import egress_policy
from hubbub.net.redirects import describe_redirect
from hubbub.net.response import HttpResponse
from hubbub.protocol.http_headers import check_request_header
from hubbub.protocol.sse import EventDecoder
from hubbub.security.redact import MASK, redact
from hubbub.settings.secret import Secret

_RESERVED_OPTIONS: Final = frozenset(("messages", "model", "parallel_tool_calls", "stream", "tool_choice", "tools"))
_PATH: Final = "/chat/completions"
_RETRYABLE_STATUSES: Final = frozenset((408, 409, 425, 429))


class OpenAIChat:
    """One model at one endpoint. Used as an async context manager, or closed with `close`."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        api_key: str | Secret | None = None,
        headers: Values | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float = bounds.MODEL_TIMEOUT_S,
        max_response_bytes: int = bounds.MODEL_RESPONSE_BYTES,
        allow_private_network: bool | None = None,
    ) -> None:
        """`url` is the endpoint's base (`.../v1`) or its complete URL; `options` are added to each request.

        Raises:
            SettingsError: an argument is invalid.
        """
        parts = check_url(url.strip(), ("https", "http"))
        address = url.strip().rstrip("/")
        self._url = address if parts.path.rstrip("/").endswith(_PATH) or parts.query else address + _PATH
        self._model = model
        self._secrets = wrap_secrets("headers", headers, keep_none=False)
        if api_key:
            self._secrets["Authorization"] = Secret(f"Bearer {_reveal(api_key)}")
        for name, value in self._secrets.items():
            check_request_header(name, _reveal(value))
        self._api_key = Secret(_reveal(api_key))
        self._options = dict(options or {})
        if reserved := sorted(_RESERVED_OPTIONS & set(self._options)):
            raise SettingsError(f"`options` must not contain {', '.join(reserved)}; the tool loop sets these")
        self._timeout_s = check_seconds("timeout_s", timeout_s)
        self._max_bytes = max_response_bytes
        self._http_client = HttpClient(egress_policy(urlsplit(url).hostname or "", allow_private_network))

    def __repr__(self) -> str:
        return f"OpenAIChat({redact_url(self._url)!r}, model={self._model!r})"

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelResponse:
        """Send a request to the model; with `on_text`, as a stream.

        Raises: ModelError.
        """
        body = self._encode_body(request, is_stream=on_text is not None)
        try:
            async with asyncio.timeout(self._timeout_s), self._post(body) as answer:
                if not answer.is_success:
                    raise await self._http_error(answer)
                if on_text is not None and answer.media_type == "text/event-stream":
                    return await self._read_stream(answer, on_text)
                found = parse_response(await answer.read(self._max_bytes))
        except TimeoutError:
            message = f"The model did not answer within {self._timeout_s:g} s"
            raise ModelTimeout(message, retryable=True) from None
        except (MessageTooLarge, ResponseTooLarge) as error:
            raise self._too_large_error() from error
        except TransportError as error:
            raise ModelUnreachable(self._mask(error.message), retryable=True) from error
        except ModelError as error:
            error.message = self._mask(error.message)
            error.args = (error.message,)
            raise
        if on_text is not None and found.text:
            await _call_on_text(on_text, found.text)
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._http_client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- internals ------------------------------------------------------------------------

    def _encode_body(self, request: ModelRequest, *, is_stream: bool) -> bytes:
        body: dict[str, Any] = {**self._options, "model": self._model, "messages": request.messages}
        if request.tools:
            body["tools"] = request.tools
            if request.tool_choice is not None:
                body["tool_choice"] = request.tool_choice
            if request.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = request.parallel_tool_calls
        if is_stream:
            body["stream"] = True
            body.setdefault("stream_options", {"include_usage": True})
            if body["stream_options"] is None:  # For endpoints that refuse the field.
                del body["stream_options"]
        try:
            return msgspec.json.encode(body)
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelInvalidRequest(f"The conversation cannot be encoded as JSON: {type(error).__name__}") from error

    @asynccontextmanager
    async def _post(self, body: bytes) -> AsyncIterator[HttpResponse]:
        headers = {name: _reveal(value) for name, value in self._secrets.items()}
        headers["Content-Type"] = "application/json"
        headers["Accept"] = "application/json, text/event-stream"
        answer = await self._http_client.send("POST", self._url, headers=headers, body=body)
        try:
            yield answer
        finally:
            answer.close()

    async def _read_stream(self, answer: HttpResponse, on_text: OnText) -> ModelResponse:
        assembly, decoder, size = ResponseAssembler(), EventDecoder(self._max_bytes), 0
        async for chunk in answer.chunks():
            size += len(chunk)
            if size > self._max_bytes:
                raise self._too_large_error()
            for event in decoder.feed(chunk):
                if event.data.strip() == DONE:
                    return assembly.answer()
                if text := assembly.add(event.data):
                    await _call_on_text(on_text, text)
        if not assembly.is_finished:
            raise invalid_answer("ended before it was complete")
        return assembly.answer()

    async def _http_error(self, answer: HttpResponse) -> ModelError:
        if 300 <= answer.status < 400:
            redirect = describe_redirect(self._url, answer.status, answer.header("Location"))
            return ModelHttpError(redirect.replace("server", "model's endpoint", 1), status=answer.status)
        body = b""
        try:
            async for chunk in answer.chunks():
                body += chunk
                if len(body) >= bounds.ERROR_BODY_BYTES:
                    break
        except TransportError:
            pass  # The status says enough.
        excerpt = self._mask(body[: bounds.ERROR_BODY_BYTES].decode(errors="replace"))
        is_retryable = answer.status >= 500 or answer.status in _RETRYABLE_STATUSES
        return ModelHttpError(
            f"The model's endpoint answered with status {answer.status}: "
            f"{clean_text(excerpt, bounds.PROBLEM_CHARACTERS)}",
            status=answer.status,
            retryable=is_retryable,
            retry_after_s=_parse_retry_after(answer.header("Retry-After")),
        )

    def _too_large_error(self) -> ModelError:
        return ModelResponseTooLarge(f"The model's answer is larger than {self._max_bytes} bytes")

    def _mask(self, text: str) -> str:
        for value in map(_reveal, (self._api_key, *self._secrets.values())):
            if value:
                text = text.replace(value, MASK)
        return redact(text)


async def _call_on_text(on_text: OnText, text: str) -> None:
    outcome = on_text(text)
    if inspect.isawaitable(outcome):
        await outcome


def _reveal(value: str | Secret | None) -> str:
    return value.reveal() if isinstance(value, Secret) else value or ""


def _parse_retry_after(text: str) -> float | None:
    return float(text) if text.isdigit() and len(text) < 8 else None
