"""A virtual screen: Xvfb with a window manager and windows."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hubbub.packs.activity.sidecar import windows

REQUIRED_PROGRAMS = ("Xvfb", "openbox", "xterm", "tesseract")
ATSPI_LAUNCHER = Path("/usr/libexec/at-spi-bus-launcher")
WAIT_TIMEOUT_S = 60.0


def skip_without_programs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: scripts/system-packages installs it")


@contextmanager
def _run_process(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(WAIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(WAIT_TIMEOUT_S)


@contextmanager
def _run_xvfb(size: str) -> Iterator[tuple[str, int]]:
    """Run Xvfb on a free display; yields the display and the process id."""
    read, write = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{size}x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as pipe_reader:
            number = pipe_reader.readline().strip()
        assert number, "Xvfb did not start"
        yield f":{number}", process.pid
    finally:
        process.terminate()
        process.wait(WAIT_TIMEOUT_S)


class VirtualScreen:
    """A display with programs on it."""

    def __init__(self, stack: ExitStack, environment: dict[str, str], server_pid: int) -> None:
        self._stack = stack
        self.server_pid = server_pid
        self.environment = environment

    def start(self, command: list[str]) -> None:
        """Start a program that is stopped with the screen."""
        self._stack.enter_context(_run_process(command, self.environment))

    def open_terminal(self, title: str, text: str, place: str = "60x6+40+40", app: str = "XTerm") -> None:
        """Open a window with large text."""
        script = f"printf '%s\\n' '{text}'; exec sleep 600"
        command = [
            "xterm",
            "-class",
            app,
            "-T",
            title,
            "-geometry",
            place,
            "-fa",
            "DejaVu Sans Mono",
            "-fs",
            "16",
            "-e",
            "sh",
            "-c",
            script,
        ]
        self.start(command)

    def open_dialog(self, title: str, text: str) -> None:
        """Open a dialog of a program with accessibility support."""
        command = [
            "zenity",
            "--question",
            f"--title={title}",
            f"--text={text}",
            "--ok-label=Save",
            "--cancel-label=Discard",
        ]
        self._stack.enter_context(_run_process(command, {**self.environment, "GTK_MODULES": "gail:atk-bridge"}))


@contextmanager
def run_virtual_screen(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_bus: bool = False,
    has_manager: bool = True,
    size: str = "1280x800",
) -> Iterator[VirtualScreen]:
    """Run an empty screen, and make it the display of this process and its children."""
    skip_without_programs(*REQUIRED_PROGRAMS)
    with ExitStack() as stack:
        display, server_pid = stack.enter_context(_run_xvfb(size))
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DISPLAY": display, "LANG": "C.UTF-8"}
        # The cache of fontconfig, which takes long to rebuild.
        environment["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        if has_bus:
            environment |= stack.enter_context(_run_accessibility_bus(environment))
        for name in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
            if name in environment:
                monkeypatch.setenv(name, environment[name])
        monkeypatch.delenv("XAUTHORITY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        if has_manager:
            stack.enter_context(_run_process(["openbox"], environment))
            wait_until(lambda: windows.list_windows() is not None, "the window manager")
        yield VirtualScreen(stack, environment, server_pid)


@contextmanager
def _run_accessibility_bus(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    skip_without_programs("dbus-daemon", "zenity")
    if not ATSPI_LAUNCHER.exists():
        pytest.skip("no AT-SPI here: scripts/system-packages installs it")
    found = subprocess.run(
        ["/usr/bin/python3", "-c", "import gi; gi.require_version('Atspi', '2.0')"],
        capture_output=True,
        timeout=WAIT_TIMEOUT_S,
    )
    if found.returncode:
        pytest.skip("no AT-SPI for the system's Python here: scripts/system-packages installs it")
    daemon = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--print-address"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert daemon.stdout is not None
    try:
        address = daemon.stdout.readline().decode().strip()
        bus_environment = {"DBUS_SESSION_BUS_ADDRESS": address}
        with _run_process([str(ATSPI_LAUNCHER), "--launch-immediately", "--a11y=1"], environment | bus_environment):
            yield bus_environment
    finally:
        daemon.terminate()
        daemon.wait(WAIT_TIMEOUT_S)
        daemon.stdout.close()


def wait_until(condition: object, description: str) -> object:
    """Poll until the condition returns something true."""
    assert callable(condition)
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{description} did not come"
        time.sleep(0.2)
    return found
