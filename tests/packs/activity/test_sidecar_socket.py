"""The Unix socket of the sidecar is found without settings, and both ends belong to the same user."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.server_process import HUBBUB
from tests.packs.activity.other_users import NOBODY, run_as_nobody, skip_without_root, start_as_nobody
from tests.packs.activity.tool_clients import UNUSED_URL, connect_tool_client

from hubbub import SettingsError
from hubbub.packs.activity.sidecar.mock import MockEngine
from hubbub.packs.activity.sidecar.server import SidecarServer
from hubbub.packs.activity.sidecar_socket import Listener, default_path, is_same_user

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here")
_ASK = """
connection = http.client.HTTPConnection("localhost", timeout=60)
connection.sock = socket.socket(socket.AF_UNIX)
try:
    connection.sock.connect(sys.argv[1])
    connection.request("GET", "/probe")
    print(connection.getresponse().read().decode())
except Exception as error:
    print(type(error).__name__)
"""
_LISTEN = """
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
print(connection.recv(1000), flush=True)
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder of this test, with a short path, because socket paths are limited."""
    temporary_folder = Path(tempfile.mkdtemp(prefix="hub"))
    monkeypatch.setenv("XDG_DATA_HOME", str(temporary_folder))
    yield temporary_folder / "hubbub" / "activity"
    shutil.rmtree(temporary_folder)


@contextmanager
def sidecar_process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
    process = subprocess.Popen(
        [HUBBUB, "sidecar", "--engine", "mock", *arguments], stderr=subprocess.PIPE, text=True, env=environment, cwd="/"
    )
    assert process.stderr is not None
    try:
        assert "listens on unix:" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@contextmanager
def run_socket_server(path: Path) -> Iterator[SidecarServer]:
    server = SidecarServer(Listener(path), MockEngine(), takes_anything=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def read_screen(**settings: Any) -> Any:
    async with connect_tool_client(sidecar_url=settings.pop("sidecar_url", None), **settings) as tool_client:
        return await tool_client.call("screen.read")


async def failure(**settings: Any) -> Any:
    async with connect_tool_client(sidecar_url=settings.pop("sidecar_url", None), **settings) as tool_client:
        return await tool_client.failure("screen.read")


async def test_the_pack_finds_the_socket_without_settings(folder: Path) -> None:
    with sidecar_process() as process:
        path = folder / "sidecar.sock"
        assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
        assert (await read_screen())["text"] == "mock text\nmock icon"
        second = subprocess.run(
            [HUBBUB, "sidecar", "--engine", "mock"], capture_output=True, text=True, timeout=60, cwd="/"
        )
        assert (second.returncode, "already runs" in second.stderr) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not path.exists()
    assert not (folder / "sidecar_token").exists()


async def test_a_hanging_or_killed_sidecar_is_one_clear_error_and_can_be_restarted(folder: Path) -> None:
    with sidecar_process() as process:
        process.send_signal(signal.SIGSTOP)
        async with connect_tool_client(sidecar_url=None, timeout_s=0.2) as tool_client:
            health = await tool_client.call("system.health")
        assert health["causes"]["sidecar"]["kind"] == "timeout"
    assert default_path().exists()
    error = await failure()
    assert (error["code"], "hubbub sidecar" in error["message"]) == ("unreachable", True)
    with sidecar_process():
        assert (await read_screen())["text"] == "mock text\nmock icon"


async def test_the_socket_path_can_be_configured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.parent / "own" / "socket"
    with run_socket_server(path):
        assert (await read_screen(sidecar_url=f"unix:{path}"))["text"]
        assert (await read_screen(sidecar_url=f"unix://{path}"))["text"]
    with pytest.raises(SettingsError, match="unix:/home"):
        await read_screen(sidecar_url="unix:sidecar.sock")


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o702])
async def test_a_socket_folder_accessible_to_others_is_refused(mode: int, folder: Path) -> None:
    with run_socket_server(default_path()):
        folder.chmod(mode)
        error = await failure()
    assert (error["code"], f"chmod 700 {folder}" in error["message"]) == ("refused", True)
    with pytest.raises(SettingsError, match="chmod 700"):
        Listener(default_path())


async def test_a_socket_folder_that_is_a_symlink_is_refused(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    with run_socket_server(elsewhere / "sidecar.sock"):
        folder.symlink_to(elsewhere)
        assert (await failure())["code"] == "refused"
        with pytest.raises(SettingsError, match="is a link"):
            Listener(default_path())


async def test_a_socket_folder_of_another_user_is_refused(folder: Path) -> None:
    skip_without_root()
    with run_socket_server(default_path()):
        os.chown(folder, NOBODY, NOBODY)
        error = await failure()
    assert (error["code"], "another user" in error["message"]) == ("refused", True)
    with pytest.raises(SettingsError, match="another user"):
        Listener(default_path())


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
async def test_a_path_that_is_not_a_socket_is_refused(kind: str, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True)
    path = folder / "sidecar.sock"
    if kind == "file":
        path.touch()
    elif kind == "link":
        path.symlink_to("/run/other.sock")
    else:
        path.mkdir()
    assert (await failure())["code"] == "refused"


def test_requests_of_another_user_are_refused(folder: Path) -> None:
    skip_without_root()
    with run_socket_server(default_path()):
        assert run_as_nobody(_ASK, str(default_path())) == "PermissionError\n"
        # If the folder does not keep it out, the sidecar still checks the owner of the process.
        for each, mode in (
            (folder.parents[1], 0o755),
            (folder.parent, 0o755),
            (folder, 0o755),
            (default_path(), 0o777),
        ):
            each.chmod(mode)
        assert "mock" not in run_as_nobody(_ASK, str(default_path()))


async def test_nothing_is_sent_to_a_socket_of_another_user(folder: Path) -> None:
    skip_without_root()
    folder.mkdir(mode=0o700, parents=True)
    public = Path(tempfile.mkdtemp(prefix="hub"))
    try:
        public.chmod(0o777)
        with start_as_nobody(_LISTEN, str(public / "squat")) as squatter:
            assert squatter.stdout is not None
            assert squatter.stdout.readline() == "listens\n"
            (public / "squat").rename(folder / "sidecar.sock")  # simulates a socket placed by another user
            error = await failure()
            assert squatter.stdout.readline() == "b''\n"
            squatter.kill()
    finally:
        shutil.rmtree(public)
    assert (error["code"], "another user" in error["message"]) == ("refused", True)


def test_a_connection_within_this_process_is_of_the_same_user() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert is_same_user(one)
        assert is_same_user(other)


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="too long"):
        Listener(tmp_path / ("x" * 120))


async def test_a_tcp_port_is_used_if_configured(folder: Path) -> None:
    process = subprocess.Popen(
        [HUBBUB, "sidecar", "--engine", "mock", "--port", "0"], stderr=subprocess.PIPE, text=True, cwd="/"
    )
    assert process.stderr is not None
    try:
        url = process.stderr.readline().partition("listens on ")[2].split()[0]
        assert url.startswith("http://127.0.0.1:")
        assert (await read_screen(aw_url=UNUSED_URL, sidecar_url=url))["text"] == "mock text\nmock icon"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
