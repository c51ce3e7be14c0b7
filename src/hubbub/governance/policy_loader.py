"""Make the policy engine that the settings choose."""

from __future__ import annotations

from pathlib import Path

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.governance.policy_explanation import ExplainedPolicy
from hubbub.settings.governance import GovernanceSettings


def load_policy(governance: GovernanceSettings) -> ExplainedPolicy:
    """Make the engine, and read the file of Cedar policies if it is needed.

    Raises:
        SettingsError: the file cannot be read or a policy is invalid; the message names file and line.
    """
    settings = governance.policy
    if settings.engine == "rules":
        from hubbub.governance.rule_policy import RulePolicy

        return RulePolicy(settings, governance.tenants)
    from hubbub.governance.cedar_policy import CedarPolicy

    assert settings.file is not None  # checked by the settings themselves
    return CedarPolicy(_read_file(settings.file), governance.tenants, path=settings.file)


def _read_file(path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(bounds.SETTINGS_FILE_BYTES + 1)
        if len(data) > bounds.SETTINGS_FILE_BYTES:
            raise SettingsError(
                f"policy.file: {path} is larger than {bounds.SETTINGS_FILE_BYTES} bytes; write fewer policies"
            )
        return data.decode()
    except OSError as error:
        raise SettingsError(f"policy.file: the file {path!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path} line {line}: is not UTF-8; save the file as UTF-8") from error
