"""How commands that talk to servers end: exit codes for scripts, and one line that says what to do next."""

from __future__ import annotations

import re
from typing import Final

from hubbub.cli.failing import FAILED, WRONG_USAGE, say
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    DefinitionError,
    EgressRefused,
    HttpError,
    HubbubError,
    InvalidParams,
    ModelError,
    Overloaded,
    PackUnavailable,
    RemoteError,
    SettingsError,
    ToolUseError,
    TransportError,
)
from hubbub.protocol.error_forms import METHOD_NOT_FOUND
from hubbub.security.redact import redact

TOOL_FAILED: Final = FAILED
UNREACHABLE: Final = 3
PROTOCOL_ERROR: Final = 4
TERMINATED: Final = 143

_PROTOCOL_CODES: Final = ("INVALID_RESPONSE", "INVALID_SSE_EVENT_DATA")
_NO_MODEL: Final = ("MODEL_UNREACHABLE", "MODEL_TIMEOUT", "MODEL_HTTP_ERROR")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNAUTHORIZED: Final = (401, 403)


def tell_failure(error: HubbubError) -> int:
    """Say on stderr why there is no answer; return the exit code."""
    say(clean(redact(f"{error.message.rstrip('.')}{_advice(error)}")))
    return exit_code(error)


def exit_code(error: HubbubError) -> int:
    """2 for wrong usage, 3 if the server cannot be reached, 4 if what it answers is an error or makes no sense."""
    match error:
        case SettingsError() | DefinitionError() | InvalidParams():
            return WRONG_USAGE
        case TransportError(code=code):
            return PROTOCOL_ERROR if code in _PROTOCOL_CODES else UNREACHABLE
        case ModelError(code=code):
            return UNREACHABLE if code in _NO_MODEL else PROTOCOL_ERROR
        case ConnectionClosed() | DeadlineExceeded() | Overloaded() | PackUnavailable():
            return UNREACHABLE
        case ToolUseError():
            return FAILED
    return PROTOCOL_ERROR


def clean(text: str) -> str:
    """Text of a server without what would command a terminal instead of being shown."""
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
        case EgressRefused():
            told = "; if it is meant to, add --allow-private-network"
        case DeadlineExceeded():
            told = "; give it longer with --timeout"
        case ToolUseError(code="MAX_TURNS"):
            told = "; give it more with --max-turns"
        case TransportError(code="TRANSPORT_ERROR", may_have_executed=False):
            told = "; see that it runs or is installed, and that the target is right"
        case TransportError() | ConnectionClosed():
            told = "; -v shows what the server says"
        case RemoteError(code=code):
            told = f" (error {code}{'; the server does not offer this' if code == METHOD_NOT_FOUND else ''})"
    return told
