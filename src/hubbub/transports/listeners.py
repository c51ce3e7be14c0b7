"""Listening sockets of the HTTP server: TCP and Unix."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.net.bind_address import format_address, listen_error

_ALL_PERMISSIONS: Final = 0o777
_LOCK_TIMEOUT_S: Final = 5.0
_LOCK_POLL_S: Final = 0.01


def listen(host: str, port: int, *, reuse_port: bool = False, option: str | None = None) -> socket.socket:
    """Open a listening socket. With `reuse_port`, other processes may listen on the same port.

    `option` is how the port was chosen, for the error; by default `--port`.

    Raises:
        SettingsError: the address cannot be used, or this system has no SO_REUSEPORT.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            _share_port(listener)
        listener.bind((host, port))
        listener.listen(bounds.BACKLOG)
    except OSError as error:
        listener.close()
        if reuse_port and error.errno == errno.EADDRINUSE:
            reason = "a process that was started without --reuse-port, or by another user, listens there; stop it"
            raise SettingsError(
                f"cannot listen on {format_address(host, port)}: {reason}, or try another --port"
            ) from None
        raise listen_error(host, port, error, option=option) from None
    except BaseException:
        listener.close()
        raise
    return listener


def _share_port(listener: socket.socket) -> None:
    option = getattr(socket, "SO_REUSEPORT", None)
    if option is None:
        raise SettingsError(
            "--reuse-port needs SO_REUSEPORT, which this system does not have; start one process for each port, "
            "with a proxy in front of them"
        )
    listener.setsockopt(socket.SOL_SOCKET, option, 1)


@contextmanager
def listen_unix(path: str, mode: int) -> Iterator[socket.socket]:
    """Listen on a Unix socket with these permissions until the block ends; then remove its file.

    Raises:
        SettingsError: the path cannot be used, or another process listens there.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise SettingsError("--unix-socket needs Unix sockets, which this system does not have; use --host and --port")
    file = Path(path)
    try:
        with _lock_folder(file.parent):  # or another process could remove the new socket as stale
            _remove_stale(file)
            listener = _bind_unix(file, mode)
    except OSError as error:
        raise listen_error(path, None, error, option="--unix-socket") from None
    with listener:
        created = _identify(file)
        try:
            yield listener
        finally:
            if created is not None and _identify(file) == created:  # not the socket of a process that replaced this one
                file.unlink(missing_ok=True)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Wait for other processes that open a socket in this folder, but not long: other programs may lock it too."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # a folder that cannot be read may be writable
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while not _try_lock(descriptor) and time.monotonic() < deadline:
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a folder, unless another process has locked it; some file systems have no locks."""
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _bind_unix(file: Path, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Set when the file is created, not afterwards: until then, other users could connect.
        previous = os.umask(_ALL_PERMISSIONS & ~mode)
        try:
            listener.bind(os.fspath(file))
        finally:
            os.umask(previous)
        listener.listen(bounds.BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale(file: Path) -> None:
    """Remove the socket file of a process that has ended; refuse any other file."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SettingsError(f"--unix-socket: {file} exists and is not a socket; remove it, or name another file")
    if is_in_use(file):
        raise SettingsError(f"--unix-socket: another process listens on {file}; stop it first, or name another file")
    file.unlink(missing_ok=True)


def is_in_use(file: Path) -> bool:
    """Whether a process listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(file))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            return True  # its queue is full
        return True


def _identify(file: Path) -> tuple[int, int] | None:
    try:
        found = file.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def start_accepting(
    listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol]
) -> asyncio.AbstractServer:
    """Accept connections from a listening socket of either kind."""
    loop = asyncio.get_running_loop()
    if listener.family in (socket.AF_INET, socket.AF_INET6):
        return await loop.create_server(make_protocol, sock=listener, backlog=bounds.BACKLOG)
    return await loop.create_unix_server(make_protocol, sock=listener, backlog=bounds.BACKLOG)
