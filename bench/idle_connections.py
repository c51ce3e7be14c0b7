"""Memory of idle keep-alive connections: the measurement, and the process that holds them.

`python -m bench.idle_connections PORT COUNT` opens the connections, calls once on each, reads the answers, prints
a line and holds them until its stdin is closed. It is a separate process because it needs as many descriptors as the
server.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time

from bench.http_generator import HOST, is_whole, wait_for_listener
from bench.messages import FIRST_ID, TEXT, modern_call
from bench.process import BenchError, ServerProcess

_CONNECTIONS = 10_000
_FIRST_CONNECTIONS = 300  # opened and closed before, so that one-time allocations do not count
_DESCRIPTORS = _CONNECTIONS + 200
_READY = b"ready\n"
_CLOSE_TIMEOUT_S = 10.0
_POLL_S = 0.05
_ANSWER_TIMEOUT_S = 30.0


def measure_idle_connection(command: list[str], port: int) -> float:
    """Start a server and return how much resident memory each idle connection adds to it, in KB."""
    _raise_descriptor_limit()
    with ServerProcess(command) as server:
        try:
            wait_for_listener(server, port)
            with _open_connections(port, 1):  # a server may listen before it has opened everything that it needs
                descriptors = server.descriptors() - 1
            with _open_connections(port, _FIRST_CONNECTIONS):
                pass
            _wait_until_closed(server, descriptors)
            before_mb = server.resident_mb()
            with _open_connections(port, _CONNECTIONS):
                after_mb, held = server.resident_mb(), server.descriptors() - descriptors
            if held < _CONNECTIONS:
                raise server.make_error(f"it holds {held} of {_CONNECTIONS} connections")
            return (after_mb - before_mb) * 1024 / _CONNECTIONS
        finally:
            server.terminate()


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files of this process and its children as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _DESCRIPTORS:
        if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS:
            raise BenchError(f"the limit of open files is {hard}, but {_DESCRIPTORS} are needed; see `ulimit -Hn`")
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))


def _open_connections(port: int, count: int) -> ServerProcess:
    """Start the process that holds the connections, and wait until they are open."""
    command = [sys.executable, "-m", "bench.idle_connections", str(port), str(count)]
    holder = ServerProcess(command, beside_generator=True)
    if os.read(holder.output, len(_READY)) != _READY:
        with holder:
            raise holder.make_error(f"it could not open {count} connections")
    return holder


def _wait_until_closed(server: ServerProcess, descriptors: int) -> None:
    end = time.monotonic() + _CLOSE_TIMEOUT_S
    while server.descriptors() > descriptors:
        if time.monotonic() > end:
            raise server.make_error("it did not notice that connections were closed")
        time.sleep(_POLL_S)


def _call_once(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), _ANSWER_TIMEOUT_S)
    connection.sendall(modern_call().request(FIRST_ID))
    answer = b""
    while not is_whole(answer):
        received = connection.recv(1 << 16)
        if not received:
            break
        answer += received
    if TEXT not in answer:
        raise BenchError(f"a wrong answer: {answer[:400]!r}")
    return connection


def _main() -> None:
    connections = [_call_once(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
    os.write(1, _READY)
    sys.stdin.read()
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    _main()
