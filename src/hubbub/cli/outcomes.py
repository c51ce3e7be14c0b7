"""Exit codes of commands with servers, and one line that says what to do next."""

from __future__ import annotations

import re
from typing import Final

from hubbub.agent.errors import (
    MaxTurnsExceeded,
    ModelError,
    ModelHttpError,
    ModelTimeout,
    ModelUnreachable,
    ToolUseError,
)
from hubbub.cli.failing import FAILED, WRONG_USAGE, say
from hubbub.errors import (
    ConnectionClosed,
    ConnectionFailed,
    DeadlineExceeded,
    DefinitionError,
    EgressRefused,
    HttpError,
    HubbubError,
    InvalidParams,
    InvalidResponse,
    Overloaded,
    PackUnavailable,
    RemoteError,
    SettingsError,
    TransportError,
)
from hubbub.protocol.error_forms import METHOD_NOT_FOUND
from hubbub.security.redact import redact

TOOL_FAILED: Final = FAILED
UNREACHABLE: Final = 3
PROTOCOL_ERROR: Final = 4
TERMINATED: Final = 143

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNAUTHORIZED: Final = (401, 403)


def tell_failure(error: HubbubError) -> int:
    """Write an error with advice to stderr; return the exit code."""
    say(clean(redact(f"{error.message.rstrip('.')}{_advice(error)}")))
    return exit_code(error)


def exit_code(error: HubbubError) -> int:
    """2 for wrong usage, 3 if the server cannot be reached, 4 if its answer is an error or invalid."""
    match error:
        case SettingsError() | DefinitionError() | InvalidParams():
            return WRONG_USAGE
        case InvalidResponse():
            return PROTOCOL_ERROR
        case TransportError() | ModelUnreachable() | ModelTimeout() | ModelHttpError():
            return UNREACHABLE
        case ConnectionClosed() | DeadlineExceeded() | Overloaded() | PackUnavailable():
            return UNREACHABLE
        case ToolUseError():
            return FAILED
    return PROTOCOL_ERROR


def clean(text: str) -> str:
    """Replace control characters in text of a server, so that it cannot control the terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _advice(error: HubbubError) -> str:
    told = ""
    match error:
        case ModelError(status=status) if status in _UNAUTHORIZED:
            told = "; give the key with --key-env"
        case HttpError(status=status) | RemoteError(status=int(status)) if status in _UNAUTHORIZED:
            told = "; give --header-env Authorization=VARIABLE, with 'Bearer …' in the variable"
        case HttpError(status=404 | 405):
            told = "; is this the whole address? Many servers listen at /mcp"
        case EgressRefused(can_be_allowed=False):
            told = "; link-local, metadata and unusable addresses are never connected to"
        case EgressRefused():
            told = "; if it is meant to, add --allow-private-network"
        case DeadlineExceeded():
            told = "; give it longer with --timeout"
        case MaxTurnsExceeded():
            told = "; give it more with --max-turns"
        case ConnectionFailed(may_have_executed=False):
            told = "; see that it runs or is installed, and that the target is right"
        case TransportError() | ConnectionClosed():
            told = "; -v shows what the server says"
        case RemoteError(code=code):
            told = f" (error {code}{'; the server does not offer this' if code == METHOD_NOT_FOUND else ''})"
    return told
