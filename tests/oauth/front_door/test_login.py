"""Logging in at the front door with an API key, from the app's request to its tokens."""

import asyncio
import json
from pathlib import Path

import pytest
from joserfc import jwk, jwt
from tests.identity.scripted_browser import ScriptedBrowser
from tests.oauth.front_door.door_site import open_door


async def test_a_person_logs_in_and_the_app_gets_tokens(tmp_path: Path, database: str) -> None:
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        page = await app.authorize(scope="notes:read unknown")
        assert page.query["state"] == app.state
        assert page.query["iss"] == door.url
        response = await app.redeem(page.query["code"])
        tokens = json.loads(response.text)
        assert (response.status, tokens["token_type"], tokens["scope"]) == (200, "Bearer", "notes:read")
        assert response.headers["Cache-Control"] == "no-store"
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert (verified.principal.name, set(verified.principal.scopes)) == ("key:ada", {"notes:read"})
        keys = jwk.KeySet.import_key_set(json.loads((await door.send("/oauth/jwks")).text))
        token = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
        assert token.header["typ"] == "at+jwt"
        assert {"iss": door.url, "aud": f"{door.url}/mcp", "client_id": app.client_id}.items() <= token.claims.items()
        refreshed = json.loads((await app.refresh(tokens["refresh_token"])).text)
        assert refreshed["refresh_token"] != tokens["refresh_token"]
        assert (await door.front_door.tokens.verify(refreshed["access_token"].encode())).principal == verified.principal


@pytest.mark.parametrize("path", ["", "/tools"])
async def test_metadata_are_where_clients_look(tmp_path: Path, path: str) -> None:
    issuer = f"https://hub.example{path}"
    async with open_door(tmp_path, issuer=issuer) as door:
        for well_known in ("oauth-authorization-server", "openid-configuration"):
            # As clients send it, and as it arrives if a proxy removed the path of the public URL.
            for url in (f"/.well-known/{well_known}{path}", f"/.well-known/{well_known}"):
                page = await door.send(url, headers={"Origin": "https://app.example"})
                assert (page.status, page.headers["Access-Control-Allow-Origin"]) == (200, "*")
                metadata = json.loads(page.text)
                assert metadata["issuer"] == issuer
                assert metadata["token_endpoint"] == f"{issuer}/oauth/token"
                # Clients refuse an OpenID document without these members.
                has_openid = (
                    "subject_types_supported" in metadata and "id_token_signing_alg_values_supported" in metadata
                )
                assert has_openid == (well_known == "openid-configuration")
        assert (await door.send("/.well-known/openid-configuration/other")).status == 404


async def test_the_login_page_names_the_app_if_there_is_one(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        page = await (await door.app()).open()
        assert "Test client wants to connect to this server." in page.text
        assert "the app gets a token of its own" in page.text
        page = await asyncio.to_thread(ScriptedBrowser().visit, f"{door.url}/person")
        assert "Enter your API key for this server to continue." in page.text
        assert "The key is not sent to any other server." in page.text
        assert " app " not in page.text
