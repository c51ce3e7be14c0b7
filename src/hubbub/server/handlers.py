"""Calls the user's functions behind tools, resources and prompts, in the loop or in a thread.

The one place where such functions run and get their `Context`, and where their exceptions become
errors that callers may see.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from hubbub import bounds
from hubbub.errors import ConnectionClosed, DeadlineExceeded, HubbubError, RemoteError, ToolError
from hubbub.protocol.calls import Call
from hubbub.protocol.signatures import default_name, is_async
from hubbub.security.redact import redact
from hubbub.server.context import Context
from hubbub.server.threads import is_being_cancelled, run_in_thread

if TYPE_CHECKING:
    from hubbub.server.server import Server

logger = logging.getLogger("hubbub.handlers")
_CLIENT_REQUEST_ERRORS = (RemoteError, DeadlineExceeded, ConnectionClosed)
"""Errors of requests that a handler sent to its client, not of the call itself."""


class Handler:
    """A user's function, and the name of its `Context` parameter, if any."""

    __slots__ = ("_is_async", "context_name", "function", "is_direct")

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self.function = function
        self.context_name = context_name
        self._is_async = is_async(function)
        self.is_direct = self._is_async and context_name is None
        """Whether awaiting the function is all that `call` does, except for the conversion of errors."""

    async def call(self, arguments: dict[str, Any], call: Call, server: Server) -> Any:
        """Call the function and return its result.

        Raises:
            HubbubError: the function raised it.
            ToolError: the function raised another exception.
        """
        context = None
        if self.context_name is not None:
            context = arguments[self.context_name] = Context(call, server)
        try:
            if self._is_async:
                return await self.function(**arguments)
            value = await run_in_thread(server.threads, self.function, arguments, call.caller.owner)
            return await value if inspect.isawaitable(value) else value
        except BaseException as error:
            if context is not None and isinstance(error, asyncio.CancelledError):
                context.is_cancelled = True
            self.raise_error(error)
        finally:
            if context is not None:
                context.end()

    def raise_error(self, error: BaseException) -> NoReturn:
        """Raise the error for callers in place of an exception that the function raised."""
        if isinstance(error, _CLIENT_REQUEST_ERRORS):
            raise ToolError(error.message) from error
        if isinstance(error, HubbubError | GeneratorExit):
            raise error
        if isinstance(error, asyncio.CancelledError):
            if is_being_cancelled():
                raise error
            raise ToolError("A task that the handler awaited was cancelled") from error
        # KeyboardInterrupt and SystemExit of a handler must not end the server.
        raise self._convert_error(error) from error

    def _convert_error(self, error: BaseException) -> HubbubError:
        """Return the error for callers; a group with a single exception counts as that exception."""
        errors = _flatten_group(error)
        if len(errors) == 1 and isinstance(errors[0], HubbubError):
            return ToolError(errors[0].message) if isinstance(errors[0], _CLIENT_REQUEST_ERRORS) else errors[0]
        logger.warning("%s failed", default_name(self.function), exc_info=error)
        messages = list(dict.fromkeys(map(_describe_error, errors)))
        more = len(messages) - bounds.PROBLEMS
        return ToolError("; ".join(messages[: bounds.PROBLEMS]) + (f"; and {more} more" if more > 0 else ""))


def _flatten_group(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group, as `asyncio.TaskGroup` raises it, and in nested groups."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [member for nested in error.exceptions for member in _flatten_group(nested)]


def _describe_error(error: BaseException) -> str:
    """Describe an exception in one line for the model: its message without secrets, or its type."""
    if isinstance(error, SystemExit):
        return f"The handler tried to end the process (exit code {error.code})"
    if isinstance(error, KeyboardInterrupt):
        return "The handler was interrupted"
    if isinstance(error, HubbubError):
        return error.message
    # Messages may contain file names that are not UTF-8, which JSON cannot carry.
    message = str(error).encode(errors="replace").decode()
    return redact(message) or type(error).__name__
