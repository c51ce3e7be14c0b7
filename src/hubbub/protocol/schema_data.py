"""JSON Schemas that somebody gives as data, and arguments checked against them.

For tools registered with a schema of their own, and for schemas that come from
other servers. A schema is bounded in size and depth, is kept exactly as given,
and a reference in it is never fetched from anywhere. The only module that
imports jsonschema-rs, and only when the first such schema appears.
"""

import copy
from itertools import islice
from typing import Any

import msgspec

from hubbub.bounds import PROBLEMS, SCHEMA_BACKTRACKS, SCHEMA_BYTES, SCHEMA_DEPTH
from hubbub.errors import ArgumentsInvalid, DefinitionError
from hubbub.protocol import problems


class SchemaValidator:
    """A compiled schema: Draft 2020-12 unless its `$schema` names another."""

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        """Compile a schema.

        Raises:
            DefinitionError: it is not a schema, is too large, or refers to something outside itself.
        """
        check_bounds(schema)
        self.schema = copy.deepcopy(schema)
        self._validator = _compiled(self.schema)

    def validate(self, value: Any) -> None:
        """Check a value.

        Raises:
            ArgumentsInvalid: it does not fit; the message names the first few problems.
        """
        try:
            if self._validator.is_valid(value):
                return
            found = [_worded(error) for error in islice(self._validator.iter_errors(value), PROBLEMS)]
        except ValueError as error:  # Not JSON data: a key that is no string, a lone surrogate.
            raise ArgumentsInvalid(f"the value is not JSON ({error})") from error
        raise problems.told(found)


class DataArguments:
    """What a tool takes, as its schema says; the data counterpart of `schema.Arguments`."""

    __slots__ = ("_validator", "injected")

    def __init__(self, schema: dict[str, Any], injected: dict[str, Any] | None = None) -> None:
        """Compile a tool's input schema.

        Raises:
            DefinitionError: it is not a schema of an object.
        """
        check_input_schema(schema)
        self._validator = SchemaValidator(schema)
        self.injected = injected or {}

    @property
    def schema(self) -> dict[str, Any]:
        """The schema as it was given."""
        return self._validator.schema

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Give the arguments as plain Python values.

        Raises:
            ArgumentsInvalid: they do not fit the schema, or are not JSON.
        """
        value = _read(raw)
        self._validator.validate(value)
        return value


class UncheckedArguments:
    """What a tool takes that reads its arguments itself: they come as one object, and its schema is for callers."""

    __slots__ = ("_name", "injected", "schema")

    def __init__(self, schema: dict[str, Any], name: str, injected: dict[str, Any] | None = None) -> None:
        """Take a tool's input schema, and the name of the parameter that gets the arguments.

        Raises:
            DefinitionError: it is not a schema of an object.
        """
        check_input_schema(schema)
        check_bounds(schema)
        self.schema = copy.deepcopy(schema)
        self.injected = injected or {}
        self._name = name

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Give the arguments, whatever they are, as one.

        Raises:
            ArgumentsInvalid: they are no JSON object.
        """
        return {self._name: _read(raw)}


def _read(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise problems.refused(error, {"properties": {}}) from error


def check_input_schema(schema: Any) -> None:
    """Refuse a schema that cannot be a tool's `inputSchema`.

    Raises:
        DefinitionError: its root does not say `"type": "object"`.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise DefinitionError('An input schema describes an object: its root must have "type": "object"')


def check_bounds(schema: Any) -> None:
    """Refuse a schema that is no JSON object, or one too deep or too large to compile.

    Raises:
        DefinitionError: which of these it is.
    """
    if not isinstance(schema, dict):
        raise DefinitionError(f"A JSON Schema is an object, not a {type(schema).__name__}")
    _check_depth(schema)
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"The schema is not JSON ({error})") from error
    if size > SCHEMA_BYTES:
        raise _too_large()


def _check_depth(schema: dict[str, Any]) -> None:
    """Go down level by level: no recursion, and few steps even where parts are shared or circular."""
    level: list[Any] = [schema]
    seen = 0
    for _ in range(SCHEMA_DEPTH):
        below: list[Any] = []
        for node in level:
            below.extend(_children(node))
            if seen + len(below) > SCHEMA_BYTES // 2:  # Each takes two brackets at least.
                raise _too_large()
        if not below:
            return
        seen += len(below)
        level = below
    raise DefinitionError(f"The schema nests deeper than {SCHEMA_DEPTH} levels; flatten it with `$defs`")


def _too_large() -> DefinitionError:
    return DefinitionError(f"The schema is larger than {SCHEMA_BYTES} bytes; describe less, or share parts in `$defs`")


def _children(node: Any) -> list[Any]:
    inside = node.values() if isinstance(node, dict) else node
    return [child for child in inside if isinstance(child, dict | list | tuple)]


def _compiled(schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=SCHEMA_BACKTRACKS),
        )
    except jsonschema_rs.ValidationError as error:
        if "not present in a registry" in error.message:
            raise DefinitionError(
                f"The schema refers to something outside itself, and remote references are never fetched: "
                f"put it into `$defs` ({error.message})"
            ) from error
        raise DefinitionError(f"The schema is not valid: {_worded(error)}") from error
    except ValueError as error:
        raise DefinitionError(f"The schema is not valid: {error}") from error


def _worded(error: Any) -> str:
    path = problems.path_of(error.instance_path)
    return f"{path}: {error.message}" if path else str(error.message)
