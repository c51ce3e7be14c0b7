"""A pack: a set of tools that can be installed, configured, checked and served as one.

    pack = Pack(name="weather", summary="Forecasts", install=install, settings=WeatherSettings)

A distribution offers one through the entry point group `hubbub.packs`; `hubbub.assembly` finds
packs and installs them on a server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hubbub.server.context import Context
    from hubbub.server.server import Server
    from hubbub.server.views import View

_NO_PROFILES: Mapping[str, View] = {}
_NO_ALIASES: Mapping[str, str] = {}


class Health(msgspec.Struct, frozen=True):
    """Health of a running pack."""

    ok: bool
    detail: str = ""


class Check(msgspec.Struct, frozen=True):
    """The result of one check of `hubbub doctor`, with advice."""

    name: str
    ok: bool
    detail: str = ""
    advice: str = ""
    optional: bool = False
    """Whether the pack works even if this check fails."""


class Command(msgspec.Struct, frozen=True):
    """A command that a pack adds to `hubbub`."""

    function: str
    """`module:function`, imported when the command is used. It takes the arguments and returns the exit code."""
    summary: str
    """One line for `hubbub --help`."""


_NO_COMMANDS: Mapping[str, Command] = {}


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A way to register a pack in clients: `hubbub install --preset NAME`."""

    summary: str
    arguments: tuple[str, ...] = ()
    """Arguments of `hubbub serve`, in addition to the pack and the transport."""
    secret: str | None = None
    """A variable with a secret that must be set. The server must read it from the file `<secret>_FILE`, too."""
    keyring: str | None = None
    """A variable that names the keyring entry with that secret instead, as `SERVICE/NAME`."""


_NO_PRESETS: Mapping[str, Preset] = {}


class Standalone(msgspec.Struct, frozen=True, kw_only=True):
    """Protocol extensions that a pack's contract requires of a server with no other packs.

    They do not apply next to other packs or behind a hub.
    """

    message_bytes: int | None = None
    """The largest message accepted, unless the settings name another size."""
    calls_fail_as_results: bool = False
    """Answer calls with an unknown tool, without a name, or whose arguments are not an object with `isError` results
    instead of JSON-RPC errors."""
    methods: Mapping[str, Callable[[Any, Context], Awaitable[Mapping[str, Any]]]] = {}
    """Handlers of JSON-RPC methods that MCP does not define, for legacy and plain clients. A handler takes the
    pack's state and the context of the call, and returns the result."""
    exit_notification: str | None = None
    """The notification with which a client on stdio ends the process, besides closing its input."""


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """Tools with their settings, lifespan, health, checks and commands."""

    name: str
    summary: str
    install: Callable[[Server, Any], Any]
    """Registers everything on a server, given the pack's settings; its return value is the pack's state."""
    settings: type[msgspec.Struct] | None = None
    """Read from `[packs.NAME]`, `HUBBUB_NAME_FIELD` and the flags that its fields name."""
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None
    """Opened with the pack's state while the server runs. What it yields is not used; put it into the state."""
    health: Callable[[Any], Awaitable[Health]] | None = None
    """Returns the health of the running pack; gets its state."""
    checks: tuple[Callable[[Any], Awaitable[Check]] | str, ...] = ()
    """Run by `hubbub doctor`; each gets the pack's settings. A check given as `module:function` is imported only
    then."""
    commands: Mapping[str, Command] = _NO_COMMANDS
    """Commands that it adds to `hubbub`, by name."""
    profiles: Mapping[str, View] = _NO_PROFILES
    """Named selections of its tools, for `--tool-profile`."""
    presets: Mapping[str, Preset] = _NO_PRESETS
    """Ways to register it in clients, by name."""
    standalone: Standalone | None = None
    """Protocol extensions for a server that serves only this pack."""
    variable_aliases: Mapping[str, str] = _NO_ALIASES
    """Other names for variables of server settings, where this pack is served: `{"TIDES_PORT": "HUBBUB_PORT"}`. The
    variable of Hubbub takes precedence."""
    single_dash_flags: tuple[str, ...] = ()
    """Flags of `hubbub serve` that may also be written with one dash, as Go programs do: `("addr",)` allows `-addr`."""
    extra: str | None = None
    """The extra of Hubbub that installs the modules it requires."""
    requires: tuple[str, ...] = ()
    """Modules that it needs; `one|other` means either of them."""

    def missing(self) -> list[str]:
        """The modules it requires that are not installed."""
        from importlib.util import find_spec

        return [
            name.replace("|", " or ")
            for name in self.requires
            if not any(_is_installed(each, find_spec) for each in name.split("|"))
        ]

    def advice(self) -> str:
        """Return how to install the missing modules."""
        if self.extra is not None:
            return f"install Hubbub with its extra {self.extra!r} (in a clone: pip install -e '.[{self.extra}]')"
        return f"install the Python modules {', '.join(self.requires)}"


def load_object(place: str) -> Any:
    """Import the object that `module:name` names."""
    from importlib import import_module

    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _is_installed(name: str, find_spec: Callable[[str], object]) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a parent package is missing or broken
        return False
