"""`hubbub activity`: pause disclosure, show its log, export a period. For the user, not for MCP clients."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any, Final

from hubbub import SettingsError
from hubbub.pack import read_pack_settings
from hubbub.packs.activity import export_command, limits
from hubbub.packs.activity.disclosure_log import make_disclosure_log
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import ActivitySettings

_DURATION: Final = re.compile(r"(?=.)(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")
_UNIT_SECONDS: Final = (86400, 3600, 60, 1)
_LEADING_FIELDS: Final = ("time", "caller", "tool", "resource", "prompt")
"""Fields at the start of a log line; the others follow as `name=value`."""


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code.

    Raises: HubbubError.
    """
    options = _make_parser().parse_args(arguments)
    if options.action == "log":
        return _show_log(options.last)
    if options.action == "export":
        return export_command.run(options, _read_settings())
    pause = Pause()
    if options.action == "pause":
        pause.start(options.seconds)
    elif options.action == "resume" and not pause.end():
        sys.stdout.write("Disclosure was not paused.\n")
    message = pause.message() or "Not paused: servers with the activity pack answer their callers."
    sys.stdout.write(f"{message}\n")
    return 0


def _make_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub activity",
        description="Pause disclosure by servers with the activity pack, show the disclosure log, or export a period.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    pause = actions.add_parser("pause", help="disclose nothing from now on, in all servers of this user")
    duration_help = "how long, such as 30m or 1h30m  [default: until resumed]"
    pause.add_argument("--for", dest="seconds", type=parse_duration, metavar="TIME", help=duration_help)
    actions.add_parser("resume", help="disclose again")
    actions.add_parser("status", help="say whether disclosure is paused")
    log = actions.add_parser("log", help="show which caller asked for what, and how much was disclosed")
    log.add_argument(
        "--last", type=_parse_count, default=20, metavar="N", help="how many lines  [default: %(default)s]"
    )
    export_command.add_parser(actions)
    return parser


def _read_settings() -> ActivitySettings:
    return read_pack_settings(ActivitySettings, "activity")


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 1h30m.

    Raises: ArgumentTypeError.
    """
    found = _DURATION.fullmatch(text)
    seconds = (
        sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNIT_SECONDS, strict=True)) if found else 0
    )
    if not 0 < seconds <= limits.PAUSE_MAX_S:
        raise ArgumentTypeError(f"{text!r} is not a duration of at most a year; write it like 90s, 30m, 1h30m or 2d")
    return float(seconds)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) == int(text)):
        raise ArgumentTypeError(f"{text!r} is not a number of lines, such as 20")
    return int(text)


def _show_log(count: int) -> int:
    log = make_disclosure_log(_read_settings())
    if log is None:
        raise SettingsError("the disclosure log is disabled: disclosure_log is `off`; remove that setting to enable it")
    try:
        entries = log.read_last(count)
    except OSError as error:
        raise SettingsError(
            f"cannot read the disclosure log {log.path}: {error.strerror}; check its permissions"
        ) from error
    for entry in entries:
        sys.stdout.write(f"{_format_entry(entry)}\n")
    if not entries:
        sys.stdout.write(f"Nothing was disclosed: {log.path} has no entries.\n")
    return 0


def _format_entry(entry: dict[str, Any]) -> str:
    """Format an entry without control characters: client names must not control the terminal."""
    first = [str(entry[key]) for key in _LEADING_FIELDS if key in entry]
    rest = [f"{key}={value}" for key, value in entry.items() if key not in _LEADING_FIELDS]
    return "".join(each if each.isprintable() else "?" for each in "  ".join([*first, *rest]))
