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

from hubbub.errors import HubbubError, ToolError
from hubbub.protocol.model import Call
from hubbub.server.context import Context
from hubbub.server.threads import run_in_thread

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
        except HubbubError:
            raise
        except asyncio.CancelledError:
            if context is not None:
                context.is_cancelled = True
            raise
        except Exception as error:
            logger.warning("%s failed", self.function.__name__, exc_info=True)
            # Its message is for the model; what looks like a secret in it is for nobody.
            from hubbub.security.redact import redact  # Its patterns take long to compile.

            raise ToolError(redact(str(error)) or type(error).__name__) from error
