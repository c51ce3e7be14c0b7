"""The entry of Hubbub itself: the command that clients start, or the URL of a running hub."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from hubbub.assembly.pack_discovery import find_packs
from hubbub.client.urls import check_url, looks_like_token
from hubbub.errors import HubbubError, SettingsError
from hubbub.install.entries import ServerEntry
from hubbub.install.join_secrets import SecretPlace, make_secret_variables
from hubbub.security.redact import redact
from hubbub.server.pack import Preset
from hubbub.suggestions import format_suggestion

DEFAULT_NAME: Final = "hubbub"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|sig", re.IGNORECASE)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What to register, from the options of the command."""

    name: str = DEFAULT_NAME
    target: str | None = None
    """A program with a server, `file.py` or `file.py:name`."""
    packs: tuple[str, ...] = ()
    preset: str | None = None
    url: str | None = None
    key_variable: str | None = None
    secret_place: SecretPlace | None = None
    """Where the secret of the preset is created; None if the user sets its variable."""


class PresetEntry(msgspec.Struct, frozen=True):
    """A preset and the pack that has it."""

    pack: str
    preset: Preset


def make_entry(choice: Choice) -> ServerEntry:
    """Make the entry for a choice.

    Raises:
        SettingsError: the choice has unknown names, contradicts itself, or would write a secret.
        PackUnavailable: a pack cannot run here.
    """
    check_name(choice.name)
    if choice.url is not None:
        return _make_remote(choice)
    if choice.key_variable is not None:
        raise SettingsError("--key-env is for a running hub; use it together with --url")
    if choice.target is not None:
        return _make_program(choice)
    found = find_preset(choice.preset, choice.packs) if choice.preset is not None else None
    packs = dict.fromkeys([*choice.packs, *([found.pack] if found is not None else [])])
    known = find_packs()
    for name in packs:
        if name not in known:
            raise SettingsError(f"unknown pack {name!r}{format_suggestion(name, known)}")
        known[name].require_runnable()
    env: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    if choice.secret_place is not None:
        env = make_secret_variables(found.preset if found is not None else Preset(summary=""), choice.secret_place)
    elif found is not None and found.preset.secret is not None:
        variables = (found.preset.secret,)
    arguments = found.preset.arguments if found is not None else ()
    return ServerEntry(name=choice.name, command=make_serve_command(packs, arguments), env=env, variables=variables)


def make_serve_command(packs: Iterable[str], arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the command of a stdio server that works in any folder and without an activated environment.

    Packs or a program that are named are served alone: the servers of a settings file do not join them.
    """
    # Not resolved: the Python of a virtual environment is a symbolic link. `-P`: a folder called hubbub in the working
    # folder of the client is not imported.
    python = os.path.abspath(sys.executable)  # noqa: PTH100
    named = [word for pack in packs for word in ("--pack", pack)]
    served = [*named, *arguments]
    alone = ["--alone"] if served else []
    return (python, "-P", "-m", "hubbub", "serve", *served, *alone, "--transport", "stdio")


def make_default_name(target: str | None) -> str:
    """Return the name of an entry that the user did not name: that of the program, or `hubbub`."""
    stem = "" if target is None else re.sub(r"[^A-Za-z0-9_-]", "-", _split_target(target)[0].stem)
    return stem[:64].strip("-") or DEFAULT_NAME


def find_preset(name: str, packs: tuple[str, ...] = ()) -> PresetEntry:
    """Find a preset among the installed packs, or among these.

    Raises: SettingsError.
    """
    presets: dict[str, PresetEntry] = {}
    for entry in find_packs().values():
        try:
            found = entry.pack.presets if not packs or entry.name in packs else {}
        except HubbubError:
            continue  # `hubbub doctor` shows what is wrong with it.
        for preset_name, preset in found.items():
            presets.setdefault(preset_name, PresetEntry(entry.name, preset))
    if name not in presets:
        place = f" in the pack{'s' if len(packs) > 1 else ''} {', '.join(packs)}" if packs else ""
        raise SettingsError(f"unknown preset {name!r}{place}{format_suggestion(name, presets)}")
    return presets[name]


def check_name(name: str) -> None:
    """Fail if clients would not accept this name of a server.

    Raises: SettingsError.
    """
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            f"the name {name!r} must have 1 to 64 letters, digits, '_', '-' and '.', and no '-' or '.' first"
        )


def _make_program(choice: Choice) -> ServerEntry:
    if choice.packs or choice.preset is not None or choice.secret_place is not None:
        raise SettingsError("TARGET cannot be combined with --pack, --preset or --create-secret")
    path, suffix = _split_target(str(choice.target))
    if not path.is_file():
        raise SettingsError(f"{choice.target!r} is not a file; give the path of a Python file")
    command = make_serve_command([], [f"{path.absolute()}{suffix}"])
    return ServerEntry(name=choice.name, command=command)


def _split_target(target: str) -> tuple[Path, str]:
    file, separator, name = target.rpartition(".py:")
    return (Path(f"{file}.py"), f":{name}") if separator else (Path(target), "")


def _make_remote(choice: Choice) -> ServerEntry:
    if choice.target or choice.packs or choice.preset is not None or choice.secret_place is not None:
        raise SettingsError(
            "--url registers a running hub; it cannot be combined with TARGET, --pack, --preset or --create-secret"
        )
    url, variable = str(choice.url), choice.key_variable
    if _has_secret(url):
        raise SettingsError(
            "the URL seems to contain a secret; store the secret in a variable, and pass its name with --key-env"
        )
    check_url(url, ("https", "http"))
    if variable is not None and (_VARIABLE.fullmatch(variable) is None or redact(variable) != variable):
        raise SettingsError("--key-env takes the name of a variable, not its value")
    return ServerEntry(name=choice.name, url=url, key_variable=variable)


def _has_secret(url: str) -> bool:
    """Whether a URL has a user or password, a query such as `token=...`, or something in the form of a known key."""
    address, _, query = url.partition("?")
    host = address.partition("//")[2].partition("/")[0]
    items = parse_qsl(query.partition("#")[0], keep_blank_values=True)
    return (
        "@" in host
        or any(_SECRET_NAME.search(key) or looks_like_token(value) for key, value in items)
        or redact(address) != address
    )
