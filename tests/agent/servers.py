"""Real servers on stdio, for tests of whoever connects to them."""

import sys
from pathlib import Path

from hubbub import ServerConfig

ROOT = Path(__file__).parents[2]
ECHO = ROOT / "examples/echo.py"


def stdio(id: str, file: Path = ECHO) -> ServerConfig:
    """A server that a Python file runs. It gets little of our environment, so it is told where the package is."""
    return ServerConfig(
        id=id,
        command=sys.executable,
        args=[str(file), "--transport", "stdio"],
        env={"PYTHONPATH": str(ROOT / "src")},
        timeout_s=20,
    )
