"""Grants depend on one version of the API key that the person logged in with, and on its scopes."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.oauth.front_door.door_site import open_door
from tests.oauth.front_door.test_grants import error, is_accepted

from hubbub.security.key_file_editor import rotate_key

BOTH_MODES = pytest.mark.parametrize("tenants", [False, True])


@BOTH_MODES
async def test_a_new_key_of_the_same_name_does_not_revive_grants(tmp_path: Path, tenants: bool, database: str) -> None:
    async with open_door(tmp_path, tenants=tenants, database=database) as door:
        app = await door.app()
        tokens = await app.tokens()
        scopes, tenant = ("notes:read", "notes:write"), "acme" if tenants else None
        door.keys["ada"] = door.ring.add("ada", scopes=scopes, tenant=tenant)["X-API-Key"]
        door.clock.added_s += 20
        assert not await is_accepted(door, tokens)
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert await is_accepted(door, await app.tokens())


@BOTH_MODES
async def test_a_refresh_with_a_revoked_key_ends_the_grant(tmp_path: Path, tenants: bool) -> None:
    async with open_door(tmp_path, tenants=tenants) as door:
        app, other = await door.app(), await door.app(person="bob")
        tokens, others = await app.tokens(), await other.tokens()
        before = door.ring.path.read_bytes()
        door.ring.revoke("ada")
        door.clock.added_s += 2
        page = await app.refresh(tokens["refresh_token"])
        assert error(page) == (400, "invalid_grant")
        assert "log in again" in json.loads(page.text)["error_description"]
        # The same key again: the grant has ended, not only its key.
        door.ring.path.write_bytes(before)
        door.clock.added_s += 2
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert not await is_accepted(door, tokens)
        assert (await other.refresh(others["refresh_token"])).status == 200


@BOTH_MODES
async def test_a_sweep_ends_the_grants_of_revoked_keys(tmp_path: Path, tenants: bool, database: str) -> None:
    async with open_door(tmp_path, tenants=tenants, database=database) as door:
        app, other = await door.app(), await door.app(person="bob")
        tokens, _ = await app.tokens(), await other.tokens()
        before = door.ring.path.read_bytes()
        door.ring.revoke("ada")
        door.clock.added_s += 20
        (listed,) = await door.front_door.list_grants()
        assert listed.user.removeprefix("key:") == "bob"
        await door.front_door.sweep()
        door.ring.path.write_bytes(before)
        door.clock.added_s += 2
        assert len(await door.front_door.list_grants()) == 1
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert not await is_accepted(door, tokens)


@BOTH_MODES
async def test_a_login_is_not_continued_with_a_revoked_key(tmp_path: Path, tenants: bool) -> None:
    async with open_door(tmp_path, tenants=tenants) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        consent = await app.consent(prompt="consent")
        door.ring.revoke("ada")
        door.clock.added_s += 2
        assert error(await app.redeem(code)) == (400, "invalid_grant")
        assert (await app.submit(consent, {}, button=("decision", "allow"))).status == 400


@BOTH_MODES
async def test_a_rotated_key_ends_its_grants_after_the_grace_period(tmp_path: Path, tenants: bool) -> None:
    async with open_door(tmp_path, tenants=tenants) as door:
        app = await door.app()
        tokens = await app.tokens()
        door.keys["ada"], _ = rotate_key(door.ring.path, "ada", overlap=timedelta(), days=None)
        door.clock.added_s += 2
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.usable_until <= door.clock() + 30
        door.clock.added_s += 30
        assert not await is_accepted(door, tokens)
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert await is_accepted(door, await app.tokens())


@BOTH_MODES
async def test_a_verified_token_is_not_remembered_longer_than_its_key_is_valid(tmp_path: Path, tenants: bool) -> None:
    async with open_door(tmp_path, tenants=tenants) as door:
        app = await door.app()
        tokens = await app.tokens()
        end = door.clock() + 60
        door.ring.set_expiry("ada", end)
        door.clock.added_s += 2
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.usable_until == pytest.approx(end, abs=1)
        door.clock.added_s += 60
        assert door.front_door.tokens.is_revoked(verified.principal.name) == tenants
        assert not await is_accepted(door, tokens)


@BOTH_MODES
async def test_a_token_loses_the_scopes_that_its_key_loses(tmp_path: Path, tenants: bool) -> None:
    async with open_door(tmp_path, tenants=tenants) as door:
        app = await door.app()
        tokens = await app.tokens()
        before = door.front_door.tokens.generation
        door.ring.set_scopes("ada", ("notes:read", "hub:admin"))
        door.clock.added_s += 2
        assert door.front_door.tokens.generation != before
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.principal.scopes == {"notes:read"}
        refreshed = json.loads((await app.refresh(tokens["refresh_token"])).text)
        assert refreshed["scope"] == "notes:read"
        # It regains what was granted, and nothing else.
        door.ring.set_scopes("ada", ("notes:read", "notes:write", "hub:admin"))
        door.clock.added_s += 2
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.principal.scopes == {"notes:read", "notes:write"}


async def test_a_token_of_an_operator_ends_with_the_scope_of_its_key(tmp_path: Path) -> None:
    async with open_door(tmp_path, tenants=True) as door:
        app = await door.app(person="root")
        refused = await app.consent()
        assert (refused.status, "the app did not ask for the scope hub:admin" in refused.text) == (400, True)
        tokens = await app.tokens(scope="hub:admin")
        assert "Administer this server" in app.pages[-1].text
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert (verified.principal.tenant, *verified.principal.scopes) == ("", "hub:admin")
        door.ring.set_scopes("root", ("notes:read",))
        door.clock.added_s += 2
        assert not await is_accepted(door, tokens)
