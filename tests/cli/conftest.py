"""Runs `hubbub` as users do: as a process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("HUBBUB_", "VDON_"))}


@pytest.fixture
def hubbub(tmp_path: Path) -> Run:
    """`hubbub(*arguments, stdin="", **environment)`, run in an empty folder."""

    def run(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hubbub", *arguments],
            input=stdin, cwd=tmp_path, env=clean_environment() | environ,
            capture_output=True, encoding="utf-8", timeout=50, check=False,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder into which somebody's distribution with packs was installed."""
    folder = tmp_path_factory.mktemp("third_party")
    source = ROOT / "tests/fixtures/third_party_pack"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(folder), str(source)],
        capture_output=True, encoding="utf-8", timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(folder)
