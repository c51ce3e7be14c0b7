"""The identity provider at which people log in."""

from tests.identity.conftest import oidc_provider, start_oidc_provider

__all__ = ["oidc_provider", "start_oidc_provider"]
