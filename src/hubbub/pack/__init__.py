"""The API for packs, in addition to the names in `hubbub`.

    from hubbub import Pack, Secret, Server, setting
    from hubbub.pack import data_folder, read_pack_settings
    from hubbub.pack.http import HttpClient, egress_policy

| module | for |
|---|---|
| `hubbub.pack` | describing a pack, its settings and folders, metrics, log rate limits, fair shares, services |
| `hubbub.pack.charts` | pictures of bars, columns, lanes and heat maps |
| `hubbub.pack.http` | a guarded client for HTTP and WebSocket |
| `hubbub.pack.store` | records in SQLite or PostgreSQL, and tamper-evident hash chains of records |

Errors are in `hubbub`. The packs that come with Hubbub use nothing else. Each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.net.bind_address import format_address, listen_error, require_loopback
    from hubbub.observe import Metric, Metrics, rate_limit_logger
    from hubbub.pack.service import run_service
    from hubbub.protocol.host_origin import network_prefix
    from hubbub.protocol.meta_keys import own_meta
    from hubbub.server.pack import Check, Command, Health, Pack, Preset, Standalone
    from hubbub.settings import Secret, read_pack_settings, setting
    from hubbub.settings.folders import data_folder, make_private_folder
    from hubbub.settings.serve import HostAndPort
    from hubbub.shares import Shares

__all__ = [
    "Check",
    "Command",
    "Health",
    "HostAndPort",
    "Metric",
    "Metrics",
    "Pack",
    "Preset",
    "Secret",
    "Shares",
    "Standalone",
    "data_folder",
    "format_address",
    "listen_error",
    "make_private_folder",
    "network_prefix",
    "own_meta",
    "rate_limit_logger",
    "read_pack_settings",
    "require_loopback",
    "run_service",
    "setting",
]

_MODULES = {
    "hubbub.net.bind_address": ("format_address", "listen_error", "require_loopback"),
    "hubbub.observe": ("Metric", "Metrics", "rate_limit_logger"),
    "hubbub.pack.service": ("run_service",),
    "hubbub.protocol.host_origin": ("network_prefix",),
    "hubbub.protocol.meta_keys": ("own_meta",),
    "hubbub.server.pack": ("Check", "Command", "Health", "Pack", "Preset", "Standalone"),
    "hubbub.settings": ("Secret", "read_pack_settings", "setting"),
    "hubbub.settings.folders": ("data_folder", "make_private_folder"),
    "hubbub.settings.serve": ("HostAndPort",),
    "hubbub.shares": ("Shares",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module 'hubbub.pack' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
