"""The difference between two configurations of a hub, as steps for people.

No I/O. `hubbub plan` shows it before a reload, and the log after one; `Gateway.apply` changes the running hub.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from hubbub.hub.config import DISPLAY_KEYS, HubConfig
from hubbub.hub.config_description import (
    EMPTY_LIST_TEXT,
    ConfigDescription,
    FieldDigests,
    describe_config,
    describe_settings,
)
from hubbub.settings.hub import SERVER_LIMIT_FIELDS
from hubbub.settings.serve import ServeSettings

if TYPE_CHECKING:
    from hubbub.settings.oauth import OAuthSettings

Action: TypeAlias = Literal["add", "remove", "change"]
Part: TypeAlias = Literal["server", "view", "hub"]

_TARGET_KEYS: Final = ("url", "command", "pack", "target", "server")
_KEY_BYTES: Final = 16
_FIXED_SECTIONS: Final = ("pins.", "audit.")
"""Sections that a running hub does not change; see `hubbub.assembly.fixed_sections`."""


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
    target: str = msgspec.field(default="", name="way")
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


def diff(before: HubConfig, after: HubConfig) -> Plan:
    """Compare two configurations."""
    if before == after:
        return Plan()  # in a hundredth of the time
    key = secrets.token_bytes(_KEY_BYTES)
    return compare(describe_config(before, key), describe_config(after, key))


def diff_settings(
    before: ServeSettings,
    after: ServeSettings,
    oauth_before: OAuthSettings | None = None,
    oauth_after: OAuthSettings | None = None,
) -> tuple[Field, ...]:
    """Compare the settings that a running process cannot change."""
    key = secrets.token_bytes(_KEY_BYTES)
    described = describe_settings(before, key, oauth_before), describe_settings(after, key, oauth_after)
    return tuple(_fields(*described))


def compare(before: ConfigDescription, after: ConfigDescription) -> Plan:
    """Compare two descriptions that were made with the same key."""
    changed = tuple(_fields(before.hub, after.hub))
    fixed = tuple(field for field in changed if field.key.startswith(_FIXED_SECTIONS))
    hub = (*(field for field in changed if field not in fixed), *_order_fields(before, after))
    reconnects = any(field.key in SERVER_LIMIT_FIELDS for field in hub)
    settings = [Step(action="change", part="hub", name="hub", fields=hub, reconnects=reconnects)] if hub else []
    servers = _steps("server", before.servers, after.servers)
    views = _steps("view", before.views, after.views)
    return Plan(steps=(*servers, *views, *settings), restart=(*fixed, *_fields(before.serve, after.serve)))


def _steps(part: Part, before: Mapping[str, FieldDigests], after: Mapping[str, FieldDigests]) -> Iterator[Step]:
    for name, field_digests in before.items():
        if name not in after:
            yield Step(action="remove", part=part, name=name, target=_describe_target(field_digests))
    for name, field_digests in after.items():
        if name not in before:
            yield Step(action="add", part=part, name=name, target=_describe_target(field_digests))
            continue
        fields = tuple(_fields(before[name], field_digests))
        if fields:
            yield Step(
                action="change",
                part=part,
                name=name,
                fields=fields,
                target=_describe_target(field_digests),
                reconnects=part == "server" and not all(_is_display_key(field.key) for field in fields),
            )


def _fields(before: FieldDigests, after: FieldDigests) -> Iterator[Field]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if (old and old.digest) == (new and new.digest):
            continue
        is_secret = any(field_digest is not None and field_digest.shown is None for field_digest in (old, new))
        yield Field(key, None if old is None else old.shown, None if new is None else new.shown, is_secret)


def _order_fields(before: ConfigDescription, after: ConfigDescription) -> Iterator[Field]:
    """Compare the order of the servers, which decides which of two servers keeps a name."""
    old_order = [name for name in before.servers if name in after.servers]
    new_order = [name for name in after.servers if name in before.servers]
    if old_order != new_order:
        yield Field("order of servers", ", ".join(old_order), ", ".join(new_order))


def _describe_target(field_digests: FieldDigests) -> str:
    """How a server is reached, as text for people."""
    texts = [str(field_digests[key].shown) for key in _TARGET_KEYS if key in field_digests]
    if "command" in field_digests and "args" in field_digests and field_digests["args"].shown != EMPTY_LIST_TEXT:
        texts.append(str(field_digests["args"].shown))
    return " ".join(texts)


def _is_display_key(key: str) -> bool:
    return key.partition(".")[0] in DISPLAY_KEYS
