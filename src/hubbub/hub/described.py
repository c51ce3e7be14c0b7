"""Describes a hub's configuration without its secrets, so that it can be stored and compared later.

Every value becomes a `Leaf`: a keyed digest to compare by and, unless it is secret, a text to show. A running hub
stores its description in a file, and `hubbub plan` compares it with the settings, using the key of the digests. The
place of a value (`origin`) is not part of the description.
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
"""Settings of `serve` that a reload applies to the hub; the others are fixed for the life of the process."""
_AS_WRITTEN: Final = {"chdir": "cwd"}
_DIGEST_CHARACTERS: Final = 32
_SHOWN_CHARACTERS: Final = 200


class Leaf(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a configuration."""

    digest: str
    shown: str | None = None
    """None for a secret."""


Leaves = dict[str, Leaf]
"""By key, such as `env.TOKEN`; values that are not set are absent."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Every value that is set, in the order of the files."""

    servers: dict[str, Leaves] = {}
    views: dict[str, Leaves] = {}
    hub: Leaves = {}
    serve: Leaves = {}
    """Settings that cannot change while the process runs."""


def describe(config: HubConfig, key: bytes, settings: ServeSettings | None = None) -> Description:
    """Describe a hub; two descriptions are comparable if they were made with the same key."""
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
        """The values of a server, on the same levels as in settings files: those of `remote` at the top."""
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
    """Mask each word that follows an option for a secret, such as the key after `--api-key`."""
    before = ""
    for word in words:
        together = f"{before}={word}"
        yield MASK if before.startswith("-") and redact(together) != together else word
        before = word
