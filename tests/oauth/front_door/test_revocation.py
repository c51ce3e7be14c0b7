"""What was begun before access is revoked cannot be continued."""

from pathlib import Path
from typing import Any

import pytest
from tests.oauth.front_door.door_site import App, Door, open_door
from tests.oauth.front_door.test_grants import error

REVOKED = "Your access was revoked after this login began."


async def revoke(door: Door, app: App, what: str) -> None:
    selections: dict[str, dict[str, Any]] = {
        "user": {"tenant": "acme", "user": "ada"},
        "tenant": {"tenant": "acme"},
        "client": {"client_id": app.client_id},
        "all": {},
    }
    await door.front_door.revoke(**selections[what])


@pytest.mark.parametrize("what", ["user", "tenant", "client", "all"])
async def test_a_code_from_before_is_refused(tmp_path: Path, database: str, what: str) -> None:
    async with open_door(tmp_path, database=database, tenants=True) as door:
        app, other = await door.app(), await door.app(person="bob")
        code, others_code = [(await each.authorize()).query["code"] for each in (app, other)]
        await revoke(door, app, what)
        assert error(await app.redeem(code)) == (400, "invalid_grant")
        is_kept = what in ("user", "client")
        assert (await other.redeem(others_code)).status == (200 if is_kept else 400)
        assert await app.tokens()


@pytest.mark.parametrize("what", ["user", "tenant", "client", "all"])
async def test_a_consent_page_from_before_is_refused(tmp_path: Path, what: str) -> None:
    async with open_door(tmp_path, tenants=True) as door:
        app, other = await door.app(), await door.app(person="bob")
        consent, others_consent = await app.consent(), await other.consent()
        await revoke(door, app, what)
        sent = await app.submit(consent, {}, button=("decision", "allow"))
        assert (sent.status, REVOKED in sent.text) == (400, True)
        shown = await app.send(consent.url)
        assert (shown.status, REVOKED in shown.text) == (400, True)
        sent = await other.submit(others_consent, {}, button=("decision", "allow"))
        assert ("code" in sent.query) == (what in ("user", "client"))
        assert await app.tokens()


async def test_another_process_refuses_what_is_from_before(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as first:
        app = await first.app()
        code, consent = (await app.authorize()).query["code"], await app.consent(prompt="consent")
        options: dict[str, Any] = {"keys": first.keys, "ring": first.ring, "issuer": first.url}
        async with open_door(tmp_path, database=database, **options) as second:
            await second.front_door.revoke(user="key:ada")
        assert error(await app.redeem(code)) == (400, "invalid_grant")
        assert (await app.submit(consent, {}, button=("decision", "allow"))).status == 400


async def test_a_page_of_the_server_does_not_know_a_person_who_logged_in_before(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        login = await app.send(f"{door.url}/person")
        page = await app.send(login.headers["Location"])
        back = await app.send(page.forms[0].action, page.forms[0].fields | {"key": door.keys["ada"]})
        person = back.headers["Location"]
        assert (await app.send(person)).text == "key:ada"
        await door.front_door.revoke(user="key:ada")
        assert (await app.send(person)).status == 303
