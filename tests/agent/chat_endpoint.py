"""An OpenAI-compatible chat endpoint on a real socket, with scripted answers."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Respond = Callable[[web.Request], Any]


class ChatEndpoint:
    """Answers each request with the next of its answers, and records the requests."""

    def __init__(self, answers: Iterable[Any]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        self.paths.append(request.path_qs)
        answer = self.answers.pop(0)
        if callable(answer):
            responded: web.StreamResponse = await answer(request)
            return responded
        return web.json_response(answer)


@asynccontextmanager
async def run_endpoint(*answers: Any) -> AsyncIterator[ChatEndpoint]:
    """Run the endpoint. An answer is JSON, or a coroutine function that responds."""
    endpoint = ChatEndpoint(answers)
    application = web.Application()
    application.router.add_post("/{path:.*}", endpoint.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield endpoint
    finally:
        await runner.cleanup()


def answer(text: str | None = None, *calls: tuple[str, str, Any], **more: Any) -> dict[str, Any]:
    """Make a complete answer; a call is its id, name and arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ]
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}], **more}


def stream_answer(*chunks: Any, done: bool = True) -> Respond:
    """Make a streamed answer: dicts become events, bytes are sent unchanged."""

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for chunk in chunks:
            data = chunk if isinstance(chunk, bytes) else b"data: " + json.dumps(chunk).encode() + b"\n\n"
            await response.write(data)
        if done:
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    return respond


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """Make one chunk of a streamed answer."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def error_answer(status: int, body: str = "", **headers: str) -> Respond:
    """Make an answer with an error status."""

    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status, text=body, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return respond
