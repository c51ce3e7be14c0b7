"""The table of requirements and the tests agree: each names the other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "governance" / "requirements.md"
COUNTS = {"I": 6, "L": 5, "S": 7, "K": 6, "A": 6}
"""How many requirements each group has."""
IDS = [f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)]
_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`")


def read_table() -> list[tuple[str, list[str]]]:
    return [(row[1], _TEST.findall(row[4])) for row in _ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def find_tests(path: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: node for node in functions if node.name.startswith("test_")}


def marked_ids(node: ast.AST) -> set[str]:
    """The arguments of each `pytest.mark.requirement(...)` in a node."""
    return {
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "requirement"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def marked_tests() -> Iterator[tuple[str, str]]:
    """Each mark: a requirement, and the module or test that proves it."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "node_modules" in path.parts or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        if "mark.requirement(" not in text:
            continue
        name = path.relative_to(ROOT).as_posix()
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "pytestmark" for each in node.targets):
                yield from ((id, name) for id in sorted(marked_ids(node.value)))
        for function, node in find_tests(path).items():
            for decorator in node.decorator_list:
                yield from ((id, f"{name}::{function}") for id in sorted(marked_ids(decorator)))


def test_each_requirement_is_in_the_table_once() -> None:
    assert [id for id, _ in read_table()] == IDS


@pytest.mark.parametrize("id", IDS)
def test_the_tests_of_a_requirement_exist(id: str) -> None:
    tests = dict(read_table())[id]
    assert tests, "a requirement without a test"
    for test in tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        found = find_tests(ROOT / path)
        assert found, f"{path} has no tests"
        assert not name or name in found, test


def test_tests_in_the_table_are_marked_for_their_requirement() -> None:
    marks = set(marked_tests())
    marked_modules = {(id, test.partition("::")[0]) for id, test in marks}
    missing = [
        (id, test)
        for id, tests in read_table()
        for test in tests
        if not {(id, test), (id, test.partition("::")[0])} & (marks if "::" in test else marked_modules)
    ]
    assert missing == []


def test_marked_tests_are_in_the_row_of_their_requirement() -> None:
    table, marks = dict(read_table()), list(marked_tests())
    assert len(marks) > len(COUNTS)
    missing = [(id, test) for id, test in marks if not {test, test.partition("::")[0]} & set(table.get(id, []))]
    assert missing == []
