"""Rules that no linter checks: allowed imports, length of files, forbidden content."""

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.imports import SOURCE, imported_modules, list_imports, module_name

ROOT = Path(__file__).parents[1]

MAX_FILE_LINES = 500

# Libraries that any module below a package may import. Every other one is wrapped by one module, so that it can be
# replaced there, and is loaded only where it is needed.
USED_THROUGHOUT = {"msgspec": "hubbub.", "click": "hubbub.cli.", "google": "hubbub.packs.tabletop."}

# Libraries of which our client uses one part and our server another: one module for each.
BOTH_ENDS = {
    "httptools": {"hubbub.net.connection", "hubbub.transports.http_connection"},
    "websockets": {"hubbub.net.websocket", "hubbub.transports.websocket_connection"},
    "authlib": {"hubbub.oauth.client.login", "hubbub.oauth.front_door.grants"},
}

# Dependencies that no module imports: SQLAlchemy loads the first two by itself, zoneinfo the third.
INDIRECTLY_LOADED = {"asyncpg", "greenlet", "tzdata"}

# Imported if the system or the user's own code has them, so they are not dependencies.
OPTIONAL_LIBRARIES = {"gi", "pydantic", "pytest"}

# The judges must stay independent of the code that they test.
UNIMPORTED_LIBRARIES = ("fastmcp", "mcp", "mcp_types")

# Where public names come from; the first that exports a name is where tests import it from.
DOCUMENTED_MODULES = (
    "hubbub",
    "hubbub.pack",
    "hubbub.pack.charts",
    "hubbub.pack.http",
    "hubbub.pack.store",
    "hubbub.testing",
)

# Names that Python documents although they begin with an underscore.
PUBLIC_DESPITE_UNDERSCORE = {"_asdict", "_exit", "_getframe", "_mapping", "_replace"}
PRIVATE_NAMES_OF_LIBRARIES = {
    "src/hubbub/packs/activity/export_command.py: from argparse import _SubParsersAction",  # only as a type
    "src/hubbub/store/migrate.py: scripts._upgrade_revs",  # needed to avoid global state of Alembic
}

