"""Machines with a home of their own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hubbub.install.machine import Machine, System

MakeMachine = Callable[..., Machine]


@pytest.fixture
def make_machine(tmp_path: Path) -> MakeMachine:
    """`make_machine("windows", APPDATA=...)`: a machine of that system with an empty home."""

    def make(system: System = "linux", **environ: str) -> Machine:
        home, folder = tmp_path / system / "home", tmp_path / system / "project"
        home.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        return Machine(system=system, home=home, folder=folder, environ=environ)

    return make


@pytest.fixture
def machine(make_machine: MakeMachine) -> Machine:
    return make_machine()
