"""A screen that nobody sees: Xvfb with a window manager, and windows on it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hubbub.packs.activity.sidecar import windows

NEEDED = ("Xvfb", "openbox", "xterm", "tesseract")
LAUNCHER = Path("/usr/libexec/at-spi-bus-launcher")
WAIT_S = 60.0


def skip_without(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: scripts/system-packages installs it")


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(WAIT_S)


@contextmanager
def _display(size: str) -> Iterator[tuple[str, int]]:
    """A free display; Xvfb itself finds one and says which."""
    read, write = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{size}x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as told:
            number = told.readline().strip()
        assert number, "Xvfb did not start"
        yield f":{number}", process.pid
    finally:
        process.terminate()
        process.wait(WAIT_S)


class Screen:
    """A display with programs on it."""

    def __init__(self, stack: ExitStack, environment: dict[str, str], server_pid: int) -> None:
        self._stack = stack
        self.server_pid = server_pid
        self.environment = environment

    def start(self, command: list[str]) -> None:
        """A program that ends with the screen."""
        self._stack.enter_context(_running(command, self.environment))

    def terminal(self, title: str, text: str, place: str = "60x6+40+40", app: str = "XTerm") -> None:
        """A window with large letters in it."""
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

    def question(self, title: str, text: str) -> None:
        """A window of a program that describes itself."""
        command = [
            "zenity",
            "--question",
            f"--title={title}",
            f"--text={text}",
            "--ok-label=Save",
            "--cancel-label=Discard",
        ]
        self._stack.enter_context(_running(command, {**self.environment, "GTK_MODULES": "gail:atk-bridge"}))


@contextmanager
def screen(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_bus: bool = False,
    has_manager: bool = True,
    size: str = "1280x800",
) -> Iterator[Screen]:
    """An empty one, which this process and its children look at meanwhile."""
    skip_without(*NEEDED)
    with ExitStack() as stack:
        display, server_pid = stack.enter_context(_display(size))
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DISPLAY": display, "LANG": "C.UTF-8"}
        # Where fontconfig keeps what it knows of all fonts; to find that out anew takes it long.
        environment["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        if has_bus:
            environment |= stack.enter_context(_bus(environment))
        for name in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
            if name in environment:
                monkeypatch.setenv(name, environment[name])
        monkeypatch.delenv("XAUTHORITY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        if has_manager:
            stack.enter_context(_running(["openbox"], environment))
            eventually(lambda: windows.all_windows() is not None, "the window manager")
        yield Screen(stack, environment, server_pid)


@contextmanager
def _bus(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    skip_without("dbus-daemon", "zenity")
    if not LAUNCHER.exists():
        pytest.skip("no AT-SPI here: scripts/system-packages installs it")
    found = subprocess.run(
        ["/usr/bin/python3", "-c", "import gi; gi.require_version('Atspi', '2.0')"], capture_output=True, timeout=WAIT_S
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
        named = {"DBUS_SESSION_BUS_ADDRESS": address}
        with _running([str(LAUNCHER), "--launch-immediately", "--a11y=1"], environment | named):
            yield named
    finally:
        daemon.terminate()
        daemon.wait(WAIT_S)
        daemon.stdout.close()


def eventually(look: object, what: str) -> object:
    """Ask again until there is an answer."""
    assert callable(look)
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.2)
    return found
