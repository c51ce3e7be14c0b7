"""A user's function behind a tool, a resource or a prompt: called in the loop or in a thread.

The one place where such functions run, get their `Context`, and where what they raise becomes
an error that a caller may see.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubbub.errors import ConnectionClosed, DeadlineExceeded, HubbubError, RemoteError, ToolError
from hubbub.protocol.model import Call
from hubbub.security.redact import redact
from hubbub.server.context import Context
from hubbub.server.threads import is_being_cancelled, run_in_thread

if TYPE_CHECKING:
    from hubbub.server.server import Server

logger = logging.getLogger("hubbub.handlers")


class Handler:
    """A function, and the name of the parameter that takes the `Context` if it wants one."""

    __slots__ = ("_is_async", "context_name", "function")

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self.function = function
        self.context_name = context_name
        self._is_async = inspect.iscoroutinefunction(function)

    async def call(self, arguments: dict[str, Any], call: Call, server: Server) -> Any:
        """What the function returns.

        Raises:
            HubbubError: one that the function raised itself.
            ToolError: for whatever else it raised.
        """
        context = None
        if self.context_name is not None:
            context = arguments[self.context_name] = Context(call, server)
        try:
            if self._is_async:
                return await self.function(**arguments)
            value = await run_in_thread(server.threads, self.function, arguments)
            return await value if inspect.isawaitable(value) else value
        except (RemoteError, DeadlineExceeded, ConnectionClosed) as error:
            raise ToolError(error.message) from error  # the question went wrong, not the call
        except HubbubError:
            raise
        except asyncio.CancelledError as error:
            if context is not None:
                context.is_cancelled = True
            if is_being_cancelled():
                raise
            raise ToolError("Something that the handler waited for was cancelled") from error
        except (Exception, SystemExit) as error:  # a handler that leaves must not take the server along
            logger.warning("%s failed", self.function.__name__, exc_info=True)
            raise ToolError(_explain(error)) from error
        finally:
            if context is not None:
                context.end()


def _explain(error: BaseException) -> str:
    """An exception in a line for the model: its message without secrets, or at least its kind."""
    if isinstance(error, SystemExit):
        return f"The handler tried to end the process (exit code {error.code})"
    # File names that are not UTF-8 are in many messages, and JSON cannot carry them.
    message = str(error).encode(errors="replace").decode()
    return redact(message) or type(error).__name__
