"""Combines policy, quotas, approvals and audit on the path of a call through a hub."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from hubbub.errors import NotFound, PromptNotFound, ResourceNotFound, ToolNotFound
from hubbub.governance.decision import Action, PolicyDecision, PolicyEngine, Target
from hubbub.protocol.calls import Call, Principal, Reply

Request = Callable[[Call], Coroutine[Any, Any, Reply]]


class Governor:
    """Decides, limits, confirms and records what callers do in one hub."""

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine

    @property
    def policy_version(self) -> str:
        """The version of the policy in effect."""
        return self._engine.version

    def group(self, principal: Principal) -> Hashable:
        """Return a key that principals share who may see the same."""
        return self._engine.group(principal)

    def shows(self, principal: Principal, target: Target) -> bool:
        """Whether a principal may know of a target."""
        return self._engine.decide(principal, "list", target).effect != "deny"

    def asks_client(self, call: Call, action: Action, target: Target) -> bool:
        """Whether `run` will ask the caller's own client to confirm this call."""
        return False

    async def run(self, call: Call, action: Action, target: Target, request: Request) -> Reply:
        """Send a call to its target, if the policy allows it."""
        await self.admit(call, action, target)
        return await request(call)

    async def admit(self, call: Call, action: Action, target: Target) -> PolicyDecision:
        """Check a call against the policy, quotas and approvals, and record the decision.

        Raises:
            NotFound: the policy denies it; hidden things do not exist for a caller.
        """
        decision = self._engine.decide(call.caller.principal, action, target)
        if decision.effect == "deny":
            raise await self.record_denial(call, action, target)
        return decision

    async def record_denial(self, call: Call, action: Action, target: Target) -> NotFound:
        """Record that a caller was denied a target; return the error that it gets."""
        return _not_found(target)


def _not_found(target: Target) -> NotFound:
    if target.kind == "prompt":
        return PromptNotFound(target.name)
    return ResourceNotFound(target.name) if target.kind in ("resource", "template") else ToolNotFound(target.name, [])
