"""Unix sockets and ports that several processes share."""

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority
from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, TIMEOUT_S, RawConnection, Site, request
from tests.http.server_process import PLAYGROUND, ServerProcess

from hubbub import SettingsError
from hubbub.protocol.http_headers import Headers
from hubbub.settings import ServeSettings
from hubbub.transports.forwarded import TrustedProxies
from hubbub.transports.listeners import listen, listen_unix

ROUNDS = 300
PING = json.dumps(request("ping")).encode()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a socket, relative because the folders of tests can be too long for one."""
    monkeypatch.chdir(tmp_path)
    return Path("hubbub.sock")


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[RawConnection]:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


# -- Unix sockets --------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_socket_has_exactly_its_permissions_and_is_removed(path: Path, umask: int, mode: int) -> None:
    previous = os.umask(umask)
    try:
        with listen_unix(str(path), mode):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        assert os.umask(umask) == umask
    finally:
        os.umask(previous)
    assert not path.exists()


def test_the_socket_of_a_dead_process_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listen_unix(str(path), 0o600), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))


def test_a_socket_that_is_in_use_is_refused(path: Path) -> None:
    with listen_unix(str(path), 0o600):
        with pytest.raises(SettingsError, match=r"another process listens on hubbub\.sock; stop it first"):
            listen_unix(str(path), 0o600).__enter__()
        assert path.exists()


LISTENER = """
import sys
from hubbub import SettingsError
from hubbub.transports.listeners import listen_unix

while sys.stdin.readline():
    try:
        with listen_unix("hubbub.sock", 0o600):
            print("listens", flush=True)
            sys.stdin.readline()
    except SettingsError:
        print("refused", flush=True)
        sys.stdin.readline()
    print("ended", flush=True)
