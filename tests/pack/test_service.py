"""Network services: which addresses need `--insecure`, what they print, and when they stop."""

import errno
import signal
import socket
import subprocess
import sys

import pytest

from hubbub import SettingsError
from hubbub.pack import listen_error, require_loopback

SERVICE = """
import sys
from contextlib import asynccontextmanager
from hubbub.pack import run_service

@asynccontextmanager
async def service():
    print("started", flush=True)
    yield "tides:1"
    print("stopped", flush=True)

sys.exit(run_service("tide gauge", service()))
"""


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "[::]", "192.168.1.2", "example.com"])
def test_listening_off_loopback_requires_the_insecure_flag(host: str) -> None:
    with pytest.raises(SettingsError, match=r"--host x can be reached .* could read the tides; .*--insecure"):
        require_loopback(host, "--host x", "read the tides", insecure=False)
    require_loopback(host, "--host x", "read the tides", insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_listening_on_loopback_is_allowed(host: str) -> None:
    require_loopback(host, "--host x", "read the tides", insecure=False)


@pytest.mark.parametrize(
    ("reason", "option", "message"),
    [
        (OSError(errno.EADDRINUSE, "In use"), None, "cannot listen on [::1]:80: In use; try another --port"),
        (OSError(errno.EADDRNOTAVAIL, "No"), None, "cannot listen on [::1]:80: No; try another --host"),
        (socket.gaierror(-2, "Unknown"), None, "cannot listen on [::1]:80: Unknown; try another --host"),
        (OverflowError("too high."), None, "cannot listen on [::1]:80: too high; try another --port"),
        ("it is taken", "--addr", "cannot listen on [::1]:80: it is taken; try another --addr"),
    ],
)
def test_the_error_for_an_unusable_address_says_why(reason: Exception | str, option: str | None, message: str) -> None:
    assert listen_error("::1", 80, reason, option=option).message == message


def test_the_error_for_an_unusable_socket_has_its_path() -> None:
    error = listen_error("/run/tides.sock", None, OSError(errno.EACCES, "Denied"), option="--socket")
    assert error.message == "cannot listen on /run/tides.sock: Denied; try another --socket"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_logs_its_address_and_stops_at_a_signal(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "hubbub: tide gauge listens on tides:1 · Ctrl+C stops it\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "started\nstopped\n", "")
