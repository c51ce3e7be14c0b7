"""Read a function's signature: its arguments and their types.

Converts annotations into types that msgspec understands, with descriptions, defaults and
limits. Schemas are built in `hubbub.protocol.type_schema`.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection
from typing import Annotated, Any, NoReturn, Union

import msgspec

from hubbub.errors import DefinitionError
from hubbub.protocol import pydantic_support
from hubbub.protocol.docstrings import read_docstring

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class Parameter(msgspec.Struct, frozen=True):
    """One argument that callers may give."""

    name: str
    type: Any
    default: Any
    """`msgspec.NODEFAULT` when callers must give it."""
    notes: dict[str, Any]
    """Description and other annotations for its schema."""


class Signature(msgspec.Struct, frozen=True):
    """The parameters that callers give, and those that the server injects."""

    parameters: tuple[Parameter, ...]
    injected: dict[str, Any]
    """By parameter name: the type in `skip`, or a marker of such a type from `Annotated`, with its `form` set."""


def read_signature(function: Callable[..., Any], skip: Collection[type] = ()) -> Signature:
    """Read the parameters of a function; those of a type in `skip` are injected.

    Raises:
        DefinitionError: a parameter cannot be filled from JSON.
    """
    try:
        declared = inspect.signature(function).parameters
    except (TypeError, ValueError, NameError) as error:
        raise DefinitionError(f"{function_name(function)}: its signature cannot be read ({error})") from error
    hints = resolve_hints(function, skip)
    described = read_docstring(function_doc(function)).parameters
    bound = partial_arguments(function)
    parameters: list[Parameter] = []
    injected: dict[str, Any] = {}
    for name, parameter in declared.items():
        if name in bound:
            continue
        annotation = hints.get(name, Any)
        service = _find_injected(annotation, skip)
        if service is not None:
            injected[name] = service
            continue
        _check_kind(function, parameter)
        try:
            parameters.append(_read_parameter(name, annotation, parameter.default, described.get(name)))
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{function_name(function)}: parameter `{name}`: {error}") from error
    return Signature(tuple(parameters), injected)


def resolve_hints(function: Callable[..., Any], skip: Collection[type] = ()) -> dict[str, Any]:
    """The annotations of a function as types, also when they were written as text."""
    target = _annotation_owner(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        pass  # Perhaps a name of `skip`, imported for type checkers only.
    except Exception as error:  # Annotations are user code and may raise anything.
        _raise_unresolved(function, error)
    names: dict[str, Any] = {kind.__name__: kind for kind in skip}
    names.update(getattr(target, "__globals__", {}))
    names.update(inspect.getclosurevars(target).nonlocals if inspect.isfunction(target) else {})
    try:
        return typing.get_type_hints(target, globalns=names, include_extras=True)
    except Exception as error:
        _raise_unresolved(function, error)


def check_function(function: Any) -> None:
    """Check that a function can be a handler.

    Raises:
        DefinitionError: it cannot be called, or would return a generator.
    """
    if not callable(function):
        hint = "; put the decorator below `@classmethod`" if isinstance(function, classmethod) else ""
        raise DefinitionError(f"{function!r} is not a function and cannot be called{hint}")
    called = _call_target(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise DefinitionError(
            f"{function_name(function)} is a generator, and a handler returns one result; return a list instead "
            "of `yield`, "
            "and report progress with `context.progress`"
        )


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine."""
    return inspect.iscoroutinefunction(_call_target(function))


