"""Run programs as another Unix user."""

import os
import subprocess
import sys

import pytest

NOBODY = 65534


def skip_without_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a program as another user")


def start_as_nobody(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a Python program as `nobody`, who may be unable to read the modules of the interpreter."""
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
    """Run a Python program as `nobody` and return its output."""
    with start_as_nobody(script, *arguments) as process:
        return process.communicate(timeout=60)[0]
