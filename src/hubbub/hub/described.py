"""A hub's configuration as something that can be written down and compared later, without its secrets.

Every value becomes a `Leaf`: a keyed digest to compare by and, unless it is secret, a text to
show. So a running hub can leave a description of itself in a file, and somebody who has
the settings and the key of the digests can tell what differs. Where a value is written
down (`origin`) is no part of what it is.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from hubbub.client.addresses import shown_url
from hubbub.hub.config import HubConfig, UpstreamConfig
from hubbub.security.redact import MASK, redact
from hubbub.server.server import Server
from hubbub.settings.fields import settings_of
from hubbub.settings.secret import Secret
from hubbub.settings.serve import ServeSettings

NOTHING: Final = "nothing"
"""How an empty list is shown."""
_APPLIED: Final = frozenset(("target", "packs", "config", "mcp_json", "tool_profile", "tool_names"))
"""Settings of `serve` that say what a hub is made of; the others hold for the life of the process."""
_AS_WRITTEN: Final = {"chdir": "cwd"}
_DIGEST_CHARACTERS: Final = 32
_SHOWN_CHARACTERS: Final = 200


class Leaf(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value."""

    digest: str
    shown: str | None = None
    """None for a secret."""


Leaves = dict[str, Leaf]
"""By key, as `env.TOKEN`; what is not set is not there."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is set, in the order of the files."""

    servers: dict[str, Leaves] = {}
    views: dict[str, Leaves] = {}
    hub: Leaves = {}
    serve: Leaves = {}
    """What cannot change while the process runs."""


def describe(config: HubConfig, key: bytes, settings: ServeSettings | None = None) -> Description:
    """The description of a hub; two are comparable if they were made with the same key."""
    writer = _Writer(key)
    hub = dict(writer.leaves(config.hub, "")) | dict(writer.leaves(config.lists_safe_names, "safe_names"))
    return Description(
        servers={upstream.id: writer.server(upstream) for upstream in config.upstreams},
        views={name: dict(writer.leaves(view, "")) for name, view in config.views.items()},
        hub=hub,
        serve={} if settings is None else writer.serve(settings),
    )


class _Writer:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def server(self, config: UpstreamConfig) -> Leaves:
        """A server with the way to it and what is set for its pack on one level, as files have it."""
        found: Leaves = {}
        for name in config.__struct_fields__:
            value = getattr(config, name)
            if name == "remote" and value is not None:
                found |= self.leaves(value, "")
            elif name == "pack_settings":
                found |= self.leaves(value, "settings")
            elif name not in ("id", "origin"):
                found |= self.leaves(value, name)
        found.pop("id", None)
        return found

    def serve(self, settings: ServeSettings) -> Leaves:
        fixed = (setting for setting in settings_of(ServeSettings) if setting.name not in _APPLIED)
        return {
            key: leaf for setting in fixed for key, leaf in self.leaves(getattr(settings, setting.name), setting.key)
        }

    def leaves(self, value: Any, path: str) -> Iterator[tuple[str, Leaf]]:
        if value is None:
            return
        if isinstance(value, msgspec.Struct):
            value = {_AS_WRITTEN.get(name, name): getattr(value, name) for name in value.__struct_fields__}
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield from self.leaves(inner, f"{path}.{name}" if path else str(name))
        elif isinstance(value, Secret):
            yield path, Leaf(self._digest(value.reveal()))
        elif isinstance(value, Server):
            yield path, Leaf(self._digest(id(value)), value.info.name)
        else:
            yield path, Leaf(self._digest(value), _shown(value, path))

    def _digest(self, value: Any) -> str:
        text = msgspec.json.encode(value, enc_hook=str)
        return hmac.digest(self._key, text, "sha256").hex()[:_DIGEST_CHARACTERS]


def _shown(value: Any, path: str) -> str:
    if isinstance(value, str):
        text = shown_url(value) if path == "url" else value
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, tuple | list | frozenset | set):
        text = " ".join(_masked(list(map(str, value)))) or NOTHING
    else:
        text = str(value)
    text = redact(text)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _masked(words: list[str]) -> Iterator[str]:
    """Words without the one that follows a telling option: `--api-key`, and then the key."""
    before = ""
    for word in words:
        together = f"{before}={word}"
        yield MASK if before.startswith("-") and redact(together) != together else word
        before = word
