"""The options that all commands with servers share, and the `--` before a command.

Values of headers are secrets: they are put into `Secret` here and appear in no message.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from hubbub.cli.target import Where, config_of
from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError
from hubbub.settings import Secret

F = TypeVar("F", bound=Callable[..., Any])
_COMMAND: Final = "hubbub.command"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the shared options."""

    where: Where
    command: tuple[str, ...]
    """The command after `--`."""
    as_json: bool
    verbosity: int

    def server(self, words: Sequence[str]) -> tuple[ServerConfig, list[str]]:
        """Return the server and the remaining words; a command after `--` replaces TARGET.

        Raises: SettingsError.
        """
        if self.command:
            return config_of(self.command, self.where), list(words)
        if not words:
            raise SettingsError(
                "which server? Give an address, file.py, a name from hubbub.toml, or a command after `--`"
            )
        return config_of(words[0], self.where), list(words[1:])


class ServerCommand(click.Command):
    """Separates the command after `--` from the other arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before `--`.

        Raises: click.UsageError.
        """
        if "--" in args:
            at = args.index("--")
            args, command = args[:at], args[at + 1 :]
            if not command or not command[0].strip():
                raise click.UsageError("after `--` comes the command that starts a server", ctx)
            ctx.meta[_COMMAND] = tuple(command)
        return super().parse_args(ctx, args)


_OPTIONS: Final = (
    click.option("--json", "as_json", is_flag=True, help="Write the server's own JSON to stdout, for machines."),
    click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="How long one answer may take."),
    click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of each request."),
    click.option(
        "--header-env", "header_variables", multiple=True, metavar="NAME=VARIABLE",
        help="A header whose value is in a variable, unseen by other users of this machine.",
    ),
    click.option(
        "--env", "variables", multiple=True, metavar="NAME[=VALUE]",
        help="A variable that the command after `--` gets; without a value, as it is here.",
    ),
    click.option("--mcp-json", metavar="FILE", help="An mcpServers file whose names TARGET may be."),
    click.option("--config", metavar="FILE", help="The settings file; otherwise hubbub.toml in this folder, if any."),
    click.option("--protocol-version", metavar="YYYY-MM-DD", help="The only protocol version to speak."),
    click.option("--allow-private-network", is_flag=True, help="Let the address lead into a private network."),
    click.option("-v", "--verbose", "verbosity", count=True, help="Show what the server logs; twice: what we do."),
)  # fmt: skip


def server_options(function: F) -> F:
    """Add the options of this module to a command, which gets them as `options`."""
    import functools

    @functools.wraps(function)
    def with_options(**values: Any) -> Any:
        return function(options=_read(values), **values)

    decorated: Any = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    found: F = decorated
    return found


def _read(values: dict[str, Any]) -> Options:
    """Remove the shared options from the values and read them."""
    headers = _pairs(values.pop("headers"), "--header", "NAME=VALUE")
    for name, variable in _pairs(values.pop("header_variables"), "--header-env", "NAME=VARIABLE").items():
        headers[name] = _variable(variable, "--header-env")
    where = Where(
        config=values.pop("config"),
        mcp_json=values.pop("mcp_json"),
        headers={name: Secret(value) for name, value in headers.items()},
        variables=_variables(values.pop("variables")),
        timeout_s=_seconds(values.pop("timeout_s")),
        protocol_version=values.pop("protocol_version"),
        allow_private_network=values.pop("allow_private_network"),
    )
    command = click.get_current_context().meta.get(_COMMAND, ())
    return Options(where=where, command=command, as_json=values.pop("as_json"), verbosity=values.pop("verbosity"))


def _pairs(given: Sequence[str], option: str, form: str) -> dict[str, str]:
    found = {}
    for text in given:
        # Also `NAME: VALUE`, as curl accepts headers; names contain neither character.
        at = min((place for place in (text.find("="), text.find(":")) if place > 0), default=0)
        name, value = text[:at].strip(), text[at + 1 :].strip()
        if not name or not value:
            raise SettingsError(f"{option} must look like {form}")
        found[name] = value
    return found


def _variables(given: Sequence[str]) -> dict[str, Secret]:
    found = {}
    for text in given:
        name, is_given, value = text.partition("=")
        if not name:
            raise SettingsError("--env must look like NAME=VALUE or NAME")
        found[name] = Secret(value if is_given else _variable(name, "--env"))
    return found


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SettingsError(f"{option}: the variable {name} is not set")
    return value


def _seconds(given: float | None) -> float | None:
    if given is not None and not (given > 0 and math.isfinite(given)):
        raise SettingsError(f"--timeout must be a number of seconds above 0, not {given:g}")
    return given
