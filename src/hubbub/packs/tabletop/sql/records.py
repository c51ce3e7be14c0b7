"""Find, read and write records, split lists into pages, and create ids and timestamps."""

from __future__ import annotations

import secrets
import time
from base64 import b32encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET

from hubbub.pack.store import Connection, Row, Select, Table, select
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument, NotFound
from hubbub.packs.tabletop.model import Page, PageRequest
from hubbub.packs.tabletop.sql.tables import campaigns

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


def new_id(prefix: str) -> str:
    """Return a random id of 128 bits, which cannot be guessed."""
    return f"{prefix}_{b32encode(secrets.token_bytes(16)).decode().rstrip('=').lower()}"


def now() -> int:
    """Return the seconds since 1970."""
    return int(time.time())


def now_at_least(earlier: int) -> int:
    """Return the current time, but not before an earlier time of the same record: a clock may be set back."""
    return max(now(), earlier)


def to_datetime(seconds: int) -> datetime:
    """Convert seconds since 1970 to the form that callers see."""
    return datetime.fromtimestamp(seconds, UTC)


def find_campaign(connection: Connection, campaign_id: str, *, for_update: bool = False) -> Row[Any]:
    """Return a campaign's row. `for_update` locks it, so that changes of one campaign happen one after the other."""
    query = select(campaigns).where(campaigns.c.id == campaign_id)
    row = connection.execute(query.with_for_update() if for_update else query).first()
    if row is None:
        raise NotFound("campaign")
    return row


def find_row(connection: Connection, table: Table, what: str, campaign_id: str, identifier: str) -> Row[Any]:
    """Return the row of something in a campaign."""
    row = connection.execute(select(table).where(table.c.id == identifier)).first()
    if row is not None and row.campaign_id == campaign_id:
        return row
    find_campaign(connection, campaign_id)
    if row is None:
        raise NotFound(what)
    raise InvalidArgument(f"{what} {identifier} belongs to another campaign")


def read_page(connection: Connection, table: Table, page: PageRequest, kind: type[S], *conditions: Any) -> Page[S]:
    """Return one page of records, in the order of creation."""
    start = checks.parse_page_token(page)
    query = select(table).where(*conditions)
    if start is not None:
        query = query.where(table.c.position > start)
    query = query.order_by(table.c.position)
    return fetch_page(
        connection, query, checks.resolve_page_size(page), "position", lambda row: read_record(kind, row._mapping)
    )


def fetch_page(
    connection: Connection, query: Select[Any], size: int, position: str, read: Callable[[Row[Any]], T]
) -> Page[T]:
    """Return the first `size` rows of a query, with a token if there are more."""
    rows = connection.execute(query.limit(size + 1)).all()
    token = str(getattr(rows[size - 1], position)) if len(rows) > size else ""
    return Page(tuple(read(row) for row in rows[:size]), token)


def read_record(kind: type[S], values: Mapping[Any, Any]) -> S:
    """Build a record from the columns that have the names of its fields."""
    return kind(**{name: read(values[name]) for name, read in _column_readers(kind)})


@cache
def _column_readers(kind: type[msgspec.Struct]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the conversion of each column: times are seconds, and null stands for an unset time."""
    readers: list[tuple[str, Callable[[Any], Any]]] = []
    for name, hint in get_type_hints(kind).items():
        if hint is datetime:
            readers.append((name, to_datetime))
        elif datetime in get_args(hint):
            readers.append((name, lambda seconds: UNSET if seconds is None else to_datetime(seconds)))
        else:
            is_word = isinstance(hint, type) and issubclass(hint, StrEnum)
            readers.append((name, hint if is_word else lambda value: value))
    return readers


def write_record(record: msgspec.Struct) -> dict[str, Any]:
    """Return the columns of a record; the inverse of `read_record`."""
    return {name: _to_column(value) for name, value in msgspec.structs.asdict(record).items()}


def _to_column(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, StrEnum):
        return value.value
    return None if value is UNSET else value
