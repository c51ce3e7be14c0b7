"""The client side of stdio: a server as a child process, one message per line.

The child is started without a shell, in a session of its own, so that it can be ended together with every
process it has started, even if we are killed (`orphan_reaper`). It gets a few variables of ours and the configured
ones, nothing else. Its messages go to the receiver as they arrive; its stderr goes to a hook, and the last
lines of it into the error that reports its end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from hubbub import bounds
from hubbub.errors import ConnectionFailed, HubbubError, TransportClosed, TransportError
from hubbub.ports import OutgoingRequest, Receiver, hide_nothing
from hubbub.protocol.framing import Framer, encode_line
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.transports import orphan_reaper

INHERITED_VARIABLES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
INHERITED_VARIABLES_WINDOWS: Final = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
_GROUP_CHECKS: Final = 20
"""How often to check whether a process group has ended: the OS notifies us only of our own child."""


def child_environment(variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return a child's environment: the variables that programs need to run, and `variables`; None removes one."""
    names = INHERITED_VARIABLES_WINDOWS if os.name == "nt" else INHERITED_VARIABLES
    environment = {name: os.environ[name] for name in names if name in os.environ}
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


class StdioTransport:
    """Stdio transport to a server in a child process."""

    is_http = is_legacy = False

    def __init__(
        self,
        command: Sequence[str],
        variables: Callable[[], Any],
        *,
        folder: str | None = None,
        on_stderr_line: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = hide_nothing,
    ) -> None:
        self.hide = hide
        self.address = f"stdio:{command[0]}"
        self._command = tuple(command)
        self._variables = variables
        self._folder = folder
        self._on_stderr_line = on_stderr_line
        self._mask = mask
        self._child: ServerProcess | None = None
        self._close_task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id, once it runs."""
        return None if self._child is None else self._child.pid

    async def start(self, receiver: Receiver) -> None:
        """Start the child.

        Raises:
            TransportError: it cannot be started.
        """
        variables = child_environment(await self._variables())
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {} if os.name == "nt" else {"start_new_session": True}
        try:
            _, child = await loop.subprocess_exec(
                lambda: ServerProcess(receiver, bounds.LINE_BYTES, self._on_stderr_line, self._command[0], self._mask),
                *self._command,
                env=variables,
                cwd=self._folder,
                **options,
            )
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise ConnectionFailed(
                f"{self._command[0]!r} cannot be started: {cause}", may_have_executed=False
            ) from error
        self._child = child
        if self._is_closed:
            await child.end(bounds.CLOSE_TIMEOUT_S)
            raise TransportClosed("The client was closed while the server started", may_have_executed=False)

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Write a request; return False if the child is not running or does not read."""
        child = self._child
        if child is None or child.is_closed or not child.may_write.is_set():
            return False
        body = outgoing.body
        child.send(body + b"\n" if b"\n" not in body else encode_line(body))
        return True

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """Write a request; its response goes to the receiver."""
        await self._write(outgoing.body)

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Write a notification or a response."""
        await self._write(message)

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Send a cancellation to the server, unless it does not read."""
        child = self._child
        if child is not None and child.may_write.is_set():
            params = {"requestId": outgoing.id, "reason": reason}
            child.write(encode_line(encode_notification("notifications/cancelled", params)))

    def finish_handshake(self, version: str) -> None:
        """Do nothing: the server can already write at any time."""

    async def close(self) -> None:
        """End the child and all processes it started: close its input, then send TERM, then KILL."""
        self._is_closed = True
        if self._child is None:
            return
        if self._close_task is None:
            self._close_task = asyncio.ensure_future(self._child.end(bounds.CLOSE_TIMEOUT_S))
        await asyncio.shield(self._close_task)

    async def _write(self, message: bytes) -> None:
        child = self._child
        if child is None:
            raise TransportError("The server was not started", may_have_executed=False)
        if not child.may_write.is_set():
            await child.may_write.wait()
        if child.is_closed:
            await child.wait_for_end()
        child.write(message + b"\n" if b"\n" not in message else encode_line(message))


