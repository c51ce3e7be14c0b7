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

from hubbub.cli.asking import Prompter
from hubbub.cli.outcomes import TERMINATED, tell_failure
from hubbub.cli.terminal import note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.handlers import ElicitationAnswer, ElicitationRequest
from hubbub.client.known_eras import KnownEras
from hubbub.errors import HubbubError
from hubbub.observe import configure_logging
from hubbub.protocol.wire import LogMessage
from hubbub.security.redact import redact
from hubbub.settings.folders import state_folder
from hubbub.transports.signals import stop_signals

_LEVELS: Final = ("warning", "info", "debug")

Talk = Callable[[Client], Awaitable[int]]
Aside = Callable[[], AbstractContextManager[None]]
"""Clears the screen for a question, until it is answered."""


def converse(config: ServerConfig, talk: Talk, *, verbosity: int = 0, aside: Aside = nullcontext) -> int:
    """Connect to a server, run `talk`, and disconnect; return the exit code."""
    return run(_converse(config, talk, verbosity, aside), verbosity)


def run(work: Awaitable[int], verbosity: int = 0, *, is_quiet: bool = False) -> int:
    """Run a command's work; return the exit code. With `is_quiet`, warnings are not logged: the command shows its own.

    Raises: KeyboardInterrupt.
    """
    level = "error" if is_quiet and not verbosity else _LEVELS[min(verbosity, len(_LEVELS) - 1)]
    configure_logging(level, "text", redact=redact)
    try:
        return asyncio.run(_until_terminated(work))
    except HubbubError as error:
        return tell_failure(error)


def client_of(config: ServerConfig, verbosity: int, prompter: Prompter, aside: Aside = nullcontext) -> Client:
    """Make a client that passes elicitation to the person and, with -v, shows logs and stderr."""

    async def answer(request: ElicitationRequest) -> ElicitationAnswer:
        with aside():
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
    said = message.data if isinstance(message.data, str) else msgspec.json.encode(message.data).decode()
    logger = f"{message.logger}: " if isinstance(message.logger, str) else ""
    note(redact(f"[{message.level}] {logger}{said}"))


async def _converse(config: ServerConfig, talk: Talk, verbosity: int, aside: Aside) -> int:
    async with client_of(config, verbosity, Prompter(), aside) as client:
        if verbosity:
            info = client.server_info
            note(f"connected to {info.name or config.target} {info.version} ({client.protocol_version})".rstrip())
            await _ask_for_logs(client)
        return await talk(client)


async def _ask_for_logs(client: Client) -> None:
    if "logging" not in client.server_capabilities:
        return
    try:
        await client.set_level("debug")
    except HubbubError as error:
        note(f"the server does not log: {error.message}")


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
