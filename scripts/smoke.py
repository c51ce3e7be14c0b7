"""A smoke test for every operating system: call an example over stdio and over HTTP with the installed package.

    python scripts/smoke.py

Uses the Hubbub of the Python that runs it and needs nothing else; the test suite itself runs on Linux.
"""

import re
import subprocess
import sys
from pathlib import Path

ECHO = str(Path(__file__).parents[1] / "examples" / "echo.py")
HUBBUB = (sys.executable, "-m", "hubbub")
TIMEOUT_S = 60
_URL = re.compile(r"serves (http://\S+)")


def run_hubbub(*arguments: str, message: str | None = None) -> str:
    """Run a command, and return what it writes to stdout."""
    command = [*HUBBUB, *arguments]
    done = subprocess.run(command, input=message, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    return done.stdout


def check(what: str, found: str, expected: str) -> None:
    if expected not in found:
        sys.exit(f"smoke: {what}: expected {expected!r}, got {found!r}")
    print(f"smoke: {what}: ok")


def check_http() -> None:
    server = subprocess.Popen([*HUBBUB, "serve", ECHO, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if (found := _URL.search(line)) is not None:
                check("a call over HTTP", run_hubbub("call", found[1], "echo", "text=over HTTP"), "over HTTP")
                return
        sys.exit("smoke: the HTTP server ended before it listened")
    finally:
        server.kill()
        server.wait(TIMEOUT_S)


def main() -> None:
    check("the version", run_hubbub("--version"), "hubbub ")
    listed = run_hubbub(
        "serve", ECHO, "--transport", "stdio", message='{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    )
    check("a server on stdio", listed, '"name":"echo"')
    check("a client on stdio", run_hubbub("call", ECHO, "echo", "text=on stdio"), "on stdio")
    check_http()


if __name__ == "__main__":
    main()
