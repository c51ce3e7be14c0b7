"""Output of `hubbub agent` during a run: the model's text on stdout, each call on stderr.

With `--json` instead one object per line: the loop's events, `text` for parts of an answer, `call` and `result` around
each call, and `answer` at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import click
import msgspec

from hubbub.agent.envelope import ToolEnvelope
from hubbub.agent.events import RunEvent
from hubbub.agent.executor import Executor
from hubbub.agent.run_state import RunResult
from hubbub.cli.exit_codes import replace_controls
from hubbub.cli.output import write_json

_MAX_ARGUMENT_CHARACTERS: Final = 160
_MAX_REASON_CHARACTERS: Final = 300
_KILOBYTE: Final = 1024


class Report(Protocol):
    """Shows the progress of a run."""

    def text(self, piece: str) -> None:
        """Show a part of the model's text."""

    def event(self, event: RunEvent) -> None:
        """Show an event of the loop."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Show the start of a call."""

    def result(self, name: str, envelope: ToolEnvelope, seconds: float) -> None:
        """Show the result of a call."""

    def interrupt(self) -> None:
        """Prepare for other output, which is about to be written."""

    def finished(self, result: RunResult, *, is_shown: bool) -> None:
        """Show the final answer; `is_shown`: it was already shown with `text`."""


class TextReport:
    """Report for people."""

    def __init__(self) -> None:
        self._is_within_line = False

    def text(self, piece: str) -> None:
        """Write it at once; in a terminal, replace control characters."""
        if piece:
            click.echo(replace_controls(piece) if sys.stdout.isatty() else piece, nl=False)
            self._is_within_line = not piece.endswith("\n")

    def event(self, event: RunEvent) -> None:
        """Show blocked calls and retries, which the other lines do not show."""
        if event.type == "tool_call_blocked":
            self._line(f"  x {event.details['tool']} was not called ({event.details['code']})", "yellow")
        elif event.type == "llm_request_retry" and event.details["wait_s"]:
            self._line(f"  the model's endpoint is busy; retrying in {event.details['wait_s']:.1f} s", "yellow")

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """`-> forecast {"city":"Lima"}`"""
        self._line(f"  -> {name} {format_arguments(arguments)}", "cyan")

    def result(self, name: str, envelope: ToolEnvelope, seconds: float) -> None:
        """`<- forecast 312 bytes, 0.02 s`"""
        if envelope["ok"]:
            size = len(msgspec.json.encode(envelope["data"], enc_hook=str))
            self._line(f"  <- {name} {_format_size(size)}, {seconds:.2f} s", "green")
            return
        reason = "; ".join(f"{each['code']}: {each['message']}" for each in envelope["errors"])
        output = str(envelope["data"].get("text") or "")
        message = " ".join(f"{reason} {output}".split())[:_MAX_REASON_CHARACTERS]
        self._line(f"  <- {name} failed after {seconds:.2f} s: {message}", "red")

    def interrupt(self) -> None:
        """End the line that the model is writing."""
        if self._is_within_line:
            click.echo()
            self._is_within_line = False

    def finished(self, result: RunResult, *, is_shown: bool) -> None:
        """Write the whole answer, if it was not streamed."""
        if not is_shown:
            self.text(result.assistant_text)
        self.interrupt()

    def _line(self, text: str, color: str) -> None:
        self.interrupt()
        click.secho(replace_controls(text), fg=color, err=True)


class JsonReport:
    """Report for machines, as lines of JSON."""

    def text(self, piece: str) -> None:
        """Write a part of an answer."""
        write_json({"type": "text", "text": piece})

    def event(self, event: RunEvent) -> None:
        """Write an event of the loop."""
        details = dict(event.details)
        write_json({"type": event.type, "run_id": event.run_id, "turn": event.turn, "details": details})

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Write a call with all its arguments."""
        write_json({"type": "call", "tool": name, "arguments": dict(arguments)})

    def result(self, name: str, envelope: ToolEnvelope, seconds: float) -> None:
        """Write the envelope that the model gets."""
        write_json({"type": "result", "tool": name, "elapsed_s": round(seconds, 3), "result": envelope})

    def interrupt(self) -> None:
        """Do nothing: each object is a line of its own."""

    def finished(self, result: RunResult, *, is_shown: bool) -> None:
        """Write the whole answer, even if it was streamed."""
        write_json({"type": "answer", "run_id": result.run_id, "text": result.assistant_text})


class ReportingExecutor:
    """Runs calls with another executor and shows them."""

    def __init__(self, executor: Executor, report: Report) -> None:
        self._executor = executor
        self._report = report

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str = "") -> ToolEnvelope:
        self._report.call(name, arguments)
        started = time.monotonic()
        envelope = await self._executor.call(name, arguments, call_id=call_id)
        self._report.result(name, envelope, time.monotonic() - started)
        return envelope


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments in one line that fits the screen."""
    text = msgspec.json.encode(dict(arguments)).decode()
    return text if len(text) <= _MAX_ARGUMENT_CHARACTERS else f"{text[: _MAX_ARGUMENT_CHARACTERS - 1]}…"


def _format_size(count: int) -> str:
    return f"{count} bytes" if count < _KILOBYTE else f"{count / _KILOBYTE:.1f} KB"
