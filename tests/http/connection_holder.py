"""Holds idle connections to a server: `python connection_holder.py PORT COUNT`.

It makes one request on each, prints a line once all are answered, and closes them when its stdin is closed. It is a
separate process because it needs as many open files as the server.
"""

import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

ADDRESS = "127.0.0.2"
"""Another one than that of the tests: each has a share of the connections."""
FILES_BESIDE = 200
_REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_READY = "ready\n"
_TIMEOUT_S = 60.0
_BIND_ADDRESS_NO_PORT = 24
"""An option of Linux, which Python's module `socket` does not name in every version."""


@contextmanager
def hold_connections(port: int, count: int) -> Iterator[None]:
    """Hold idle connections in another process while the block runs."""
    with Popen([sys.executable, __file__, str(port), str(count)], stdin=PIPE, stdout=PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == _READY
            yield
        finally:
            holder.stdin.close()
    assert holder.returncode == 0


def _open(port: int) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(_TIMEOUT_S)
    # Without it, `bind` looks for a port that no other connection uses, which takes long among so many.
    connection.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    connection.bind((ADDRESS, 0))
    connection.connect(("127.0.0.1", port))
    connection.sendall(_REQUEST)
    answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return connection


def _main(port: int, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + FILES_BESIDE, hard))
    connections = [_open(port) for _ in range(count)]
    sys.stdout.write(_READY)
    sys.stdout.flush()
    sys.stdin.read()
    for connection in connections:
        connection.setblocking(False)
        try:
            ended = connection.recv(1) == b""
        except BlockingIOError:
            ended = False
        assert not ended, "the server closed an idle connection"
        connection.close()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
