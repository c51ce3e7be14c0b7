"""Why a server is down, without details that callers must not see.

What a program wrote to stderr, and what an HTTP server answered, may hold hosts, arguments, variables and
stack traces: these go to the operator's log. Callers see only the kind of failure.
"""

from __future__ import annotations

import signal

from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    EgressRefused,
    HttpError,
    HubbubError,
    InvalidResponse,
    ProtocolVersionNotSupported,
    RemoteError,
    ResponseTooLarge,
    SecretDenied,
    SecretUnavailable,
    SessionLost,
    TransportClosed,
    TransportError,
)
from hubbub.oauth.errors import LoginRequired, UserLoginRequired


def public_reason(error: HubbubError, transport: str) -> str:
    """Describe a failure without quoting the server or the system."""
    default_reason = "the program cannot be started" if transport == "stdio" else "it cannot be reached"
    match error:
        case DeadlineExceeded() | ProtocolVersionNotSupported():
            return error.message
        case ResponseTooLarge() | InvalidResponse() | SessionLost():
            return error.message  # describes the form of an answer without quoting it
        case SecretUnavailable() | EgressRefused() | LoginRequired():
            return _describe_rule(error)
        case HttpError():
            return f"it answered with HTTP status {error.status}"
        case TransportClosed():
            return _describe_exit(error) or "the connection was closed"
        case ConnectionClosed():
            return "the connection was closed"
        case RemoteError():
            return "it refused the connection"
    return default_reason


def _describe_rule(error: SecretUnavailable | EgressRefused | LoginRequired) -> str:
    if isinstance(error, UserLoginRequired):
        return "no user is logged in there; call hub.connect with its name, or run `hubbub login` with --upstream"
    if isinstance(error, LoginRequired):
        command = f": run `{error.login_command}`" if error.login_command else ""
        return f"it needs a login of the operator{command}"
    if isinstance(error, EgressRefused):
        return "the egress rules of the hub do not allow it; ask the operator"
    if isinstance(error, SecretDenied):
        return "a secret that it needs may not be used for this tenant; ask the operator"
    return "a secret that it needs cannot be read; ask the operator"


def _describe_exit(error: TransportError) -> str | None:
    if "exitstatus" in error.data:
        return f"the program has ended with status {error.data['exitstatus']}"
    if "termsig" in error.data:
        number = error.data["termsig"]
        name = signal.Signals(number).name if number in iter(signal.Signals) else f"signal {number}"
        return f"the program was ended by {name}"
    return None