def accepts_by_position(function: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether a function accepts exactly these arguments by position; False for a wrapper with `**kwargs`."""
    target = getattr(function, "__func__", function)
    if not inspect.isfunction(target):
        return False
    code, bound = target.__code__, 1 if inspect.ismethod(function) else 0
    return code.co_varnames[bound : code.co_argcount] == names


def default_name(function: Callable[..., Any]) -> str:
    """The default name of a tool, resource or prompt; for a callable object, the name of its class."""
    while isinstance(function, functools.partial) and not hasattr(function, "__name__"):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def function_doc(function: Callable[..., Any]) -> str | None:
    """The docstring of a function, of the function that a partial calls, or of a callable object or its class."""
    while isinstance(function, functools.partial) and "__doc__" not in vars(function):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type | functools.partial):
        return inspect.getdoc(function)
    doc = type(function).__call__.__doc__
    return inspect.cleandoc(doc) if doc else inspect.getdoc(type(function))


def partial_arguments(function: Callable[..., Any]) -> set[str]:
    """Parameters that `functools.partial` has fixed by name, which callers must not change."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return names


def function_name(function: Callable[..., Any]) -> str:
    """A function's name, for messages."""
    return str(getattr(_annotation_owner(function), "__qualname__", None) or repr(function))


def union_members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; the annotation itself if it is not a union."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _raise_unresolved(function: Callable[..., Any], error: Exception) -> NoReturn:
    raise DefinitionError(
        f"{function_name(function)}: its type hints cannot be resolved ({error}); "
        "define the types that they name at the top level of the module"
    ) from error


def _call_target(function: Any) -> Any:
    """The function that runs when an object is called."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or isinstance(function, type) else type(function).__call__


def _annotation_owner(function: Any) -> Any:
    """The object that carries the annotations of a callable."""
    function = inspect.unwrap(_call_target(function))
    return getattr(function, "__func__", function)


def _find_injected(annotation: Any, skip: Collection[type]) -> Any:
    if typing.get_origin(annotation) is Annotated:
        for marker in annotation.__metadata__:
            if type(marker) in skip:
                marker.form = annotation.__origin__
                return marker
        annotation = annotation.__origin__
    for member in union_members(annotation):
        kind = typing.get_origin(member) or member
        if isinstance(kind, type) and kind in skip:
            return kind
    return None


def _check_kind(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    stars = _STARS.get(parameter.kind)
    if stars is not None:
        problem = f"`{stars}{parameter.name}` has no schema; name each argument, or take one `dict`"
    elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        problem = f"`{parameter.name}` is positional-only; arguments come by name, so remove the `/`"
    else:
        return
    raise DefinitionError(f"{function_name(function)}: parameter {problem}")


def _read_parameter(name: str, annotation: Any, default: Any, described: str | None) -> Parameter:
    notes: dict[str, Any] = {"description": described} if described else {}
    if default is inspect.Parameter.empty:
        default = msgspec.NODEFAULT
    metadata: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is Annotated:
        annotation, metadata = annotation.__origin__, annotation.__metadata__
    if pydantic_support.is_field(default):
        metadata = (*metadata, default)
        default = pydantic_support.field_default(default)
    for member in union_members(annotation):  # `Annotated[str, "…"] | None`
        if typing.get_origin(member) is Annotated:
            notes.update([("description", item) for item in member.__metadata__ if isinstance(item, str)])
    limits: dict[str, Any] = {}
    metas: list[msgspec.Meta] = []
    for item in metadata:
        if isinstance(item, str):
            notes["description"] = item
        elif isinstance(item, msgspec.Meta):
            metas.append(item)
            if item.description is not None:
                notes["description"] = item.description
        else:
            limits.update(pydantic_support.read_constraints(item))
            if pydantic_support.is_field(item):
                notes.update(pydantic_support.field_annotations(item))
    kind = _annotate(_apply_limits(annotation, limits), *metas)
    if default is None:
        # `days: int = None` is a common mistake; a caller may then send null as well.
        kind = _make_optional(kind)
    return Parameter(name, kind, default, notes)


def _make_optional(kind: Any) -> Any:
    unannotated = kind.__origin__ if typing.get_origin(kind) is Annotated else kind
    if unannotated is Any or type(None) in union_members(unannotated):
        return kind
    return kind | None


def _apply_limits(annotation: Any, limits: dict[str, Any]) -> Any:
    """Apply limits to a type; for an optional type, to the part that is not None."""
    if not limits:
        return annotation
    members = union_members(annotation)
    non_null = [member for member in members if member is not type(None)]
    if len(non_null) == 1 and len(members) == 2:
        return _annotate(non_null[0], msgspec.Meta(**limits)) | None
    return _annotate(annotation, msgspec.Meta(**limits))


def _annotate(kind: Any, *metadata: msgspec.Meta) -> Any:
    return Annotated[kind, *metadata] if metadata else kind
