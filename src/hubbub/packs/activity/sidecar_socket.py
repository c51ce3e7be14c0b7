"""The Unix socket between the pack and the sidecar: only the user who owns it can reach either end.

It is in a folder that no other user can enter. Both ends check the folder, the socket and the process at the
other end, so another user can neither connect nor listen in the sidecar's place.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import IO, Final

from hubbub import HubbubError, SettingsError
from hubbub.pack import data_folder, listen_error, make_private_folder
from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import SourceFailure

SCHEME: Final = "unix:"
IS_SUPPORTED: Final = hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")
_DEFAULT_TCP_URL: Final = "http://127.0.0.1:8000"
"""The address of the contract's reference sidecar, for systems without Unix sockets."""
_SOCKET_NAME: Final = "sidecar.sock"
_OTHER_USERS_MODE: Final = 0o077
_PEER_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of the peer, as Linux reports them."""


def default_path() -> Path:
    """Return the path of the socket if `sidecar_url` names no other address.

    Not in XDG_RUNTIME_DIR: clients start stdio servers without that variable, and would look elsewhere.
    """
    return data_folder() / "activity" / _SOCKET_NAME


def default_url() -> str:
    """Return the address of the sidecar if the settings name none."""
    return f"{SCHEME}{default_path()}" if IS_SUPPORTED else _DEFAULT_TCP_URL


def parse_socket_path(url: str) -> Path:
    """Return the path in a `unix:` URL.

    Raises: SettingsError.
    """
    path = Path(url.removeprefix(SCHEME).replace("//", "/", 1))
    if not path.is_absolute():
        raise SettingsError(f"{url!r} is not the address of a socket; write it like unix:/home/ann/sidecar.sock")
    return path


def connect(path: Path) -> socket.socket:
    """Connect to the sidecar of this user.

    Raises:
        OSError: nothing listens there.
        SourceFailure: the folder, the socket or the process at the other end is another user's.
    """
    url = f"{SCHEME}{path}"
    try:
        _check_folder(path.parent)
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _UntrustedPath(f"{path} is not a socket; remove it and restart the sidecar")
    except _UntrustedPath as error:
        raise SourceFailure("refused", f"The sidecar was not contacted: {error}", url=url) from None
    unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unix_socket.setblocking(False)
        unix_socket.connect(str(path))
        if not is_same_user(unix_socket):
            message = (
                f"The sidecar was not contacted: a process of another user listens on {path}; "
                "set HUBBUB_ACTIVITY_SIDECAR_URL=unix:/another/path for sidecar and pack"
            )
            raise SourceFailure("refused", message, url=url)
    except BaseException:
        unix_socket.close()
        raise
    return unix_socket


class Listener:
    """The sidecar's end: a bound socket, and a lock that prevents a second sidecar from using it."""

    def __init__(self, path: Path) -> None:
        """Raises: SettingsError."""
        self.path = path
        if len(os.fsencode(path)) > limits.SOCKET_PATH_BYTES:
            raise SettingsError(
                f"the path of the socket {path} is too long; "
                "set HUBBUB_ACTIVITY_SIDECAR_URL=unix:/a/shorter/path for sidecar and pack"
            )
        try:
            make_private_folder(path.parent)
            _check_folder(path.parent)
            self._lock = _lock(path.with_name(f"{path.name}.lock"))
            self.socket = _bind(path)
        except _UntrustedPath as error:
            raise SettingsError(f"the sidecar cannot listen in {path.parent}: {error}") from None
        except OSError as error:
            option = "HUBBUB_ACTIVITY_SIDECAR_URL=unix:/path, for sidecar and pack"
            raise listen_error(str(path), None, error, option=option) from error

    def close(self) -> None:
        """Remove the socket, then release the path for another sidecar."""
        self.path.unlink(missing_ok=True)
        self._lock.close()


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user.

    True if the system does not report it; then only the permissions of the folder protect the socket.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, user, _ = _PEER_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _PEER_CREDENTIALS.size))
    return bool(user == os.geteuid())


class _UntrustedPath(HubbubError):
    """Another user may control this path."""


def _check_folder(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _UntrustedPath(f"{folder} is a link or a file, and must be a folder; remove it")
    if found.st_uid != os.geteuid():
        raise _UntrustedPath(f"{folder} belongs to another user; set HUBBUB_ACTIVITY_SIDECAR_URL=unix:/another/path")
    if stat.S_IMODE(found.st_mode) & _OTHER_USERS_MODE:
        raise _UntrustedPath(f"other users can enter {folder}; run `chmod 700 {folder}`")


def _lock(path: Path) -> IO[bytes]:
    import fcntl

    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "rb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise SettingsError("another sidecar of this user already runs; stop it first, or use it") from None
    except BaseException:
        file.close()
        raise
    return file


def _bind(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # left by a sidecar that was killed; the lock excludes another one
    unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unix_socket.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        unix_socket.close()
        raise
    return unix_socket
