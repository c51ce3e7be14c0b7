"""Runs tool calls: MCP tools through their server's client, others through the application's own code.

Every outcome is returned as an envelope; only cancellation is raised. A call is never repeated. The executor of a call
is looked up by name in a fixed table, not derived from a prefix of the name.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from msgspec import UNSET

from hubbub import bounds
from hubbub.agent import failures
from hubbub.agent.definition import Definition, ToolOrigin
from hubbub.agent.envelope import ToolEnvelope, ToolWarning, as_envelope, error_envelope, make_problem, success_envelope
from hubbub.agent.images import add_images, extract_images
from hubbub.agent.size_guard import check_output_limit, fit_envelope
from hubbub.agent.snapshot import Snapshot, ToolClient
from hubbub.agent.summary import plain_blocks, summarize
from hubbub.agent.validation import SchemaChecks
from hubbub.errors import ArgumentsInvalid

logger = logging.getLogger("hubbub.agent")

STRUCTURED_CONTENT_INVALID: Final = "STRUCTURED_CONTENT_INVALID"

Function: TypeAlias = Callable[..., Any]
"""`function(name, arguments)`, also with `call_id`; sync or async."""


class Executor(Protocol):
    """Runs tool calls."""

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
        """Run one call; failures are returned in the envelope."""


class McpExecutor:
    """Runs the tools of a snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        max_bytes: int | None = None,
        timeout_s: float | None = None,
        checks_arguments: bool = True,
        images: bool = False,
    ) -> None:
        """`timeout_s` applies to each call; by default, the timeout of its server does.

        With `images`, the images of a result are in `data.images`, where the tool loop finds them for the model.

        Raises: SettingsError.
        """
        self._snapshot = snapshot
        self._max_bytes = check_output_limit(bounds.TOOL_OUTPUT_BYTES if max_bytes is None else max_bytes)
        self._timeout_s = timeout_s
        self._definitions: dict[str, Definition] = {item.name: item for item in snapshot.definitions}
        self._checks = SchemaChecks()
        self._checks_arguments = checks_arguments
        self._images = images

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
        """Run one call on its server, once."""
        origin = self._snapshot.mapping.get(name)
        if origin is None:
            return error_envelope(name, make_problem(failures.MCP_TOOL_NOT_FOUND, f"Unknown MCP tool {name!r}"))
        client = self._snapshot.clients.get(origin.server_id)
        if client is None:
            return error_envelope(
                name,
                make_problem(
                    failures.MCP_SERVER_NOT_FOUND, f"The server {origin.server_id!r} is not connected", retryable=True
                ),
            )
        definition = self._definitions.get(name)
        try:
            if self._checks_arguments and definition is not None:
                self._checks.check_arguments(definition, arguments)
            envelope = await self._run(client, name, origin, arguments)
            images = extract_images(envelope) if self._images else []
            return add_images(fit_envelope(envelope, self._max_bytes), images)
        except Exception as error:  # Returned to the model; the run continues.
            logger.debug("a call of %s failed: %s", name, type(error).__name__)
            return fit_envelope(
                error_envelope(name, failures.server_problem(error), data={"mcp": _origin_fields(origin)}),
                self._max_bytes,
            )

    async def _run(
        self, client: ToolClient, name: str, origin: ToolOrigin, arguments: Mapping[str, Any]
    ) -> ToolEnvelope:
        result = await client.call_tool(origin.remote_tool_name, dict(arguments), timeout_s=self._timeout_s)
        content = plain_blocks(result.content)
        structured = result.structured_content
        has_structured = structured is not UNSET and structured is not None
        data = {
            "mcp": {
                **_origin_fields(origin),
                "content": content,
                "structured_content": structured if has_structured else None,
            },
            "text": summarize(content, structured, has_structured=has_structured),
        }
        if result.is_error is True:
            message = "The tool reported an error; read data.text"
            return error_envelope(
                name, make_problem(failures.MCP_TOOL_ERROR, message, may_have_executed=True), data=data
            )
        envelope = success_envelope(name, data)
        definition = self._definitions.get(name)
        if definition is not None:
            self._check_output(definition, structured if has_structured else None, envelope)
        return envelope

    def _check_output(self, definition: Definition, structured: Any, envelope: ToolEnvelope) -> None:
        try:
            self._checks.check_output(definition, structured)
        except ArgumentsInvalid as error:
            issue = make_problem(
                STRUCTURED_CONTENT_INVALID, f"The result does not match the tool's output schema: {error.message}"
            )
            envelope["warnings"].append(ToolWarning(code=issue["code"], message=issue["message"]))


class FunctionExecutor:
    """Runs an application's own tools with one function for all of them."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self._passes_call_id = _takes_call_id(function)

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
        """Run the function; one that is not async runs in a thread."""
        options = {"call_id": call_id} if self._passes_call_id else {}
        try:
            if self._is_async:
                value = await self._function(name, dict(arguments), **options)
            else:
                value = await asyncio.to_thread(self._function, name, dict(arguments), **options)
                if inspect.isawaitable(value):
                    value = await value
        except Exception as error:  # The application's own code may raise anything.
            logger.debug("a call of %s failed: %s", name, type(error).__name__)
            return error_envelope(name, failures.application_problem(error))
        return as_envelope(name, value)


class RoutingExecutor:
    """Sends each call to the executor that has a tool of its name."""

    def __init__(self, routes: Mapping[str, Executor]) -> None:
        self._routes = dict(routes)

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools."""
        return frozenset(self._routes)

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
        """Run one call with the executor that has a tool of its name."""
        executor = self._routes.get(name)
        if executor is None:
            return error_envelope(
                name, make_problem(failures.TOOL_NOT_IMPLEMENTED, f"The tool {name!r} has no executor")
            )
        return await executor.call(name, arguments, call_id=call_id)


def as_executor(value: Executor | Function) -> Executor:
    """Return an executor unchanged, and wrap a function in a `FunctionExecutor`."""
    return value if hasattr(value, "call") else FunctionExecutor(value)


def _origin_fields(origin: ToolOrigin) -> dict[str, Any]:
    return {"server_id": origin.server_id, "remote_tool_name": origin.remote_tool_name}


def _takes_call_id(function: Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(item.name == "call_id" or item.kind is item.VAR_KEYWORD for item in parameters)