class ServerProcess(asyncio.SubprocessProtocol):
    """Handles the pipes and the exit of a child process."""

    def __init__(
        self,
        receiver: Receiver,
        limit: int,
        on_stderr_line: Callable[[str], Any] | None,
        name: str,
        mask: Callable[[str], str],
    ) -> None:
        self._receiver = receiver
        self._framer = Framer(limit)
        self._on_stderr_line = on_stderr_line
        self._name = name
        self._mask = mask
        self._stderr_buffer = bytearray()
        self._last_lines: deque[str] = deque(maxlen=bounds.STDERR_LINES)
        self._is_ending = False
        self._open_outputs = {1, 2}
        self._end_reported = asyncio.Event()
        self._end_timer: asyncio.TimerHandle | None = None
        self.exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unwritten: list[bytes] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()
        orphan_reaper.register_group(self.pid)
        self._input = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    @property
    def is_closed(self) -> bool:
        """Whether the child has ended or closed its input."""
        return self._end_reported.is_set() or self._input.is_closing()

    async def wait_for_end(self) -> None:
        """Wait a short time until its exit status and last lines of stderr are known."""
        try:
            async with asyncio.timeout(bounds.EXIT_OUTPUT_TIMEOUT_S):
                await self._end_reported.wait()
        except TimeoutError:
            return

    def write(self, data: bytes) -> None:
        """Write to the child.

        Raises: TransportError, if it has ended.
        """
        if self.is_closed:
            raise self._end_error()
        self.send(data)

    def send(self, data: bytes) -> None:
        """Write to a child that is running."""
        if not self._unwritten:
            self._loop.call_soon(self._flush)
        self._unwritten.append(data)

    def _flush(self) -> None:
        """Write everything from one turn of the loop together: each write is a system call and wakes the child."""
        data, self._unwritten = self._unwritten, []
        if data and not self._input.is_closing():
            self._input.write(data[0] if len(data) == 1 else b"".join(data))

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def pipe_data_received(self, descriptor: int, data: bytes) -> None:
        """Deliver messages from stdout and lines from stderr."""
        if descriptor == 2:
            self._handle_stderr(data)
            return
        receiver = self._receiver
        for message in self._framer.feed(data):
            if isinstance(message, bytes):
                receiver.receive(message)
            else:
                receiver.receive_invalid(message)

    def pipe_connection_lost(self, descriptor: int, error: Exception | None) -> None:
        """Handle a closed pipe: without its stdout the child can answer nothing, even if it still runs."""
        self._open_outputs.discard(descriptor)
        if descriptor == 0:
            self.may_write.set()
        elif descriptor == 1:
            # Most often it is about to exit, and its status is worth waiting for.
            self._start_end_timer()
        elif self._stderr_buffer:
            self._handle_stderr(b"\n")  # a last line without a line break
        self._report_end_if_complete()

    def process_exited(self) -> None:
        """Handle the child's exit. Its output may be unread, but its own children may keep the pipes open."""
        self.exited.set()
        if not _is_group_alive(self.pid):
            orphan_reaper.unregister_group(self.pid)
        self._start_end_timer()
        self._report_end_if_complete()

    def _report_end_if_complete(self) -> None:
        if self.exited.is_set() and not self._open_outputs:
            self._report_end()

    def _start_end_timer(self) -> None:
        if self._end_timer is None and not self._end_reported.is_set():
            self._end_timer = asyncio.get_running_loop().call_later(bounds.EXIT_OUTPUT_TIMEOUT_S, self._report_end)

    def _report_end(self) -> None:
        """Report once that the child has ended."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        if self._end_reported.is_set():
            return
        self._end_reported.set()
        self.may_write.set()
        if not self._is_ending:
            self._receiver.transport_lost(self._end_error())

    def _end_error(self) -> HubbubError:
        status = self._transport.get_returncode()
        lines = [self._mask(line) for line in self._last_lines]
        data: dict[str, Any] = {"pid": self.pid, "stderr": lines}
        if status is None:
            outcome = "has closed its output"
        elif status < 0:
            outcome, data["termsig"] = f"was ended by {_signal_name(-status)}", -status
        else:
            outcome, data["exitstatus"] = f"has ended with status {status}", status
        last_output = f"; stderr: {' | '.join(lines[-3:])}" if lines else ""
        return TransportClosed(f"The server {self._name!r} {outcome}{last_output}", data)

    def _handle_stderr(self, data: bytes) -> None:
        self._stderr_buffer += data
        *lines, rest = self._stderr_buffer.split(b"\n")
        self._stderr_buffer = bytearray(rest)
        if len(rest) > bounds.STDERR_LINE_BYTES:
            lines.append(rest)
            self._stderr_buffer.clear()
        for line in lines:
            text = bytes(line[: bounds.STDERR_LINE_BYTES]).decode(errors="replace").rstrip("\r")
            self._last_lines.append(text)
            if self._on_stderr_line is not None:
                try:
                    self._on_stderr_line(text)
                except Exception:  # a user's hook must not stop the reading
                    continue

    async def end(self, step_s: float) -> None:
        """End the child, each step within `step_s`."""
        self._is_ending = True
        self._flush()
        self._input.close()
        if not await self._exits_within(step_s):
            _signal_group(self._transport, self.pid, signal.SIGTERM)
            await self._exits_within(step_s)
        await self._end_remaining(step_s)
        if self._input.get_write_buffer_size():
            self._input.abort()  # it will not read the rest any more
        self._transport.close()
        self._report_end()

    async def _end_remaining(self, step_s: float) -> None:
        """End the processes that the child left behind, and the child itself if it still runs."""
        if self.exited.is_set() and _is_group_alive(self.pid):
            _signal_group(self._transport, self.pid, signal.SIGTERM)
            for _ in range(_GROUP_CHECKS):
                await asyncio.sleep(step_s / 4 / _GROUP_CHECKS)
                if not _is_group_alive(self.pid):
                    break
        _signal_group(self._transport, self.pid, signal.SIGKILL)
        await self._exits_within(step_s)
        orphan_reaper.unregister_group(self.pid)

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return False
        return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_group(transport: asyncio.SubprocessTransport, pid: int, number: signal.Signals) -> None:
    """Send a signal to a child and every process it has started; ignore those that have ended."""
    try:
        if os.name == "nt":
            transport.terminate()
        else:
            os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _is_group_alive(pid: int) -> bool:
    """Whether the child or any process it has started is still running."""
    if os.name == "nt":
        return False
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
