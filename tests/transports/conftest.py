"""A server process on stdio that tests drive with raw bytes; certificates for servers with TLS."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from tests.http.certificates import Authority, Pair

SERVER = Path(__file__).parent.parent / "interop" / "server.py"
DEADLINE_S = 60.0
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Process:
    """One server process; reading always has a deadline."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self._buffer = b""

    # -- messages --------------------------------------------------------------

    @staticmethod
    def request(identifier: Any, method: str, **params: Any) -> dict[str, Any]:
        """A request as a client would write it."""
        return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}

    @staticmethod
    def call(identifier: Any, tool: str, **arguments: Any) -> dict[str, Any]:
        """A `tools/call`."""
        return Process.request(identifier, "tools/call", name=tool, arguments=arguments)

    @staticmethod
    def call_with_progress(identifier: Any, tool: str, **arguments: Any) -> dict[str, Any]:
        """A `tools/call` that asks for progress; its id is also the token."""
        meta = {"progressToken": identifier}
        return Process.request(identifier, "tools/call", name=tool, arguments=arguments, _meta=meta)

    @staticmethod
    def modern(identifier: Any, method: str, **params: Any) -> dict[str, Any]:
        """A request of the modern era."""
        return Process.request(identifier, method, _meta=MODERN_META, **params)

    @staticmethod
    def frame(body: bytes) -> bytes:
        """Frame a message with `Content-Length`."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    # -- in --------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write bytes unchanged."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages: Any) -> None:
        """Write messages as lines, all in one write."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def send_framed(self, *messages: Any) -> None:
        """Write messages with `Content-Length`, all in one write."""
        self.write(b"".join(self.frame(json.dumps(message).encode()) for message in messages))

    def end_input(self) -> None:
        """Close our end of stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    # -- out -------------------------------------------------------------------

    def receive(self) -> Any:
        """The next message, which must be a line."""
        return json.loads(self._read_until(lambda: self._take_until(b"\n")))

    def receive_framed(self) -> Any:
        """The next message, which must be framed."""
        header = self._read_until(lambda: self._take_until(b"\r\n\r\n"))
        name, length = header.split(b": ")
        assert name == b"Content-Length"
        return json.loads(self._read_until(lambda: self._take(int(length))))

    def rest(self) -> bytes:
        """Everything up to the end of the output."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        rest, self._buffer = self._buffer, b""
        return rest

    def answer(self, identifier: Any) -> Any:
        """Return the response to one request; skip messages before it."""
        while (message := self.receive()).get("id") != identifier:
            pass
        return message

    def ask(self, message: Any) -> Any:
        """Send a request and return its response."""
        self.send(message)
        return self.answer(message["id"])

    def initialize(self, version: str = "2025-11-25") -> Any:
        """Open a legacy session."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
        opened = self.ask(self.request("open", "initialize", **params))
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return opened["result"]

    # -- the process -----------------------------------------------------------

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = DEADLINE_S) -> int:
        """The exit code, within a deadline."""
        return self.process.wait(seconds)

    def errors(self) -> bytes:
        """What it wrote to stderr."""
        return self._log.read_bytes()

    def _read_until(self, found: Callable[[], bytes | None]) -> bytes:
        deadline = time.monotonic() + DEADLINE_S
        while (data := found()) is None:
            assert self._read(deadline), f"the output ended with {self._buffer!r}"
        return data

    def _take_until(self, separator: bytes) -> bytes | None:
        head, found, tail = self._buffer.partition(separator)
        if not found:
            return None
        self._buffer = tail
        return head

    def _take(self, length: int) -> bytes | None:
        if len(self._buffer) < length:
            return None
        head, self._buffer = self._buffer[:length], self._buffer[length:]
        return head

    def _read(self, deadline: float) -> bool:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came in time; so far {self._buffer[:1000]!r}"
        data = os.read(descriptor, 1 << 20)
        self._buffer += data
        return bool(data)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a server; at the end kill it and check that stderr has no traceback or warning."""
    started: list[Process] = []

    def run(
        stdin: IO[bytes] | int = subprocess.PIPE,
        stdout: IO[bytes] | int = subprocess.PIPE,
        preexec_fn: Callable[[], None] | None = None,
    ) -> Process:
        log = tmp_path / f"stderr-{len(started)}"
        with log.open("wb") as errors:
            command = [sys.executable, "-W", "default", str(SERVER)]
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                preexec_fn=preexec_fn,  # noqa: PLW1509
            )
        started.append(Process(process, log))
        return started[-1]

    yield run
    for server in started:
        server.process.kill()
        server.wait()
        for stream in (server.process.stdin, server.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        assert not re.search(rb"Traceback|Warning|Exception|never", server.errors()), server.errors().decode()


@pytest.fixture
def server(start: Callable[..., Process]) -> Process:
    """A server on two pipes."""
    return start()


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def pair(authority: Authority) -> Pair:
    return authority.issue()
