"""Register a tool of the contract: a schema for callers, and leniently parsed arguments.

    STATUS = ContractTool("vdo_status", SESSION, ("session_id",), READS)

    @STATUS.on(server)
    async def status(arguments: Arguments) -> Result:
        "Return the state of a session."

Results have no schema, because a failure has another form: `{"ok": false, "error": …}`.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from hubbub import Context, Server, Tool, ToolAnnotations, ToolErrors
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.javascript import well_formed
from hubbub.packs.peers.owner import owner_of

Result: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[Arguments], Awaitable[Result]]
RunWithContext: TypeAlias = Callable[[Arguments, Context], Awaitable[Result]]
Fields: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The properties of a schema, by name."""

READS: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
ACTS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
DESTROYS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

SESSION: Final[Fields] = {"session_id": {"type": "string", "description": "From vdo_connect."}}
TARGET: Final[Fields] = {
    "target": {
        "type": ["string", "object"],
        "description": "The stream id or uuid of a peer; everybody if left out.",
    },
    "uuid": {"type": "string", "description": "The uuid of a peer, instead of target."},
}


def integer(description: str, default: int, cap: int, least: int = 1) -> dict[str, Any]:
    """Return the schema of an integer property."""
    return {"type": "integer", "description": description, "default": default, "minimum": least, "maximum": cap}


def boolean(description: str, default: bool) -> dict[str, Any]:
    """Return the schema of a boolean property."""
    return {"type": "boolean", "description": description, "default": default}


def string(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a string property."""
    return {"type": "string", "description": description, **more}


class ContractTool(msgspec.Struct, frozen=True):
    """The declaration of one tool: its name, schema and annotations."""

    name: str
    fields: Fields
    required: tuple[str, ...] = ()
    annotations: ToolAnnotations = ACTS

    def on(self, server: Server) -> Callable[[Run], Run]:
        """Return a decorator that registers a function as this tool; its docstring is the tool's description."""

        def register(function: Run) -> Run:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _sayable(await function(self.read(arguments, context)))

            self._register(server, run, function.__doc__)
            return function

        return register

    def with_context_on(self, server: Server) -> Callable[[RunWithContext], RunWithContext]:
        """Like `on`, for a function that also takes the context, for instance to report progress."""

        def register(function: RunWithContext) -> RunWithContext:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _sayable(await function(self.read(arguments, context), context))

            self._register(server, run, function.__doc__)
            return function

        return register

    def read(self, given: Mapping[str, Any], context: Context) -> Arguments:
        """Check the arguments of one call.

        Raises: ArgumentsInvalid.
        """
        return Arguments(self.name, given, self.fields, owner_of(context))

    def _register(self, server: Server, run: Callable[..., Any], description: str | None) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.fields), "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        tool = Tool(
            run,
            name=self.name,
            description=inspect.cleandoc(description or ""),
            input_schema=schema,
            annotations=self.annotations,
            errors=ToolErrors(as_result=True),
            checks_arguments=False,
        )
        server.tools.register(tool)


def _sayable(result: Result) -> Result:
    """Replace lone surrogates, which peers may send, so that one bad string does not make the whole result fail."""
    try:
        msgspec.json.encode(result)
    except UnicodeEncodeError:
        return {key: well_formed(value) for key, value in result.items()}
    return result
