"""Errors of a run with a model; the rest of the tree is in `hubbub.errors`.

HubbubError
├── ModelError              a model's endpoint did not give a usable answer
│   ├── ModelTimeout
│   ├── ModelUnreachable
│   ├── ModelHttpError          it answered with an error status
│   ├── ModelInvalidRequest     the conversation is not JSON
│   ├── ModelInvalidResponse    its answer cannot be read
│   └── ModelResponseTooLarge
├── ToolUseError            a run ended in a way that its options do not accept
│   ├── MaxTurnsExceeded
│   ├── NoToolCalls             the options require a call, and the model made none
│   ├── ToolCallsFailed         the options require calls that succeed
│   └── PolicyFailed            the policy raised, or returned no decision
└── ContinuationRefused     a paused run cannot be resumed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.errors import HubbubError


class ModelError(HubbubError):
    """The endpoint of a model gave no usable answer. The message never contains an API key."""

    code = "MODEL_ERROR"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the response, if it was an error."""
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        """How long the endpoint asks to wait."""
        self.history: Sequence[Mapping[str, Any]] = ()
        """The conversation up to then, so that no tool needs to run twice."""


class ModelTimeout(ModelError):
    """The endpoint did not answer in time."""

    code = "MODEL_TIMEOUT"


class ModelUnreachable(ModelError):
    """The endpoint cannot be reached, or the connection broke."""

    code = "MODEL_UNREACHABLE"


class ModelHttpError(ModelError):
    """The endpoint answered with an HTTP error status."""

    code = "MODEL_HTTP_ERROR"


class ModelInvalidRequest(ModelError):
    """The conversation cannot be written as JSON."""

    code = "MODEL_INVALID_REQUEST"


class ModelInvalidResponse(ModelError):
    """The endpoint's answer cannot be read."""

    code = "MODEL_INVALID_RESPONSE"


class ModelResponseTooLarge(ModelError):
    """The endpoint's answer is larger than the limit."""

    code = "MODEL_RESPONSE_TOO_LARGE"


class ToolUseError(HubbubError):
    """A run ended in a way that its options do not accept."""

    code = "TOOL_USE_ERROR"

    def __init__(self, message: str, history: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.history: Sequence[Mapping[str, Any]] = list(history)
        """The conversation up to then."""


class MaxTurnsExceeded(ToolUseError):
    """The model gave no final answer within the turns that the options allow."""

    code = "MAX_TURNS"


class NoToolCalls(ToolUseError):
    """The options require a tool call, and the model made none."""

    code = "NO_TOOL_CALLS"


class ToolCallsFailed(ToolUseError):
    """The options require tool calls to succeed, and some failed."""

    code = "TOOL_ERROR"


class PolicyFailed(ToolUseError):
    """The policy raised, or returned something that is not a decision."""

    code = "POLICY_ERROR"


class ContinuationRefused(HubbubError):
    """A paused run cannot be resumed: it is not ours, too old, already resumed, or changed."""
