"""Runs `hubbub` as users do: as a process."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
            capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip

    return run


def trust(folder: Path) -> None:
    """Trust the settings file of a folder, with `hubbub trust`."""
    subprocess.run(
        [sys.executable, "-m", "hubbub", "trust", "--yes", str(folder)],
        env=clean_environment(), capture_output=True, timeout=60, check=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with an installed third-party distribution that has packs."""
    folder = tmp_path_factory.mktemp("third_party")
    source = ROOT / "tests/fixtures/third_party_pack"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(folder), str(source)],
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(folder)


@pytest.fixture(scope="session")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pack `demo`, served over HTTP."""
    with served("--pack", "demo", folder=tmp_path_factory.mktemp("demo")) as url:
        yield url


@contextmanager
def served(*arguments: str, folder: Path) -> Iterator[str]:
    """`hubbub serve` on a free port; the address of its endpoint."""
    command = [sys.executable, "-m", "hubbub", "serve", *arguments, "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            found = re.search(r"serves (http\S+)", process.stderr.readline())
            assert found is not None
            process.stderr.readline()
            yield found[1]
        finally:
            process.terminate()
