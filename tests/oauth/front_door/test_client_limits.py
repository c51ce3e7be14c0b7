"""The table of registered clients cannot be filled by one person."""

import json
from pathlib import Path

import pytest
from tests.oauth.front_door.door_site import REDIRECT_URI, Door, open_door
from tests.oauth.front_door.test_grants import is_accepted


async def try_register(door: Door) -> int:
    return (await door.post_json("/oauth/register", {"redirect_uris": [REDIRECT_URI]})).status


@pytest.fixture
def two_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENTS", 2)


@pytest.mark.usefixtures("two_clients")
async def test_a_client_whose_grants_have_ended_makes_room(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        kept, ended = await door.app(), await door.app()
        tokens, others = await kept.tokens(), await ended.tokens()
        door.clock.added_s += 1000
        assert await try_register(door) == 503
        await door.send("/oauth/revoke", {"token": others["refresh_token"], "client_id": ended.client_id})
        assert await try_register(door) == 201
        assert [(await app.open()).status for app in (kept, ended)] == [200, 400]
        assert (await kept.refresh(tokens["refresh_token"])).status == 200


@pytest.mark.usefixtures("two_clients")
async def test_the_client_without_grants_that_was_used_longest_ago_is_replaced(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        first, second = await door.app(), await door.app()
        tokens = [await first.tokens()]
        door.clock.added_s += 60
        tokens.append(await second.tokens())
        door.clock.added_s += 60
        tokens[0] = json.loads((await first.refresh(tokens[0]["refresh_token"])).text)
        await door.front_door.revoke()
        assert await try_register(door) == 503  # a login could be in progress
        door.clock.added_s += 1000
        assert await try_register(door) == 201
        assert [(await app.open()).status for app in (first, second)] == [200, 400]


@pytest.mark.usefixtures("two_clients")
async def test_a_client_with_a_code_is_not_replaced(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app, other = await door.app(), await door.app()
        await other.tokens()
        door.clock.added_s += 1000
        code = (await app.authorize()).query["code"]
        assert await try_register(door) == 503
        assert (await app.redeem(code)).status == 200


async def test_a_user_has_grants_for_a_bounded_number_of_registered_clients(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENTS_PER_USER", 2)
    async with open_door(tmp_path, database=database) as door:
        other = await (await door.app(person="bob")).tokens()
        apps = [await door.app() for _ in range(3)]
        tokens = []
        for app in apps:
            tokens.append(await app.tokens())
            door.clock.added_s += 1
        again = await apps[2].tokens()  # of the same client
        assert [await is_accepted(door, each) for each in (*tokens, again, other)] == [False, True, True, True, True]
        assert len(await door.front_door.list_grants(user="key:ada")) == 3
