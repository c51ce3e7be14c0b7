"""Loads the user's program from a file or a module, and finds its server."""
# pathlib would cost milliseconds at every start of a stdio server.
# ruff: noqa: PTH100, PTH109, PTH112, PTH113, PTH119, PTH120

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError, SettingsError, TargetFailed
from hubbub.server.import_guard import importing_program

if TYPE_CHECKING:
    from hubbub.server.server import Server


def load_target(target: str) -> Server:
    """Load the server in `file.py`, `file.py:name` or `module:name`; a `Hub` there wins over the servers behind it.

    Raises:
        SettingsError: there is no such file, module or server.
        TargetFailed: the program raised while it was loaded.
        DefinitionError: it declares something wrongly, or serves itself instead of being loaded.
    """
    place, name = _parse_target(target)
    with importing_program():
        module = _load_file(place) if place.endswith(".py") else _load_module(place)
    return _find_server(module, place, name)


def _parse_target(target: str) -> tuple[str, str | None]:
    place, colon, name = target.rpartition(":")
    if colon and name.isidentifier():
        return place, name
    if target.endswith(".py"):
        return target, None
    raise SettingsError(f"{target!r} is {_advice(target)}")


def _advice(target: str) -> str:
    if os.path.isdir(target):
        return "a folder; name the program in it, as in `hubbub serve weather.py`"
    expected_form = "neither file.py nor module:server"
    if target.replace("-", "_").isidentifier():
        return f"{expected_form}; to serve a pack, write `hubbub serve --pack {target}`"
    return f"{expected_form}, as in `hubbub serve weather.py` or `hubbub serve shop.tools:server`"


def _load_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise SettingsError(f"file {path!r} not found in {os.getcwd()}")
    path = os.path.abspath(path)
    _prepend_to_path(os.path.dirname(path))  # As `python file.py` does, so that modules beside it can be imported.
    # A name of its own, so that a file called json.py does not replace the library.
    name = f"hubbub_target_{os.path.basename(path).removesuffix('.py')}"
    loader = SourceFileLoader(name, path)
    module = ModuleType(name)
    module.__file__, module.__loader__, module.__spec__ = path, loader, ModuleSpec(name, loader, origin=path)
    sys.modules[name] = module  # Type hints are resolved through it.
    try:
        loader.exec_module(module)
    except HubbubError:
        raise
    except Exception as error:
        raise TargetFailed(path, error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        # Last: files in the working folder must not replace anything that is installed.
        sys.path.append(os.getcwd())
    try:
        return import_module(name)
    except HubbubError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"module {name!r} not found in {os.getcwd()} or among the installed packages"
            ) from error
        raise TargetFailed(name, error) from error
    except Exception as error:
        raise TargetFailed(name, error) from error


def _prepend_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _find_server(module: ModuleType, place: str, name: str | None) -> Server:
    from hubbub.server.server import Server

    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    if "hubbub.hub.hub" in sys.modules:  # Only a program with a hub has loaded it, and loading it takes long.
        from hubbub.hub.hub import Hub

        hubs = {key: value.front() for key, value in vars(module).items() if isinstance(value, Hub)}
        servers = hubs or servers if name is None else servers | hubs
    wanted = name if name is not None else "server"
    if wanted in servers:
        return servers[wanted]
    if name is not None:
        raise SettingsError(f"{place} has no server called {name!r}; it has: {', '.join(servers) or 'none'}")
    unique_servers = {id(server): server for server in servers.values()}
    if len(unique_servers) == 1:
        return next(iter(unique_servers.values()))
    if not servers:
        raise SettingsError(
            f"{place} defines no server; add at its top level: from hubbub import Server; server = Server('my-tools')"
        )
    raise SettingsError(
        f"{place} defines several servers; choose one: {' or '.join(f'{place}:{key}' for key in servers)}"
    )
