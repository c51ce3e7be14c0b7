"""What a hub for many people adds: policy, pins, approvals, quotas, secrets and audit.

Each part is off unless the settings switch it on (`hubbub.settings.governance`).
"""
