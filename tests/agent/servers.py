"""Configs of real servers on stdio."""

import sys
from pathlib import Path

from hubbub import ServerConfig

ROOT = Path(__file__).parents[2]
ECHO = ROOT / "examples/echo.py"


def stdio(id: str, file: Path = ECHO) -> ServerConfig:
    """Config of a server in a Python file; it inherits little of our environment, so it needs `PYTHONPATH`."""
    return ServerConfig(
        id=id,
        command=sys.executable,
        args=[str(file), "--transport", "stdio"],
        env={"PYTHONPATH": str(ROOT / "src")},
        timeout_s=20,
    )
