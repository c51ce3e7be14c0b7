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


def read_governance(sources: Sources) -> GovernanceSettings:
    """Read all sections.

    Raises:
        SettingsError: a value does not fit, or a key is unknown; the message says where.
    """
    tenants = read_table_list(TenantSettings, sources, (TENANTS,))
    names = [tenant.name for tenant in tenants]
    for index, name in enumerate(names):
        if name in names[:index]:
            assert sources.file is not None
            raise SettingsError(f"{sources.file.locate((TENANTS, str(index)))}: another tenant is named {name!r}")
    secrets = sources.file.table((SECRETS,)) if sources.file is not None else {}
    return GovernanceSettings(
        tenants=tenants,
        policy=read_settings(PolicySettings, sources, (POLICY,)),
        pins=read_settings(PinSettings, sources, (PINS,)),
        approvals=read_settings(ApprovalSettings, sources, (APPROVALS,)),
        quotas=read_table_list(QuotaSettings, sources, (QUOTAS,)),
        secrets={name: read_settings(SecretSettings, sources, (SECRETS, name)) for name in secrets},
        egress=read_settings(EgressSettings, sources, (EGRESS,)),
        audit=read_settings(AuditSettings, sources, (AUDIT,)),
    )
