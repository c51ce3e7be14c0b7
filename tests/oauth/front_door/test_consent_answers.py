"""A consent page can be answered once."""

from pathlib import Path
from typing import Any

import pytest
from tests.identity.scripted_browser import Page
from tests.oauth.front_door.door_site import App, open_door
from tests.oauth.front_door.test_grants import error

ALLOW, DENY = ("decision", "allow"), ("decision", "deny")
ANSWERED = "You have answered this page before."


def is_refused(page: Page) -> bool:
    return (page.status, ANSWERED in page.text) == (400, True)


async def allow(app: App, page: Page) -> str:
    code: str = (await app.submit(page, {}, button=ALLOW)).query["code"]
    return code


@pytest.mark.parametrize("again", [ALLOW, DENY])
async def test_a_consent_leads_to_one_grant(tmp_path: Path, database: str, again: tuple[str, str]) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        consent = await app.consent()
        assert (await app.redeem(await allow(app, consent))).status == 200
        assert is_refused(await app.submit(consent, {}, button=again))
        assert len(await door.front_door.list_grants()) == 1


@pytest.mark.parametrize("again", [ALLOW, DENY])
async def test_a_denied_consent_cannot_be_allowed_later(tmp_path: Path, database: str, again: tuple[str, str]) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        consent = await app.consent()
        assert (await app.submit(consent, {}, button=DENY)).query["error"] == "access_denied"
        await door.front_door.sweep()
        assert is_refused(await app.submit(consent, {}, button=again))


async def test_another_process_refuses_an_answered_consent(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as first:
        app = await first.app()
        consent = await app.consent()
        options: dict[str, Any] = {"keys": first.keys, "ring": first.ring, "issuer": first.url}
        async with open_door(tmp_path, database=database, **options) as second:
            form = {**consent.forms[0].fields, "decision": "deny"}
            sent = await app.send(f"{second.url}/oauth/consent", form, {"Origin": first.url})
            assert sent.status == 303
        assert is_refused(await app.submit(consent, {}, button=ALLOW))


async def test_after_a_double_click_only_the_last_code_is_valid(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        consent = await app.consent()
        codes = [await allow(app, consent) for _ in range(2)]
        assert error(await app.redeem(codes[0])) == (400, "invalid_grant")
        assert (await app.redeem(codes[1])).status == 200
        assert is_refused(await app.submit(consent, {}, button=ALLOW))


async def test_a_consent_is_not_answered_again_after_its_code_expired(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        consent = await app.consent()
        await allow(app, consent)
        door.clock.added_s += 61
        assert is_refused(await app.submit(consent, {}, button=ALLOW))
