"""A tool: a typed function with a name, schemas for its arguments and result, and hints.

Running one is the hot path: raw arguments are decoded straight into the function's
parameters, and its return value is converted to content in one pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from hubbub.errors import DefinitionError
from hubbub.protocol.calls import Call
from hubbub.protocol.content import CONTENT_TYPES, Text
from hubbub.protocol.docstrings import read_docstring
from hubbub.protocol.mcp_headers import header_parameters
from hubbub.protocol.results import Icon, ToolAnnotations, ToolEntry, ToolResult, UnionToolResult
from hubbub.protocol.revisions import Revision
from hubbub.protocol.schema import Arguments, Output
from hubbub.protocol.scopes import required_scopes
from hubbub.protocol.shape import shape_tool_entry
from hubbub.protocol.signatures import (
    accepts_by_position,
    check_function,
    default_name,
    function_doc,
    partial_arguments,
    resolve_hints,
)
from hubbub.protocol.tool_names import check_name
from hubbub.server.context import Context
from hubbub.server.declared_inputs import Ask, ask_declared_inputs
from hubbub.server.handlers import Handler

if TYPE_CHECKING:
    from hubbub.protocol.schema_data import DataArguments, UncheckedArguments
    from hubbub.server.server import Server

Function = Callable[..., Any]


class ToolErrors(msgspec.Struct, frozen=True, kw_only=True):
    """How failures of a tool are reported, for tools whose callers expect a fixed form."""

    plain_code: int | None = None
    """JSON-RPC error code of failures for callers that do not speak MCP; by default that of failed tools."""
    invalid_code: str | None = None
    """`code` in the error for invalid arguments, for tools whose other failures have a code."""
    as_result: bool = False
    """Whether callers that speak JSON-RPC without MCP get failures of `tools/call` as results with `isError`."""


_DEFAULT_ERRORS = ToolErrors()


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
        scopes: Collection[str] = (),
        errors: ToolErrors | None = None,
        checks_arguments: bool = True,
    ) -> None:
        """Take the options of `Server.tool`, and `checks_arguments`.

        With `checks_arguments=False` and an `input_schema` the function gets the unchecked arguments in one
        parameter, and checks them itself.

        Raises:
            DefinitionError: the function cannot be a tool; the message says why.
        """
        check_function(function)
        self.function = function
        self.name = name or default_name(function)
        check_name(self.name)
        self.description = description if description is not None else _read_description(function)
        self.scopes = required_scopes(scopes, self.name)
        """Scopes that a caller needs; the tool is hidden from others."""
        self.errors = errors if errors is not None else _DEFAULT_ERRORS
        """How its failures are reported."""
        self.arguments = _arguments(function, input_schema, is_checked=checks_arguments)
        self._output = _output(function, self.name, output_schema)
        self._entry = ToolEntry(
            self.name,
            self.description or UNSET,
            self.arguments.schema,
            title if title is not None else UNSET,
            _or_unset(self._output.schema),
            annotations if annotations is not None else UNSET,
            icons if icons is not None else UNSET,
            meta if meta is not None else UNSET,
        )
        self._entries: dict[str, ToolEntry] = {}
        injected = self.arguments.injected
        self.handler = Handler(function, next((key for key, kind in injected.items() if kind is Context), None))
        self.declared_inputs = {key: ask for key, ask in injected.items() if isinstance(ask, Ask)}
        """Declared inputs, which the user gives before the function starts."""
        self.may_request_input = self.handler.context_name is not None or bool(self.declared_inputs)
        """Whether a call may ask the caller something before it answers."""
        self.is_direct = self.handler.is_direct and not self.declared_inputs
        """Whether to decode the arguments, await the function and make its result is all that `run` does."""
        self.positional = _positional_arguments(function, self.arguments) if self.is_direct else None
        """Its arguments, if it is direct and takes them by position too, which is twice as fast."""
        self.headers = header_parameters(self.arguments.schema)
        """The arguments that HTTP clients mirror in headers."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.schema

    @property
    def has_output_schema(self) -> bool:
        """Whether clients get a schema of the results."""
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
        return entry

    async def run(self, raw: Raw, call: Call, server: Server, answers: Mapping[str, Any] | None = None) -> ToolResult:
        """Call the function with arguments from raw JSON; `answers` are the declared inputs, if already answered.

        Raises:
            ToolFailure: the arguments are invalid, or the function failed.
        """
        arguments = self.arguments.decode(raw)
        if self.declared_inputs:
            arguments |= answers or await ask_declared_inputs(self.declared_inputs, Context(call, server))
        reply = self.make_result(await self.handler.call(arguments, call, server))
        context_name = self.handler.context_name
        if context_name is not None and (meta := arguments[context_name].result_meta):
            reply.meta = meta if reply.meta is UNSET else reply.meta | meta
        return reply

    def make_result(self, value: Any) -> ToolResult:
        """Return what the function returned as the result of the call."""
        if type(value) is str and self._output.schema is None:
            return ToolResult(content=[Text(value)])
        if isinstance(value, ToolResult):
            self._check_result(value)
            return replace(value)  # a copy: shaping must not change the function's object
        if self._output.schema is None:
            if isinstance(value, str):
                return ToolResult(content=[Text(value)])
            content = _to_content(value)
            if content is not None:
                return ToolResult(content=content)
        structured = self._output.encode(value)
        # Older revisions list a wrapped schema, so an object is wrapped too when it is one choice of several.
        is_union = self._output.schema is not None and not self._output.is_object
        return (UnionToolResult if is_union else ToolResult)(structured_content=Raw(structured))

    def _check_result(self, reply: ToolResult) -> None:
        structured = reply.structured_content
        if self._output.schema is not None and structured is not UNSET and reply.is_error is not True:
            self._output.encode(structured)


