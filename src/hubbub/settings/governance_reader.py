"""Reads the settings of a hub that many people share from the sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hubbub.errors import SettingsError
from hubbub.settings.governance import (
    APPROVALS,
    AUDIT,
    EGRESS,
    PINS,
    POLICY,
    QUOTAS,
    SECRET_NAME,
    SECRETS,
    TENANTS,
    ApprovalSettings,
    AuditSettings,
    EgressSettings,
    GovernanceSettings,
    PinSettings,
    PolicyRule,
    PolicySettings,
    QuotaSettings,
    SecretSettings,
    TenantSettings,
)
from hubbub.settings.read import read_settings, read_table_list
from hubbub.settings.sources import Key, Sources
from hubbub.suggestions import format_suggestion

_WILDCARDS: Final = frozenset("*?[")


def read_governance(sources: Sources) -> GovernanceSettings:
    """Read all sections.

    Raises:
        SettingsError: a value does not fit, or a key is unknown; the message says where.
    """
    tenants = _read_tenants(sources)
    names = [tenant.name for tenant in tenants]
    policy = read_settings(PolicySettings, sources, (POLICY,))
    quotas = read_table_list(QuotaSettings, sources, (QUOTAS,))
    _check_tenant_patterns(sources, (POLICY, "rules"), policy.rules, names)
    _check_tenant_patterns(sources, (QUOTAS,), quotas, names)
    return GovernanceSettings(
        tenants=tenants,
        policy=policy,
        pins=read_settings(PinSettings, sources, (PINS,)),
        approvals=read_settings(ApprovalSettings, sources, (APPROVALS,)),
        quotas=quotas,
        secrets=_read_secrets(sources, names),
        egress=read_settings(EgressSettings, sources, (EGRESS,)),
        audit=read_settings(AuditSettings, sources, (AUDIT,)),
    )


def _check_tenant_patterns(
    sources: Sources, section: Key, tables: Sequence[PolicyRule | QuotaSettings], names: Sequence[str]
) -> None:
    """Refuse names of tenants that do not exist: a rule that denies would never match, and so allow the call."""
    for index, table in enumerate(tables):
        for number, pattern in enumerate(table.tenants):
            if pattern and pattern not in names and not has_wildcard(pattern):  # the empty name is that of operators
                assert sources.file is not None
                place = sources.file.locate((*section, str(index), "tenants", str(number)))
                raise _unknown_tenant_error(place, pattern, names)


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern may match more than one name."""
    return not _WILDCARDS.isdisjoint(pattern)


def _unknown_tenant_error(place: str, tenant: str, names: Sequence[str]) -> SettingsError:
    return SettingsError(f"{place}: unknown tenant {tenant!r}{format_suggestion(tenant, names)}")


def _read_tenants(sources: Sources) -> tuple[TenantSettings, ...]:
    tenants = read_table_list(TenantSettings, sources, (TENANTS,))
    names: set[str] = set()
    names_by_claim: dict[str, str] = {}
    for index, tenant in enumerate(tenants):
        assert sources.file is not None
        place = sources.file.locate((TENANTS, str(index)))
        if tenant.name in names:
            raise SettingsError(f"{place}: another tenant is named {tenant.name!r}; give each its own name")
        names.add(tenant.name)
        for value in tenant.accepted_claims:
            other = names_by_claim.setdefault(value, tenant.name)
            if other != tenant.name:
                raise SettingsError(f"{place}.claims: {value!r} already means the tenant {other!r}; remove one of them")
    return tenants


def _read_secrets(sources: Sources, tenants: list[str]) -> dict[str, SecretSettings]:
    if sources.file is None:
        return {}
    secrets: dict[str, SecretSettings] = {}
    for name in sources.file.table((SECRETS,)):
        place = sources.file.locate((SECRETS, name))
        if not SECRET_NAME.fullmatch(name):
            raise SettingsError(f"{place}: {name!r} is not a valid name; use 1 to 64 letters, digits, `_` and `-`")
        secret = secrets[name] = read_settings(SecretSettings, sources, (SECRETS, name))
        references: dict[str, Key] = dict.fromkeys(secret.tenants or (), ("tenants",))
        references |= {tenant: ("tenant", tenant) for tenant in secret.tenant}
        for tenant, path in references.items():
            if tenant not in tenants:
                place = sources.file.locate((SECRETS, name, *path))
                raise _unknown_tenant_error(place, tenant, tenants)
    return secrets
