"""Clients authenticate by one method, and their secrets cannot be guessed."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.oauth.front_door.door_site import App, Door, open_door
from tests.oauth.front_door.test_grants import error

from hubbub import Secret
from hubbub.oauth.front_door.client_directory import ConfiguredClient
from hubbub.oauth.front_door.clients import Client

SECRET = "50 % + 50 %: the secret"


@asynccontextmanager
async def open_with_client(folder: Path) -> AsyncIterator[tuple[Door, App]]:
    """Serve a front door with a client of the settings, which has a secret."""

    async def read() -> Secret:
        return Secret(SECRET)

    client = Client(
        client_id="reports", name="Reports", redirect_uris=("http://127.0.0.1/callback",), is_configured=True
    )
    async with open_door(folder, clients=[ConfiguredClient(client, read)]) as door:
        yield door, App(door, "reports")


def basic(user: str, password: str) -> dict[str, str]:
    pair = f"{user}:{password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


ENCODED = SECRET.replace("%", "%25").replace(" ", "%20").replace(":", "%3A")
MALFORMED = [
    "Basic", "Basic ", "basic =", "Basic !!!", "Basic Og==", "Basic abc", "Basic a b c",
    f"Basic {base64.b64encode(bytes([0xFF, 0xFE]) + b':x').decode()}", f"Basic {base64.b64encode(b'reports').decode()}",
]  # fmt: skip


@pytest.mark.parametrize("header", MALFORMED)
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
async def test_malformed_basic_authentication_is_refused(tmp_path: Path, path: str, header: str) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "a.b", "token": "a.b"}
    async with open_door(tmp_path) as door:
        page = await door.send(path, form, headers={"Authorization": header})
        assert error(page) == (401, "invalid_client")
        assert page.headers["Www-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize("header", ["Bearer", "Bearer x", "Digest x"])
async def test_other_schemes_do_not_authenticate_a_client(tmp_path: Path, header: str) -> None:
    async with open_with_client(tmp_path) as (_, app):
        page = await app.redeem("x", headers={"Authorization": header})
        assert json.loads(page.text)["error"] == "invalid_client"


async def test_two_methods_in_one_request_are_refused(tmp_path: Path) -> None:
    async with open_with_client(tmp_path) as (door, app):
        code = (await app.authorize()).query["code"]
        both: list[tuple[str, str]] = [(ENCODED, "wrong"), ("wrong", SECRET), (ENCODED, SECRET)]
        for in_header, in_form in both:
            page = await app.redeem(code, headers=basic("reports", in_header), client_secret=in_form)
            assert error(page) == (400, "invalid_request")
        public = await door.register()
        page = await app.redeem(code, headers=basic("reports", ENCODED), client_id=public["client_id"])
        assert error(page) == (400, "invalid_request")
        assert (await app.redeem(code, headers=basic("reports", ENCODED))).status == 200


@pytest.mark.parametrize("method", ["basic", "post"])
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
async def test_wrong_secrets_of_an_address_are_limited(tmp_path: Path, method: str, path: str) -> None:
    async with open_with_client(tmp_path) as (door, app):
        code = (await app.authorize()).query["code"]

        async def send(secret: str) -> Any:
            form = {"grant_type": "refresh_token", "refresh_token": "a.b", "token": "a.b"}
            if method == "basic":
                return await door.send(path, form, headers=basic("reports", secret))
            return await door.send(path, {**form, "client_id": "reports", "client_secret": secret})

        for _ in range(12):  # the right secret is not limited
            assert "invalid_client" not in (await send(SECRET if method == "post" else ENCODED)).text
        for _ in range(10):
            assert json.loads((await send("wrong")).text)["error"] == "invalid_client"
        limited = await app.redeem(code, client_secret=SECRET)
        assert (limited.status, limited.headers["Retry-After"].isdigit()) == (429, True)
        # A client without a secret is not limited.
        assert (await (await door.app()).tokens())["access_token"]
        door.clock.added_s += 60
        assert (await app.redeem((await app.authorize()).query["code"], client_secret=SECRET)).status == 200
