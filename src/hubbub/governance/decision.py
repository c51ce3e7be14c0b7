"""One decision for everything that a caller wants to do: `engine.decide(principal, action, target)`.

Lists, calls, searches, reads, completions, subscriptions, prompts and administration all use it, so that what a caller
may not use is not shown to it anywhere.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from hubbub.protocol.calls import Principal
from hubbub.protocol.results import ToolAnnotations

Action: TypeAlias = Literal["list", "call", "search", "read", "get", "complete", "subscribe", "admin"]
TargetKind: TypeAlias = Literal["tool", "prompt", "resource", "template", "admin"]
Effect: TypeAlias = Literal["allow", "deny", "confirm"]

USE_ACTIONS: Final[dict[TargetKind, Action]] = {
    "tool": "call",
    "prompt": "get",
    "resource": "read",
    "template": "read",
    "admin": "admin",
}
"""What it means to use a target. If that is denied, so is every other action: the target is not visible."""

TARGET_KINDS: Final[dict[Action, TargetKind]] = {
    "list": "tool",
    "search": "tool",
    "call": "tool",
    "get": "prompt",
    "complete": "prompt",
    "read": "resource",
    "subscribe": "resource",
    "admin": "admin",
}
"""What an action is about, if nothing else is said."""


class Target(msgspec.Struct, frozen=True, cache_hash=True):
    """What an action is about: a tool, prompt, resource or template of one server, or a function of the hub."""

    kind: TargetKind
    server: str
    """The id of the server; `hub` for the hub's own."""
    name: str
    """The name or URI on that server."""
    annotations: ToolAnnotations | None = None


class PolicyDecision(msgspec.Struct, frozen=True):
    """What happens to a request, and why."""

    effect: Effect
    rule: str
    """Identifies the rule that decided, such as `policy.rules[3]`, or `default`."""
    reason: str = ""
    version: str = ""
    """The version of the policy that decided."""


class PolicyEngine(Protocol):
    """Decides by one version of a policy; another version is another engine."""

    @property
    def version(self) -> str:
        """Identifies the policy: a digest of its text."""

    def group(self, principal: Principal) -> Hashable:
        """Return a key that only principals have in common who get the same decision about every target."""

    def decide(self, principal: Principal, action: Action, target: Target) -> PolicyDecision:
        """Decide about one action; cached, because it is called for every item of a list."""
