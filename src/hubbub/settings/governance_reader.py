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
    tenants = read_table_list(TenantSettings, sources, (TENANTS,))
    names = [tenant.name for tenant in tenants]
    for index, name in enumerate(names):
        if name in names[:index]:
            assert sources.file is not None
            raise SettingsError(f"{sources.file.locate((TENANTS, str(index)))}: another tenant is named {name!r}")
    return GovernanceSettings(
        tenants=tenants,
        policy=read_settings(PolicySettings, sources, (POLICY,)),
        pins=read_settings(PinSettings, sources, (PINS,)),
        approvals=read_settings(ApprovalSettings, sources, (APPROVALS,)),
        quotas=read_table_list(QuotaSettings, sources, (QUOTAS,)),
        secrets=_read_secrets(sources, names),
        egress=read_settings(EgressSettings, sources, (EGRESS,)),
        audit=read_settings(AuditSettings, sources, (AUDIT,)),
    )


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
