"""The minimal ASGI application on uvicorn with httptools and uvloop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from bench.floors.echo_call import CONTENT_TYPE, PORT, answer

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer one request."""
    body = answer((await receive())["body"])
    headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


uvicorn.run(app, port=PORT, http="httptools", loop="uvloop", lifespan="off", access_log=False, log_level="warning")
