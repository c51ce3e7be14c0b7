"""The Unix socket for administration: for the user who runs the hub only, and at one path only."""

import asyncio
import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import modern_request
from tests.http.raw_http import RawConnection, Response
from tests.hub.local_hubs import library, make_hub

from hubbub.admin.server import add_admin_view
from hubbub.admin.unix_socket import MAX_CONNECTIONS, AdminSocket
from hubbub.transports.listeners import listen_unix
from hubbub.transports.peer_credentials import PeerCheck, can_read_peers

pytestmark = pytest.mark.skipif(not can_read_peers(), reason="this system does not report who connects")


@pytest.fixture
def folder() -> Any:
    """A folder with a short path, because paths of sockets are limited."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@asynccontextmanager
async def open_socket(folder: Path) -> AsyncIterator[str]:
    """A hub that serves administration at a socket; its path."""
    hub = make_hub(library())
    add_admin_view(hub)
    admin_socket = AdminSocket(hub.main_front, folder)
    async with hub.running(), admin_socket.running():
        assert admin_socket.path is not None
        yield admin_socket.path
    assert admin_socket.path is None


async def send(path: str, body: Any, headers: dict[str, str], target: str = "/mcp/admin") -> Response:
    connection = RawConnection(*await asyncio.open_unix_connection(path))
    try:
        fields = {"Content-Type": "application/json", "Host": "localhost", **headers}
        await connection.send_request("POST", target, fields, json.dumps(body).encode())
        return await connection.read_response()
    finally:
        connection.close()


async def test_the_user_of_the_hub_is_an_operator(folder: Path) -> None:
    async with open_socket(folder) as path:
        body, headers = modern_request("tools/call", {"name": "hub.status", "arguments": {}})
        answer = await send(path, body, headers)
        assert answer.json["result"]["structuredContent"]["pid"] == os.getpid()


async def test_only_the_user_can_reach_the_socket(folder: Path) -> None:
    async with open_socket(folder) as path:
        found = Path(path)
        assert stat.S_IMODE(found.stat().st_mode) == 0o600
        assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    assert not found.exists()


@pytest.mark.parametrize("target", ["/mcp", "/", "/health", "/mcp/other", "/mcp/admin/"])
async def test_it_serves_no_other_path(folder: Path, target: str) -> None:
    async with open_socket(folder) as path:
        body, headers = modern_request("tools/list", {})
        answer = await send(path, body, headers, target)
        assert (answer.status, "serves only /mcp/admin" in answer.body.decode()) == (404, True)


async def test_a_page_in_a_browser_is_refused(folder: Path) -> None:
    async with open_socket(folder) as path:
        body, headers = modern_request("tools/list", {})
        for more in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert (await send(path, body, headers | more)).status == 403


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_user_who_connects_is_checked_before_anything_is_read(folder: Path, is_allowed: bool) -> None:
    received = asyncio.Event()

    class Connection(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.set()

    uid = os.getuid() if is_allowed else os.getuid() + 1
    with listen_unix(str(folder / "s"), 0o600) as listener:
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: PeerCheck({uid}, Connection), sock=listener
        )
        reader, writer = await asyncio.open_unix_connection(str(folder / "s"))
        try:
            writer.write(b"hello")
            if is_allowed:
                await received.wait()
            else:
                with suppress(ConnectionResetError):  # reported if it was closed with unread data
                    assert await reader.read() == b""
                assert not received.is_set()
        finally:
            writer.close()
            server.close()


async def test_the_number_of_connections_is_limited(folder: Path) -> None:
    async with open_socket(folder) as path:
        opened = [await asyncio.open_unix_connection(path) for _ in range(MAX_CONNECTIONS)]
        try:
            body, headers = modern_request("tools/list", {})
            answer = await send(path, body, headers)
            assert answer.status == 503
            opened.pop()[1].close()
        finally:
            for _, writer in opened:
                writer.close()


async def test_sockets_of_killed_hubs_are_removed_but_not_those_of_running_ones(folder: Path) -> None:
    async with open_socket(folder) as running:
        stale = Path(running).with_name("1-dead.sock")
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(stale))
        for path in (stale, Path(running)):
            os.utime(path, (0, 0))
        async with open_socket(folder) as second:
            assert not stale.exists()
            assert Path(running).exists()
            assert second != running


async def test_a_folder_with_a_long_path_is_replaced_by_a_private_one(folder: Path) -> None:
    long = folder / ("x" * 100)
    async with open_socket(long) as path:
        assert str(long) not in path
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        body, headers = modern_request("tools/list", {})
        assert (await send(path, body, headers)).status == 200
    assert not Path(path).parent.exists()


async def test_a_hub_works_without_its_socket(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "hubs").write_text("not a folder")
    hub = make_hub(library())
    add_admin_view(hub)
    admin_socket = AdminSocket(hub.main_front, folder)
    async with hub.running(), admin_socket.running():
        assert admin_socket.path is None
    assert "admin_socket_unavailable" in caplog.text


async def test_stopping_does_not_wait_for_idle_connections(folder: Path) -> None:
    async with open_socket(folder) as path:
        connection = RawConnection(*await asyncio.open_unix_connection(path))
        await connection.send_request("GET", "/mcp/admin", {"Host": "localhost", "Accept": "text/html"})
        assert (await connection.read_response()).status == 406
    assert not Path(path).exists()
    assert await connection.reader.read() == b""
    connection.close()
