"""What tenants restrict before any policy: unknown tenants, and servers that a tenant may not use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from hubbub.governance.decision import PolicyDecision, Target
from hubbub.governance.policy_explanation import PolicyRow
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.settings.governance import TenantSettings

UNKNOWN_TENANT_RULE: Final = "tenants"
"""The rule that denies everything to callers without a configured tenant."""
OPERATOR_RULE: Final = "operators"
"""What allows administration to operators if no rule denies it, and denies their functions to all others."""
_HUB: Final = "hub"
"""The hub itself, which is not one of the servers that a tenant is restricted to."""


class TenantAccess:
    """The servers that each tenant may use. Without tenants, everybody may use all of them."""

    def __init__(self, tenants: Iterable[TenantSettings], version: str) -> None:
        self._servers = {
            tenant.name: None if tenant.servers is None else frozenset(tenant.servers) for tenant in tenants
        }
        self._unknown = PolicyDecision(
            "deny", UNKNOWN_TENANT_RULE, "The caller does not belong to a tenant of this hub", version
        )
        self.operator = PolicyDecision("allow", OPERATOR_RULE, "The caller is an operator of this hub", version)
        """The decision about administration by an operator, if no rule decides otherwise."""
        self._refusals = {
            name: PolicyDecision("deny", _restriction_rule(name), f"The tenant {name} may not use this server", version)
            for name, servers in self._servers.items()
            if servers is not None
        }

    def refuse_tenant(self, tenant: str) -> PolicyDecision | None:
        """Return the decision about everything that callers of an unknown tenant want; None: it is known."""
        return self._unknown if self._servers and tenant not in self._servers else None

    def is_operator(self, tenant: str, scopes: Collection[str]) -> bool:
        """Whether a caller administers the hub of these tenants without belonging to one of them."""
        return bool(self._servers) and not tenant and ADMIN_SCOPE in scopes

    def refuse(self, tenant: str, scopes: Collection[str], target: Target) -> PolicyDecision | None:
        """Return the decision about a target that no rule can allow to this caller; None: the rules decide.

        Operators administer the hub, and may do nothing else.
        """
        if target.kind == "admin" and self.is_operator(tenant, scopes):
            return None
        return self.refuse_tenant(tenant) or self.refuse_server(tenant, target.server)

    def is_restricted(self, tenant: str) -> bool:
        """Whether this tenant may use only some servers."""
        return tenant in self._refusals

    def refuse_server(self, tenant: str, server: str) -> PolicyDecision | None:
        """Return the decision about everything on a server that this tenant may not use; None: it may use it."""
        servers = self._servers.get(tenant)
        return None if servers is None or server in servers or server == _HUB else self._refusals[tenant]


def list_restrictions(tenants: Sequence[TenantSettings]) -> list[PolicyRow]:
    """What the tenants' settings deny, to be shown before the rules of a policy."""
    rows = [PolicyRow(UNKNOWN_TENANT_RULE, "deny", "callers without one of the tenants")] if tenants else []
    for tenant in tenants:
        if tenant.servers is not None:
            names = ", ".join(tenant.servers) or "none"
            rows.append(PolicyRow(_restriction_rule(tenant.name), "deny", f"servers other than: {names}"))
    return rows


def describe_tenants(tenants: Iterable[TenantSettings]) -> dict[str, Any]:
    """What decides of the tenants' settings, for the digest of a policy."""
    return {tenant.name: None if tenant.servers is None else sorted(set(tenant.servers)) for tenant in tenants}


def _restriction_rule(tenant: str) -> str:
    return f"tenants.{tenant}.servers"
