"""Builds the executor of a registry's tools: `ExecutorBuilder.build(registry=..., mcp_snapshot=...)`.

Every tool that the model is shown must have an executor; this is checked here, before the first call. Nothing else can
be called.
"""

from __future__ import annotations

from hubbub import bounds
from hubbub.agent.executor import Executor, Function, McpExecutor, RoutingExecutor, as_executor
from hubbub.agent.registry import Registry
from hubbub.agent.snapshot import Snapshot
from hubbub.errors import DefinitionError

_MAX_NAMES_IN_ERROR = 10


class ExecutorBuilder:
    """Builds executors."""

    @staticmethod
    def build(
        *,
        registry: Registry,
        mcp_snapshot: Snapshot | None = None,
        default_executor: Executor | Function | None = None,
        max_bytes: int = bounds.TOOL_OUTPUT_BYTES,
        timeout_s: float | None = None,
        images: bool = False,
        enabled: bool = True,
    ) -> RoutingExecutor | None:
        """Build the executor of these tools; None if `enabled` is False.

        With `images`, the model sees the images of results; without, it reads their type and size. Only for
        models that take images: other endpoints refuse the request.

        Raises:
            DefinitionError: a tool has no executor.
        """
        if not enabled:
            return None
        mapping = {} if mcp_snapshot is None else mcp_snapshot.mapping
        mcp = None
        if mcp_snapshot is not None:
            mcp = McpExecutor(mcp_snapshot, max_bytes=max_bytes, timeout_s=timeout_s, images=images)
        default = None if default_executor is None else as_executor(default_executor)
        routes: dict[str, Executor] = {}
        unrouted: dict[str, list[str]] = {}
        for definition in registry.exposed:
            # By membership, not by prefix: an application may give its own tools any names.
            executor = mcp if definition.name in mapping else default
            if definition.origin is not None and definition.name not in mapping:
                unrouted.setdefault("mcp_snapshot", []).append(definition.name)
            elif executor is None:
                unrouted.setdefault("default_executor", []).append(definition.name)
            else:
                routes[definition.name] = executor
        for argument, names in unrouted.items():
            more = "" if len(names) <= _MAX_NAMES_IN_ERROR else f" and {len(names) - _MAX_NAMES_IN_ERROR} more"
            raise DefinitionError(
                f"No executor for {', '.join(names[:_MAX_NAMES_IN_ERROR])}{more}; pass the `{argument}` that runs them"
            )
        return RoutingExecutor(routes)
