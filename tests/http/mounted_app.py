"""A FastAPI app in which two servers are mounted, one of them through Starlette; run by real ASGI servers in tests."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.routing import Mount
from tests.http.playground import make_server

from hubbub import Server

server = make_server()
other = Server("other")


@server.lifespan
@asynccontextmanager
async def log_lifespan(server: Server) -> AsyncIterator[str]:
    """Write to stderr when the server starts and stops."""
    print("lifespan: opened", file=sys.stderr, flush=True)
    yield "open"
    print("lifespan: closed", file=sys.stderr, flush=True)


@server.tool
async def wait_for_file(path: str) -> str:
    """Wait until a file exists: that works when no new connection is possible any more."""
    Path(path).with_suffix(".awaited").touch()
    while not Path(path).exists():
        await asyncio.sleep(0.02)
    return "done"


@other.tool
async def name() -> str:
    """Return which of the two servers this is."""
    return "other"


tools = server.asgi(drain_s=600)
other_tools = other.asgi()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run both, because neither FastAPI nor Starlette does."""
    async with tools.lifespan(), other_tools.lifespan():
        yield


async def add_header(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """A middleware of the usual kind, which wraps `receive` and `send`."""
    response = await call_next(request)
    response.headers["x-parent"] = "starlette"
    return response


app = FastAPI(lifespan=lifespan)
app.mount("/tools", tools)
middleware = [Middleware(BaseHTTPMiddleware, dispatch=add_header)]
app.mount("/inner", Starlette(routes=[Mount("/others", other_tools)], middleware=middleware))