def _arguments(
    function: Function, schema: Mapping[str, Any] | None, *, is_checked: bool
) -> Arguments | DataArguments | UncheckedArguments:
    if schema is None:
        if not is_checked:
            raise DefinitionError(f"{default_name(function)}: `checks_arguments=False` requires an `input_schema`")
        return Arguments.from_function(function, skip=(Context, Ask))
    from hubbub.protocol.schema_data import DataArguments, UncheckedArguments

    hints = resolve_hints(function, skip=(Context,))
    injected = {key: Context for key, hint in hints.items() if hint is Context}
    if is_checked:
        return DataArguments(dict(schema), injected)
    known = injected.keys() | partial_arguments(function)
    names = [name for name in inspect.signature(function).parameters if name not in known]
    if len(names) != 1:
        raise DefinitionError(
            f"{default_name(function)}: with `checks_arguments=False` the function must have one parameter for all "
            f"arguments, but it has {names}"
        )
    return UncheckedArguments(dict(schema), names[0], injected)


def _positional_arguments(
    function: Function, arguments: Arguments | DataArguments | UncheckedArguments
) -> Arguments | None:
    return arguments if isinstance(arguments, Arguments) and accepts_by_position(function, arguments.names) else None


def _output(function: Function, name: str, schema: Mapping[str, Any] | None) -> Output:
    if schema is None:
        return Output.from_function(function, skip=(*CONTENT_TYPES, ToolResult))
    return Output(name, dict(schema))


def _to_content(value: Any) -> list[Any] | None:
    """Return the value as content blocks, or None if it is data."""
    if value is None:
        return []
    if isinstance(value, CONTENT_TYPES):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, (str, *CONTENT_TYPES)) for item in value):
        if all(isinstance(item, str) for item in value):
            return None
        return [Text(item) if isinstance(item, str) else item for item in value]
    return None


def _read_description(function: Function) -> str:
    """Return the docstring without its parameter section, which is in the schema."""
    return read_docstring(function_doc(function)).description


def _or_unset(schema: dict[str, Any] | None) -> Any:
    return UNSET if schema is None else schema
