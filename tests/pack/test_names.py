"""The names of `hubbub.pack`: complete, visible to type checkers, and loaded only when they are used."""

import importlib
import subprocess
import sys

import pytest
from tests.public_types import names_for_type_checkers

import hubbub.pack

MODULES = ("hubbub.pack", "hubbub.pack.charts", "hubbub.pack.http", "hubbub.pack.store")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_can_be_imported(module: str) -> None:
    loaded = importlib.import_module(module)
    assert all(hasattr(loaded, name) for name in loaded.__all__)
    assert not hasattr(loaded, "Nonsense")


def test_every_public_name_is_what_type_checkers_see() -> None:
    source_modules = names_for_type_checkers(hubbub.pack)
    assert sorted(source_modules) == sorted(hubbub.pack.__all__)
    for name, source_module in source_modules.items():
        assert getattr(hubbub.pack, name) is getattr(importlib.import_module(source_module), name)
    assert set(hubbub.pack.__all__) <= set(dir(hubbub.pack))


@pytest.mark.parametrize(
    ("module", "unloaded"),
    [
        ("hubbub.pack", ("hubbub.", "msgspec")),
        ("hubbub.pack.charts", ("matplotlib",)),
        ("hubbub.pack.http", ("websockets", "httptools")),
    ],
)
def test_importing_a_module_loads_only_what_it_needs(module: str, unloaded: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([n for n in sys.modules if n.startswith({unloaded!r}) and n != 'hubbub.pack'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout == "[]\n"
