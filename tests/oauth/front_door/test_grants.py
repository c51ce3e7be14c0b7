"""Codes and tokens: used once, bound, rotated, revoked, expired."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.oauth.front_door.door_site import App, Door, open_door

from hubbub.security.verified_tokens import TokenRefused


async def is_accepted(door: Door, tokens: dict[str, Any]) -> bool:
    try:
        return bool(await door.front_door.tokens.verify(tokens["access_token"].encode()))
    except TokenRefused:
        return False


def error(page: Any) -> tuple[int, str]:
    return page.status, json.loads(page.text)["error"]


async def test_a_replayed_code_is_refused_and_ends_the_grant(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        tokens = json.loads((await app.redeem(code)).text)
        assert await is_accepted(door, tokens)
        assert error(await app.redeem(code)) == (400, "invalid_grant")
        assert not await is_accepted(door, tokens)
        assert error(await app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")


async def test_of_many_redemptions_of_one_code_one_succeeds(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        pages = await asyncio.gather(*(app.redeem(code) for _ in range(8)))
        assert sorted(page.status for page in pages) == [200] + [400] * 7


STOLEN: list[dict[str, str | None]] = [
    {"code_verifier": None},
    {"code_verifier": "x" * 43},
    {"redirect_uri": "http://127.0.0.1/other"},
    {"redirect_uri": None},
    {"client_id": "unknown"},
    {"client_id": None},
    {"resource": "https://other.example/mcp"},
]


@pytest.mark.parametrize("changes", STOLEN)
async def test_a_stolen_code_is_useless(tmp_path: Path, changes: dict[str, str | None]) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.redeem((await app.authorize()).query["code"], changes=changes)
        assert page.status in (400, 401)
        assert "access_token" not in page.text


async def test_a_code_of_another_client_is_refused(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app, other = await door.app(), await door.app()
        code = (await app.authorize()).query["code"]
        page = await app.redeem(code, client_id=other.client_id)
        assert error(page) == (400, "invalid_grant")


async def test_refresh_tokens_rotate_and_reuse_ends_the_grant(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        first = await app.tokens(scope="notes:read notes:write")
        second = json.loads((await app.refresh(first["refresh_token"], scope="notes:read")).text)
        assert second["scope"] == "notes:read"
        third = json.loads((await app.refresh(second["refresh_token"])).text)
        assert third["scope"] == "notes:read notes:write"
        assert await is_accepted(door, third)
        assert error(await app.refresh(first["refresh_token"])) == (400, "invalid_grant")
        for tokens in (first, second, third):
            assert not await is_accepted(door, tokens)
        assert error(await app.refresh(third["refresh_token"])) == (400, "invalid_grant")


async def test_a_refresh_token_that_is_sent_again_at_once_gets_the_same_next_one(tmp_path: Path, database: str) -> None:
    """Clients refresh for several calls at once, or repeat a request whose response was lost."""
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        first = (await app.tokens())["refresh_token"]
        pages = await asyncio.gather(*(app.refresh(first) for _ in range(8)))
        found = [json.loads(page.text) for page in pages]
        (second,) = {tokens["refresh_token"] for tokens in found}
        assert second != first
        assert len({tokens["access_token"] for tokens in found}) == 8
        assert await is_accepted(door, found[0])
        assert json.loads((await app.refresh(second)).text)["refresh_token"] not in (first, second)
        assert error(await app.refresh(first)) == (400, "invalid_grant")  # the next one was used
        assert not await is_accepted(door, found[0])


async def test_a_refresh_token_that_is_sent_again_later_ends_the_grant(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        first = await app.tokens()
        second = json.loads((await app.refresh(first["refresh_token"])).text)
        door.clock.added_s += 62
        assert error(await app.refresh(first["refresh_token"])) == (400, "invalid_grant")
        assert error(await app.refresh(second["refresh_token"])) == (400, "invalid_grant")


async def test_another_process_gives_the_same_next_refresh_token(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as first:
        app = await first.app()
        tokens = await app.tokens()
        one = await app.refresh(tokens["refresh_token"])
        options: dict[str, Any] = {"keys": first.keys, "ring": first.ring, "issuer": first.url}
        async with open_door(tmp_path, database=database, **options) as second:
            app.door = second
            other = await app.refresh(tokens["refresh_token"])
        assert json.loads(one.text)["refresh_token"] == json.loads(other.text)["refresh_token"]


async def test_the_scopes_that_were_granted_are_named_also_if_there_are_none(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        tokens = await (await door.app()).tokens(scope="unknown")
        assert tokens["scope"] == ""


async def test_a_refresh_token_belongs_to_its_client(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app, other = await door.app(), await door.app()
        tokens = await app.tokens()
        assert error(await other.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert (await app.refresh(tokens["refresh_token"])).status == 200


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoking_a_token_ends_its_grant(tmp_path: Path, database: str, kind: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app, other = await door.app(), await door.app()
        tokens, others = await app.tokens(), await other.tokens()
        form = {"token": tokens[kind], "client_id": app.client_id, "token_type_hint": kind}
        assert (await door.send("/oauth/revoke", form | {"client_id": other.client_id})).status == 400
        assert await is_accepted(door, tokens)
        assert (await door.send("/oauth/revoke", form)).status == 200
        assert not await is_accepted(door, tokens)
        assert (await app.refresh(tokens["refresh_token"])).status == 400
        assert await is_accepted(door, others)
        assert (await door.send("/oauth/revoke", form)).status == 200
        assert (await door.send("/oauth/revoke", form | {"token": "unknown"})).status == 200


async def test_another_process_learns_of_a_revocation(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as first:
        app = await first.app()
        tokens = await app.tokens()
        options: dict[str, Any] = {"keys": first.keys, "ring": first.ring, "issuer": first.url}
        async with open_door(tmp_path, database=database, **options) as second:
            assert await is_accepted(second, tokens)
            await first.front_door.revoke(user="key:ada")
            assert not await is_accepted(first, tokens)
            await second.front_door.refresh_ended()
            assert not await is_accepted(second, tokens)


async def test_everything_expires(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        door.clock.added_s += 61
        assert error(await app.redeem(code)) == (400, "invalid_grant")
        tokens = await app.tokens()
        door.clock.added_s += 601
        assert not await is_accepted(door, tokens)
        refreshed = json.loads((await app.refresh(tokens["refresh_token"])).text)
        assert await is_accepted(door, refreshed)
        door.clock.added_s += 31 * 86_400
        assert error(await app.refresh(refreshed["refresh_token"])) == (400, "invalid_grant")
        await door.front_door.sweep()
        assert await door.front_door.list_grants() == []


async def test_a_grant_ends_after_its_longest_time_even_if_it_is_used(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        token, days = (await app.tokens())["refresh_token"], 0
        while (page := await app.refresh(token)).status == 200:
            token = json.loads(page.text)["refresh_token"]
            door.clock.added_s += 20 * 86_400
            days += 20
        assert days == 180


async def test_tokens_end_with_the_key_that_the_person_logged_in_with(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app, other = await door.app(), await door.app(person="bob")
        tokens, others = await app.tokens(), await other.tokens()
        before = door.front_door.tokens.generation
        door.ring.revoke("ada")
        door.clock.added_s += 10
        assert door.front_door.tokens.generation != before
        assert not await is_accepted(door, tokens)
        assert await is_accepted(door, others)


async def test_signing_keys_rotate_and_tokens_of_the_last_key_stay_valid(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        door.clock.added_s += 30 * 86_400 - 60
        app = await door.app()
        tokens = await app.tokens()
        door.clock.added_s += 120
        app = await door.app()
        following = await app.tokens()
        assert await is_accepted(door, tokens)
        assert await is_accepted(door, following)
        keys = json.loads((await door.send("/oauth/jwks")).text)["keys"]
        assert len(keys) == 2
        assert all("d" not in key for key in keys)


async def test_a_user_has_a_bounded_number_of_grants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.GRANTS_PER_USER", 2)
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CODES_PER_USER", 2)
    async with open_door(tmp_path) as door:
        app = await door.app()
        codes = []
        for _ in range(3):
            codes.append((await app.authorize()).query["code"])
            door.clock.added_s += 1
        assert error(await app.redeem(codes[0])) == (400, "invalid_grant")
        all_tokens = []
        for _ in range(3):
            all_tokens.append(await app.tokens())
            door.clock.added_s += 1
        assert [await is_accepted(door, tokens) for tokens in all_tokens] == [False, True, True]
        assert len(await door.front_door.list_grants(user="key:ada")) == 2


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "x.y"}, "invalid_grant"),
    ],
)
async def test_wrong_token_requests_name_the_error(tmp_path: Path, form: dict[str, str], expected: str) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await door.send("/oauth/token", {"client_id": app.client_id, **form})
        assert error(page) == (400, expected)
        assert error(await door.post_json("/oauth/token", form)) == (400, "invalid_request")


async def test_a_client_with_a_secret_must_send_it(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        for method in ("client_secret_post", "client_secret_basic"):
            client = await door.register(token_endpoint_auth_method=method)
            app = App(door, client["client_id"])
            code = (await app.authorize()).query["code"]
            for wrong in (None, "wrong"):
                page = await app.redeem(code, client_secret=wrong)
                assert page.status in (400, 401)
                assert json.loads(page.text)["error"] == "invalid_client"
            if method == "client_secret_post":
                assert (await app.redeem(code, client_secret=client["client_secret"])).status == 200
            else:
                pair = base64.b64encode(f"{client['client_id']}:{client['client_secret']}".encode()).decode()
                page = await app.redeem(code, client_id=None, headers={"Authorization": f"Basic {pair}"})
                assert page.status == 200
