"""The packs that are installed, found through the entry point group `hubbub.packs`."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Final

from hubbub.errors import DefinitionError, HubbubError, PackUnavailable, SettingsError
from hubbub.server.pack import Pack
from hubbub.suggestions import format_suggestion

ENTRY_POINT_GROUP: Final = "hubbub.packs"
_OWN_DISTRIBUTION: Final = "hubbub"


class PackEntry:
    """A pack of an installed distribution; loaded when first used."""

    def __init__(self, name: str, object_path: str, distribution: str, version: str) -> None:
        self.name = name
        self.object_path = object_path
        self.distribution = distribution
        self.version = version

    @cached_property
    def pack(self) -> Pack:
        """The pack itself.

        Raises:
            DefinitionError: what the entry point names is not a pack.
            PackUnavailable: its module cannot be imported.
        """
        module, _, attribute = self.object_path.partition(":")
        try:
            value = getattr(import_module(module), attribute or "pack", None)
        except HubbubError:
            raise
        except Exception as error:
            raise PackUnavailable(
                f"the pack {self.name!r} of {self.distribution} cannot be imported ({type(error).__name__}: {error}); "
                f"try `pip install --force-reinstall {self.distribution}`"
            ) from error
        if not isinstance(value, Pack) or value.name != self.name:
            raise DefinitionError(
                f"the entry point {self.name!r} of {self.distribution} must name a hubbub.Pack called {self.name!r}; "
                f"{self.object_path} is not one"
            )
        return value

    def require_runnable(self) -> Pack:
        """Return the pack, if its requirements are installed.

        Raises:
            PackUnavailable: it is not; the message says what to install.
        """
        missing = self.pack.missing()
        if missing:
            raise PackUnavailable(f"the pack {self.name!r} needs {', '.join(missing)}: {self.pack.advice()}")
        return self.pack

    @property
    def problem(self) -> HubbubError | None:
        """Why it cannot run; None if it can."""
        try:
            self.require_runnable()
        except HubbubError as error:
            return error
        return None


def find_packs() -> dict[str, PackEntry]:
    """Find the installed packs: Hubbub's own first, then the others by name."""
    from importlib.metadata import entry_points  # Costs 20 ms; a server from a file never needs it.

    entries: dict[str, PackEntry] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        distribution = (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "0")
        entry = PackEntry(point.name, point.value, *distribution)
        if point.name not in entries or entry.distribution == _OWN_DISTRIBUTION:
            entries[point.name] = entry
    return dict(sorted(entries.items(), key=lambda item: (item[1].distribution != _OWN_DISTRIBUTION, item[0])))


def choose_packs(names: tuple[str, ...], known: dict[str, PackEntry]) -> list[Pack]:
    """Return the named packs, which must be able to run; without names, all packs that can.

    Raises:
        SettingsError: there is no pack of that name.
        PackUnavailable: it cannot run.
    """
    if not names:
        return [entry.pack for entry in known.values() if entry.problem is None]
    for name in names:
        if name not in known:
            raise SettingsError(f"unknown pack {name!r}{format_suggestion(name, known)}")
    return [known[name].require_runnable() for name in dict.fromkeys(names)]
