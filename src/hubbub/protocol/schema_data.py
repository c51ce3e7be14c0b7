"""JSON Schemas given as data, and validation of arguments against them.

For tools registered with a schema of their own, and for schemas that come from
other servers. A schema is bounded in size and depth and kept exactly as given;
remote references are never fetched. The only module that imports jsonschema-rs,
and only when the first such schema appears.
"""

import copy
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from hubbub import bounds
from hubbub.errors import ArgumentsInvalid, DefinitionError
from hubbub.protocol import validation_messages


class SchemaValidator:
    """A compiled schema: Draft 2020-12 unless its `$schema` names another."""

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        """Compile a schema.

        Raises:
            DefinitionError: it is not a schema, is too large, or refers to something outside itself.
        """
        check_schema_size(schema)
        self.schema = copy.deepcopy(schema)
        self._validator = _compile(self.schema)

    def validate(self, value: Any) -> None:
        """Check a value.

        Raises:
            ArgumentsInvalid: it does not fit; the message names the first few problems.
        """
        try:
            if self._validator.is_valid(value):
                return
            found = [_format_error(error) for error in islice(self._validator.iter_errors(value), bounds.PROBLEMS)]
        except ValueError as error:  # Not JSON data: a key that is not a string, a lone surrogate.
            raise ArgumentsInvalid(f"the value is not JSON ({error})") from error
        raise validation_messages.join_problems(found)

    def first_mismatch(self, value: Any) -> str | None:
        """Path and rule of the first violation, without the value; None if it is valid."""
        if self._validator.is_valid(value):
            return None
        error = next(self._validator.iter_errors(value))
        path, rule = validation_messages.format_path(error.instance_path), "/".join(map(str, error.schema_path))
        return f"{path or 'the root'} violates the rule {rule}"


class DataArguments:
    """The arguments of a tool with a schema given as data; the counterpart of `schema.Arguments`."""

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
        """Decode the arguments to plain Python values.

        Raises:
            ArgumentsInvalid: they do not fit the schema, or are not JSON.
        """
        value = _decode_object(raw)
        self._validator.validate(value)
        return value


class UncheckedArguments:
    """The arguments of a tool that checks them itself: passed as one object; the schema is for callers only."""

    __slots__ = ("_name", "injected", "schema")

    def __init__(self, schema: dict[str, Any], name: str, injected: dict[str, Any] | None = None) -> None:
        """Take a tool's input schema, and the name of the parameter that gets the arguments.

        Raises:
            DefinitionError: it is not a schema of an object.
        """
        check_input_schema(schema)
        check_schema_size(schema)
        self.schema = copy.deepcopy(schema)
        self.injected = injected or {}
        self._name = name

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Decode the arguments, unchecked, as the value of one parameter.

        Raises:
            ArgumentsInvalid: they are not a JSON object.
        """
        return {self._name: _decode_object(raw)}


def _decode_object(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise validation_messages.arguments_error(error, {"properties": {}}) from error


def make_result_check(schema: dict[str, Any]) -> Callable[[Any, bytes], None]:
    """Return a function that checks a result and its JSON against an output schema and raises ValueError.

    Raises:
        DefinitionError: it is not a schema.
    """
    validator = SchemaValidator(schema)

    def check(value: Any, encoded: bytes) -> None:
        from hubbub.protocol.result_check import refuse_nan

        mismatch = validator.first_mismatch(msgspec.json.decode(encoded))
        if mismatch is not None:
            raise ValueError(mismatch)
        refuse_nan(value, encoded)

    return check


def check_input_schema(schema: Any) -> None:
    """Refuse a schema that cannot be a tool's `inputSchema`.

    Raises:
        DefinitionError: its root does not have `"type": "object"`.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise DefinitionError('The root of an input schema must have "type": "object"')


def check_schema_size(schema: Any) -> None:
    """Refuse a schema that is not a JSON object, or is too deep or too large to compile.

    Raises:
        DefinitionError: the message says which of these it is.
    """
    if not isinstance(schema, dict):
        raise DefinitionError(f"A JSON Schema must be an object, not a {type(schema).__name__}")
    _check_depth(schema)
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"The schema is not JSON ({error})") from error
    if size > bounds.SCHEMA_BYTES:
        raise _too_large()


def _check_depth(schema: dict[str, Any]) -> None:
    """Check level by level: without recursion, and in few steps even if parts are shared or circular."""
    level: list[Any] = [schema]
    seen = 0
    for _ in range(bounds.SCHEMA_DEPTH):
        children: list[Any] = []
        for node in level:
            children.extend(_children(node))
            if seen + len(children) > bounds.SCHEMA_BYTES // 2:  # Each takes two brackets at least.
                raise _too_large()
        if not children:
            return
        seen += len(children)
        level = children
    raise DefinitionError(f"The schema nests deeper than {bounds.SCHEMA_DEPTH} levels; flatten it with `$defs`")


def _too_large() -> DefinitionError:
    return DefinitionError(
        f"The schema is larger than {bounds.SCHEMA_BYTES} bytes; describe less, or share parts in `$defs`"
    )


def _children(node: Any) -> list[Any]:
    values_inside = node.values() if isinstance(node, dict) else node
    return [child for child in values_inside if isinstance(child, dict | list | tuple)]


def _compile(schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=bounds.SCHEMA_BACKTRACKS),
        )
    except jsonschema_rs.ValidationError as error:
        if "not present in a registry" in error.message:
            raise DefinitionError(
                "The schema has a remote reference, which is never fetched; "
                f"put its target into `$defs` ({error.message})"
            ) from error
        raise DefinitionError(f"The schema is not valid: {_format_error(error)}") from error
    except ValueError as error:
        raise DefinitionError(f"The schema is not valid: {error}") from error


def _format_error(error: Any) -> str:
    path = validation_messages.format_path(error.instance_path)
    return f"{path}: {error.message}" if path else str(error.message)
