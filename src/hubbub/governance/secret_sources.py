"""Reads the value of a secret from one source: a variable, a file, the keyring, or the output of a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.errors import HubbubError, SettingsError
from hubbub.security.known_values import MIN_CHARACTERS
from hubbub.settings.governance import SecretSource
from hubbub.transports.stdio_client import child_environment

MAX_SECRET_BYTES: Final = 64 * 1024
COMMAND_TIMEOUT_S: Final = 10.0
"""How long a program may take to print a secret."""


class SourceFailed(HubbubError):
    """A source has no usable value. The message says what to do, and does not contain the value."""


async def read_source(source: SecretSource, environ: Mapping[str, str] = os.environ) -> str:
    """Return the value, without its last line break.

    Raises: SourceFailed.
    """
    if source.env is not None:
        if source.env not in environ:
            raise SourceFailed(f"the environment variable {source.env} is not set; set it where the hub is started")
        data = environ[source.env].encode(errors="surrogateescape")
    elif source.file is not None:
        data = await asyncio.to_thread(_read_file, source.file)
    elif source.keyring is not None:
        data = await asyncio.to_thread(_read_keyring, source.keyring)
    else:
        data = await _run_command(source.command or ())
    return _parse_value(data)


def file_stamp(source: SecretSource) -> tuple[int, ...]:
    """Identify the version of a source's file; empty if it has none, or the file is missing."""
    if source.file is None:
        return ()
    try:
        found = Path(source.file).stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _parse_value(data: bytes) -> str:
    if len(data) > MAX_SECRET_BYTES:
        raise SourceFailed(f"it is larger than {MAX_SECRET_BYTES} bytes; check that this is the secret")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SourceFailed("it is not UTF-8 text; store it as text, such as base64") from None
    value = text.removesuffix("\n").removesuffix("\r")
    if "\0" in value:
        raise SourceFailed("it contains a NUL character; store it as text, such as base64")
    if len(value) < MIN_CHARACTERS:
        what = "empty" if not value else f"shorter than {MIN_CHARACTERS} characters, so that it cannot be masked"
        raise SourceFailed(f"it is {what}; use a longer one")
    return value


def _read_file(path: str) -> bytes:
    try:
        # A pipe or device would block, or never end.
        if not Path(path).is_file():
            raise SourceFailed(f"{path} is missing or not a regular file; correct `file`")
        with Path(path).open("rb") as file:
            return file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise SourceFailed(f"{path}: {error.strerror}; correct `file`, or let the hub's user read it") from None


def _read_keyring(entry: str) -> bytes:
    from hubbub.security.system_keyring import read_keyring

    service, _, user = entry.partition("/")
    try:
        value = read_keyring(service, user)
    except SettingsError as error:
        raise SourceFailed(f"{error.message}; or use another source") from None
    if value is None:
        raise SourceFailed(f"the keyring has no entry {entry}; add it with `keyring set {service} {user}`")
    return value.encode()


async def _run_command(command: Sequence[str]) -> bytes:
    """Run a program without a shell, with the few variables that programs need; what it writes to stderr is dropped."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=child_environment({}),
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SourceFailed(f"the program {command[0]!r} cannot be started: {reason}; correct `command`") from None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            data = await _read_output(process.stdout)
            status = await process.wait()
    except BaseException as error:
        await _end(process, process.stdout)
        if isinstance(error, TimeoutError):
            limit = f"{COMMAND_TIMEOUT_S:g} s"
            raise SourceFailed(
                f"the program {command[0]!r} took longer than {limit}; run it by hand to see why"
            ) from None
        raise
    if status:
        raise SourceFailed(f"the program {command[0]!r} ended with status {status}; run it by hand to see why")
    return data


async def _read_output(output: asyncio.StreamReader) -> bytes:
    """Read until the end; more than a secret can have is an error."""
    try:
        await output.readexactly(MAX_SECRET_BYTES + 1)
    except asyncio.IncompleteReadError as error:
        return error.partial
    raise SourceFailed(f"it is larger than {MAX_SECRET_BYTES} bytes; check that `command` prints only the secret")


async def _end(process: asyncio.subprocess.Process, output: asyncio.StreamReader) -> None:
    """End a program that has not ended by itself, and what it started."""
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):  # A program may have moved itself out of the group.
            while await output.read(MAX_SECRET_BYTES):
                pass  # Unread output would keep the pipe open.
            await process.wait()
