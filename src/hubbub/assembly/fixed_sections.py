"""Sections of the settings that a running hub cannot change: a changed file is refused until the hub restarts."""

from __future__ import annotations

from hubbub.errors import SettingsError
from hubbub.settings.governance import AuditSettings, GovernanceSettings, PolicySettings


def needs_governor(settings: GovernanceSettings) -> bool:
    """Whether the settings restrict or record calls."""
    return bool(
        settings.tenants or settings.quotas or settings.policy != PolicySettings() or settings.audit != AuditSettings()
    )


def refuse_fixed_changes(before: GovernanceSettings, after: GovernanceSettings) -> None:
    """Refuse changes that need another process, so that nobody believes that they are in force.

    Raises: SettingsError.
    """
    if bool(before.tenants) != bool(after.tenants):  # callers would get other identities
        raise SettingsError(
            "[[tenants]]: the first tenant was added; restart the hub to require tenants of its callers"
            if after.tenants
            else "[[tenants]]: the last tenant was removed; restart the hub to serve callers without tenants"
        )
    if before.audit != after.audit:
        raise SettingsError("[audit] changed; restart the hub to use another journal")
    if before.pins != after.pins:
        raise SettingsError("[pins] changed; restart the hub to apply its pins in another way")
    if needs_governor(before) != needs_governor(after):
        raise SettingsError(
            "[policy] or [[quotas]] was added; restart the hub to apply it"
            if needs_governor(after)
            else "[policy] and [[quotas]] were removed; restart the hub to serve without them"
        )
