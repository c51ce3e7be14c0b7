"""Users of a hub log in at a server behind it, each with an account of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import ProviderProcess
from tests.identity.user_hub import NOTES, run_user_hub

from hubbub import Client

MODERN, LEGACY = "2026-07-28", "2025-11-25"


@pytest.fixture(scope="module")
def site(oidc_provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedSite]:
    with protect_notes(tmp_path_factory.mktemp("notes"), oidc_provider) as found:
        yield found


async def whoami(client: Client) -> Any:
    result = await client.call_tool("whoami")
    assert not result.is_error, result
    return result.structured_content["name"]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_each_user_logs_in_once_and_is_known_to_the_server_by_an_own_account(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        seen: list[Any] = []
        async with hub.person_client("ada", "alice", version, seen) as ada:
            connected = await ada.call_tool("hub.connect", {"server": NOTES})
            assert connected.structured_content == {"servers": [{"server": NOTES, "connected": True}]}
            assert await whoami(ada) == "alice"
            assert await whoami(ada) == "alice"
        async with hub.person_client("beta", "bob", version, seen) as beta:
            assert await whoami(beta) == "bob"
        async with hub.person_client("ada", "alice", version, seen) as ada:
            assert await whoami(ada) == "alice"
        assert len(seen) == 2
