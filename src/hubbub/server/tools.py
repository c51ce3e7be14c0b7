"""A tool: a typed function with a name, a schema on each side, and hints.

Running one is the hot path: raw arguments are decoded straight into the function's
parameters, and what it returns becomes content without being looked at twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from hubbub.errors import DefinitionError
from hubbub.protocol.content import CONTENT_TYPES, Text
from hubbub.protocol.docstrings import read_docstring
from hubbub.protocol.headers import header_parameters
from hubbub.protocol.hints import resolve_hints
from hubbub.protocol.model import Call
from hubbub.protocol.names import check_name
from hubbub.protocol.revisions import Revision
from hubbub.protocol.schema import Arguments, Output
from hubbub.protocol.shape import shape_tool_entry
from hubbub.protocol.wire import Icon, ToolAnnotations, ToolEntry, ToolReply
from hubbub.server.asking import Ask, gather_answers
from hubbub.server.context import Context
from hubbub.server.handlers import Handler

if TYPE_CHECKING:
    from hubbub.protocol.schema_data import DataArguments, UncheckedArguments
    from hubbub.server.server import Server

Function = Callable[..., Any]


class Tool:
    """One tool, ready to be registered and run."""

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
        icons: list[Icon] | None = None,
        meta: dict[str, Any] | None = None,
        plain_code: int | None = None,
        invalid_code: str | None = None,
        fails_as_result: bool = False,
        checks_arguments: bool = True,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        check_name(self.name)
        self.description = description if description is not None else _summary(function)
        self.plain_code = plain_code
        """The JSON-RPC code of this tool's failures in the plain dialect."""
        self.invalid_code = invalid_code
        """The `code` of failures that tell of wrong arguments, for tools whose other failures have codes too."""
        self.fails_as_result = fails_as_result
        """Whether a failure is a result even in the plain dialect."""
        self.arguments = _arguments(function, input_schema, is_checked=checks_arguments)
        """Unless they are to be checked, the function gets them in one parameter, as they came."""
        self._output = _output(function, self.name, output_schema)
        self._entry = ToolEntry(
            self.name,
            self.description or UNSET,
            self.arguments.schema,
            title if title is not None else UNSET,
            _unset(self._output.schema),
            annotations if annotations is not None else UNSET,
            icons if icons is not None else UNSET,
            meta if meta is not None else UNSET,
        )
        self._entries: dict[str, ToolEntry] = {}
        injected = self.arguments.injected
        self._handler = Handler(function, next((key for key, kind in injected.items() if kind is Context), None))
        self.asks = {key: ask for key, ask in injected.items() if isinstance(ask, Ask)}
        """Inputs that the person gives before the function starts."""
        self.converses = self._handler.context_name is not None or bool(self.asks)
        """Whether a call may ask the caller something before it answers."""
        self.headers = header_parameters(self.arguments.schema)
        """Which arguments HTTP clients mirror in headers."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.schema

    @property
    def has_output_schema(self) -> bool:
        """Whether clients are told what the results look like."""
        return self._entry.output_schema is not UNSET

    @property
    def annotations(self) -> ToolAnnotations | None:
        """The hints that the tool was declared with."""
        return None if self._entry.annotations is UNSET else self._entry.annotations

    def entry(self, revision: Revision) -> ToolEntry:
        """The tool as `tools/list` shows it in this revision."""
        entry = self._entries.get(revision.version)
        if entry is None:
            wrapped = None if self._output.is_object else self._output.wrapped_schema
            entry = self._entries[revision.version] = shape_tool_entry(self._entry, wrapped, revision)
            if not revision.is_mcp:
                entry.title = entry.annotations = entry.icons = entry.meta = UNSET
        return entry

    async def run(self, raw: Raw, call: Call, server: Server, answers: Mapping[str, Any] | None = None) -> ToolReply:
        """Call the function with arguments from raw JSON; `answers` are declared inputs that are already there.

        Raises:
            ToolFailure: the arguments do not fit, or the function failed.
        """
        arguments = self.arguments.decode(raw)
        if self.asks:
            arguments |= answers or await gather_answers(self.asks, Context(call, server))
        reply = self._reply(await self._handler.call(arguments, call, server), call.caller.revision)
        context_name = self._handler.context_name
        if context_name is not None and (meta := arguments[context_name].result_meta):
            reply.meta = meta if reply.meta is UNSET else reply.meta | meta
        return reply

    def _reply(self, value: Any, revision: Revision) -> ToolReply:
        if isinstance(value, ToolReply):
            return replace(value)  # shaping must not change what the function may keep
        if self._output.schema is None:
            if isinstance(value, str):
                return ToolReply(content=[Text(value)])
            content = _as_content(value)
            if content is not None:
                return ToolReply(content=content)
        structured = self._output.encode(value)
        if revision.structured == "object" and self._output.schema is not None and not self._output.is_object:
            # The listed schema is a wrapped one, so an object is wrapped too when it is one choice of several.
            return ToolReply(content=[Text(structured.decode())], structured_content=Raw(b'{"result":%b}' % structured))
        return ToolReply(structured_content=Raw(structured))


def _arguments(
    function: Function, schema: Mapping[str, Any] | None, *, is_checked: bool
) -> Arguments | DataArguments | UncheckedArguments:
    if schema is None:
        if not is_checked:
            raise DefinitionError(f"{function.__name__}: arguments are left unchecked only with an `input_schema`")
        return Arguments.of(function, skip=(Context, Ask))
    from hubbub.protocol.schema_data import DataArguments, UncheckedArguments

    hints = resolve_hints(function, skip=(Context,))
    injected = {key: Context for key, hint in hints.items() if hint is Context}
    if is_checked:
        return DataArguments(dict(schema), injected)
    names = [name for name in inspect.signature(function).parameters if name not in injected]
    if len(names) != 1:
        raise DefinitionError(
            f"{function.__name__}: a tool that checks its arguments itself gets them in one parameter"
        )
    return UncheckedArguments(dict(schema), names[0], injected)


def _output(function: Function, name: str, schema: Mapping[str, Any] | None) -> Output:
    if schema is None:
        return Output.of(function, skip=(*CONTENT_TYPES, ToolReply))
    return Output(name, dict(schema))


def _as_content(value: Any) -> list[Any] | None:
    """The value as content blocks, or None if it is data."""
    if value is None:
        return []
    if isinstance(value, CONTENT_TYPES):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, (str, *CONTENT_TYPES)) for item in value):
        if all(isinstance(item, str) for item in value):
            return None
        return [Text(item) if isinstance(item, str) else item for item in value]
    return None


def _summary(function: Function) -> str:
    """The docstring without its parameter section, which is in the schema."""
    return read_docstring(inspect.getdoc(function)).description


def _unset(schema: dict[str, Any] | None) -> Any:
    return UNSET if schema is None else schema
