"""`hubbub serve`: its options are the fields of the settings, including those of packs.

Packs are loaded only for an option that is not built in, or for `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Any, Final

import click
import msgspec

from hubbub.assembly.pack_discovery import find_packs
from hubbub.cli.server_runner import serve
from hubbub.errors import HubbubError
from hubbub.server.pack import Pack
from hubbub.settings import ServeSettings, format_suggestion
from hubbub.settings.fields import Setting, list_settings

_SINGLE_DASH: Final = re.compile(r"-([a-z][a-z-]+)(=.*)?", re.DOTALL)

_HELP: Final = """Serve tools, resources and prompts to MCP clients.

TARGET is a program that defines a server: file.py or module:server. Without TARGET, the packs
named with --pack are served, or all packs that can run. The servers in hubbub.toml and
--mcp-json are served too, all behind one endpoint.

\b
hubbub serve weather.py --transport stdio
hubbub serve shop.tools:server --port 8000
hubbub serve --pack demo --transport stdio
hubbub serve --mcp-json ~/.cursor/mcp.json

Every option can also be set as an environment variable (HUBBUB_HTTP_ADDR for --http-addr) or
in hubbub.toml (http_addr). Options take precedence over variables, and variables over the file.
"""


class ServeCommand(click.Command):
    """Accepts the options of packs too, if one is used or `--help` is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; add the options of packs if one of them is unknown."""
        if any(map(_SINGLE_DASH.fullmatch, args)):
            flags = {flag for pack in _loadable_packs() for flag in pack.single_dash_flags}
            args = [_long_form(argument, flags) for argument in args]
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption:
            self._add_pack_options()
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            raise self._unknown_option_error(error, args) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options."""
        self._add_pack_options()
        super().format_options(ctx, formatter)

    def _unknown_option_error(self, error: click.NoSuchOption, args: list[str]) -> click.UsageError:
        """Report an unknown `-word` as it was written; click, which parses it letter by letter, reports a letter."""
        option = error.option_name
        word = next((argument for argument in args if len(argument) > 2 and argument.startswith(option)), option)
        if option.startswith("--") or word == option:
            return error
        name = word.partition("=")[0]
        known = [flag for parameter in self.params for flag in parameter.opts if flag.startswith("--")]
        return click.UsageError(f"unknown option {name!r}{format_suggestion(f'-{name}', known)}", error.ctx)

    def _add_pack_options(self) -> None:
        known = {name for parameter in self.params for name in parameter.opts}
        for setting in _pack_settings():
            if setting.flag not in known:
                self.params.append(_make_option(setting))
                known.add(str(setting.flag))


def _long_form(argument: str, flags: Set[str]) -> str:
    """`-transport=http` as `--transport=http` if `transport` is among the flags; every other argument as it is."""
    match = _SINGLE_DASH.fullmatch(argument)
    return f"-{argument}" if match is not None and match[1] in flags else argument


def _pack_settings() -> Iterator[Setting]:
    for pack in _loadable_packs():
        if pack.settings is not None:
            yield from (setting for setting in list_settings(pack.settings) if setting.flag is not None)


def _loadable_packs() -> Iterator[Pack]:
    for entry in find_packs().values():
        try:
            yield entry.pack
        except HubbubError:
            continue


def _make_option(setting: Setting) -> click.Parameter:
    """Make an option whose value stays text: `hubbub.settings` parses and validates it."""
    flag = str(setting.flag)
    if not flag.startswith("-"):
        return click.Argument([flag], required=False, default=None)
    if setting.extra.get("switch"):
        return click.Option([flag], is_flag=True, default=None, help=setting.description)
    return click.Option(
        [flag],
        metavar=setting.form,
        multiple=setting.is_list,
        default=None,
        help=f"{setting.description}{_format_default(setting)}",
    )


def _format_default(setting: Setting) -> str:
    default = setting.default
    return "" if default in (None, (), "", msgspec.NODEFAULT) else f"  [default: {default}]"


def _run(**values: Any) -> int:
    context = click.get_current_context()
    flags: dict[str, Any] = {}
    for parameter in context.command.params:
        value = values.get(str(parameter.name))
        if value is not None and value != ():
            flags[parameter.opts[0]] = "true" if value is True else value
    return serve(flags)


command = ServeCommand(
    "serve",
    params=[_make_option(setting) for setting in list_settings(ServeSettings)],
    callback=_run,
    help=_HELP,
    short_help="Serve tools to MCP clients.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
