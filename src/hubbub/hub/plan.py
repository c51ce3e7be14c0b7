"""The difference between two configurations of a hub, as steps for people.

No I/O. `hubbub plan` shows it before a reload, and the log after one; `Gateway.apply` changes the running hub.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.hub.config import SHOWN_KEYS, HubConfig
from hubbub.hub.described import NOTHING, Description, Leaves, describe
from hubbub.settings.hub import LIMITS_OF_SERVERS
from hubbub.settings.serve import ServeSettings

Action: TypeAlias = Literal["add", "remove", "change"]
Part: TypeAlias = Literal["server", "view", "hub"]

_WAYS: Final = ("url", "command", "pack", "target", "server")
_KEY_BYTES: Final = 16


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value that differs, without the values of a secret."""

    key: str
    before: str | None = None
    """None if it was not set, or is secret."""
    after: str | None = None
    is_secret: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the hub that is added, removed or changed."""

    action: Action
    part: Part
    name: str
    fields: tuple[Field, ...] = ()
    way: str = ""
    """How a server is reached, as text for people."""
    reconnects: bool = False
    """Whether the changed server, or for the hub's settings every server, is replaced by a new connection."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that differs."""

    steps: tuple[Step, ...] = ()
    restart: tuple[Field, ...] = ()
    """Settings that a running process cannot change."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.restart)


def diff(before: HubConfig, after: HubConfig, settings: tuple[ServeSettings, ServeSettings] | None = None) -> Plan:
    """Compare two configurations, and the settings of their processes if given."""
    key = secrets.token_bytes(_KEY_BYTES)
    then, now = settings if settings is not None else (None, None)
    return compare(describe(before, key, then), describe(after, key, now))


def compare(before: Description, after: Description) -> Plan:
    """Compare two descriptions that were made with the same key."""
    hub = (*_fields(before.hub, after.hub), *_order(before, after))
    reconnects = any(field.key in LIMITS_OF_SERVERS for field in hub)
    settings = [Step(action="change", part="hub", name="hub", fields=hub, reconnects=reconnects)] if hub else []
    servers = _steps("server", before.servers, after.servers)
    views = _steps("view", before.views, after.views)
    return Plan(steps=(*servers, *views, *settings), restart=tuple(_fields(before.serve, after.serve)))


def _steps(part: Part, before: Mapping[str, Leaves], after: Mapping[str, Leaves]) -> Iterator[Step]:
    for name, leaves in before.items():
        if name not in after:
            yield Step(action="remove", part=part, name=name, way=_way(leaves))
    for name, leaves in after.items():
        if name not in before:
            yield Step(action="add", part=part, name=name, way=_way(leaves))
            continue
        fields = tuple(_fields(before[name], leaves))
        if fields:
            yield Step(
                action="change",
                part=part,
                name=name,
                fields=fields,
                way=_way(leaves),
                reconnects=part == "server" and not all(_is_shown(field.key) for field in fields),
            )


def _fields(before: Leaves, after: Leaves) -> Iterator[Field]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if (old and old.digest) == (new and new.digest):
            continue
        is_secret = any(leaf is not None and leaf.shown is None for leaf in (old, new))
        yield Field(key, None if old is None else old.shown, None if new is None else new.shown, is_secret)


def _order(before: Description, after: Description) -> Iterator[Field]:
    """Compare the order of the servers, which decides which of two servers keeps a name."""
    then = [name for name in before.servers if name in after.servers]
    now = [name for name in after.servers if name in before.servers]
    if then != now:
        yield Field("order of servers", ", ".join(then), ", ".join(now))


def _way(leaves: Leaves) -> str:
    """How a server is reached, as text for people."""
    ways = [str(leaves[key].shown) for key in _WAYS if key in leaves]
    if "command" in leaves and "args" in leaves and leaves["args"].shown != NOTHING:
        ways.append(str(leaves["args"].shown))
    return " ".join(ways)


def _is_shown(key: str) -> bool:
    return key.partition(".")[0] in SHOWN_KEYS
