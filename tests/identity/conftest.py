"""The fixtures of this folder."""

from collections.abc import Iterator

import pytest
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
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


@pytest.fixture(scope="module")
def site(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """The notes, for people of `oidc-provider`."""
    with protect_notes(tmp_path_factory.mktemp("notes"), oidc_provider) as found:
        yield found


@pytest.fixture(scope="module")
def notes(authlib_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    """The notes, for people of another provider than the hub's."""
    with protect_notes(tmp_path_factory.mktemp("notes"), authlib_provider) as found:
        yield found
