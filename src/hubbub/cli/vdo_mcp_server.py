"""`vdo-mcp-server`: serves the peers pack on stdio with the flags and exit codes of the VDO.Ninja contract.

An alias of `hubbub serve --pack peers --alone --transport stdio` for existing registrations. Does not import click,
so that it starts quickly.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

from hubbub.cli.errors import FAILED, INTERRUPTED
from hubbub.errors import HubbubError, SettingsError

_BANNER_SWITCH: Final = "VDON_MCP_NO_STARTUP_BANNER"
_FIXED_FLAGS: Final = {"--pack": "peers", "--alone": "true", "--transport": "stdio"}
_TEXT_FLAGS: Final = frozenset(("--max-message-bytes", "--join-token-secret", "--allow-peer-stream-ids"))
_BOOLEAN_FLAGS: Final = frozenset(("--enforce-join-token", "--require-session-mac"))
_PROFILE_FLAG: Final = "--tool-profile"
_BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("1", "true", "yes", "y", "on"), "true"),
    **dict.fromkeys(("0", "false", "no", "n", "off"), "false"),
}
_HELP: Final = """\
Usage: vdo-mcp-server [options]

Serve tools for messages, files and shared state between agents to an MCP client on stdio.

  --tool-profile <core|file|state|full>   tools to offer                        VDON_MCP_TOOL_PROFILE (full)
  --max-message-bytes <bytes>             largest message                       VDON_MCP_MAX_MESSAGE_BYTES (1048576)
  --join-token-secret <secret>            secret that signs join tokens         VDON_MCP_JOIN_TOKEN_SECRET
  --enforce-join-token <true|false>       require a join token of every peer    VDON_MCP_ENFORCE_JOIN_TOKEN (false)
  --allow-peer-stream-ids <a,b,c>         admit only these peers                VDON_MCP_ALLOW_PEER_STREAM_IDS
  --require-session-mac <true|false>      require MACs on files and state       VDON_MCP_REQUIRE_SESSION_MAC (false)
  -h, --help                              show this help

Each option can also be set with the variable beside it; options take precedence. Prefer the variable for the
secret: other users of this machine can see command lines.
"""
_BANNER: Final = """\
vdo-mcp-server: MCP server on stdio, started in a terminal.
It waits for JSON-RPC messages; an MCP client normally starts it.
To register it with your clients, run `hubbub install` or `vdon-mcp-install`.
Press Ctrl+C to stop it.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client disconnects; return 0, or 1 after an error, which is a JSON line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        flags = parse_flags(arguments)
        if flags is None:
            sys.stdout.write(_HELP)
            return 0
        _write_banner()
        gc.disable()  # Nothing that is loaded at start is garbage; `serve` turns collecting on again.
        from hubbub.cli.server_runner import serve

        return serve({**flags, **_FIXED_FLAGS})
    except HubbubError as error:
        return _report_fatal(error.message)
    except KeyboardInterrupt:
        return INTERRUPTED


def parse_flags(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the values by flag, as `hubbub serve` reads them; None if help is requested.

    Raises: SettingsError, for an unknown argument or a missing value.
    """
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-h", "--help"):
            return None
        flag, has_value, value = argument.partition("=")
        if flag not in _TEXT_FLAGS and flag not in _BOOLEAN_FLAGS and flag != _PROFILE_FLAG:
            raise SettingsError(f"unknown CLI argument: {flag}")  # without its value, which may be a secret
        if not has_value:
            given = next(rest, None)
            if given is None or given.startswith("--"):
                raise SettingsError(f"missing value for {flag}")
            value = given
        flags[flag] = _normalize(flag, value)
    return flags


def _normalize(flag: str, value: str) -> str:
    """Accept the words for true and false, and profiles, in any case; `serve` refuses other words."""
    if flag == _PROFILE_FLAG:
        return value.strip().lower()
    return _BOOLEAN_WORDS.get(value.strip().lower(), value) if flag in _BOOLEAN_FLAGS else value


def _write_banner() -> None:
    """Explain to a person who started the server in a terminal what it waits for."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_silenced = _BOOLEAN_WORDS.get(os.environ.get(_BANNER_SWITCH, "").strip().lower()) == "true"
    if not is_silenced and all(stream is not None and stream.isatty() for stream in streams):
        sys.stderr.write(_BANNER)
        sys.stderr.flush()


def _report_fatal(message: str) -> int:
    import json

    sys.stderr.write(json.dumps({"type": "fatal", "message": " ".join(message.split())}, ensure_ascii=False) + "\n")
    sys.stderr.flush()
    return FAILED
