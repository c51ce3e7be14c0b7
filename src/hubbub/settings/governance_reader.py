"""Reads the settings of a hub that many people share from the sources."""

from __future__ import annotations

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
    PolicySettings,
    QuotaSettings,
    SecretSettings,
    TenantSettings,
)
from hubbub.settings.read import read_settings, read_table_list
from hubbub.settings.sources import Sources
from hubbub.suggestions import format_suggestion


def read_governance(sources: Sources) -> GovernanceSettings:
    """Read all sections.

    Raises:
        SettingsError: a value does not fit, or a key is unknown; the message says where.
    """
    tenants = _read_tenants(sources)
    return GovernanceSettings(
        tenants=tenants,
        policy=read_settings(PolicySettings, sources, (POLICY,)),
        pins=read_settings(PinSettings, sources, (PINS,)),
        approvals=read_settings(ApprovalSettings, sources, (APPROVALS,)),
        quotas=read_table_list(QuotaSettings, sources, (QUOTAS,)),
        secrets=_read_secrets(sources, [tenant.name for tenant in tenants]),
        egress=read_settings(EgressSettings, sources, (EGRESS,)),
        audit=read_settings(AuditSettings, sources, (AUDIT,)),
    )


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
        for tenant in (*(secret.tenants or ()), *secret.tenant):
            if tenant not in tenants:
                raise SettingsError(f"{place}: unknown tenant {tenant!r}{format_suggestion(tenant, tenants)}")
    return secrets