# Written in two parts, because this file is searched too.
REGISTRY_HOSTS = tuple(f"{name}.{domain}" for name, domain in (
    ("pythonhosted", "org"),
    ("pypi", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
))  # fmt: skip


def python_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def importers_by_library() -> dict[str, set[str]]:
    importers = defaultdict(set)
    for path in python_files():
        for imported in list_imports(path):
            importers[imported.partition(".")[0]].add(module_name(path))
    return importers


def committed_texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file that is committed, or that would be by `git add --all`."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, timeout=60,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listing.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_bytes().decode("utf-8", errors="replace")


def test_the_scan_finds_every_kind_of_import() -> None:
    source = """
import top.level
from package import name
from . import sibling
from ..cousin import thing
def lazily():
    import inside
    importlib.import_module("by.name")
"""
    assert set(imported_modules(source, package="hubbub.packs")) == {
        "top.level",
        "package.name",
        "hubbub.packs.sibling",
        "hubbub.cousin.thing",
        "inside",
        "by.name",
    }


def test_the_scan_finds_the_package() -> None:
    assert "hubbub.errors" in importers_by_library()["typing"]


def owning_package(module: str) -> str:
    """The pack of a module, or the core; a pack cannot use the wrappers of another."""
    return ".".join(module.split(".")[:3]) if module.startswith("hubbub.packs.") else "hubbub"


def libraries() -> dict[str, set[str]]:
    """The importers of each third-party library."""
    ours = {"hubbub", *sys.stdlib_module_names}
    return {name: importers for name, importers in importers_by_library().items() if name not in ours}


def runtime_dependencies() -> set[str]:
    """The distributions that pyproject.toml names, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    return {re.split(r"[<>=;\s]", requirement, maxsplit=1)[0] for requirement in named}


def test_a_library_is_imported_by_one_module_of_the_core_and_one_of_a_pack() -> None:
    for library, importers in libraries().items():
        if library in USED_THROUGHOUT:
            location = USED_THROUGHOUT[library]
            assert all(f"{name}.".startswith(location) for name in importers), f"{library} belongs below {location}"
        elif library in BOTH_ENDS:
            in_core = {name for name in importers if owning_package(name) == "hubbub"}
            assert in_core == BOTH_ENDS[library]
        else:
            packages = [owning_package(owner) for owner in importers]
            assert len(packages) == len(set(packages)), f"{library} is imported by {sorted(importers)}"


def test_dependencies_match_the_imports() -> None:
    declared, used = runtime_dependencies(), set(INDIRECTLY_LOADED)
    distributions = packages_distributions()
    for library in libraries().keys() - OPTIONAL_LIBRARIES:
        names = {name.lower().replace("_", "-") for name in distributions[library]}
        assert names & declared, f"{library} is imported, but not a dependency"
        used |= names
    assert declared <= used, "a dependency that no module imports"


@pytest.mark.parametrize("library", UNIMPORTED_LIBRARIES)
def test_judges_are_never_imported(library: str) -> None:
    assert not importers_by_library()[library]


def public_names() -> set[str]:
    """The names in `__all__` of hubbub/__init__.py, read without running it."""
    for node in ast.parse((SOURCE / "hubbub/__init__.py").read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return set(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return set()


def test_packs_import_only_the_public_names_and_themselves() -> None:
    public = {f"hubbub.{name}" for name in public_names()}
    for path in (SOURCE / "hubbub/packs").rglob("*.py"):
        allowed = ("hubbub.pack.", f"{owning_package(module_name(path))}.")
        ours = {name for name in list_imports(path) if name.startswith("hubbub.")}
        hidden = {name for name in ours - public if not f"{name}.".startswith(allowed)}
        assert not hidden, f"{module_name(path)} imports internals: {sorted(hidden)}"


def public_module(module: str, name: str) -> str | None:
    """Return the public module that exports this name of a private one, or None."""
    if module in DOCUMENTED_MODULES:
        return None
    for public in map(import_module, DOCUMENTED_MODULES):
        if name in public.__all__ and getattr(public, name) is getattr(import_module(module), name, None):
            return public.__name__
    return None


def private_imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each import that takes a public name from a private module, and what to write instead."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hubbub."):
            for alias in node.names:
                if location := public_module(str(node.module), alias.name):
                    yield node.lineno, f"from {location} import {alias.name}"


def test_tests_import_public_names_from_the_public_modules() -> None:
    found = [
        f"{name}:{line}: write `{instead}`"
        for name, text in committed_texts()
        if name.startswith(("tests/", "bench/", "examples/")) and name.endswith(".py")
        for line, instead in private_imports(text)
    ]
    assert found == []


def test_the_scan_finds_public_names_imported_from_private_modules() -> None:
    source = """
from hubbub import Client
from hubbub.client.session import Session
from hubbub.pack import Secret
from hubbub.server.server import CacheHint as Hint, Server
def lazily():
    from hubbub.net.client import HttpClient
    from hubbub.protocol.content import Text
"""
    assert list(private_imports(source)) == [
        (5, "from hubbub import CacheHint"),
        (5, "from hubbub import Server"),
        (7, "from hubbub.pack.http import HttpClient"),
        (8, "from hubbub import Text"),
    ]


def private_uses(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each use of something private: an attribute of another object, or an import."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()"):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):  # getattr, monkeypatch.setattr
            names = [
                str(argument.value).rpartition(".")[2]
                for argument in node.args[:2]
                if isinstance(argument, ast.Constant)
            ]
        private = [name for name in names if name.startswith("_") and not name.endswith("__")]
        if set(private) - PUBLIC_DESPITE_UNDERSCORE:
            yield getattr(node, "lineno", 0), ast.unparse(node)


def test_tests_use_no_private_names() -> None:
    found = [
        f"{name}:{line}: {use}"
        for name, text in committed_texts()
        if name.startswith(("tests/", "bench/", "examples/")) and name.endswith(".py")
        for line, use in private_uses(text)
    ]
    assert found == [], "show the behaviour through public names; give what has to be seen a public property"


def test_the_source_uses_no_private_names_of_libraries() -> None:
    found = {
        f"{name}: {use}"
        for name, text in committed_texts()
        if name.startswith("src/hubbub/") and name.endswith(".py") and not name.endswith("_pb2.py")
        for _, use in private_uses(text)
        if not use.startswith("other.")  # another object of the same class
    }
    assert found == PRIVATE_NAMES_OF_LIBRARIES, "a minor version of a library may change its private names"


def test_the_scan_finds_private_uses() -> None:
    source = """
from __future__ import annotations
from hubbub.module import _name, name
class Test:
    def test(self):
        self._own = client._session.rpc
        os._exit(position._replace(x=1).__sizeof__())
        monkeypatch.setattr("hubbub.module._name", 1)
        getattr(client, "_session")
"""
    assert list(private_uses(source)) == [
        (3, "from hubbub.module import _name, name"),
        (8, "monkeypatch.setattr('hubbub.module._name', 1)"),
        (9, "getattr(client, '_session')"),
        (6, "client._session"),
    ]


@pytest.mark.parametrize("path", python_files(), ids=module_name)
def test_source_files_have_at_most_500_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES, "a second idea lives in this file"


def test_test_files_have_at_most_500_lines() -> None:
    lengths = {
        name: len(text.splitlines())
        for name, text in committed_texts()
        if name.startswith("tests/") and name.endswith(".py")
    }
    assert "tests/test_architecture.py" in lengths
    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES}
    assert not too_long, "a second idea lives in these files"


def test_no_file_names_a_registry() -> None:
    naming = [name for name, text in committed_texts() if any(host in text.lower() for host in REGISTRY_HOSTS)]
    assert not naming, "every machine has its own registry; scripts/lock strips addresses"


def test_the_address_of_the_repository_is_written_in_one_file() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert all(address.startswith(urls["Repository"]) for address in urls.values())
    address = urls["Repository"].removeprefix("https://")
    assert [name for name, text in committed_texts() if address in text] == ["pyproject.toml"]


def test_every_locked_requirement_has_a_hash() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        entries = [line for line in lock.read_text().splitlines() if line and line[0] not in " #"]
        assert entries, f"{lock.name} is empty"
        assert all("==" in entry and entry.endswith("\\") for entry in entries), f"{lock.name} has an unlocked entry"


# -- bounds are read when they are used --------------------------------------------------------------

# Modules whose tables declare what users see: schemas of tools, and what a pack asks of its server.
DECLARING_BOUNDS = {
    "hubbub.packs.peers.core_tools",
    "hubbub.packs.peers.file_tools",
    "hubbub.packs.peers.session_options",
    "hubbub.packs.peers.pack",
}


class EarlyReads(ast.NodeVisitor):
    """Finds bounds that are read when a module is imported, except in declarations that users see."""

    def __init__(self, public: set[str]) -> None:
        self.lines: list[int] = []
        self._public = public

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in ("bounds", "limits"):
            self.lines.append(node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").rpartition(".")[2] in ("bounds", "limits"):
            self.lines.append(node.lineno)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in self._public:
            self.visit_Lambda(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)  # The body runs later.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.name not in self._public:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        is_setting = any(isinstance(part, ast.Name) and part.id == "setting" for part in ast.walk(node.annotation))
        is_public = isinstance(node.target, ast.Name) and node.target.id in self._public
        if node.value is not None and not is_setting and not is_public:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "Annotated"):
            self.generic_visit(node)


def early_reads(source: str, public: set[str]) -> list[int]:
    finder = EarlyReads(public)
    finder.visit(ast.parse(source))
    return finder.lines


def exported_names() -> dict[str, set[str]]:
    """The public names of each module."""
    exported: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(ast.parse((SOURCE / "hubbub/__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            exported[node.module or ""].update(name.name for name in node.names)
    return exported


def test_bounds_are_not_read_at_import() -> None:
    exported = exported_names()
    early = [
        f"{name}:{line}"
        for path in python_files()
        if (name := module_name(path)) not in DECLARING_BOUNDS
        for line in early_reads(path.read_text(encoding="utf-8"), exported.get(name, set()))
    ]
    assert early == [], "read the bound in the body of the function, or in a default_factory"


def test_the_scan_finds_bounds_read_at_import() -> None:
    written = """
from hubbub.bounds import TOOLS
ROOM = bounds.OUTBOX_BYTES // 4
def function(limit=bounds.TOOLS, *, other=limits.ROWS):
    return bounds.TOOLS
class Inner:
    size: int = bounds.TOOLS
    late: int = field(default_factory=lambda: bounds.TOOLS)
    chosen: Annotated[int, setting("What users set.")] = bounds.TOOLS
    def method(self, limit: Annotated[int, Meta(le=bounds.TOOLS)] = bounds.TOOLS): ...
Name = Annotated[str, Meta(max_length=limits.ROWS)]
class Public:
    def __init__(self, limit=bounds.TOOLS): ...
"""
    assert early_reads(written, {"Public"}) == [2, 3, 4, 4, 7, 10]


def test_every_bound_is_used() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in python_files()}
    read = {path: set(re.findall(r"\b(?:bounds|limits)\.\w+", source)) for path, source in sources.items()}
    unread = [
        f"{module_name(path)}.{name}"
        for path, source in sources.items()
        if path.name in ("bounds.py", "limits.py")
        for name in re.findall(r"^([A-Z][A-Z0-9_]+): Final", source, re.MULTILINE)
        if not any(
            f"{path.stem}.{name}" in names
            for place, names in read.items()
            if place.is_relative_to(path.parent) or "hubbub/packs" not in path.as_posix()
        )
        and not re.search(rf"= .*\b{name}\b", source)
    ]
    assert unread == []
