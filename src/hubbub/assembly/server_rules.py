"""What `[secrets]`, `[egress]` and `[[tenants]]` mean for the configs of servers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.client.known_secrets import is_secret_name
from hubbub.client.urls import looks_like_token
from hubbub.errors import SettingsError
from hubbub.governance.secret_provider import SecretProvider
from hubbub.net.egress_rules import NO_RULES, EgressRules
from hubbub.security.redact import redact
from hubbub.settings.governance import EgressSettings, GovernanceSettings, SecretSettings
from hubbub.settings.secret import Secret, SecretTemplate
from hubbub.settings.servers import ServerSettings


def make_egress_rules(settings: EgressSettings, *, has_tenants: bool) -> EgressRules:
    """Make the rules of `[egress]`. With tenants, connections need TLS, as the callers are not the operator.

    Raises: SettingsError.
    """
    return EgressRules.parse(settings.allow, requires_tls=has_tenants, proxy=settings.proxy)


class ServerRules(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets that configs of servers may refer to, and the rules for connections to servers."""

    secrets: Mapping[str, SecretSettings] = {}
    egress: EgressRules = NO_RULES
    has_tenants: bool = False

    @classmethod
    def make(cls, governance: GovernanceSettings) -> ServerRules:
        """Raises: SettingsError."""
        return cls(
            secrets=governance.secrets,
            egress=make_egress_rules(governance.egress, has_tenants=governance.has_tenants),
            has_tenants=governance.has_tenants,
        )

    def apply(self, config: ServerConfig) -> ServerConfig:
        """Add the secrets that a config refers to, and the rules for connections.

        Raises: SettingsError, if the rules do not allow its URL.
        """
        values = [*config.headers.values(), *config.env.values()]
        for client in (config.auth, getattr(config.auth, "identity_provider", None)):
            values.append(getattr(client, "client_secret", None))
        names = {name for value in values if isinstance(value, SecretTemplate) for name in value.names}
        provider = SecretProvider({name: self.secrets[name] for name in sorted(names)}) if names else None
        egress = self.egress if config.is_remote and self.egress != NO_RULES else None
        return config if provider is None and egress is None else replace(config, secrets=provider, egress=egress)

    def check_config(self, config: ServerConfig) -> None:
        """As `check_literals`, for a server of a file in which variables were already replaced.

        Raises: SettingsError.
        """
        if not self.has_tenants:
            return
        for table, values in (("headers", config.headers), ("env", config.env)):
            for key, value in values.items():
                if isinstance(value, Secret) and not isinstance(value, SecretTemplate) and _is_secret(key, value):
                    raise _literal_error(f"{config.id}: {table}.{key}")

    def check_literals(self, name: str, settings: ServerSettings) -> None:
        """With tenants, refuse values in a section that look like secrets, which every reader of the file could use.

        Raises: SettingsError.
        """
        if not self.has_tenants:
            return
        for key, secret in ({} if settings.oauth is None else settings.oauth.client_secrets).items():
            if "${" not in secret.reveal():
                raise _literal_error(f"servers.{name}.oauth.{key}")
        for table, values in (("headers", settings.headers), ("env", settings.env)):
            for key, value in values.items():
                if "${" not in value.reveal() and _is_secret(key, value):
                    raise _literal_error(f"servers.{name}.{table}.{key}")
        queries = parse_qsl(urlsplit(settings.url or "").query)
        if any("${" not in value and (is_secret_name(key) or looks_like_token(value)) for key, value in queries):
            raise SettingsError(
                f"servers.{name}.url contains a secret; with tenants, send it in `headers` as ${{secret:NAME}}"
            )


def _is_secret(name: str, value: Secret) -> bool:
    text = value.reveal()
    line = f"{name}={text}"
    return bool(text) and (is_secret_name(name) or redact(text) != text or redact(line) != line)


def _literal_error(place: str) -> SettingsError:
    return SettingsError(
        f"{place} contains a secret; with tenants, secrets are configured by reference: "
        "add [secrets.NAME] with env, file, keyring or command, and write ${secret:NAME}"
    )
