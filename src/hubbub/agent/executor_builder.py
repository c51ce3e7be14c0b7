"""Puts together who runs the tools of a catalog: `ExecutorBuilder.build(registry=..., mcp_snapshot=...)`.

Every tool that the model is shown must have somebody who runs it; this is found out
here, before the first call. Nothing else can be called.
"""

from __future__ import annotations

from hubbub import bounds
from hubbub.agent.catalog import Catalog
from hubbub.agent.executor import Executor, Function, McpExecutor, RoutingExecutor, as_executor
from hubbub.agent.snapshot import Snapshot
from hubbub.errors import DefinitionError

_NAMED = 10


class ExecutorBuilder:
    """Builds executors."""

    @staticmethod
    def build(
        *,
        registry: Catalog,
        mcp_snapshot: Snapshot | None = None,
        default_executor: Executor | Function | None = None,
        max_bytes: int = bounds.TOOL_OUTPUT_BYTES,
        timeout_s: float | None = None,
        enabled: bool = True,
    ) -> RoutingExecutor | None:
        """Make the executor of these tools; None if tools are not to be used at all.

        Raises:
            DefinitionError: a tool has nobody who runs it.
        """
        if not enabled:
            return None
        mapping = {} if mcp_snapshot is None else mcp_snapshot.mapping
        mcp = None if mcp_snapshot is None else McpExecutor(mcp_snapshot, max_bytes=max_bytes, timeout_s=timeout_s)
        default = None if default_executor is None else as_executor(default_executor)
        routes: dict[str, Executor] = {}
        orphans: dict[str, list[str]] = {}
        for definition in registry.exposed:
            # By membership, not by how a name begins: an application may call its own tools as it likes.
            executor = mcp if definition.name in mapping else default
            if definition.origin is not None and definition.name not in mapping:
                orphans.setdefault("mcp_snapshot", []).append(definition.name)
            elif executor is None:
                orphans.setdefault("default_executor", []).append(definition.name)
            else:
                routes[definition.name] = executor
        for needed, names in orphans.items():
            more = "" if len(names) <= _NAMED else f" and {len(names) - _NAMED} more"
            raise DefinitionError(f"`{needed}` has to run {', '.join(names[:_NAMED])}{more}, and does not")
        return RoutingExecutor(routes)
