"""What tenants restrict before any policy: unknown tenants, and servers that a tenant may not use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hubbub.governance.decision import PolicyDecision
from hubbub.governance.policy_explanation import PolicyRow
from hubbub.settings.governance import TenantSettings

UNKNOWN_TENANT_RULE: Final = "tenants"
"""The rule that denies everything to callers without a configured tenant."""
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
        self._refusals = {
            name: PolicyDecision("deny", _restriction_rule(name), f"The tenant {name} may not use this server", version)
            for name, servers in self._servers.items()
            if servers is not None
        }

    def refuse_tenant(self, tenant: str) -> PolicyDecision | None:
        """Return the decision about everything that callers of an unknown tenant want; None: it is known."""
        return self._unknown if self._servers and tenant not in self._servers else None

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
