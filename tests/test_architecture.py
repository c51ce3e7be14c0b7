"""The rules of the house that no linter knows: who may import what, how long a file may be, what a file may say."""

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.imports import SOURCE, imported_modules, imports_of, module_name

ROOT = Path(__file__).parents[1]

LINES_OF_ONE_FILE = 500

# Each is wrapped by one module, so that it can be replaced there, and is loaded only by who needs it.
LIBRARIES_WITH_ONE_OWNER = (
    "PIL",
    "Xlib",
    "aiohappyeyeballs",
    "aiohttp",
    "aiortc",
    "alembic",
    "cryptography",
    "grpc",
    "grpc_health",
    "httptools",
    "joserfc",
    "jsonschema_rs",
    "keyring",
    "limits",
    "matplotlib",
    "mss",
    "opentelemetry",
    "platformdirs",
    "prometheus_client",
    "rfc8785",
    "rich",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "watchfiles",
    "webrtc",
    "websockets",
)

# The judges would be tempting shortcuts; they stay outside.
LIBRARIES_NEVER_IMPORTED = ("fastmcp", "mcp", "mcp_types")

# What packs see besides the names in hubbub/__init__.py: themselves, two layers, and what all may import.
OPEN_TO_PACKS = (
    "hubbub.packs.",
    "hubbub.net.",
    "hubbub.store.",
    "hubbub.errors.",
    "hubbub.bounds.",
    "hubbub.settings.",
    "hubbub.observe.",
)

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


def importers_by_library() -> dict[str, set[str]]:
    importers = defaultdict(set)
    for path in python_files():
        for imported in imports_of(path):
            importers[imported.partition(".")[0]].add(module_name(path))
    return importers


def committed_texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file that is committed, or that would be by `git add --all`."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, timeout=30,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listing.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_bytes().decode("utf-8", errors="replace")


def test_the_scan_sees_every_kind_of_import() -> None:
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


def test_the_scan_sees_the_package_itself() -> None:
    assert "hubbub.errors" in importers_by_library()["typing"]


def household(module: str) -> str:
    """Where a module lives: in a pack, which cannot reach what is wrapped elsewhere, or in the rest."""
    return ".".join(module.split(".")[:3]) if module.startswith("hubbub.packs.") else "hubbub"


@pytest.mark.parametrize("library", LIBRARIES_WITH_ONE_OWNER)
def test_a_library_is_imported_by_one_module_at_most(library: str) -> None:
    owners = sorted(importers_by_library()[library])
    homes = [household(owner) for owner in owners]
    assert len(homes) == len(set(homes)), f"{library} is imported by {owners}"


@pytest.mark.parametrize("library", LIBRARIES_NEVER_IMPORTED)
def test_a_judge_is_never_imported(library: str) -> None:
    assert not importers_by_library()[library]


def test_click_stays_in_the_command_line() -> None:
    strangers = {name for name in importers_by_library()["click"] if not f"{name}.".startswith("hubbub.cli.")}
    assert not strangers, "commands are declared in hubbub.cli; packs describe theirs without click"


def public_names() -> set[str]:
    """The names in `__all__` of hubbub/__init__.py, read without running it."""
    for node in ast.parse((SOURCE / "hubbub/__init__.py").read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return set(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return set()


def test_packs_see_the_public_names_and_net_and_store() -> None:
    public = {f"hubbub.{name}" for name in public_names()}
    for path in (SOURCE / "hubbub/packs").rglob("*.py"):
        ours = {name for name in imports_of(path) if name.startswith("hubbub.")}
        hidden = {name for name in ours - public if not f"{name}.".startswith(OPEN_TO_PACKS)}
        assert not hidden, f"{module_name(path)} reaches past the public names: {sorted(hidden)}"


@pytest.mark.parametrize("path", python_files(), ids=module_name)
def test_a_file_stays_below_the_wall(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_OF_ONE_FILE, "a second idea lives in this file"


def test_tests_stay_below_the_wall_too() -> None:
    lengths = {
        name: len(text.splitlines())
        for name, text in committed_texts()
        if name.startswith("tests/") and name.endswith(".py")
    }
    assert "tests/test_architecture.py" in lengths
    too_long = {name: lines for name, lines in lengths.items() if lines > LINES_OF_ONE_FILE}
    assert not too_long, "a second idea lives in these files"


def test_no_file_names_a_registry() -> None:
    naming = [name for name, text in committed_texts() if any(host in text.lower() for host in REGISTRY_HOSTS)]
    assert not naming, "every machine has its own registry; scripts/lock strips addresses"


def test_every_locked_requirement_has_a_hash() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        entries = [line for line in lock.read_text().splitlines() if line and line[0] not in " #"]
        assert entries, f"{lock.name} is empty"
        assert all("==" in entry and entry.endswith("\\") for entry in entries), f"{lock.name} has an unlocked entry"
