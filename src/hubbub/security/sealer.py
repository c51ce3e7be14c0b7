"""Seal small records: encrypt and authenticate them as opaque text that clients carry.

Cursors, request states, context ids and event ids are sealed here. The purpose is
authenticated too, so that a cursor never opens as a request state. The first key
of the ring seals, every key opens, so that keys can be rotated.

Clients of an HTTP server may return after a restart with a cursor that should still open, so
the key is stored: 64 hex digits in a file that only its owner can read, in the user's data
folder unless another is named. It is read when something is first sealed.
"""

from __future__ import annotations

import base64
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hubbub import ports
from hubbub.errors import SettingsError
from hubbub.security.crypto import decrypt, make_cipher
from hubbub.settings.folders import data_folder, make_private_folder

if TYPE_CHECKING:
    from pathlib import Path  # loaded by servers over HTTP only

logger = logging.getLogger("hubbub.security")

KEY_BYTES = 32
_NONCE_BYTES = 12
_INVALID_TEXT = "this text was not issued by this server, was changed, or has expired"


class _Record(msgspec.Struct, array_like=True):
    expires: float | None
    value: Any


class Sealer:
    """Seals and opens with a ring of 32-byte keys; if none are given, one is loaded on first use."""

    def __init__(
        self,
        keys: Sequence[bytes] = (),
        *,
        load: Callable[[], bytes] = lambda: os.urandom(KEY_BYTES),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = tuple(keys)
        self._load = load
        if any(len(key) != KEY_BYTES for key in self._keys):
            raise ValueError(f"a sealing key must have {KEY_BYTES} bytes")
        self._clock = clock
        self._ciphers: list[Any] = []

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """Return the record as text that only this sealer can read or change."""
        expires = None if lifetime_s is None else self._clock() + lifetime_s
        nonce = os.urandom(_NONCE_BYTES)
        plain = msgspec.msgpack.encode(_Record(expires, record))
        sealed = self._key_ring()[0].encrypt(nonce, plain, purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, purpose: str, text: str) -> Any:
        """Return the record of a text that was sealed here for the same purpose.

        Raises:
            ValueError: it was not sealed here or not for this purpose, or it has expired.
        """
        record = msgspec.msgpack.decode(self._decrypt(purpose, _unpad(text)), type=_Record)
        if record.expires is not None and record.expires < self._clock():
            raise ValueError(_INVALID_TEXT)
        return record.value

    def _decrypt(self, purpose: str, sealed: bytes) -> bytes:
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        for cipher in self._key_ring():
            plain = decrypt(cipher, nonce, body, purpose.encode())
            if plain is not None:
                return plain
        raise ValueError(_INVALID_TEXT)

    def _key_ring(self) -> list[Any]:
        if not self._ciphers:
            self._ciphers = [make_cipher(key) for key in self._keys or (self._load(),)]
        return self._ciphers


class ReplaceableSealer:
    """Delegates to a sealer that may be replaced, so that its users need not know when."""

    def __init__(self) -> None:
        self.sealer: ports.Sealer = Sealer()

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        return self.sealer.seal(purpose, record, lifetime_s=lifetime_s)

    def open(self, purpose: str, text: str) -> Any:
        return self.sealer.open(purpose, text)


def _unpad(text: str) -> bytes:
    try:
        # Only the canonical form is accepted: two texts must never open to the same record.
        sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, UnicodeEncodeError):
        raise ValueError(_INVALID_TEXT) from None
    if len(sealed) <= _NONCE_BYTES or base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() != text:
        raise ValueError(_INVALID_TEXT)
    return sealed


def read_key(path: Path, setting: str = "") -> bytes:
    """Read a key from a file; errors begin with the setting that names it, if there is one.

    Raises:
        SettingsError: it cannot be read, or is not a key.
    """
    prefix, advice = (f"{setting}: ", f"; create it with: {_create_command(path)}") if setting else ("", "")
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        advice = advice if isinstance(error, FileNotFoundError) else ""
        raise SettingsError(f"{prefix}{path} cannot be read: {error.strerror}{advice}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{prefix}{path} must contain {2 * KEY_BYTES} hex digits{advice}")
    return key


def _create_command(path: Path) -> str:
    import shlex  # Only needed for error messages.

    return f"(umask 077; openssl rand -hex {KEY_BYTES} > {shlex.quote(str(path))})"


def make_sealer(key_file: str | None) -> Sealer:
    """Make a sealer with the key of `sealing_key_file`, or else with the one in the data folder.

    Raises: SettingsError.
    """
    if key_file is None:
        return Sealer(load=load_or_create_key)
    from pathlib import Path

    return Sealer([read_key(Path(key_file), "sealing_key_file")])


def load_or_create_key(path: Path | None = None) -> bytes:
    """Read the key in the data folder, or create it; a temporary key if it cannot be stored."""
    try:
        path = data_folder() / "sealing.key" if path is None else path
        if not path.exists():
            _create_key(path)
        return read_key(path)
    except (OSError, SettingsError) as error:
        logger.warning("sealing_key_not_saved", extra={"reason": type(error).__name__, "path": str(path)})
        return os.urandom(KEY_BYTES)


def _create_key(path: Path) -> None:
    """Write a new key atomically; the first of several processes wins."""
    make_private_folder(path.parent)
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(os.urandom(KEY_BYTES).hex() + "\n")
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink()
