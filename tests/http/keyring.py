"""A key file whose keys can be revoked."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hubbub.security.api_keys import KeyRecord, append_record, generate_key


class Keyring:
    """Writes the file whenever a key is added or revoked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, KeyRecord] = {}

    def add(
        self, name: str, *, scopes: tuple[str, ...] = (), tenant: str | None = None, user: str | None = None
    ) -> dict[str, str]:
        """Add a key of that name, replacing an earlier one; return the headers with it."""
        key, self._records[name] = generate_key(name, scopes=scopes, tenant=tenant, user=user)
        self._write()
        return {"X-API-Key": key}

    def revoke(self, name: str) -> None:
        del self._records[name]
        self._write()

    def _write(self) -> None:
        draft = self.path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        for record in self._records.values():
            append_record(draft, record)
        draft.replace(self.path)

    def set_scopes(self, name: str, scopes: tuple[str, ...]) -> None:
        """Give the same key other scopes."""
        self._records[name] = msgspec.structs.replace(self._records[name], scopes=scopes)
        self._write()

    def set_expiry(self, name: str, moment: float) -> None:
        """Let the same key expire."""
        expires = datetime.fromtimestamp(moment, UTC)
        self._records[name] = msgspec.structs.replace(self._records[name], expires=expires)
        self._write()
