"""How a record is found, a list is cut into pages, and a new record gets its id and its time."""

from __future__ import annotations

import secrets
import time
from base64 import b32encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument, NotFound
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.sql.tables import campaigns
from hubbub.store.sql import Connection, Row, Select, Table, select

T = TypeVar("T")


def new_id(prefix: str) -> str:
    """An id that nobody can guess: 128 bits."""
    return f"{prefix}_{b32encode(secrets.token_bytes(16)).decode().rstrip('=').lower()}"


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())


def as_time(seconds: int) -> datetime:
    """The same as told to callers."""
    return datetime.fromtimestamp(seconds, UTC)


def find_campaign(connection: Connection, campaign_id: str, *, to_change: bool = False) -> Row[Any]:
    """A campaign's row. To change it, or anything in it, others that want to do the same wait."""
    query = select(campaigns).where(campaigns.c.id == campaign_id)
    row = connection.execute(query.with_for_update() if to_change else query).first()
    if row is None:
        raise NotFound("campaign")
    return row


def find(connection: Connection, table: Table, what: str, campaign_id: str, identifier: str) -> Row[Any]:
    """The row of something in a campaign."""
    row = connection.execute(select(table).where(table.c.id == identifier)).first()
    if row is not None and row.campaign_id == campaign_id:
        return row
    find_campaign(connection, campaign_id)
    if row is None:
        raise NotFound(what)
    raise InvalidArgument(f"{what} {identifier} belongs to another campaign")


def page_of(
    connection: Connection, table: Table, page: PageRequest, read: Callable[[Row[Any]], T], *conditions: Any
) -> Page[T]:
    """Rows in the order in which they were made."""
    start = checks.page_start(page)
    query = select(table).where(*conditions)
    if start is not None:
        query = query.where(table.c.position > start)
    return cut(connection, query.order_by(table.c.position), checks.page_size(page), "position", read)


def cut(connection: Connection, query: Select[Any], size: int, position: str, read: Callable[[Row[Any]], T]) -> Page[T]:
    """The first rows of a query, with a token if there are more."""
    rows = connection.execute(query.limit(size + 1)).all()
    token = str(getattr(rows[size - 1], position)) if len(rows) > size else ""
    return Page(tuple(read(row) for row in rows[:size]), token)
