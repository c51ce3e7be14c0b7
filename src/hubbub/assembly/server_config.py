"""Converts a server section of `hubbub.toml` to the config of a client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.client.mcp_json import parse_mcp_json
from hubbub.errors import SettingsError
from hubbub.hub.config import without_nested_hub
from hubbub.settings.servers import ServerSettings

if TYPE_CHECKING:
    from hubbub.assembly.server_rules import ServerRules


def make_server_config(
    name: str,
    settings: ServerSettings,
    variables: Mapping[str, str] | None = None,
    rules: ServerRules | None = None,
) -> ServerConfig:
    """Convert a section with a URL or a command; its variables are expanded as in `mcpServers` files.

    Their values come from the environment, then from the stored variables; or from `variables` only. `rules` add the
    secrets that the section refers to, and the rules for outgoing connections.

    Raises: SettingsError.
    """
    if rules is not None:
        rules.check_literals(name, settings)
    entry: dict[str, Any] = {
        "type": settings.transport,
        "url": settings.url,
        "headers": {key: value.reveal() for key, value in settings.headers.items()},
        "command": settings.command,
        "args": settings.args,
        "env": {key: value.reveal() for key, value in settings.env.items()},
        "cwd": settings.cwd,
    }
    entry_fields = {key: value for key, value in entry.items() if value}
    text = msgspec.json.encode({"mcpServers": {name: entry_fields}})
    has_client_secret = settings.oauth is not None and bool(settings.oauth.client_secrets)
    if variables is None and (b"${" in text or has_client_secret):
        from hubbub.settings.variables import read_variables  # Most sections refer to none.

        variables = {**read_variables(), **os.environ}
    secret_names = () if rules is None else rules.secrets
    (config,) = parse_mcp_json(text, variables, secret_names)
    if settings.oauth is not None:
        from hubbub.assembly.server_oauth import make_oauth

        config = replace(config, auth=make_oauth(name, settings.oauth, variables or {}, secret_names))
    try:
        config = replace(
            without_nested_hub(config),
            timeout_s=settings.timeout_s,
            protocol_version=settings.protocol_version,
            allow_private_network=settings.allow_private_network,
            max_response_bytes=settings.max_response_bytes,
        )
        return config if rules is None else rules.apply(config)
    except SettingsError as error:
        raise SettingsError(f"server {name!r}: {error.message}") from None
