"""Programs that run as another Unix user."""

import os
import subprocess
import sys

import pytest

NOBODY = 65534


def skip_without_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a program as another user")


def start_as_nobody(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python program of another user. That user may be unable to read the interpreter's own modules."""
    skip_without_root()
    drop = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    return subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import encodings.idna, http.client, os, socket, sys\n{drop}\n{script}",
            *arguments,
        ],
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_as_nobody(script: str, *arguments: str) -> str:
    """What it prints."""
    with start_as_nobody(script, *arguments) as process:
        return process.communicate(timeout=60)[0]
