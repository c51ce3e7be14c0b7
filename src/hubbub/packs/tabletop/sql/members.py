"""Participants and actors in the database: members that their campaign counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from hubbub.pack.store import Connection, Row, Table, add_row, delete, update
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.records import find_campaign, find_row, new_id, now, now_at_least, read_page, read_record

T = TypeVar("T", bound=msgspec.Struct)


class Members(Generic[T]):
    """One kind of member."""

    def __init__(
        self, kind: type[T], table: Table, what: str, *, id_prefix: str, validators: dict[str, Callable[[Any], str]]
    ) -> None:
        """`validators` maps the columns that callers fill, the name first, to their validators."""
        self._kind = kind
        self._table = table
        self._what = what
        self._id_prefix = id_prefix
        self._validators = validators

    def add(self, connection: Connection, campaign_id: str, **fields: Any) -> T:
        campaign_id = checks.validate_id(campaign_id, "campaign")
        columns = self._validate(fields)
        campaign = find_campaign(connection, campaign_id, for_update=True)
        timestamp = now()
        values = {
            "id": new_id(self._id_prefix),
            "campaign_id": campaign_id,
            **columns,
            "created_at": timestamp,
            "updated_at": timestamp,
        }
        add_row(connection, self._table, values)
        self._change_count(connection, campaign, 1, "created", {f"{self._what}_id": values["id"], **columns})
        return read_record(self._kind, values)

    def get(self, connection: Connection, campaign_id: str, member_id: str) -> T:
        return read_record(self._kind, self.find(connection, campaign_id, member_id)._mapping)

    def page(self, connection: Connection, campaign_id: str, page: PageRequest) -> Page[T]:
        """Return one page of members, in order."""
        campaign_id = checks.validate_id(campaign_id, "campaign")
        find_campaign(connection, campaign_id)
        return read_page(connection, self._table, page, self._kind, self._table.c.campaign_id == campaign_id)

    def change(self, connection: Connection, campaign_id: str, member_id: str, change: msgspec.Struct) -> T:
        """Change the fields that are not None."""
        fields = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
        changes: dict[str, Any] = self._validate(fields)
        if not changes:
            *names, last = self._validators
            raise InvalidArgument(f"no change was given; pass {', '.join(names)} or {last}")
        campaign_id = checks.validate_id(campaign_id, "campaign")
        campaign = find_campaign(connection, campaign_id, for_update=True)
        row = self.find(connection, campaign_id, member_id)
        updated = {**row._mapping, **changes, "updated_at": now_at_least(row.updated_at)}
        query = update(self._table).where(self._table.c.id == row.id)
        connection.execute(query.values(**changes, updated_at=updated["updated_at"]))
        events.write(connection, campaign, f"{self._what}.updated", {f"{self._what}_id": row.id, **changes})
        return read_record(self._kind, updated)

    def remove(self, connection: Connection, campaign_id: str, member_id: str) -> T:
        """Remove a member; the database clears who controlled it, or whom it controlled."""
        campaign_id = checks.validate_id(campaign_id, "campaign")
        campaign = find_campaign(connection, campaign_id, for_update=True)
        row = self.find(connection, campaign_id, member_id)
        connection.execute(delete(self._table).where(self._table.c.id == row.id))
        name = next(iter(self._validators))
        self._change_count(connection, campaign, -1, "deleted", {f"{self._what}_id": row.id, name: row._mapping[name]})
        return read_record(self._kind, row._mapping)

    def find(self, connection: Connection, campaign_id: str, member_id: str) -> Row[Any]:
        """Return the row of a member."""
        campaign_id = checks.validate_id(campaign_id, "campaign")
        return find_row(connection, self._table, self._what, campaign_id, checks.validate_id(member_id, self._what))

    def _validate(self, fields: dict[str, Any]) -> dict[str, str]:
        return {name: self._validators[name](value) for name, value in fields.items()}

    def _change_count(
        self, connection: Connection, campaign: Row[Any], delta: int, verb: str, data: dict[str, Any]
    ) -> None:
        count = f"{self._what}_count"
        changes = {count: campaign._mapping[count] + delta, "updated_at": now_at_least(campaign.updated_at)}
        events.write(connection, campaign, f"{self._what}.{verb}", data, **changes)
