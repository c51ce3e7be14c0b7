"""Middleware that runs around every request to a server; see `Server.middleware`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from hubbub.errors import DefinitionError
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Notification, Reply
from hubbub.protocol.signatures import default_name, is_async

CallNext: TypeAlias = Callable[[Call], Coroutine[Any, Any, Reply]]
"""Passes a call on to the next middleware, and finally to the server."""
Middleware: TypeAlias = Callable[[Call, CallNext], Coroutine[Any, Any, Reply]]


def check_middleware(middleware: Middleware) -> None:
    """Raises: DefinitionError, if it is not an async function of two arguments."""
    name = default_name(middleware)
    if not is_async(middleware):
        raise DefinitionError(f"the middleware {name!r} must be an `async def` that takes `call` and `call_next`")
    try:
        inspect.signature(middleware).bind(None, None)
    except TypeError:
        raise DefinitionError(f"the middleware {name!r} must take two arguments, `call` and `call_next`") from None


def with_middleware(middleware: Middleware, peer: Peer) -> Peer:
    """Add middleware to a peer, inside the middleware added before it: the first one added is the outermost."""
    if isinstance(peer, MiddlewareStack):
        return MiddlewareStack(peer.inner, (*peer.functions, middleware))
    return MiddlewareStack(peer, (middleware,))


class MiddlewareStack:
    """A peer wrapped in middleware functions; the first is the outermost."""

    def __init__(self, inner: Peer, functions: tuple[Middleware, ...]) -> None:
        self.inner = inner
        self.functions = functions
        self._call_first: CallNext = inner.request
        for function in reversed(functions):
            self._call_first = partial(_call_middleware, function, self._call_first)

    def request(self, call: Call) -> Coroutine[Any, Any, Reply]:
        return self._call_first(call)

    async def notify(self, note: Notification) -> None:
        """Pass a notification on; middleware sees requests only."""
        await self.inner.notify(note)


async def _call_middleware(function: Middleware, call_next: CallNext, call: Call) -> Reply:
    reply: Any = await function(call, call_next)
    if isinstance(reply, Reply):
        return reply
    name = getattr(function, "__qualname__", function)
    advice = "return the reply of `call_next`, or a reply of your own, such as a `ToolResult`"
    raise TypeError(f"middleware {name} returned {type(reply).__name__}; {advice}")