"""


def test_only_one_of_two_processes_replaces_the_socket_of_a_dead_one(path: Path) -> None:
    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", LISTENER]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(processes: list[subprocess.Popen[str]]) -> list[str]:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
        return [process.stdout.readline() for process in processes if process.stdout is not None]

    with start() as one, start() as two:
        for _ in range(ROUNDS):
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
            assert sorted(ask([one, two])) == ["listens\n", "refused\n"]
            assert ask([one, two]) == ["ended\n"] * 2


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_file_that_is_not_a_socket_is_refused(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/dev/null")
    else:
        path.write_text("keep me")
    with pytest.raises(SettingsError, match="exists and is not a socket; remove it"):
        listen_unix(str(path), 0o600).__enter__()
    assert path.exists()


def test_a_path_that_cannot_be_used_is_an_error(path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on no/folder.sock: .*; try another --unix-socket"):
        listen_unix("no/folder.sock", 0o600).__enter__()
    with pytest.raises(SettingsError, match=r"cannot listen on .*too long; try another --unix-socket"):
        listen_unix("x" * 200, 0o600).__enter__()


def test_the_socket_of_a_successor_is_not_removed(path: Path) -> None:
    with listen_unix(str(path), 0o600):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
    assert path.exists()


async def test_callers_on_a_unix_socket_are_local(path: Path) -> None:
    """They need no authentication, even if `host` is another address, and have no default rate limit."""
    async with run_server(unix_socket=str(path), host="0.0.0.0"), connect(path) as link:
        for _ in range(150):
            await link.send_request("POST", "/mcp", JSON, PING)
            assert (await link.read_response()).json["result"] == {}
        await link.send_request("GET", "/health", {"Host": "evil.example"})
        assert (await link.read_response()).status == 403


async def test_rate_limits_and_connection_limits_apply_to_unix_sockets(path: Path) -> None:
    async with (
        run_server(unix_socket=str(path), limits=("health=2/minute",), max_connections=2),
        connect(path) as one,
        connect(path) as two,
        connect(path) as three,
    ):
        assert (await three.read_response()).status == 503
        statuses = []
        for link in (one, two, one):
            await link.send_request("GET", "/health", {"Host": "localhost"})
            statuses.append((await link.read_response()).status)
        assert statuses == [200, 200, 429]


async def test_a_proxy_on_the_unix_socket_can_be_trusted(path: Path) -> None:
    settings: dict[str, Any] = {"unix_socket": str(path), "proxied_by": ("unix",), "limits": ("health=1/minute",)}
    async with run_server(**settings), connect(path) as link:
        statuses = []
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
            await link.send_request("GET", "/health", {"X-Forwarded-For": f"1.1.1.1, {address}"})
            statuses.append((await link.read_response()).status)
        assert statuses == [200, 200, 429]
        body = json.dumps(request("echo", {"text": "x"})).encode()
        await link.send_request("POST", "/mcp", JSON | {"X-Forwarded-Proto": "https"}, body)
        assert "; Secure" in ((await link.read_response()).header("set-cookie") or "")


def test_only_the_unix_socket_is_trusted_by_the_name_unix() -> None:
    headers = Headers([(b"x-forwarded-for", b"192.0.2.1, unix")])
    proxies = TrustedProxies(["unix"])
    assert proxies.client_address(headers, "127.0.0.1") == "127.0.0.1"
    assert proxies.client_address(headers, "") == "unix"
    assert TrustedProxies(["127.0.0.1"]).client_address(headers, "") == ""


async def test_tls_on_a_unix_socket(path: Path, tmp_path: Path) -> None:
    authority = Authority()
    cert_file, key_file = authority.issue().write(tmp_path)
    async with run_server(unix_socket=str(path), tls_cert_file=cert_file, tls_key_file=key_file):
        reader, writer = await asyncio.open_unix_connection(
            str(path), ssl=authority.client_context(), server_hostname="localhost"
        )
        link = RawConnection(reader, writer)
        await link.send_request("GET", "/health")
        assert (await link.read_response()).status == 200
        link.close()
        await writer.wait_closed()


def test_a_process_serves_on_a_unix_socket(path: Path) -> None:
    with ServerProcess(str(PLAYGROUND), "--unix-socket", str(path), "--log-level", "info") as process:
        lines = "".join(process.stderr_lines)
        assert "serves http://localhost/mcp on the Unix socket hubbub.sock" in lines
        assert '"address":"unix:hubbub.sock"' in lines
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if shutil.which("curl") is not None:
            done = subprocess.run(
                ["curl", "-s", "--unix-socket", str(path), "http://localhost/health"], capture_output=True, timeout=60
            )
            assert json.loads(done.stdout)["status"] == "healthy"
        with pytest.raises(AssertionError, match="another process listens"):
            ServerProcess(str(PLAYGROUND), "--unix-socket", str(path))
        process.signal()
        assert process.wait() == 0
        assert not path.exists()


def test_a_killed_process_leaves_a_socket_that_the_next_one_replaces(path: Path) -> None:
    with ServerProcess(str(PLAYGROUND), "--unix-socket", str(path)) as process:
        process.kill()
    assert path.exists()
    with ServerProcess(str(PLAYGROUND), "--unix-socket", str(path)):
        pass


# -- ports ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="the system has no SO_REUSEPORT")
def test_two_processes_share_a_port_and_both_answer() -> None:
    with ServerProcess(str(PLAYGROUND), "--reuse-port", "--log-level", "debug") as one:
        address = f"127.0.0.1:{one.site.port}"
        with ServerProcess(str(PLAYGROUND), "--reuse-port", "--http-addr", address, "--log-level", "debug") as two:

            async def call_until_both_have_answered() -> None:
                async with asyncio.timeout(TIMEOUT_S):
                    while not all(any('"event":"call"' in line for line in each.stderr_lines) for each in (one, two)):
                        assert (await one.site.post(request("ping"))).json["result"] == {}

            asyncio.run(call_until_both_have_answered())
            two.signal()
            assert two.wait() == 0
            assert asyncio.run(Site(one.site.port).get("/health")).status == 200


def test_a_port_is_not_shared_without_the_setting() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(SettingsError, match="try another --port"):
        listen("127.0.0.1", first.getsockname()[1], reuse_port=True)


def test_a_system_without_shared_ports_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_REUSEPORT", raising=False)
    with pytest.raises(SettingsError, match="--reuse-port needs SO_REUSEPORT, which this system does not have"):
        listen("127.0.0.1", 0, reuse_port=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unix_socket": "a.sock", "reuse_port": True}, "reuse_port applies to ports"),
        ({"tls_key_file": "a.key"}, "set tls_cert_file too"),
        ({"tls_client_ca_file": "ca.pem"}, "set tls_cert_file too"),
    ],
)
def test_settings_that_exclude_each_other(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServeSettings(**settings)  # type: ignore[arg-type]
