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

from hubbub.cli.target import TargetOptions, resolve_target
from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError
from hubbub.settings import Secret

F = TypeVar("F", bound=Callable[..., Any])
_COMMAND_KEY: Final = "hubbub.command"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the shared options."""

    target_options: TargetOptions
    command: tuple[str, ...]
    """The command after `--`."""
    as_json: bool
    verbosity: int

    def resolve_server(self, words: Sequence[str]) -> tuple[ServerConfig, list[str]]:
        """Return the server and the remaining words; a command after `--` replaces TARGET.

        Raises: SettingsError.
        """
        if self.command:
            return resolve_target(self.command, self.target_options), list(words)
        if not words:
            raise SettingsError("no server; give a URL, file.py, a name from hubbub.toml, or a command after `--`")
        return resolve_target(words[0], self.target_options), list(words[1:])


class ServerCommand(click.Command):
    """Separates the command after `--` from the other arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before `--`.

        Raises: click.UsageError.
        """
        if "--" in args:
            split_at = args.index("--")
            args, command = args[:split_at], args[split_at + 1 :]
            if not command or not command[0].strip():
                raise click.UsageError("`--` must be followed by the command that starts a server", ctx)
            ctx.meta[_COMMAND_KEY] = tuple(command)
        return super().parse_args(ctx, args)


config_option: Final = click.option(
    "--config", metavar="FILE", help="The settings file; by default hubbub.toml in this folder."
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout instead of text.")
private_network_option: Final = click.option(
    "--allow-private-network", is_flag=True, help="Allow addresses in private networks."
)
_OPTIONS: Final = (
    json_option,
    click.option("--timeout", "timeout_s", type=float, metavar="SECONDS", help="The timeout of each request."),
    click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of requests; repeatable."),
    click.option(
        "--header-env", "header_variables", multiple=True, metavar="NAME=VARIABLE",
        help="A header with its value from an environment variable, hidden from other users.",
    ),
    click.option(
        "--env", "variables", multiple=True, metavar="NAME[=VALUE]",
        help="An environment variable for the command after `--`; by default with its current value.",
    ),
    click.option("--mcp-json", metavar="FILE", help="An mcpServers file with names for TARGET."),
    config_option,
    click.option("--protocol-version", metavar="YYYY-MM-DD", help="Use only this protocol version."),
    private_network_option,
    click.option(
        "-v", "--verbose", "verbosity", count=True, help="Show the server's logs and stderr; -vv: also debug logs.",
    ),
)  # fmt: skip


def server_options(function: F) -> F:
    """Add the options of this module to a command, which gets them as `options`."""
    import functools

    @functools.wraps(function)
    def with_options(**values: Any) -> Any:
        return function(options=_read_options(values), **values)

    decorated: Any = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    found: F = decorated
    return found


def _read_options(values: dict[str, Any]) -> Options:
    """Remove the shared options from the values and read them."""
    headers = _parse_pairs(values.pop("headers"), "--header", "NAME=VALUE")
    for name, variable in _parse_pairs(values.pop("header_variables"), "--header-env", "NAME=VARIABLE").items():
        headers[name] = read_variable(variable, "--header-env")
    target_options = TargetOptions(
        config=values.pop("config"),
        mcp_json=values.pop("mcp_json"),
        headers={name: Secret(value) for name, value in headers.items()},
        variables=_read_variables(values.pop("variables")),
        timeout_s=_check_timeout(values.pop("timeout_s")),
        protocol_version=values.pop("protocol_version"),
        allow_private_network=values.pop("allow_private_network"),
    )
    command = click.get_current_context().meta.get(_COMMAND_KEY, ())
    return Options(
        target_options=target_options, command=command, as_json=values.pop("as_json"), verbosity=values.pop("verbosity")
    )


def _parse_pairs(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        # Also `NAME: VALUE`, as curl accepts headers; names contain neither character.
        split_at = min((candidate for candidate in (text.find("="), text.find(":")) if candidate > 0), default=0)
        name, value = text[:split_at].strip(), text[split_at + 1 :].strip()
        if not name or not value:
            raise SettingsError(f"{option} must look like {form}")
        pairs[name] = value
    return pairs


def _read_variables(texts: Sequence[str]) -> dict[str, Secret]:
    variables = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if not name:
            raise SettingsError("--env must look like NAME=VALUE or NAME")
        variables[name] = Secret(value if is_given else read_variable(name, "--env"))
    return variables


def read_variable(name: str, option: str) -> str:
    """Return the value of an environment variable that an option names.

    Raises: SettingsError, if it is not set.
    """
    value = os.environ.get(name)
    if not value:
        raise SettingsError(f"{option}: the variable {name} is not set")
    return value


def _check_timeout(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise SettingsError(f"--timeout must be a number of seconds above 0, not {seconds:g}")
    return seconds
