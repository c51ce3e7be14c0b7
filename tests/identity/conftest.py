"""The fixtures of this folder."""

from tests.identity.providers import (
    authlib_provider,
    node,
    oidc_provider,
    provider,
    start_authlib_provider,
    start_oidc_provider,
    tls_oidc_provider,
)

__all__ = [
    "authlib_provider",
    "node",
    "oidc_provider",
    "provider",
    "start_authlib_provider",
    "start_oidc_provider",
    "tls_oidc_provider",
]
