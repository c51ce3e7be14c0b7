"""Gives a server its tenants and its egress rules, if the settings have any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hubbub.errors import InvalidRequest, SettingsError
from hubbub.settings.sources import GOVERNANCE, Sources

if TYPE_CHECKING:
    from hubbub.governance.tenants import Tenants
    from hubbub.protocol.calls import Call, Reply
    from hubbub.server.middleware import CallNext
    from hubbub.server.server import Server
    from hubbub.settings.governance import GovernanceSettings, TenantSettings
    from hubbub.settings.serve import ServeSettings


def load_governance(sources: Sources) -> GovernanceSettings | None:
    """Read the sections about tenants, policy and audit; None if the file has none of them.

    Raises: SettingsError.
    """
    # Called at every start, so nothing is imported for a file without these sections.
    if sources.file is None or not any(name in sources.file.tree for name in GOVERNANCE):
        return None
    from hubbub.security.rates import parse_rate
    from hubbub.settings.governance import QUOTAS
    from hubbub.settings.governance_reader import read_governance

    governance = read_governance(sources)
    for index, quota in enumerate(governance.quotas):
        if parse_rate(quota.limit) is None:
            place = sources.file.locate((QUOTAS, str(index)))
            raise SettingsError(f"{place}.limit: {quota.limit!r} is not a rate; write it as 100/minute")
    return governance


def apply_tenants(
    server: Server,
    settings: ServeSettings,
    governance: GovernanceSettings | None,
    *,
    is_hub: bool,
    is_governed: bool = False,
) -> Tenants | None:
    """Let only users of the tenants call the server over HTTP; return the tenants, if there are any.

    `is_governed`: a policy refuses operators, who belong to no tenant.
    A single server on stdio has one client, the program that started it, and so no tenants.

    Raises: SettingsError, if a hub with tenants would be served on stdio.
    """
    if governance is None or not governance.tenants:
        return None
    if settings.transport == "stdio":
        if not is_hub:
            return None
        raise SettingsError(
            "a hub with [[tenants]] cannot be served on stdio, where callers do not authenticate; serve it with "
            "--transport http and --key-file or --jwt-keys, or one program without the hub with --alone"
        )
    from hubbub.governance.tenants import Tenants

    server.tenants = tenants = Tenants(governance.tenants)
    if not is_governed:
        server.middleware(_refuse_operators)
    return tenants


async def _refuse_operators(call: Call, call_next: CallNext) -> Reply:
    if not call.caller.principal.tenant:
        raise InvalidRequest("This key belongs to no tenant, so it can use nothing here; use a key of a tenant")
    return await call_next(call)


def update_tenants(tenants: Tenants | None, settings: Sequence[TenantSettings]) -> None:
    """Apply changed settings to a running server; callers of removed tenants are refused, and their sessions end."""
    if tenants is not None:
        tenants.update(settings)


def apply_egress(server: Server, governance: GovernanceSettings | None) -> None:
    """Apply the egress rules to the connections that the server itself makes to authenticate callers.

    Raises: SettingsError.
    """
    if governance is None:
        return
    from hubbub.assembly.server_rules import make_egress_rules
    from hubbub.net.egress_rules import NO_RULES

    rules = make_egress_rules(governance.egress, has_tenants=governance.has_tenants)
    server.egress = None if rules == NO_RULES else rules
