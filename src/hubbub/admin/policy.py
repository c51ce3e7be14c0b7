"""`hub.policy`: shows the policy in effect, and what it decides about a request. Nothing is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant, is_operator, require_operator
from hubbub.errors import ToolError
from hubbub.governance.decision import TARGET_KINDS, USE_ACTIONS, Action, Target, TargetKind
from hubbub.governance.policy_explanation import ExplainedPolicy
from hubbub.hub.config import HUB_ID
from hubbub.protocol.calls import Principal
from hubbub.protocol.results import ToolAnnotations
from hubbub.server.context import Context

LISTED_RULES: Final = 1000
"""Rules in one list; `total` counts all."""
LISTED_CHECKS: Final = 200
"""Rules in one explanation: the last ones, of which the last decides."""


class Rule(msgspec.Struct, kw_only=True):
    """One rule, in the order in which they decide."""

    rule: str
    effect: str
    condition: str
    reason: str


class Policy(msgspec.Struct, kw_only=True):
    """The policy in effect."""

    version: str
    rules: list[Rule]
    total: int


class Check(msgspec.Struct, rename="camel", kw_only=True):
    """One rule that was compared with the request."""

    rule: str
    effect: str
    action: str
    is_match: bool
    detail: str


class Decision(msgspec.Struct, kw_only=True):
    """What the policy decides, and how it came to it."""

    effect: str
    rule: str
    reason: str
    version: str
    explanation: list[Check]


def register(tools: AdminTools, policy: Callable[[], ExplainedPolicy]) -> None:
    """Register the tools of this area; `policy` returns the policy in effect."""

    @tools.read("hub.policy.show", for_operators=True)
    async def show(context: Context) -> Policy:
        """List the rules of the policy in effect, in the order in which they decide."""
        require_operator(context, "The policy is about all tenants")
        engine = policy()
        rows = engine.list_rules()
        return Policy(
            version=engine.version,
            rules=[
                Rule(rule=row.rule, effect=row.effect, condition=row.condition, reason=row.reason)
                for row in rows[:LISTED_RULES]
            ],
            total=len(rows),
        )

    @tools.read("hub.policy.test")
    async def test(
        action: Action,
        name: Annotated[str, msgspec.Meta(description="The tool, prompt, URI or function, by its name on the server.")],
        *,
        server: Annotated[str, msgspec.Meta(description="Its server; `hub` for the hub's own functions.")] = HUB_ID,
        tenant: Annotated[str | None, msgspec.Meta(description="The caller's tenant; operators only.")] = None,
        user: Annotated[str, msgspec.Meta(description="The caller's user.")] = "",
        client: Annotated[str, msgspec.Meta(description="The caller's program; used by Cedar policies.")] = "",
        scopes: Annotated[list[str], msgspec.Meta(description="The caller's scopes.")] = [],  # noqa: B006
        kind: Annotated[TargetKind | None, msgspec.Meta(description="By default the action tells.")] = None,
        annotations: Annotated[
            ToolAnnotations | None, msgspec.Meta(description="Of the tool; absent hints have the defaults of MCP.")
        ] = None,
        context: Context,
    ) -> Decision:
        """Decide whether a caller may do something, and explain which rule decides; nothing is called.

        Operators also see why the rules before it do not match.
        """
        chosen = kind or TARGET_KINDS[action]
        if action in USE_ACTIONS.values() and USE_ACTIONS[chosen] != action:
            raise ToolError(
                f"The action {action!r} does not fit the kind {chosen!r}, which is used by {USE_ACTIONS[chosen]!r}"
            )
        of_tenant = choose_tenant(context, tenant) or ""
        caller = Principal(f"{of_tenant}/{user}", frozenset(scopes), tenant=of_tenant, user=user, client=client)
        target = Target(chosen, server, name, annotations)
        engine = policy()
        decision = engine.decide(caller, action, target)
        checks = engine.explain(caller, action, target)
        if not is_operator(context.caller.principal):
            # The other rules may name tenants, users and servers that this administrator must not know.
            checks = [check for check in checks if check.is_match]
        return Decision(
            effect=decision.effect,
            rule=decision.rule,
            reason=decision.reason,
            version=decision.version,
            explanation=[
                Check(
                    rule=each.rule, effect=each.effect, action=each.action, is_match=each.is_match, detail=each.detail
                )
                for each in checks[-LISTED_CHECKS:]
            ],
        )
