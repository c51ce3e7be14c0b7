"""Exchange lines with a process, and call MCP tools concurrently over stdio."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from bench.process import ServerProcess

_CHUNK_BYTES = 1 << 20
_ANSWER_TIMEOUT_S = 300.0
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class LineProcess:
    """Lines to a process and from it."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self._rest = b""

    def write_line(self, line: bytes) -> None:
        """Write one line, including its newline."""
        view = memoryview(line)
        while view:
            view = view[os.write(self.server.input, view) :]

    def read_line(self) -> bytes:
        """Return the next line, including its newline."""
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while b"\n" not in self._rest:
            if not select.select([self.server.output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self.server.make_error("it did not answer")
            chunk = os.read(self.server.output, _CHUNK_BYTES)
            if not chunk:
                raise self.server.make_error("it has closed its output")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"


class ToolCaller(LineProcess):
    """An MCP client that starts calls and reads their results in any order."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(server)
        self._last = 0
        self._answers: dict[int, Any] = {}
        self._send({"id": 0, "method": "initialize", "params": _INITIALIZE})
        self.read_line()
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its structured content."""
        return ToolCaller.finish(self, ToolCaller.begin(self, tool, **arguments))

    def begin(self, tool: str, **arguments: Any) -> int:
        """Start a call and return its id."""
        self._last += 1
        params = {"name": tool, "arguments": arguments}
        self._send({"id": self._last, "method": "tools/call", "params": params})
        return self._last

    def finish(self, number: int) -> Any:
        """Wait for a call and return its structured content."""
        while number not in self._answers:
            message = json.loads(self.read_line())
            if "id" in message:
                self._answers[message["id"]] = message
        answer = self._answers.pop(number)
        if "result" not in answer or answer["result"].get("isError"):
            raise self.server.make_error(f"a wrong answer: {str(answer)[:300]}")
        return answer["result"]["structuredContent"]

    def _send(self, message: dict[str, Any]) -> None:
        self.write_line(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
