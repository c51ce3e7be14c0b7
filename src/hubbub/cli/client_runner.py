"""Runs a command with a server: connects, runs its work, disconnects, and returns the exit code.

Logs of the server and its stderr are shown with -v. Ctrl+C and SIGTERM cancel the work; the server gets a
cancellation, and a child process is ended, before this process ends.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from hubbub.cli.elicitation import Prompter
from hubbub.cli.exit_codes import TERMINATED, report_failure
from hubbub.cli.terminal import note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.handlers import ElicitationAnswer, ElicitationRequest
from hubbub.client.known_eras import KnownEras
from hubbub.errors import HubbubError
from hubbub.observe import configure_logging
from hubbub.protocol.results import LogMessage
from hubbub.security.redact import redact
from hubbub.settings.folders import state_folder
from hubbub.transports.signals import stop_signals

_LOG_LEVELS: Final = ("warning", "info", "debug")

ClientWork = Callable[[Client], Awaitable[int]]
PauseOutput = Callable[[], AbstractContextManager[None]]
"""Hides progress output while the user answers a question."""


def run_with_client(
    config: ServerConfig, work: ClientWork, *, verbosity: int = 0, pause_output: PauseOutput = nullcontext
) -> int:
    """Connect to a server, run `work`, and disconnect; return the exit code."""
    return run(_run_with_client(config, work, verbosity, pause_output), verbosity)


def run(work: Awaitable[int], verbosity: int = 0, *, is_quiet: bool = False) -> int:
    """Run a command's work; return the exit code. With `is_quiet`, warnings are not logged: the command shows its own.

    Raises: KeyboardInterrupt.
    """
    level = "error" if is_quiet and not verbosity else _LOG_LEVELS[min(verbosity, len(_LOG_LEVELS) - 1)]
    configure_logging(level, "text", redact=redact)
    try:
        return asyncio.run(_until_terminated(work))
    except HubbubError as error:
        return report_failure(error)


def make_client(
    config: ServerConfig, verbosity: int, prompter: Prompter, pause_output: PauseOutput = nullcontext
) -> Client:
    """Make a client that passes elicitation to the person and, with -v, shows logs and stderr."""

    async def answer(request: ElicitationRequest) -> ElicitationAnswer:
        with pause_output():
            return await prompter.elicit(request)

    if verbosity:
        config = replace(config, on_stderr_line=lambda line: note(redact(f"{config.id}: {line}")))
    return Client(
        config,
        elicitation=answer,
        on_log=show_log if verbosity else None,
        known_eras=KnownEras(state_folder),
    )


def show_log(message: LogMessage) -> None:
    """Show a log message of a server."""
    text = message.data if isinstance(message.data, str) else msgspec.json.encode(message.data).decode()
    logger = f"{message.logger}: " if isinstance(message.logger, str) else ""
    note(redact(f"[{message.level}] {logger}{text}"))


async def _run_with_client(config: ServerConfig, work: ClientWork, verbosity: int, pause_output: PauseOutput) -> int:
    async with make_client(config, verbosity, Prompter(), pause_output) as client:
        if verbosity:
            info = client.server_info
            note(f"connected to {info.name or config.target} {info.version} ({client.protocol_version})".rstrip())
            await _enable_logs(client)
        return await work(client)


async def _enable_logs(client: Client) -> None:
    if "logging" not in client.server_capabilities:
        return
    try:
        await client.set_level("debug")
    except HubbubError as error:
        note(f"the server refused to send logs: {error.message}")


async def _until_terminated(work: Awaitable[Any]) -> int:
    """Cancel the work on SIGTERM, as on Ctrl+C, so that no child process is left behind."""
    task = asyncio.ensure_future(work)
    try:
        with stop_signals(task.cancel, (signal.SIGTERM,)):
            return int(await task)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return TERMINATED
