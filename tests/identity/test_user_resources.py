"""Resources of servers at which each user of a hub has an account: every user sees their own."""

from pathlib import Path

import msgspec
import pytest
from tests.identity.protected_site import ProtectedSite
from tests.identity.user_hub import run_user_hub

from hubbub import RemoteError
from hubbub.assembly.governance import add_governor
from hubbub.settings.governance import GovernanceSettings

MODERN, LEGACY, OLDER = "2026-07-28", "2025-11-25", "2025-06-18"


@pytest.mark.requirement("I2")
@pytest.mark.parametrize("version", [MODERN, LEGACY, OLDER])
async def test_each_user_sees_and_reads_only_the_resources_of_the_own_account(
    tmp_path: Path, site: ProtectedSite, version: str
) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        async with hub.client("bob", version) as stranger:
            assert not any("note://" in resource.uri for resource in await stranger.resources())
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        for caller, owner, other in (("ada", "alice", "bob"), ("phone", "alice", "bob"), ("beta", "bob", "alice")):
            async with hub.client(caller, version) as client:
                listed = {
                    resource.uri: resource.name for resource in await client.resources() if "note" in resource.uri
                }
                assert listed == {f"notes+note://{owner}/diary": f"Diary of {owner}"}
                for uri in (f"notes+note://{owner}/diary", f"note://{owner}/diary"):
                    assert f"the diary of {owner}" in str((await client.read_resource(uri)).contents)
                with pytest.raises(RemoteError, match="Resource not found"):
                    await client.read_resource(f"notes+note://{other}/diary")
        async with hub.client("bob", version) as stranger:
            assert not any("note://" in resource.uri for resource in await stranger.resources())


async def test_a_page_of_the_resources_of_one_user_is_not_given_to_another(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        async with hub.client("ada", LEGACY) as ada, hub.client("beta", LEGACY) as beta:
            cursor = (await ada.list_resources()).next_cursor
            assert cursor
            with pytest.raises(RemoteError, match="cursor is not valid"):
                await beta.list_resources(cursor)
            page = await ada.list_resources(cursor)
            assert [resource.uri for resource in page.resources] == ["notes+note://alice/diary"]


async def test_resources_that_the_policy_denies_are_not_listed(tmp_path: Path, site: ProtectedSite) -> None:
    async with run_user_hub(tmp_path, site) as hub:
        await hub.log_in("ada", "alice")
        await hub.log_in("beta", "bob")
        rule = {"effect": "deny", "tenants": ["acme"], "tools": ["note://*"]}
        governance = msgspec.convert({"policy": {"rules": [rule]}}, GovernanceSettings)
        hub.gateway.config = msgspec.structs.replace(hub.gateway.config, governance=governance)
        add_governor(hub.gateway)
        async with hub.client("ada") as ada, hub.client("beta") as beta:
            assert not any("note://" in resource.uri for resource in await ada.resources())
            assert any("note://bob" in resource.uri for resource in await beta.resources())
            with pytest.raises(RemoteError, match="Resource not found"):
                await ada.read_resource("notes+note://alice/diary")
