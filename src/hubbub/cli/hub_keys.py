"""Lists and changes the API keys of a running hub, through its administration, for `hubbub keys`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from hubbub.cli.admin_client import AdminConnection, AdminOptions, call_admin, find_hub_with_settings, run_admin
from hubbub.cli.terminal import note
from hubbub.errors import SettingsError
from hubbub.settings import collect_sources


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret, as it is shown."""

    name: str
    prefix: str
    tenant: str | None
    user: str | None
    scopes: tuple[str, ...]
    created: datetime | None
    expires: datetime | None
    version: int
    last_use: datetime | None


def find_hub(options: AdminOptions, key_file: str | None) -> AdminOptions | None:
    """Return which hub to ask: the named one, or else the one that runs with these settings; None: use the file.

    Raises: SettingsError, if both a file and a hub were named.
    """
    if options.names_hub:
        if key_file is not None:
            raise SettingsError("--key-file chooses a file; leave it out with --hub and --url")
        return options
    if key_file is not None:
        return None
    found = find_hub_with_settings(collect_sources({}, ignore_untrusted=True).config)
    return None if found is None else AdminOptions(hub=str(found.pid), as_json=options.as_json)


def list_at_hub(options: AdminOptions, show: Callable[[Sequence[StoredKey]], None]) -> int:
    """Show the keys of a hub."""

    async def work(hub: AdminConnection) -> int:
        found = await hub.call("hub.keys.list", {})
        keys = [_read_key(key) for key in found["keys"]]
        show(keys)
        if len(keys) < found["total"]:
            note(f"hubbub: the hub returned only the first {len(keys)} of {found['total']} keys")
        return 0

    return run_admin(options, work)


def create_at_hub(options: AdminOptions, arguments: dict[str, Any]) -> int:
    """Create a key of a hub and write it to stdout."""

    def show(found: Any) -> None:
        note(
            f"hubbub: {_describe_hub(options)} stored the hash of a key for {arguments['name']}; the key itself is not "
            "shown again"
        )
        click.echo(found["key"])

    return call_admin(options, "hub.keys.create", arguments, show)


def rotate_at_hub(options: AdminOptions, arguments: dict[str, Any], describe_end: Callable[[datetime], str]) -> int:
    """Create the next version of a key of a hub and write it to stdout."""

    def show(found: Any) -> None:
        stored = _read_key(found["stored"])
        note(
            f"hubbub: {_describe_hub(options)} stored version {stored.version} of the key for {stored.name}; the "
            f"previous one {describe_end(stored.created or datetime.now(UTC))}"
        )
        click.echo(found["key"])

    return call_admin(options, "hub.keys.rotate", arguments, show)


def revoke_at_hub(options: AdminOptions, name: str) -> int:
    """Remove a key of a hub."""
    return call_admin(
        options,
        "hub.keys.revoke",
        {"name": name},
        lambda found: note(f"hubbub: {_describe_hub(options)} removed the key for {name}"),
    )


def _describe_hub(options: AdminOptions) -> str:
    return f"the hub {options.url or options.hub or 'on this machine'}"


def _read_key(found: dict[str, Any]) -> StoredKey:
    """Read a key of a result, in which a missing value is an empty text."""
    values = {name: value or None for name, value in found.items() if name != "lastUse"}
    return msgspec.convert({**values, "scopes": found["scopes"], "last_use": found["lastUse"] or None}, StoredKey)
