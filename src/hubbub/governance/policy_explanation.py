"""How a policy came to a decision, rule by rule."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.governance.decision import Action, Effect, PolicyEngine, Target
from hubbub.protocol.calls import Principal


class RuleCheck(msgspec.Struct, frozen=True):
    """One rule that was compared with a request."""

    action: Action
    """The action that it was compared with: that of the request, or before it the one that uses the target."""
    rule: str
    effect: Effect
    """What the rule does to requests that it matches."""
    is_match: bool
    detail: str = ""
    """Why it does not match, or what its match means."""


class PolicyRow(msgspec.Struct, frozen=True):
    """One rule of a policy, to be shown."""

    rule: str
    effect: Effect
    condition: str
    """What it applies to, in one line; empty: everything."""
    reason: str = ""
    line: int | None = None
    """Its line in the policy's own file; None for rules in the settings."""


class ExplainedPolicy(PolicyEngine, Protocol):
    """A policy that people can inspect."""

    def explain(self, principal: Principal, action: Action, target: Target) -> list[RuleCheck]:
        """Compare a request with each rule, in the order in which the policy does."""

    def list_rules(self) -> list[PolicyRow]:
        """All rules, in the order in which they are compared; the last is the default."""
