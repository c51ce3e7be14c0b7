"""Credentials of the user of this machine, in an encrypted file of the private data folder.

The key of the file is an entry of the system's keyring, or the installation's sealing key where there is no keyring.
The credentials themselves are not entries of the keyring, because keyrings cannot list their entries, and that of
Windows takes 2560 bytes at most, which is less than many tokens have.

The functions of a store block for as long as a file is read or written, so they run in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from hubbub.errors import SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.credentials import CredentialKey, Credentials, select_keys
from hubbub.oauth.errors import OAuthError
from hubbub.security.sealer import KEY_BYTES, Sealer, load_or_create_key, read_key
from hubbub.settings.folders import data_folder, make_private_folder, replace_file, sync_folder
from hubbub.suggestions import format_suggestion

StoreKind: TypeAlias = Literal["keyring", "file"]
Result = TypeVar("Result")

VARIABLE: Final = "HUBBUB_CREDENTIALS"
_PURPOSE: Final = "oauth credentials"
_KEYRING_SERVICE: Final = "hubbub"
_KEYRING_USER: Final = "credentials-key"
_FILES: Final[Mapping[StoreKind, str]] = {"keyring": "credentials-keyring.sealed", "file": "credentials.sealed"}
_FOLDER: Final = "credential-locks"
_WRITE_LOCK: Final = "write.lock"
_ADVICE: Final = f"or use an encrypted file: set {VARIABLE}=file, and log in again"


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    key: CredentialKey
    credentials: Credentials


class _FileVersion(NamedTuple):
    """Identifies the content of a file without reading it."""

    path: Path
    modified_ns: int
    size: int
    inode: int


class FileCredentialStore:
    """Stores credentials on this machine. Implements `CredentialStore`.

    The place is chosen at first use: as `HUBBUB_CREDENTIALS` says, or where credentials are stored already, or in the
    keyring if it works, or else in a file with the installation's sealing key.
    """

    def __init__(self, folder: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._environ = environ
        self._cached: tuple[_FileVersion, dict[CredentialKey, Credentials]] | None = None

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return data_folder() if self._folder is None else self._folder

    async def kind(self) -> StoreKind | None:
        """Return where credentials are; None: nowhere yet.

        Raises: SettingsError.
        """
        return await asyncio.to_thread(self._find_kind)

    async def check(self) -> None:
        """Check that credentials can be stored, before a person logs in.

        Raises: SettingsError.
        """
        await asyncio.to_thread(self._check)

    async def load(self, key: CredentialKey) -> Credentials | None:
        """Return the credentials of a key.

        Raises: SettingsError, if the file or its key cannot be read.
        """
        return (await asyncio.to_thread(self._read)).get(key)

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        """Replace the credentials of a key.

        Raises: SettingsError, if the file cannot be read or written, or is full.
        """

        def put(entries: dict[CredentialKey, Credentials]) -> None:
            entries[key] = credentials
            if len(entries) > limits.STORED_CREDENTIALS:
                raise SettingsError(
                    f"{limits.STORED_CREDENTIALS} logins are stored, which is the limit; remove some with "
                    "`hubbub logout`, or set `database` in [oauth] for the users of a hub"
                )

        await asyncio.to_thread(self._edit, put)

    async def delete(self, key: CredentialKey) -> bool:
        """Delete the credentials of a key; return whether there were any.

        Raises: SettingsError, if the file cannot be read or written.
        """
        return await asyncio.to_thread(self._edit, lambda entries: entries.pop(key, None) is not None)

    async def list(self, *, resource: str | None = None, principal: str | None = None) -> Sequence[CredentialKey]:
        """Return the keys of this resource and principal; None: of any.

        Raises: SettingsError, if the file or its key cannot be read.
        """
        return select_keys(await asyncio.to_thread(self._read), resource, principal)

    @asynccontextmanager
    async def lock(self, key: CredentialKey) -> AsyncIterator[None]:
        """Let one holder at a time, of all processes, replace the credentials of a key.

        Raises: OAuthError, if another process does not release it.
        """
        digest = hashlib.sha256(msgspec.json.encode(key)).digest()
        # Servers may share a lock, so that the number of files does not grow.
        path = self.folder / _FOLDER / f"{digest[0] % limits.CREDENTIAL_LOCKS}.lock"
        try:
            descriptor = await asyncio.to_thread(_open_lock, path)
        except OSError as error:
            raise OAuthError(f"{path} cannot be locked: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(limits.CREDENTIAL_LOCK_S):
                # `flock` in a thread could not be cancelled.
                while not _try_lock(descriptor):  # noqa: ASYNC110, another process releases it
                    await asyncio.sleep(limits.CREDENTIAL_LOCK_POLL_S)
        except TimeoutError:
            os.close(descriptor)
            raise OAuthError("Another process has been refreshing the same token for too long; try again") from None
        except BaseException:
            os.close(descriptor)
            raise
        try:
            yield
        finally:
            os.close(descriptor)

    # -- in a thread -----------------------------------------------------------------------

    def _find_kind(self) -> StoreKind | None:
        chosen = self._environ.get(VARIABLE, "").strip()
        if chosen:
            for kind in get_args(StoreKind):
                if chosen == kind:
                    found: StoreKind = kind
                    return found
            raise SettingsError(
                f"{VARIABLE} must be keyring or file, not {chosen!r}{format_suggestion(chosen, get_args(StoreKind))}"
            )
        existing: StoreKind
        for existing, name in _FILES.items():
            if (self.folder / name).exists():
                return existing
        return None

    def _check(self) -> None:
        kind = self._find_kind()
        if kind is None:
            return
        self._read_file(kind)
        if kind == "keyring":
            self._read_keyring()

    def _read(self) -> dict[CredentialKey, Credentials]:
        """Read the file if it has changed; many calls check a login, and keyrings are slow."""
        kind = self._find_kind()
        if kind is None:
            return {}
        version, cached = _find_version(self.folder / _FILES[kind]), self._cached
        if cached is not None and cached[0] == version:
            return cached[1]
        entries = self._read_file(kind)
        self._cached = None if version is None else (version, entries)
        return entries

    def _edit(self, change: Callable[[dict[CredentialKey, Credentials]], Result]) -> Result:
        try:
            with _locked(self.folder / _FOLDER / _WRITE_LOCK):
                kind = self._find_kind() or ("keyring" if _has_keyring() else "file")
                before = self._read_file(kind)
                after = dict(before)
                result = change(after)
                if after != before:
                    self._write_file(kind, after)
                return result
        except OSError as error:
            raise SettingsError(f"credentials cannot be stored in {self.folder}: {error.strerror or error}") from None

    def _read_file(self, kind: StoreKind) -> dict[CredentialKey, Credentials]:
        path = self.folder / _FILES[kind]
        try:
            with path.open("rb") as file:
                data = file.read(limits.CREDENTIAL_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"the credentials in {path} cannot be read: {error.strerror or error}") from None
        sealer = Sealer([self._file_key(kind, create=False)])
        try:
            entries = msgspec.convert(sealer.open(_PURPOSE, data.decode("ascii")), list[_Entry])
        except (ValueError, msgspec.ValidationError):
            raise SettingsError(
                f"the credentials in {path} cannot be decrypted: the file is damaged, or its key was replaced. Restore "
                "both from a backup, or remove the file and run `hubbub login URL` again for each server"
            ) from None
        return {entry.key: entry.credentials for entry in entries}

    def _write_file(self, kind: StoreKind, entries: Mapping[CredentialKey, Credentials]) -> None:
        """Replace the file; without entries, remove it and its entry of the keyring."""
        path = self.folder / _FILES[kind]
        if not entries:
            path.unlink(missing_ok=True)
            if kind == "keyring":
                from hubbub.security.system_keyring import delete_keyring

                delete_keyring(_KEYRING_SERVICE, self._keyring_user())
            return
        make_private_folder(self.folder)
        records: list[Any] = msgspec.to_builtins([_Entry(key, entries[key]) for key in sorted(entries)])
        sealed = Sealer([self._file_key(kind, create=True)]).seal(_PURPOSE, records).encode("ascii")
        if len(sealed) > limits.CREDENTIAL_FILE_BYTES:
            raise SettingsError("the stored logins are too large; remove some with `hubbub logout`")
        replace_file(path, sealed)
        # A rotated refresh token that is lost cannot be used again.
        sync_folder(path.parent)

    def _file_key(self, kind: StoreKind, *, create: bool) -> bytes:
        if kind == "file":
            path = self.folder / "sealing.key"
            if create:
                load_or_create_key(path)  # it returns a temporary key if it cannot store one
            try:
                return read_key(path)
            except SettingsError as error:
                raise SettingsError(
                    f"the key of {self.folder / _FILES[kind]} is missing or damaged: {error.message}; "
                    "restore it, or remove that file and run `hubbub login URL` again for each server"
                ) from None
        text = self._read_keyring(create=create)
        if text is None:
            raise SettingsError(
                f"the system's keyring has no key for {self.folder / _FILES[kind]} any more; remove that file, and run "
                "`hubbub login URL` again for each server"
            )
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise SettingsError(
                f"the entry {_KEYRING_SERVICE}/{self._keyring_user()} of the system's keyring is not a key; {_ADVICE}"
            )
        return key

    def _read_keyring(self, *, create: bool = False) -> str | None:
        from hubbub.security.system_keyring import read_keyring, write_keyring

        try:
            text = read_keyring(_KEYRING_SERVICE, self._keyring_user())
            if text is None and create:
                text = secrets.token_hex(KEY_BYTES)
                write_keyring(_KEYRING_SERVICE, self._keyring_user(), text)
        except SettingsError as error:
            raise SettingsError(f"{error.message.rstrip('.')}; {_ADVICE}") from None
        return text

    def _keyring_user(self) -> str:
        """The name of the entry. Another folder has another key, because the last logout deletes it."""
        return f"{_KEYRING_USER}-{hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:12]}"


def _has_keyring() -> bool:
    from hubbub.security.system_keyring import is_keyring_usable

    return is_keyring_usable()


def _find_version(path: Path) -> _FileVersion | None:
    """Return the version of a file; None if a later change could have the same version, or if the file is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    # Two changes within the resolution of the file system's clock have the same time.
    if abs(time.time() - found.st_mtime) < limits.FILE_TIME_RESOLUTION_S:
        return None
    return _FileVersion(path, found.st_mtime_ns, found.st_size, found.st_ino)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process writes; that takes milliseconds."""
    descriptor = _open_lock(path)
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    make_private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(descriptor: int) -> bool:
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
