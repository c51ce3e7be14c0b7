"""A pack: a set of tools that can be installed, configured, checked and served as one.

    pack = Pack(name="weather", summary="Forecasts", install=install, settings=WeatherSettings)

A distribution offers one through the entry point group `hubbub.packs`; finding them
and putting them on a server is the business of `hubbub.assembly`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hubbub.server.server import Server
    from hubbub.server.views import View

_NO_COMMANDS: Mapping[str, str] = {}
_NO_PROFILES: Mapping[str, View] = {}


class Health(msgspec.Struct, frozen=True):
    """How a running pack feels."""

    ok: bool
    detail: str = ""


class Check(msgspec.Struct, frozen=True):
    """One thing that `hubbub doctor` looked at, and what to do about it."""

    name: str
    ok: bool
    detail: str = ""
    advice: str = ""


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """Tools with their settings, lifespan, health, checks and commands."""

    name: str
    summary: str
    install: Callable[[Server, Any], Any]
    """Registers everything on a server, given the pack's settings; what it returns is the pack's state."""
    settings: type[msgspec.Struct] | None = None
    """Read from `[packs.NAME]`, `HUBBUB_NAME_FIELD` and the flags that its fields name."""
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None
    """Is open while the server runs; gets the pack's state."""
    health: Callable[[Any], Awaitable[Health]] | None = None
    """Asked while the server runs; gets the pack's state."""
    checks: tuple[Callable[[Any], Awaitable[Check]], ...] = ()
    """Asked by `hubbub doctor`; each gets the pack's settings."""
    commands: Mapping[str, str] = _NO_COMMANDS
    """Commands that it adds to `hubbub`: each `module:function`, called with the arguments, returns the exit code."""
    profiles: Mapping[str, View] = _NO_PROFILES
    """Named choices among its tools, for `--tool-profile`."""
    extra: str | None = None
    """What to install for it: `pip install 'hubbub[extra]'`."""
    requires: tuple[str, ...] = ()
    """Modules that must be there for it to run; `one|other`: any of these."""

    def missing(self) -> list[str]:
        """The modules it requires that are not installed."""
        from importlib.util import find_spec

        return [
            name.replace("|", " or ")
            for name in self.requires
            if not any(_is_there(each, find_spec) for each in name.split("|"))
        ]

    def advice(self) -> str:
        """What to do when it cannot run."""
        if self.extra is not None:
            return f"pip install 'hubbub[{self.extra}]'"
        return f"install the Python modules {', '.join(self.requires)}"


def _is_there(name: str, find_spec: Callable[[str], object]) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # A parent package is missing, or broken.
        return False
