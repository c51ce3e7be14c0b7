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
from hubbub.cli.errors import FAILED, WRONG_USAGE, print_message
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
from hubbub.oauth.errors import LoginRequired, MetadataError, OAuthError
from hubbub.protocol.error_codes import METHOD_NOT_FOUND
from hubbub.security.redact import redact

TOOL_FAILED: Final = FAILED
UNREACHABLE: Final = 3
PROTOCOL_ERROR: Final = 4
TERMINATED: Final = 143

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNAUTHORIZED: Final = (401, 403)


def report_failure(error: HubbubError) -> int:
    """Write an error with advice to stderr; return the exit code."""
    print_message(replace_controls(redact(f"{error.message.rstrip('.')}{_advice(error)}")))
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


def replace_controls(text: str) -> str:
    """Replace control characters in text of a server, so that it cannot control the terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _advice(error: HubbubError) -> str:
    advice = ""
    match error:
        case ModelError(status=status) if status in _UNAUTHORIZED:
            advice = "; give the key with --key-env"
        case HttpError(status=status) | RemoteError(status=int(status)) if status in _UNAUTHORIZED:
            advice = (
                "; give --header-env Authorization=VARIABLE, with 'Bearer …' in the variable, or run `hubbub login URL`"
            )
        case LoginRequired() | MetadataError():
            advice = "; or give --header-env Authorization=VARIABLE, with 'Bearer …' in the variable"
        case OAuthError():
            advice = ""
        case HttpError(status=404 | 405):
            advice = "; check the path of the URL: many servers listen at /mcp"
        case EgressRefused(can_be_allowed=False):
            advice = "; link-local, metadata and unusable addresses are always refused"
        case EgressRefused():
            advice = "; if this is intended, add --allow-private-network"
        case DeadlineExceeded():
            advice = "; allow more time with --timeout"
        case MaxTurnsExceeded():
            advice = "; allow more with --max-turns"
        case ConnectionFailed(data={"tls": _}):
            advice = ""  # its message says what to change
        case ConnectionFailed(may_have_executed=False):
            advice = "; check that it is running or installed, and that the target is correct"
        case TransportError() | ConnectionClosed():
            advice = "; use -v to see the server's output"
        case RemoteError(code=code):
            advice = f" (error {code}{'; the server does not offer this' if code == METHOD_NOT_FOUND else ''})"
    return advice
