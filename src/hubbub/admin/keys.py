"""`hub.keys`: lists the API keys of the hub's key file, and creates, rotates and revokes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant, require_operator
from hubbub.errors import SettingsError, ToolError
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.security.key_file_editor import create_key, revoke_records, rotate_key
from hubbub.security.key_records import KeyRecord, read_records
from hubbub.security.key_usage import read_last_uses
from hubbub.server.context import Context
from hubbub.suggestions import format_suggestion

LISTED_KEYS: Final = 1000
"""Keys in one list; `total` counts all."""
MAX_DAYS: Final = 36500
MAX_OVERLAP_S: Final = 366 * 86400
_WHY: Final = "The key file has the keys of all tenants"

T = TypeVar("T")
_Name: TypeAlias = Annotated[str, msgspec.Meta(description="The name of the key.")]
_Days: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS, description="Days until it expires; by default it does not.")] | None
)


class Key(msgspec.Struct, rename="camel", kw_only=True):
    """A key without its secret."""

    name: str
    prefix: str
    tenant: str
    user: str
    scopes: list[str]
    version: int
    created: str
    expires: str
    """Empty: it does not expire."""
    last_use: str
    """Empty: it was not used yet."""


class KeyList(msgspec.Struct, kw_only=True):
    """The stored keys."""

    keys: list[Key]
    total: int


class NewKey(msgspec.Struct, rename="camel", kw_only=True):
    """A key that is shown only now: the file has its hash."""

    key: str
    stored: Key


class RevokedKey(msgspec.Struct, kw_only=True):
    """A key that is no longer accepted."""

    name: str


def register(
    tools: AdminTools,
    path: Path,
    after_change: Callable[[], None],
    after_revoke: Callable[[str], Awaitable[None]],
    find_tenants: Callable[[], Collection[str]],
) -> None:
    """Register the tools of this area, for a key file.

    `after_change` is called, in a thread, after it was written, and `after_revoke` with the name that the callers with
    a removed key without a tenant have. `find_tenants` returns the names of the hub's tenants; none if it has none.
    """

    @tools.read("hub.keys.list")
    async def list_keys(
        tenant: Annotated[str | None, msgspec.Meta(description="Only keys of this tenant; operators only.")] = None,
        *,
        context: Context,
    ) -> KeyList:
        """List the API keys with their scopes, expiry and last use, without their secrets."""
        wanted = choose_tenant(context, tenant)
        records = [record for record in await _edit(lambda: read_records(path)) if wanted in (None, record.tenant)]
        last_uses = await asyncio.to_thread(read_last_uses)
        return KeyList(
            keys=[_describe(record, last_uses.get(record.id)) for record in records[:LISTED_KEYS]], total=len(records)
        )

    @tools.change("hub.keys.create", for_operators=True)
    async def create(
        name: _Name,
        tenant: Annotated[str | None, msgspec.Meta(description="The tenant that its user belongs to.")] = None,
        user: Annotated[str | None, msgspec.Meta(description="The user of the tenant; by default the name.")] = None,
        scopes: list[str] = [],  # noqa: B006
        days: _Days = None,
        *,
        context: Context,
    ) -> NewKey:
        """Create an API key and return it; it is not shown again."""
        require_operator(context, _WHY)
        known = find_tenants()
        if tenant is not None and known and tenant not in known:
            raise ToolError(f"There is no tenant {tenant!r} in the settings{format_suggestion(tenant, known)}")
        key, record = await _change(lambda: create_key(path, name, tenant=tenant, user=user, scopes=scopes, days=days))
        tools.record(context, "key.created", _facts(record))
        return NewKey(key=key, stored=_describe(record, None))

    @tools.change("hub.keys.rotate", for_operators=True, is_destructive=True)
    async def rotate(
        name: _Name,
        overlap_s: Annotated[
            int, msgspec.Meta(ge=0, le=MAX_OVERLAP_S, description="Seconds for which the current key stays valid.")
        ] = 0,
        days: _Days = None,
        *,
        context: Context,
    ) -> NewKey:
        """Create the next version of an API key and return it; the current one expires."""
        require_operator(context, _WHY)
        key, record = await _change(lambda: rotate_key(path, name, overlap=timedelta(seconds=overlap_s), days=days))
        tools.record(context, "key.rotated", _facts(record))
        return NewKey(key=key, stored=_describe(record, None))

    @tools.change("hub.keys.revoke", for_operators=True, is_destructive=True)
    async def revoke(name: _Name, *, context: Context) -> RevokedKey:
        """Remove every version of an API key; its sessions end within seconds.

        Without a tenant, its logins at servers with `per_user` end too; the user of a tenant may have other keys.
        """
        require_operator(context, _WHY)
        await _change(lambda: revoke_records(path, name))
        tools.record(context, "key.revoked", {"key": name})  # first: what follows may fail
        # A later key of this name may belong to another person. No other credential has this name.
        await after_revoke(PRINCIPAL_PREFIX + name)
        return RevokedKey(name=name)

    async def _change(work: Callable[[], T]) -> T:
        def change() -> T:
            result = work()
            after_change()
            return result

        return await _edit(change)


async def _edit(work: Callable[[], T]) -> T:
    """Read or write the file in a thread.

    Raises: ToolError.
    """
    try:
        return await asyncio.to_thread(work)
    except SettingsError as error:
        raise ToolError(error.message) from error


def _facts(record: KeyRecord) -> dict[str, str | int]:
    facts: dict[str, str | int] = {"key": record.name, "version": record.version, "scopes": " ".join(record.scopes)}
    return facts if record.tenant is None else facts | {"of_tenant": record.tenant, "of_user": record.owner or ""}


def _describe(record: KeyRecord, last_use: int | None) -> Key:
    return Key(
        name=record.name,
        prefix=record.prefix,
        tenant=record.tenant or "",
        user=record.owner or "",
        scopes=list(record.scopes),
        version=record.version,
        created="" if record.created is None else record.created.isoformat(),
        expires="" if record.expires is None else record.expires.isoformat(),
        last_use="" if last_use is None else datetime.fromtimestamp(last_use, UTC).isoformat(),
    )
