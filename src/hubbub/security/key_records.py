"""API keys as stored in a file: one `[[key]]` table for each, with its hash and never the key itself.

A key is `hb_<id>_<secret>`. A rotated key has two tables of the same name for a while: the old one, with its last
moment in `expires`, and the new one, whose `version` is higher by one.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.scopes import is_scope
from hubbub.security.tenant_identity import is_user_name

KEY_PREFIX: Final = "hb_"
KEY_PATTERN: Final = re.compile(r"hb_([0-9a-f]{8})_[0-9a-f]{48}", re.ASCII)
_SECRET_BYTES: Final = 24
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_TENANT_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_HASH_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One key as stored in the file, without its secret."""

    id: str
    name: str
    hash: str
    tenant: str | None = None
    """Required if the hub has tenants; otherwise not used."""
    user: str | None = None
    """The user of the tenant. Default: the name of the key."""
    scopes: tuple[str, ...] = ()
    version: int = 1
    created: datetime | None = None
    expires: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME_PATTERN.fullmatch(self.name):
            raise ValueError(
                f"the name {self.name!r} must have 1 to 64 letters, digits or . _ @ - and start with a letter or digit"
            )
        if not re.fullmatch(r"[0-9a-f]{8}", self.id) or not _HASH_PATTERN.fullmatch(self.hash):
            raise ValueError(f"the id or hash of the key {self.name!r} is damaged; create the key again")
        if self.tenant is not None and not _TENANT_PATTERN.fullmatch(self.tenant):
            raise ValueError(f"the tenant {self.tenant!r} of {self.name!r} must have 1 to 63 characters of a-z 0-9 -")
        if self.user is not None and not is_user_name(self.user):
            raise ValueError(
                f"the user {self.user!r} of {self.name!r} must be printable characters, without / and #, "
                f"and have at most {bounds.TOKEN_SUBJECT_CHARACTERS} of them"
            )
        if self.version < 1:
            raise ValueError(f"the version {self.version} of {self.name!r} must be 1 or more")
        for scope in self.scopes:
            if not is_scope(scope):
                raise ValueError(
                    f"the scope {scope!r} of {self.name!r} must be visible ASCII characters, "
                    "without quotes and backslashes"
                )

    @property
    def prefix(self) -> str:
        """The part of the key that is not secret."""
        return KEY_PREFIX + self.id

    @property
    def owner(self) -> str | None:
        """The user that the key belongs to; None without a tenant."""
        return self.user if self.tenant is None or self.user is not None else self.name

    @property
    def expires_at(self) -> float:
        """When it expires, in seconds since 1970; a time without a zone is UTC."""
        moment = self.expires
        if moment is None:
            return float("inf")
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()

    def to_toml(self) -> str:
        """Return the table of this key."""
        lines = ["[[key]]", f'id = "{self.id}"', f'name = "{self.name}"', f'hash = "{self.hash}"']
        if self.tenant is not None:
            lines.append(f'tenant = "{self.tenant}"')
        if self.user is not None:
            # A JSON string without control characters is a TOML string too.
            lines.append(f"user = {msgspec.json.encode(self.user).decode()}")
        if self.scopes:
            lines.append("scopes = [" + ", ".join(f'"{scope}"' for scope in self.scopes) + "]")
        if self.version != 1:
            lines.append(f"version = {self.version}")
        for name, moment in (("created", self.created), ("expires", self.expires)):
            if moment is not None:
                lines.append(f"{name} = {moment.isoformat()}")
        return "\n".join(lines) + "\n"


def hash_key(key: str) -> str:
    """Hash a key for storage.

    One pass of SHA-256 is enough: the secret is 192 random bits, not a password that
    could be guessed, so a slow hash would cost every request and protect nothing.
    """
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def generate_key(
    name: str,
    *,
    tenant: str | None = None,
    user: str | None = None,
    scopes: Iterable[str] = (),
    version: int = 1,
    created: datetime | None = None,
    expires: datetime | None = None,
) -> tuple[str, KeyRecord]:
    """Generate a key, to be shown once, and the record to store.

    Raises: SettingsError, if the name, tenant, user or a scope is not valid.
    """
    identifier = secrets.token_hex(4)
    key = f"{KEY_PREFIX}{identifier}_{secrets.token_hex(_SECRET_BYTES)}"
    try:
        return key, KeyRecord(
            id=identifier,
            name=name,
            hash=hash_key(key),
            tenant=tenant,
            user=user,
            scopes=tuple(scopes),
            version=version,
            created=created,
            expires=expires,
        )
    except ValueError as error:
        raise SettingsError(f"API key: {error}") from None


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    key: list[KeyRecord] = []


def read_records(path: Path) -> list[KeyRecord]:
    """Read the keys of a file.

    Raises: SettingsError, which names the file and the problem.
    """
    return parse_records(read_key_text(path), path)


def read_key_text(path: Path) -> bytes:
    """Read a file of keys, which must be small and not writable by every user.

    Raises: SettingsError, which names the file and the problem.
    """
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o002:
                raise SettingsError(
                    f"{path}: every user of this machine can write to this file; run `chmod o-w` on it first"
                )
            text = file.read(bounds.KEY_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise SettingsError(
            f"{path}: cannot be read: {error.strerror}; create one with `hubbub keys create NAME --key-file {path}`"
        ) from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(text) > bounds.KEY_FILE_BYTES:
        raise SettingsError(f"{path}: the file is larger than {bounds.KEY_FILE_BYTES} bytes")
    return text


def parse_records(text: bytes, path: Path) -> list[KeyRecord]:
    """Parse the text of a file of keys.

    Raises: SettingsError, which names the file and the problem.
    """
    try:
        records = msgspec.convert(tomllib.loads(text.decode()), _KeyFile).key
    except ValueError as error:  # Not UTF-8, not TOML, or not a file of keys.
        raise SettingsError(f"{path}: {error}") from None
    if len({record.id for record in records}) != len(records):
        raise SettingsError(f"{path}: two keys have the same id; remove one")
    if len({(record.name, record.version) for record in records}) != len(records):
        raise SettingsError(f"{path}: two keys have the same name; rename or remove one")
    return records


def newest_versions(records: Iterable[KeyRecord]) -> dict[str, int]:
    """Return the highest version of each name; tables with a lower one were rotated."""
    newest: dict[str, int] = {}
    for record in records:
        newest[record.name] = max(record.version, newest.get(record.name, 0))
    return newest
