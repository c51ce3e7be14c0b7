"""The entry point of the command line.

A client that starts a stdio server waits for it, so the one form that client registrations use is parsed without click,
whose import takes a tenth of the start.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from hubbub.cli.errors import INTERRUPTED, report_error
from hubbub.errors import HubbubError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for a failure, 2 for wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        flags = quick_flags(arguments)
        if flags is not None:
            gc.disable()  # Nothing that is loaded at start is garbage; `serve` turns collecting on again.
            from hubbub.cli.server_runner import serve

            return serve(flags)
        from hubbub.cli.group import run_command

        return run_command(arguments)
    except HubbubError as error:
        return report_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def quick_flags(arguments: list[str]) -> dict[str, str] | None:
    """The flags of `serve [TARGET] --transport stdio`, in any order; None for every other command."""
    if arguments[:1] != ["serve"]:
        return None
    target, is_stdio = None, False
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "--transport=stdio" or (argument == "--transport" and next(rest, "") == "stdio"):
            is_stdio = True
        elif argument.startswith("-") or not argument or target is not None:
            return None
        else:
            target = argument
    if not is_stdio:
        return None
    return {"--transport": "stdio"} if target is None else {"--transport": "stdio", "TARGET": target}
