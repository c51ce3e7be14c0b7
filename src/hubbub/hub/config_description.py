"""Describes a hub's configuration without its secrets, so that it can be stored and compared later.

Every value becomes a `FieldDigest`: a keyed digest to compare by and, unless it is secret, a text to show. A running
hub stores its description in a file, and `hubbub plan` compares it with the settings, using the key of the digests.
The place of a value (`origin`) is not part of the description.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hubbub.client.urls import redact_url
from hubbub.hub.config import HubConfig, UpstreamConfig
from hubbub.security.redact import MASK, redact
from hubbub.server.server import Server
from hubbub.settings.fields import list_settings
from hubbub.settings.secret import Secret
from hubbub.settings.serve import ServeSettings

if TYPE_CHECKING:
    from hubbub.settings.oauth import OAuthSettings

EMPTY_LIST_TEXT: Final = "nothing"
"""How an empty list is shown."""
_RELOADED: Final = frozenset(("target", "packs", "config", "mcp_json", "tool_profile", "tool_names"))
"""Settings of `serve` that a reload applies to the hub; the others are fixed for the life of the process."""
_NOT_SETTINGS: Final = ("secrets", "tenant")
"""Fields of a `ServerConfig` that follow from other sections; the references to secrets are in headers and env."""
_FILE_KEYS: Final = {"chdir": "cwd"}
_TABLE_ARRAYS: Final = ("tenants", "policy.rules", "quotas", "oauth.issuers", "oauth.clients")
"""Arrays of tables, each of which is one value: a changed rule is shown, not the whole policy."""
_DIGEST_CHARACTERS: Final = 32
_MAX_SHOWN_CHARACTERS: Final = 200


class FieldDigest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a configuration."""

    digest: str
    shown: str | None = None
    """None for a secret."""


FieldDigests = dict[str, FieldDigest]
"""By key, such as `env.TOKEN`; values that are not set are absent."""


class ConfigDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Every value that is set, in the order of the files."""

    servers: dict[str, FieldDigests] = {}
    views: dict[str, FieldDigests] = {}
    hub: FieldDigests = {}
    serve: FieldDigests = {}
    """Settings that cannot change while the process runs."""


def describe_config(
    config: HubConfig, key: bytes, settings: ServeSettings | None = None, oauth: OAuthSettings | None = None
) -> ConfigDescription:
    """Describe a hub; two descriptions are comparable if they were made with the same key."""
    writer = _Describer(key)
    hub = dict(writer.digest_fields(config.hub, "")) | dict(writer.digest_fields(config.lists_safe_names, "safe_names"))
    hub |= writer.digest_fields(config.governance, "")
    hub |= writer.digest_fields(config.policy_digest or None, "policy.file (contents)")
    return ConfigDescription(
        servers={upstream.id: writer.describe_server(upstream) for upstream in config.upstreams},
        views={name: dict(writer.digest_fields(view, "")) for name, view in config.views.items()},
        hub=hub,
        serve={} if settings is None else writer.describe_serve(settings, oauth),
    )


def describe_settings(settings: ServeSettings, key: bytes, oauth: OAuthSettings | None = None) -> FieldDigests:
    """Describe the settings that a running process cannot change."""
    return _Describer(key).describe_serve(settings, oauth)


class _Describer:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def describe_server(self, config: UpstreamConfig) -> FieldDigests:
        """The values of a server, on the same levels as in settings files: those of `remote` at the top."""
        found: FieldDigests = {}
        for name in config.__struct_fields__:
            value = getattr(config, name)
            if name == "remote" and value is not None:
                remote = {key: getattr(value, key) for key in value.__struct_fields__ if key not in _NOT_SETTINGS}
                found |= self.digest_fields({_FILE_KEYS.get(key, key): item for key, item in remote.items()}, "")
            elif name == "pack_settings":
                found |= self.digest_fields(value, "settings")
            elif name not in ("id", "origin"):
                found |= self.digest_fields(value, name)
        found.pop("id", None)
        return found

    def describe_serve(self, settings: ServeSettings, oauth: OAuthSettings | None) -> FieldDigests:
        fixed = (setting for setting in list_settings(ServeSettings) if setting.name not in _RELOADED)
        found = {
            key: field_digest
            for setting in fixed
            for key, field_digest in self.digest_fields(getattr(settings, setting.name), setting.key)
        }
        return found | dict(self.digest_fields(_drop_defaults(oauth), "oauth"))

    def digest_fields(self, value: Any, path: str) -> Iterator[tuple[str, FieldDigest]]:
        if value is None:
            return
        if isinstance(value, msgspec.Struct):
            value = {_FILE_KEYS.get(name, name): getattr(value, name) for name in value.__struct_fields__}
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield from self.digest_fields(inner, f"{path}.{name}" if path else str(name))
        elif path in _TABLE_ARRAYS:
            for index, item in enumerate(value):
                key = f"{path}.{item.name}" if hasattr(item, "name") else f"{path}[{index}]"
                yield key, FieldDigest(self._digest(item), _format_item(item))
        elif isinstance(value, Secret):
            yield path, FieldDigest(self._digest(value.reveal()))
        elif isinstance(value, Server):
            yield path, FieldDigest(self._digest(id(value)), value.info.name)
        else:
            yield path, FieldDigest(self._digest(value), _format_value(value, path))

    def _digest(self, value: Any) -> str:
        text = msgspec.json.encode(value, enc_hook=str)
        return hmac.digest(self._key, text, "sha256").hex()[:_DIGEST_CHARACTERS]


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The default of each field; `fields` evaluates all annotations, which took half of the time of a reload."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def _drop_defaults(value: Any) -> Any:
    """Leave out settings that have their defaults, so that only values of the file are shown."""
    if not isinstance(value, msgspec.Struct):
        return value
    defaults = _defaults(type(value))
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: _drop_defaults(field) for name, field in fields.items() if field != defaults[name]}


def _format_item(item: msgspec.Struct) -> str:
    """Describe one table of an array, without the settings that have their defaults."""
    defaults = _defaults(type(item))
    given = {name: getattr(item, name) for name in item.__struct_fields__ if name != "name"}
    parts = [f"{name}={_format_value(value, name)}" for name, value in given.items() if value != defaults[name]]
    return redact(", ".join(parts))[:_MAX_SHOWN_CHARACTERS] or "defaults"


def _format_value(value: Any, path: str) -> str:
    if isinstance(value, str):
        text = redact_url(value) if path == "url" else value
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, tuple | list | frozenset | set):
        text = " ".join(_mask_secrets(list(map(str, value)))) or EMPTY_LIST_TEXT
    else:
        text = str(value)
    text = redact(text)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


def _mask_secrets(words: list[str]) -> Iterator[str]:
    """Mask each word that follows an option for a secret, such as the key after `--api-key`."""
    previous = ""
    for word in words:
        option_and_value = f"{previous}={word}"
        yield MASK if previous.startswith("-") and redact(option_and_value) != option_and_value else word
        previous = word
