"""Runs what a command has to say to a server: connects, talks, parts, and returns the exit code.

Logs of the server and its stderr are shown with -v. Ctrl+C and SIGTERM cancel what runs;
the server is told, and a child of ours is ended, before the process is.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from hubbub.cli.asking import elicit
from hubbub.cli.outcomes import TERMINATED, tell_failure
from hubbub.cli.terminal import note
from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.handlers import ElicitationAnswer, ElicitationRequest
from hubbub.errors import HubbubError
from hubbub.observe import configure_logging
from hubbub.protocol.wire import MessageParams
from hubbub.security.redact import redact

_LEVELS: Final = ("warning", "info", "debug")

Talk = Callable[[Client], Awaitable[int]]
Aside = Callable[[], AbstractContextManager[None]]
"""Clears the screen for a question, until it is answered."""


def converse(config: ServerConfig, talk: Talk, *, verbosity: int = 0, aside: Aside = nullcontext) -> int:
    """Connect to a server, talk, and part; return the exit code."""
    return run(_converse(config, talk, verbosity, aside), verbosity)


def run(work: Awaitable[int], verbosity: int = 0, *, is_quiet: bool = False) -> int:
    """Run a command's work; return the exit code. A quiet one tells by itself what is worth a warning.

    Raises: KeyboardInterrupt.
    """
    level = "error" if is_quiet and not verbosity else _LEVELS[min(verbosity, len(_LEVELS) - 1)]
    configure_logging(level, "text", redact=redact)
    try:
        return asyncio.run(_until_terminated(work))
    except HubbubError as error:
        return tell_failure(error)


def client_of(config: ServerConfig, verbosity: int, aside: Aside = nullcontext) -> Client:
    """A client whose server can ask the person, and be heard."""

    async def answer(request: ElicitationRequest) -> ElicitationAnswer:
        with aside():
            return await elicit(request)

    if verbosity:
        config = replace(config, on_stderr_line=lambda line: note(redact(f"{config.id}: {line}")))
    return Client(config, elicitation=answer, on_log=show_log if verbosity else None)


def show_log(message: MessageParams) -> None:
    """Show what a server logs."""
    said = message.data if isinstance(message.data, str) else msgspec.json.encode(message.data).decode()
    logger = f"{message.logger}: " if isinstance(message.logger, str) else ""
    note(redact(f"[{message.level}] {logger}{said}"))


async def _converse(config: ServerConfig, talk: Talk, verbosity: int, aside: Aside) -> int:
    async with client_of(config, verbosity, aside) as client:
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
    """SIGTERM cancels like Ctrl+C does, so that no child is left behind."""
    task = asyncio.ensure_future(work)
    if os.name != "nt":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return int(await task)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return TERMINATED
