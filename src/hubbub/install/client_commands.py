"""Registers with a client's own program, such as `claude mcp add`, instead of editing its file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from shutil import which

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.install.clients import Client, OwnCommand
from hubbub.install.entries import ServerEntry, format_entry, placeholder_values


def make_add_command(client: Client, server: ServerEntry, scope: str) -> list[str]:
    """Return the command that registers a server.

    Raises: SettingsError, if the client has none, or none for this server.
    """
    own = _own_command(client, scope)
    _require_program(own.add[0])
    if server.variables and client.names_variables:
        names = ", ".join(server.variables)
        raise SettingsError(f"`{own.add[0]}` cannot pass on {names}; leave out --use-cli for {client.title}")
    entry = format_entry(client, server)
    if client.name == "vscode":
        entry = {"name": server.name, **entry}
    values = placeholder_values(client, server) | {"{scope}": scope, "{json}": json.dumps(entry, ensure_ascii=False)}
    values["{options}"] = _options(own, values)
    template = own.add_remote if server.is_remote else own.add
    parts = [values.get(part, part) for part in template]
    return [str(word) for part in parts for word in (part if isinstance(part, list) else [part])]


def make_remove_command(client: Client, name: str, scope: str) -> list[str]:
    """Return the command that removes a server.

    Raises: SettingsError, if the client has none.
    """
    own = _own_command(client, scope)
    if own.remove is None:
        raise SettingsError(
            f"`{own.add[0]}` has no command that removes a server; leave out --use-cli for {client.title}"
        )
    _require_program(own.remove[0])
    return _fill_words(own.remove, name, scope)


def make_get_command(client: Client, name: str, scope: str) -> list[str] | None:
    """Return the command that succeeds if a server is registered; None if the client has none."""
    own = _own_command(client, "user")
    return None if own.get is None else _fill_words(own.get, name, scope)


def _fill_words(template: Sequence[str], name: str, scope: str) -> list[str]:
    return [{"{name}": name, "{scope}": scope}.get(word, word) for word in template]


def run_command(command: Sequence[str], *, must_succeed: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of a client.

    Raises: SettingsError, if it is not installed, does not end in time, or fails and must not.
    """
    program = _require_program(command[0])
    shown = " ".join(command[:3])
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=bounds.CLIENT_COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SettingsError(f"`{shown}` did not end within {bounds.CLIENT_COMMAND_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise SettingsError(f"`{shown}` cannot be started: {error.strerror}") from None
    if must_succeed and done.returncode:
        lines = [line for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
        raise SettingsError(f"`{shown}` failed with exit code {done.returncode}: {lines[0] if lines else 'no output'}")
    return done


def _require_program(name: str) -> str:
    program = which(name)
    if program is None:
        raise SettingsError(f"{name!r} is not on the PATH; leave out --use-cli to edit the file instead")
    return program


def _own_command(client: Client, scope: str) -> OwnCommand:
    if client.own_command is None:
        raise SettingsError(f"{client.title} has no command to register servers; leave out --use-cli for it")
    if scope == "project" and "{scope}" not in client.own_command.add:
        raise SettingsError(f"`{client.own_command.add[0]}` registers for the user only; leave out --use-cli")
    return client.own_command


def _options(own: OwnCommand, values: dict[str, object]) -> list[str]:
    env, headers, key = values["{env}"], values["{headers}"], values["{key_variable}"]
    options: list[str] = []
    if own.env_option is not None and isinstance(env, dict):
        options += [word for name, value in env.items() for word in (own.env_option, f"{name}={value}")]
    if own.header_option is not None and isinstance(headers, dict):
        options += [word for name, value in headers.items() for word in (own.header_option, f"{name}: {value}")]
    if own.key_option is not None and key:
        options += [own.key_option, str(key)]
    return options
