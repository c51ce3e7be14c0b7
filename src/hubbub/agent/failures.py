"""Maps the exceptions of tool calls to the errors of their envelopes.

A model must be able to distinguish a call that never ran from one whose outcome is unknown. Messages are redacted and
bounded.
"""

from __future__ import annotations

from typing import Final

from hubbub.agent.envelope import ToolProblem, make_problem
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
from hubbub.protocol.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
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

_REJECTED_BEFORE_EXECUTION: Final = (
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)

_PROBLEMS: Final[tuple[tuple[type[HubbubError], str, bool, bool], ...]] = (
    # exception, code, retryable, may_have_executed
    (DeadlineExceeded, MCP_TIMEOUT, False, True),
    (ConnectionClosed, MCP_TRANSPORT_ERROR, False, True),
    (InputRefused, MCP_INPUT_REFUSED, False, True),
    (MessageError, MCP_INVALID_RESPONSE, False, True),
    (Overloaded, MCP_OVERLOADED, True, False),
)


def server_problem(error: Exception) -> ToolProblem:
    """The error of a call that a server did not answer with a result."""
    message = redact(str(error))
    match error:
        case RemoteError():
            may_have_run = error.code not in _REJECTED_BEFORE_EXECUTION
            return make_problem(MCP_RPC_ERROR, message, may_have_executed=may_have_run, rpc_code=error.code)
        case SessionLost():
            return make_problem(
                MCP_SESSION_NOT_FOUND, message, retryable=True, may_have_executed=error.may_have_executed
            )
        case TransportError():
            detail = f"{error.code}: {message}"
            return make_problem(MCP_TRANSPORT_ERROR, detail, retryable=True, may_have_executed=error.may_have_executed)
    for kind, code, is_retryable, may_have_executed in _PROBLEMS:
        if isinstance(error, kind):
            return make_problem(code, message, retryable=is_retryable, may_have_executed=may_have_executed)
    return application_problem(error)


def application_problem(error: Exception) -> ToolProblem:
    """The error of a call that the application's own code failed to run."""
    message = redact(str(error))
    match error:
        case ArgumentsInvalid() | InvalidParams():
            return make_problem(ARGUMENT_ERROR, message)
        case ToolFailure():
            return make_problem(TOOL_ERROR, message, may_have_executed=True)
        case HubbubError():
            return make_problem(INTERNAL_ERROR, message, may_have_executed=True)
        case ValueError():
            return make_problem(ARGUMENT_ERROR, message, may_have_executed=True)
        case _:
            return make_problem(INTERNAL_ERROR, f"{type(error).__name__}: {message}", may_have_executed=True)
