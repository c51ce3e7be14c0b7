"""The stdio server on pipes, sockets, files and terminals, and with clients that do not read."""

import itertools
import json
import os
import pty
import socket
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

Start = Callable[..., Any]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
MEGABYTE = 1024 * 1024


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


# -- files, devices, terminals, sockets ----------------------------------------


def test_input_may_be_a_file(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(PING.replace(b'"id":1', b'"id":%d' % number) for number in range(2000)))
    with path.open("rb") as file:
        server = start(stdin=file)
        answers = lines(server.rest())
    assert sorted(answer["id"] for answer in answers) == list(range(2000))
    assert server.wait() == 0


def test_output_may_be_a_file(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with path.open("wb") as file:
        server = start(stdout=file)
        server.send(server.request(1, "ping"), server.call(2, "nap", seconds=0.1))
        server.end_input()
        assert server.wait() == 0
    assert [answer["id"] for answer in lines(path.read_bytes())] == [1, 2]


def test_input_and_output_may_both_be_files(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(PING)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        assert start(stdin=source, stdout=sink).wait() == 0
    assert (tmp_path / "out").read_bytes() == PONG


def test_the_null_device_is_an_input_at_its_end(start: Start) -> None:
    server = start(stdin=subprocess.DEVNULL)
    assert server.rest() == b""
    assert server.wait() == 0


def test_output_may_go_to_the_null_device(start: Start) -> None:
    server = start(stdout=subprocess.DEVNULL)
    server.send(server.request(1, "ping"))
    server.end_input()
    assert server.wait() == 0


@pytest.mark.parametrize("descriptor", [0, 1])
def test_a_closed_stdin_or_stdout_ends_the_process(start: Start, descriptor: int) -> None:
    server = start(preexec_fn=lambda: os.close(descriptor))
    if descriptor == 1:
        server.send(server.request(1, "ping"))
        server.end_input()
    assert server.wait() == 0


def test_input_and_output_may_be_a_terminal(start: Start) -> None:
    control, terminal = pty.openpty()
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~termios.ECHO
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    server = start(stdin=terminal, stdout=terminal)
    os.close(terminal)
    os.write(control, PING)
    assert os.read(control, 1000) == PONG
    os.write(control, PING)
    assert os.read(control, 1000) == PONG
    os.write(control, b"\x04")  # end of input, as typed at a terminal (Ctrl+D)
    assert server.wait() == 0
    os.close(control)
    (hint,) = server.errors().splitlines()
    assert b"waits for JSON-RPC messages" in hint
    assert b"Ctrl+D" in hint


def test_the_terminal_hint_is_not_shown_on_pipes(server: Any) -> None:
    assert server.ask(server.request(1, "ping"))["result"] == {}
    server.end_input()
    assert server.wait() == 0
    assert server.errors() == b""


def test_a_non_blocking_terminal_is_served(start: Start) -> None:
    control, terminal = pty.openpty()
    server = start(stdin=terminal, stdout=terminal)
    os.set_blocking(terminal, False)
    for _ in range(3):
        os.write(control, PING)
        while b"result" not in os.read(control, 1000):
            pass
    # The response is larger than the buffer of the terminal, so writing it has to wait.
    os.write(control, b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n')
    seen = b""
    while b'"name":"noisy"' not in seen:
        seen += os.read(control, 100)
    os.close(terminal)
    os.close(control)
    assert server.wait() == 0


def test_a_terminal_that_hangs_up_ends_the_process(start: Start) -> None:
    control, terminal = pty.openpty()
    server = start(stdin=terminal, stdout=terminal)
    os.write(control, PING)
    while b"result" not in os.read(control, 1000):
        pass
    os.close(terminal)
    os.close(control)
    assert server.wait() == 0


def test_input_and_output_may_be_two_sockets(start: Start) -> None:
    ours_in, theirs_in = socket.socketpair()
    ours_out, theirs_out = socket.socketpair()
    with ours_in, ours_out:
        server = start(stdin=theirs_in, stdout=theirs_out)
        theirs_in.close()
        theirs_out.close()
        ours_in.sendall(PING)
        ours_out.settimeout(10)
        assert ours_out.recv(1000) == PONG
        ours_in.shutdown(socket.SHUT_WR)
        assert server.wait() == 0


def test_input_and_output_may_be_one_socket(start: Start) -> None:
    client_end, server_end = socket.socketpair()
    with client_end:
        server = start(stdin=server_end, stdout=server_end)
        server_end.close()
        client_end.settimeout(10)
        for _ in range(3):
            client_end.sendall(PING)
            assert client_end.recv(1000) == PONG
        client_end.shutdown(socket.SHUT_WR)
        assert client_end.recv(1000) == b""
        assert server.wait() == 0


# -- tools that print and read ----------------------------------------------


def test_tools_that_print_do_not_corrupt_the_protocol(server: Any) -> None:
    answer = server.ask(server.call(1, "noisy"))
    assert answer["result"]["content"] == [{"type": "text", "text": "quiet"}]
    assert server.ask(server.request(2, "ping"))["result"] == {}
    server.end_input()
    assert server.rest() == b""
    assert server.wait() == 0
    # The stdin of the child is empty, so that it cannot read the client's messages.
    for line in (b"printed by a tool", b"written by a tool", b"printed by a child 0"):
        assert line in server.errors()


# -- clients that do not read --------------------------------------------------


def memory_bytes(server: Any) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


def memory_growth(server: Any, before: int, *, action: Callable[[], None]) -> int:
    """Return how much the memory of the process grew, once it is stable."""
    largest, rested_since, last = 0, time.monotonic(), -1.0
    deadline = time.monotonic() + 60
    while time.monotonic() - rested_since < 0.5:
        assert time.monotonic() < deadline, "the memory of the server did not become stable"
        action()
        largest = max(largest, memory_bytes(server) - before)
        used = sum(psutil.Process(server.process.pid).cpu_times()[:2])
        if used != last:
            rested_since, last = time.monotonic(), used
        time.sleep(0.02)
    return largest


def test_unread_progress_blocks_the_tool(server: Any) -> None:
    server.initialize()
    before = memory_bytes(server)
    server.send(server.call_with_progress(1, "flood", messages=200, size=MEGABYTE))
    assert memory_growth(server, before, action=lambda: None) < 64 * MEGABYTE
    # The client reads again: everything arrives, in order.
    seen = [server.receive() for _ in range(201)]
    assert [message["params"]["progress"] for message in seen[:-1]] == list(range(1, 201))
    assert seen[-1]["result"]["content"] == [{"type": "text", "text": "200 messages"}]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("echo", {"text": "x" * MEGABYTE}), ("gift", {"size": 100_000})],
    ids=["long questions", "short questions with long answers"],
)
def test_unread_responses_stop_the_reading_of_requests(server: Any, tool: str, arguments: dict[str, Any]) -> None:
    server.initialize()
    before = memory_bytes(server)
    ids = itertools.count()
    os.set_blocking(server.process.stdin.fileno(), False)
    written, rest = 0, b""

    def push() -> None:
        nonlocal written, rest
        while written < 200 * MEGABYTE:
            rest = rest or json.dumps(server.call(next(ids), tool, **arguments)).encode() + b"\n"
            try:
                size = os.write(server.process.stdin.fileno(), rest)
            except BlockingIOError:
                return
            rest = rest[size:]
            written += size
        pytest.fail("the server takes requests without end")

    assert memory_growth(server, before, action=push) < 96 * MEGABYTE


def test_a_client_that_stopped_reading_can_still_end_the_server(server: Any) -> None:
    server.initialize()
    server.send(server.call_with_progress(1, "flood", messages=200, size=MEGABYTE))
    server.receive()
    server.end_input()
    server.process.terminate()
    assert server.wait() == 0


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with a running tool"])
def test_a_broken_output_ends_the_process(server: Any, busy: bool) -> None:
    server.initialize()
    if busy:
        server.send(server.call_with_progress(1, "wait_forever"))
        server.receive()
    server.process.stdout.close()
    assert server.wait() == 0
