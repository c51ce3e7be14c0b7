"""A hub with a front door, and two tenants whose users see different tools."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.identity.protected_site import NOTES, ProtectedSite, issuer_table, serve
from tests.identity.provider_process import ProviderProcess
from tests.ports import free_port

SECRET = "PROVIDER_SECRET"
HUB = f"""
[servers.notes]
target = "{NOTES}"

[[tenants]]
name = "acme"

[[tenants]]
name = "globex"

[[policy.rules]]
effect = "deny"
tenants = ["globex"]
tools = ["notes/write_note"]
"""


def oauth_section(port: int, folder: Path) -> str:
    return f"""
[audit]
folder = "{folder / "audit"}"

[oauth]
public_url = "http://127.0.0.1:{port}"
front_door = true
scopes = ["notes:read", "notes:write"]
database = "sqlite:///{folder / "oauth.db"}"
"""


def provider_section(provider: ProviderProcess, client: Mapping[str, Any]) -> str:
    return f"""
[oauth.provider]
issuer = "{provider.issuer}"
client_id = "{client["client_id"]}"
client_secret = {{ env = "{SECRET}" }}
scopes = ["openid", "profile"]
tenant_claim = "tenant"
user_claim = "sub"
scope_claims = ["groups"]

[oauth.provider.scope_map]
admins = ["notes:write"]
sales = ["notes:write"]
"""


@contextmanager
def open_hub(
    folder: Path, provider: ProviderProcess, *, issuer: ProviderProcess | None = None
) -> Iterator[ProtectedSite]:
    """A hub whose users log in at a provider, where it was registered by hand; tokens of `issuer` are accepted too."""
    port = free_port()
    client = provider.register(
        f"http://127.0.0.1:{port}/oauth/callback",
        client_name="The hub",
        application_type="web",
        grant_types=["authorization_code"],
    )
    environment = {SECRET: client["client_secret"]}
    if provider.ca is not None:
        environment["SSL_CERT_FILE"] = os.fspath(provider.ca)
    sections = HUB + oauth_section(port, folder) + provider_section(provider, client)
    if issuer is not None:
        sections += issuer_table(issuer)
    with serve(folder, sections, port=port, environment=environment) as site:
        yield site


@contextmanager
def open_hub_with_keys(folder: Path, key_file: Path) -> Iterator[ProtectedSite]:
    """A hub whose users log in with API keys."""
    port = free_port()
    sections = f"key_file = {json.dumps(os.fspath(key_file))}\n{HUB}{oauth_section(port, folder)}"
    with serve(folder, sections, port=port) as site:
        yield site
