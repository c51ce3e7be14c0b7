"""How one tool of the contract is put on a server: a schema for callers, and arguments that are read kindly.

    STATUS = ContractTool("vdo_status", SESSION, ("session_id",), READS)

    @STATUS.on(server)
    async def status(arguments: Arguments) -> Result:
        "Tell how a session is."

Results have no schema: a failure has another form, `{"ok": false, "error": …}`.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from hubbub import Context, Server, ToolAnnotations
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.javascript import well_formed

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
    """A property that is a number."""
    return {"type": "integer", "description": description, "default": default, "minimum": least, "maximum": cap}


def boolean(description: str, default: bool) -> dict[str, Any]:
    """A property that is yes or no."""
    return {"type": "boolean", "description": description, "default": default}


def string(description: str, **more: Any) -> dict[str, Any]:
    """A property that is text."""
    return {"type": "string", "description": description, **more}


class ContractTool(msgspec.Struct, frozen=True):
    """What callers are told about one tool."""

    name: str
    fields: Fields
    required: tuple[str, ...] = ()
    annotations: ToolAnnotations = ACTS

    def on(self, server: Server) -> Callable[[Run], Run]:
        """Let a function be this tool; its docstring is the description."""

        def register(function: Run) -> Run:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _sayable(await function(self.read(arguments, context)))

            self._register(server, run, function.__doc__)
            return function

        return register

    def with_context_on(self, server: Server) -> Callable[[RunWithContext], RunWithContext]:
        """The same for a function that tells of its progress."""

        def register(function: RunWithContext) -> RunWithContext:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _sayable(await function(self.read(arguments, context), context))

            self._register(server, run, function.__doc__)
            return function

        return register

    def read(self, given: Mapping[str, Any], context: Context) -> Arguments:
        """The arguments of one call.

        Raises: ArgumentsInvalid.
        """
        return Arguments(self.name, given, self.fields, context.caller.principal.name)

    def _register(self, server: Server, run: Callable[..., Any], description: str | None) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.fields), "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        server.tool(
            name=self.name,
            description=inspect.cleandoc(description or ""),
            input_schema=schema,
            annotations=self.annotations,
            checks_arguments=False,
            fails_as_result=True,
        )(run)


def _sayable(result: Result) -> Result:
    """A result as MCP can say it: peers may send halves of characters, and one must not take the rest with it."""
    try:
        msgspec.json.encode(result)
    except UnicodeEncodeError:
        return {key: well_formed(value) for key, value in result.items()}
    return result
