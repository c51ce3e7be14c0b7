"""The settings of a tool loop, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError

ToolUseMode = Literal["enforced", "relaxed", "disabled"]
FailurePolicy = Literal["fatal", "tolerated"]
PolicyErrorMode = Literal["deny", "raise"]


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a tool loop.

    Raises:
        SettingsError: a value is not allowed.
    """

    tool_use_mode: ToolUseMode = "relaxed"
    """`enforced`: a run without any call is an error. `disabled`: the model is shown no tools."""
    tool_failure_policy: FailurePolicy = "tolerated"
    """`fatal`: a tool whose last call failed is an error. `tolerated`, if enforced: one success is enough."""
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    """Sent to the endpoint; with False, only the first call of an answer counts."""
    runs_in_parallel: bool = False
    """Whether the calls of one answer run at the same time. Their results stay in order either way."""
    max_calls_per_turn: int = bounds.CALLS_PER_TURN
    max_model_retries: int = bounds.MODEL_RETRIES
    """How often the same request is sent again when the endpoint says to try later (429, 503 and the like)."""
    fallback_retry_count: int = 0
    """How often a relaxed run asks again without tools when the endpoint answers with an HTTP error."""
    fix_empty_final: bool = True
    """Whether a model that gives no text after its calls is asked once for an answer."""
    empty_final_text: str = "Please give the final answer now, based on the results above."
    empty_final_keeps_tools: bool = False
    policy_error_mode: PolicyErrorMode = "deny"
    """Whether a policy that fails denies the call or raises an error. It never allows the call."""
    max_argument_bytes: int = bounds.ARGUMENT_BYTES
    max_output_bytes: int = bounds.TOOL_OUTPUT_BYTES

    def __post_init__(self) -> None:
        allowed: dict[str, tuple[str, ...]] = {
            "tool_use_mode": ("enforced", "relaxed", "disabled"),
            "tool_failure_policy": ("fatal", "tolerated"),
            "policy_error_mode": ("deny", "raise"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise SettingsError(f"`{name}` must be one of {', '.join(values)}, not {getattr(self, name)!r}")
        for name in ("max_calls_per_turn", "max_argument_bytes", "max_output_bytes"):
            if getattr(self, name) < 1:
                raise SettingsError(f"`{name}` must be above 0, not {getattr(self, name)!r}")

    @property
    def calls_per_turn(self) -> int:
        """Number of calls of one answer that count."""
        return 1 if self.parallel_tool_calls is False else self.max_calls_per_turn
