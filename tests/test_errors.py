"""One hierarchy of errors, and one module that assigns their codes."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from tests.imports import SOURCE, module_name


def python_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_error_codes_are_assigned_in_one_module() -> None:
    users = [path.name for path in python_files() if "encode_error" in path.read_text()]
    assert users == ["error_codes.py", "jsonrpc.py"]
    numbers = re.compile(r"-32(0[0-9]{2}|[67][0-9]{2})\b")
    found = {module_name(path) for path in python_files() if numbers.search(path.read_text())}
    allowed = {"hubbub.protocol.error_codes", "hubbub.packs.activity.tools"}  # The code of the pack is its contract's.
    assert found == allowed, "error codes are named in error_codes.py; import them"


def exception_roots(source: str) -> Iterator[str]:
    """Yield the classes that inherit from one of Python's own exceptions, except warnings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                kind = getattr(builtins, ast.unparse(base).rpartition(".")[2], None)
                if isinstance(kind, type) and issubclass(kind, BaseException) and not issubclass(kind, Warning):
                    yield node.name


def test_all_errors_inherit_from_one_base_class() -> None:
    roots = {f"{module_name(path)}.{name}" for path in python_files() for name in exception_roots(path.read_text())}
    # The second one is raised where an OSError makes the connector try the next address.
    # The third one ends the parsing of a request that was refused; it never leaves its module.
    assert roots == {
        "hubbub.errors.HubbubError",
        "hubbub.net.client._RefusedAddress",
        "hubbub.transports.http_connection._Refused",
    }


def test_the_scan_finds_exceptions_outside_the_hierarchy() -> None:
    source = "class A(ValueError): ...\nclass B(A): ...\nclass C(str, builtins.OSError): ...\nclass D(Protocol): ...\n"
    assert list(exception_roots(source)) == ["A", "C"]
