"""Which exception of a tool call becomes which error of its envelope: one table.

A model that reads the error must be able to tell a call that never happened from one
whose outcome is unknown. Foreign texts are masked and bounded on the way.
"""

from __future__ import annotations

from typing import Final

from hubbub.agent.envelope import Problem, problem
from hubbub.errors import (
    ArgumentsInvalid,
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    InputRefused,
    InvalidParams,
    MessageError,
    Overloaded,
    RemoteError,
    SessionLost,
    ToolFailure,
    TransportError,
)
from hubbub.security.redact import redact

ARGUMENT_ERROR: Final = "ARGUMENT_ERROR"
INTERNAL_ERROR: Final = "INTERNAL_ERROR"
MCP_INPUT_REFUSED: Final = "MCP_INPUT_REFUSED"
MCP_INVALID_RESPONSE: Final = "MCP_INVALID_RESPONSE"
MCP_OVERLOADED: Final = "MCP_OVERLOADED"
MCP_RPC_ERROR: Final = "MCP_RPC_ERROR"
MCP_SERVER_NOT_FOUND: Final = "MCP_SERVER_NOT_FOUND"
MCP_SESSION_NOT_FOUND: Final = "MCP_SESSION_NOT_FOUND"
MCP_TIMEOUT: Final = "MCP_TIMEOUT"
MCP_TOOL_ERROR: Final = "MCP_TOOL_ERROR"
MCP_TOOL_NOT_FOUND: Final = "MCP_TOOL_NOT_FOUND"
MCP_TRANSPORT_ERROR: Final = "MCP_TRANSPORT_ERROR"
TOOL_ERROR: Final = "TOOL_ERROR"
TOOL_NOT_IMPLEMENTED: Final = "TOOL_NOT_IMPLEMENTED"

# Parse error, invalid request, method not found, invalid params; the modern era's refusals of headers and versions.
_REFUSED_UNREAD: Final = (-32700, -32600, -32601, -32602, -32020, -32021, -32022)

_KINDS: Final[tuple[tuple[type[HubbubError], str, bool, bool], ...]] = (
    # what it is, its code, whether to try again, whether the tool may have run
    (DeadlineExceeded, MCP_TIMEOUT, True, True),
    (ConnectionClosed, MCP_TRANSPORT_ERROR, True, True),
    (InputRefused, MCP_INPUT_REFUSED, False, True),
    (MessageError, MCP_INVALID_RESPONSE, False, True),
    (Overloaded, MCP_OVERLOADED, True, False),
)


def of_server(error: Exception) -> Problem:
    """The error of a call that a server did not answer with a result."""
    message = redact(str(error))
    match error:
        case RemoteError():
            did = error.code not in _REFUSED_UNREAD
            return problem(MCP_RPC_ERROR, message, may_have_executed=did, rpc_code=error.code)
        case SessionLost():
            return problem(MCP_SESSION_NOT_FOUND, message, retryable=True, may_have_executed=error.may_have_executed)
        case TransportError():
            told = f"{error.code}: {message}"
            return problem(MCP_TRANSPORT_ERROR, told, retryable=True, may_have_executed=error.may_have_executed)
    for kind, code, is_retryable, may_have_executed in _KINDS:
        if isinstance(error, kind):
            return problem(code, message, retryable=is_retryable, may_have_executed=may_have_executed)
    return of_application(error)


def of_application(error: Exception) -> Problem:
    """The error of a call that the application's own code failed to run."""
    message = redact(str(error))
    match error:
        case ArgumentsInvalid() | InvalidParams():
            return problem(ARGUMENT_ERROR, message)
        case ToolFailure():
            return problem(TOOL_ERROR, message, may_have_executed=True)
        case HubbubError():
            return problem(INTERNAL_ERROR, message, may_have_executed=True)
        case ValueError():
            return problem(ARGUMENT_ERROR, message, may_have_executed=True)
        case _:
            return problem(INTERNAL_ERROR, f"{type(error).__name__}: {message}", may_have_executed=True)
