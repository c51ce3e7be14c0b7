"""`hubbub serve`: its options are the fields of the settings, its packs' included.

Packs are looked for only when an option is not one of ours, or for `--help`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from hubbub.assembly.entries import find_packs
from hubbub.cli.serving import serve
from hubbub.errors import HubbubError
from hubbub.settings import ServeSettings, nearest
from hubbub.settings.fields import Setting, settings_of

_GO_FLAGS: Final = ("transport", "http-addr", "addr")
"""Written with one dash by the Go program whose interface we keep."""

_HELP: Final = """Serve tools, resources and prompts to MCP clients.

TARGET is a program that makes a server: file.py, or module:server. Without one, every
pack that can run is served, or those named with --pack. The servers of hubbub.toml and
of --mcp-json are served too, all behind one endpoint.

\b
hubbub serve weather.py --transport stdio
hubbub serve shop.tools:server --port 8000
hubbub serve --pack demo --transport stdio
hubbub serve --mcp-json ~/.cursor/mcp.json

Every option is also a variable (--http-addr is HUBBUB_HTTP_ADDR) and a key of
hubbub.toml (http_addr); options win over variables, variables over the file.
"""


class ServeCommand(click.Command):
    """Takes the options of packs too, once somebody uses or asks for them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and with the packs' options as well if ours are not enough."""
        args = [long_form(argument) for argument in args]
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption:
            self._add_pack_options()
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            raise self._whole(error, args) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options."""
        self._add_pack_options()
        super().format_options(ctx, formatter)

    def _whole(self, error: click.NoSuchOption, args: list[str]) -> click.UsageError:
        """Name a wrong `-word` as it was written; click, which reads it letter by letter, names a letter."""
        option = error.option_name
        word = next((argument for argument in args if len(argument) > 2 and argument.startswith(option)), option)
        if option.startswith("--") or word == option:
            return error
        name = word.partition("=")[0]
        known = [flag for parameter in self.params for flag in parameter.opts if flag.startswith("--")]
        return click.UsageError(f"there is no option {name!r}{nearest(f'-{name}', known)}", error.ctx)

    def _add_pack_options(self) -> None:
        known = {name for parameter in self.params for name in parameter.opts}
        for setting in _pack_settings():
            if setting.flag not in known:
                self.params.append(_option(setting))
                known.add(str(setting.flag))


def long_form(argument: str) -> str:
    """`-transport=http` as `--transport=http`; every other argument as it is."""
    name = argument[1:].partition("=")[0]
    return f"-{argument}" if argument.startswith("-") and name in _GO_FLAGS else argument


def _pack_settings() -> Iterator[Setting]:
    for entry in find_packs().values():
        try:
            kind = entry.pack.settings
        except HubbubError:
            continue
        if kind is not None:
            yield from (setting for setting in settings_of(kind) if setting.flag is not None)


def _option(setting: Setting) -> click.Parameter:
    """An option whose value stays text: `hubbub.settings` reads and judges it."""
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
        help=f"{setting.description}{_default(setting)}",
    )


def _default(setting: Setting) -> str:
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
    params=[_option(setting) for setting in settings_of(ServeSettings)],
    callback=_run,
    help=_HELP,
    short_help="Serve tools to MCP clients.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
