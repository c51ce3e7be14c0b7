"""Register a tool of the contract: a schema for callers, and leniently parsed arguments.

    STATUS = ContractTool("vdo_status", SESSION, ("session_id",), READ_ONLY)

    @STATUS.register(server)
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
from hubbub.packs.peers.js_json import replace_lone_surrogates
from hubbub.packs.peers.owner import owner_from_context

Result: TypeAlias = dict[str, Any]
ToolFunction: TypeAlias = Callable[[Arguments], Awaitable[Result]]
ContextToolFunction: TypeAlias = Callable[[Arguments, Context], Awaitable[Result]]
Fields: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The properties of a schema, by name."""

READ_ONLY: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
NON_DESTRUCTIVE: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
DESTRUCTIVE: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

SESSION: Final[Fields] = {"session_id": {"type": "string", "description": "From vdo_connect."}}
TARGET: Final[Fields] = {
    "target": {
        "type": ["string", "object"],
        "description": "The stream id or uuid of a peer; all peers if left out.",
    },
    "uuid": {"type": "string", "description": "The uuid of a peer, instead of target."},
}


def integer(description: str, default: int, maximum: int, minimum: int = 1) -> dict[str, Any]:
    """Return the schema of an integer property."""
    return {"type": "integer", "description": description, "default": default, "minimum": minimum, "maximum": maximum}


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
    annotations: ToolAnnotations = NON_DESTRUCTIVE

    def register(self, server: Server) -> Callable[[ToolFunction], ToolFunction]:
        """Return a decorator that registers a function as this tool; its docstring is the tool's description."""

        def register(function: ToolFunction) -> ToolFunction:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _replace_lone_surrogates(await function(self.parse_arguments(arguments, context)))

            self._register(server, run, function.__doc__)
            return function

        return register

    def register_with_context(self, server: Server) -> Callable[[ContextToolFunction], ContextToolFunction]:
        """Like `register`, for a function that also takes the context, for instance to report progress."""

        def register(function: ContextToolFunction) -> ContextToolFunction:
            async def run(arguments: dict[str, Any], context: Context) -> Any:
                return _replace_lone_surrogates(await function(self.parse_arguments(arguments, context), context))

            self._register(server, run, function.__doc__)
            return function

        return register

    def parse_arguments(self, given: Mapping[str, Any], context: Context) -> Arguments:
        """Check the arguments of one call.

        Raises: ArgumentsInvalid.
        """
        return Arguments(self.name, given, self.fields, owner_from_context(context))

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


def _replace_lone_surrogates(result: Result) -> Result:
    """Replace lone surrogates, which peers may send, so that one bad string does not make the whole result fail."""
    try:
        msgspec.json.encode(result)
    except UnicodeEncodeError:
        return {key: replace_lone_surrogates(value) for key, value in result.items()}
    return result
