"""The generator for stdio: send JSON-RPC lines to a server, sequentially or concurrently.

It validates responses as little as possible, or it would measure itself: the first is parsed
as JSON, and the others must have the same length. Therefore all ids have the same length.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from bench.process import BenchError, ServerProcess

_CHUNK_BYTES = 1 << 20
_ANSWER_TIMEOUT_S = 60
_FIRST_ID = 1_000_000
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclass(frozen=True)
class Flow:
    """Result of a series of concurrent calls."""

    calls: int
    wall_s: float
    server_cpu_s: float
    generator_cpu_s: float


class StdioClient:
    """One client on a server's stdin and stdout."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._identifier = _FIRST_ID
        signal.signal(signal.SIGALRM, self._on_alarm)

    def initialize(self) -> None:
        """Send `initialize` and wait for the response."""
        self._exchange(_line({"id": 0, "method": "initialize", "params": _INITIALIZE}))

    def send_initialized(self) -> None:
        """End the handshake."""
        os.write(self._server.input, _line({"method": "notifications/initialized"}))

    def call_sequentially(self, text: str, seconds: float) -> list[float]:
        """Call `echo` sequentially and return the duration of each call."""
        length = self._check_answer(text)
        before, after = _split_echo_call(text)
        times = []
        end = time.perf_counter() + seconds
        now = 0.0
        while now < end:
            line = b"%b%d%b" % (before, self._next_id(), after)
            start = time.perf_counter()
            answer = self._exchange(line)
            now = time.perf_counter()
            times.append(now - start)
            if len(answer) != length:
                raise self._server.make_error(f"a wrong answer: {answer[:200]!r}")
        return times

    def call(self, tool: str, arguments: Mapping[str, object]) -> Any:
        """Call any tool once and return its result."""
        before, after = _split_call(tool, arguments)
        answer = json.loads(self._exchange(b"%b%d%b" % (before, self._next_id(), after)))
        if "result" not in answer or answer["result"].get("isError"):
            raise self._server.make_error(f"a wrong answer: {str(answer)[:200]}")
        return answer["result"]

    def repeat_call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> list[float]:
        """Call any tool sequentially and return the duration of each call."""
        self.call(tool, arguments)
        before, after = _split_call(tool, arguments)
        times = []
        end = time.perf_counter() + seconds
        now = 0.0
        while now < end:
            line = b"%b%d%b" % (before, self._next_id(), after)
            start = time.perf_counter()
            answer = self._exchange(line)
            now = time.perf_counter()
            times.append(now - start)
            if b'"isError":true' in answer or b'"result":' not in answer:
                raise self._server.make_error(f"a wrong answer: {answer[:200]!r}")
        return times

    def read(self, uri: str) -> bytes:
        """Read a resource and return the complete response line."""
        message = {"id": self._next_id(), "method": "resources/read", "params": {"uri": uri}}
        answer = self._exchange(_line(message))
        if not json.loads(answer)["result"]["contents"]:
            raise self._server.make_error(f"a wrong answer: {answer[:200]!r}")
        return answer

    def call_concurrently(self, text: str, window: int, seconds: float) -> Flow:
        """Keep this many calls in flight, so that the server is never idle."""
        length = self._check_answer(text)
        server_cpu, own_cpu, start = self._server.cpu_s(), time.process_time(), time.perf_counter()
        calls, size = self._pump(text, window, start + seconds)
        flow = Flow(
            calls, time.perf_counter() - start, self._server.cpu_s() - server_cpu, time.process_time() - own_cpu
        )
        if size != calls * length:
            raise self._server.make_error(f"{calls} answers should be {calls * length} bytes, and are {size}")
        return flow

    def _pump(self, text: str, window: int, end: float) -> tuple[int, int]:
        """Send until the time is over, then wait for pending calls; return the responses and their bytes, counted."""
        before, after = _split_echo_call(text)
        server, poll = self._server, select.poll()
        poll.register(server.output, select.POLLIN)
        waiting: deque[memoryview] = deque()
        sent = answered = size = 0
        os.set_blocking(server.input, False)
        try:
            while (is_running := time.perf_counter() < end) or answered < sent:
                free_slots = window - (sent - answered)
                if free_slots and is_running:
                    lines = [b"%b%d%b" % (before, self._next_id(), after) for _ in range(free_slots)]
                    waiting.append(memoryview(b"".join(lines)))
                    sent += free_slots
                _write(server.input, waiting)
                if waiting:
                    poll.register(server.input, select.POLLOUT)
                ready = poll.poll(_ANSWER_TIMEOUT_S * 1000)
                if waiting:
                    poll.unregister(server.input)
                if not ready:
                    raise server.make_error("no answer")
                if any(descriptor == server.output for descriptor, _ in ready):
                    chunk = self._read()
                    answered += chunk.count(b"\n")
                    size += len(chunk)
        finally:
            os.set_blocking(server.input, True)
        return answered, size

    def _check_answer(self, text: str) -> int:
        """Call once, validate the response, and return its length."""
        before, after = _split_echo_call(text)
        identifier = self._next_id()
        answer = self._exchange(b"%b%d%b" % (before, identifier, after))
        message = json.loads(answer)
        try:
            content = message["result"]["content"]
        except KeyError:
            content = None
        if message.get("id") != identifier or content != [{"type": "text", "text": text}]:
            raise self._server.make_error(f"a wrong answer: {answer[:200]!r}")
        return len(answer)

    def _exchange(self, line: bytes) -> bytes:
        signal.alarm(_ANSWER_TIMEOUT_S)
        view = memoryview(line)
        while view:
            view = view[os.write(self._server.input, view) :]
        answer = self._read()
        while not answer.endswith(b"\n"):
            answer += self._read()
        signal.alarm(0)
        return answer

    def _read(self) -> bytes:
        chunk = os.read(self._server.output, _CHUNK_BYTES)
        if not chunk:
            raise self._server.make_error("it has closed its output")
        return chunk

    def _next_id(self) -> int:
        self._identifier += 1
        return self._identifier

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        raise self._server.make_error(f"no answer in {_ANSWER_TIMEOUT_S} seconds")


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _split_echo_call(text: str) -> tuple[bytes, bytes]:
    return _split_call("echo", {"text": text})


def _split_call(tool: str, arguments: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Return a call of a tool, split at its id."""
    params = json.dumps({"name": tool, "arguments": arguments}, separators=(",", ":"))
    return b'{"jsonrpc":"2.0","id":', b',"method":"tools/call","params":%b}\n' % params.encode()


def _write(descriptor: int, waiting: deque[memoryview]) -> None:
    """Write as much as the pipe accepts."""
    while waiting:
        try:
            written = os.write(descriptor, waiting[0])
        except BlockingIOError:
            return
        except BrokenPipeError as error:
            raise BenchError("the server has closed its input") from error
        if written < len(waiting[0]):
            waiting[0] = waiting[0][written:]
        else:
            waiting.popleft()
