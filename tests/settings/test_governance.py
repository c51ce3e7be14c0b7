"""The sections about tenants, policy, pins, approvals, quotas, secrets, egress and audit."""

import msgspec
import pytest

from hubbub.settings.fields import list_settings
from hubbub.settings.governance import (
    LIST_SECTIONS,
    NAMED_SECTIONS,
    SECTIONS,
    AuditSettings,
    PolicyRule,
    SecretSource,
)

STRUCTS = [*SECTIONS.values(), *NAMED_SECTIONS.values(), *LIST_SECTIONS.values(), PolicyRule, SecretSource]


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_setting_can_be_decoded_and_has_a_description(struct: type[msgspec.Struct]) -> None:
    for setting in list_settings(struct):
        msgspec.json.Decoder(setting.annotation)  # raises for a bound on a type that has none
        assert setting.description.endswith("."), setting.name
        assert setting.flag is None


def test_the_retention_is_a_number_of_days_from_one() -> None:
    annotation = next(each for each in list_settings(AuditSettings) if each.key == "retention_days").annotation
    assert msgspec.convert(365, annotation) == 365
    with pytest.raises(msgspec.ValidationError, match=">= 1"):
        msgspec.convert(0, annotation)
