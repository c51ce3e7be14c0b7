"""A flood of connections does not use up the open files of the server process."""

import resource
import socket
import sys
from contextlib import ExitStack

import pytest
from tests.http.raw_http import TIMEOUT_S
from tests.http.server_process import PLAYGROUND, ServerProcess

from hubbub import bounds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs other loopback addresses and /proc")
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def open_connection(port: int, source: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S, source_address=(source, 0))
    connection.settimeout(TIMEOUT_S)
    return connection


def read_status(connection: socket.socket) -> int:
    """Return the status of a response; 0 if the connection was reset before it was read."""
    try:
        return int(connection.recv(12).removeprefix(b"HTTP/1.1 ") or 0)
    except ConnectionResetError:
        return 0


def read_limit(process: ServerProcess) -> int:
    """Return the soft limit on open files of a process."""
    return resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0]


def test_a_flood_of_one_address_does_not_use_up_the_files() -> None:
    with ServerProcess(str(PLAYGROUND), max_files="-n 256") as process, ExitStack() as stack:
        port = process.site.port
        flood = [stack.enter_context(open_connection(port, "127.0.0.2")) for _ in range(300)]
        with open_connection(port, "127.0.0.1") as other:
            other.sendall(REQUEST)
            assert read_status(other) == 200
        flood[0].sendall(REQUEST)
        assert read_status(flood[0]) == 200
        refused = [read_status(connection) for connection in flood[128:]]
        assert set(refused) <= {503, 0}
        assert 503 in refused
    warnings = [line for line in process.stderr_lines if "max_connections is 20000" in line]
    assert len(warnings) == 1
    assert "may open only 256 files" in warnings[0]
    assert "accepts 128 connections" in warnings[0]


def test_the_soft_limit_is_raised_as_far_as_necessary() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for connections in (10, 1000):
        with ServerProcess(str(PLAYGROUND), "--max-connections", str(connections), max_files="-Sn 300") as process:
            wanted = max(connections + bounds.RESERVED_FILES, 300)
            assert read_limit(process) == (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
        assert not [line for line in process.stderr_lines if "max_connections is" in line]
