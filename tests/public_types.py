"""The types and errors of Hubbub that public names mention: in signatures, fields, bases and `Raises:` sections."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from hubbub import errors

Mention = tuple[str, str, str]
"""The place of a mention, and the module and name that it refers to."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ERRORS = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}


def names_for_type_checkers(module: ModuleType) -> dict[str, str]:
    """The names that a module loads lazily, each with the module it comes from, as its `TYPE_CHECKING` block says."""
    (block,) = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def mentions(name: str, value: Any) -> Iterator[Mention]:
    """Every name of Hubbub that a public class or function mentions; type aliases are resolved."""
    if not (inspect.isclass(value) or inspect.isfunction(value)) or not value.__module__.startswith("hubbub"):
        return
    node = _definition(value.__module__, value.__name__)
    if isinstance(node, _DEFINITIONS):
        yield from _function_mentions(name, value.__module__, node)
        return
    assert isinstance(node, ast.ClassDef)
    assert isinstance(value, type)
    if issubclass(value, Exception):
        for base in node.bases:
            yield from _resolve(name, value.__module__, base)
    for parent in value.__mro__:
        if parent.__module__.startswith("hubbub"):
            yield from _class_mentions(name, parent.__module__, _definition(parent.__module__, parent.__name__))


def _class_mentions(name: str, module: str, node: ast.ClassDef) -> Iterator[Mention]:
    yield from _docstring_mentions(name, node)
    for item in node.body:
        if isinstance(item, _DEFINITIONS) and (not item.name.startswith("_") or item.name == "__init__"):
            yield from _function_mentions(f"{name}.{item.name}", module, item)
        elif isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            yield from _resolve(f"{name}.{ast.unparse(item.target)}", module, item.annotation)


def _function_mentions(where: str, module: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Mention]:
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None and argument.annotation is not None and not argument.arg.startswith("_"):
            yield from _resolve(where, module, argument.annotation)
    if node.returns is not None:
        yield from _resolve(where, module, node.returns)
    yield from _docstring_mentions(where, node)


def _docstring_mentions(where: str, node: Any) -> Iterator[Mention]:
    raises = re.search(r"Raises:(.*)", ast.get_docstring(node) or "", re.DOTALL)
    for word in set(re.findall(r"\b[A-Z]\w+", raises[1] if raises else "")) & ERRORS:
        yield where, "hubbub.errors", word


def _resolve(where: str, module: str, annotation: ast.expr) -> Iterator[Mention]:
    """The names of Hubbub in an annotation. Text in it is code, except in `Literal[...]` and behind `Annotated[T, `."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        return
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from _resolve(where, module, ast.parse(annotation.value, mode="eval").body)
        return
    if isinstance(annotation, ast.Name):
        source, name = _names(module).get(annotation.id, ("", ""))
        if not source:
            return
        found = _definition(source, name)
        if isinstance(found, ast.ClassDef):
            yield where, source, name
        elif found is not None:
            yield from _resolve(where, source, found)
        return
    for child in ast.iter_child_nodes(annotation):
        if isinstance(child, ast.expr):
            yield from _resolve(where, module, child)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules.get(module) or import_module(module)))


@cache
def _names(module: str) -> dict[str, tuple[str, str]]:
    """The names in a module that refer to Hubbub's modules, each with its module and name there."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hubbub"):
            found |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = module, node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found[ast.unparse(target)] = module, ast.unparse(target)
    return found


@cache
def _definition(module: str, name: str) -> Any:
    """The class, the function, or the value of the alias of this name."""
    for node in _tree(module).body:
        if isinstance(node, (*_DEFINITIONS, ast.ClassDef)) and node.name == name:
            return node
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return None if isinstance(node.value, ast.Call) else node.value  # a type variable
    return None
