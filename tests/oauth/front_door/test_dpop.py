"""Tokens that are bound to a key of the client (RFC 9449)."""

import json
import time
from pathlib import Path
from typing import Any

from tests.oauth.front_door.door_site import Door, open_door

from hubbub.security.jose import JwtSigningKey, new_token_id


def proof(door: Door, key: JwtSigningKey, **changes: Any) -> dict[str, str]:
    claims = {"jti": new_token_id(), "htm": "POST", "htu": f"{door.url}/oauth/token", "iat": int(time.time())}
    return {"DPoP": key.sign({**claims, **changes}, header={"typ": "dpop+jwt", "jwk": key.public_jwk()})}


async def test_tokens_are_bound_to_the_key_of_the_proof(tmp_path: Path, database: str) -> None:
    key, other = JwtSigningKey.generate(), JwtSigningKey.generate()
    async with open_door(tmp_path, database=database) as door:
        app = await door.app()
        code = (await app.authorize()).query["code"]
        tokens = json.loads((await app.redeem(code, headers=proof(door, key))).text)
        assert tokens["token_type"] == "DPoP"
        verified = await door.front_door.tokens.verify(tokens["access_token"].encode())
        assert verified.key_thumbprint == key.thumbprint
        # A stolen refresh token is useless without the key, and using it ends nothing.
        for headers in (None, proof(door, other)):
            page = await app.refresh(tokens["refresh_token"], headers=headers)
            assert (page.status, json.loads(page.text)["error"]) == (400, "invalid_grant")
        refreshed = json.loads((await app.refresh(tokens["refresh_token"], headers=proof(door, key))).text)
        verified = await door.front_door.tokens.verify(refreshed["access_token"].encode())
        assert verified.key_thumbprint == key.thumbprint


async def test_a_code_can_be_bound_to_a_key(tmp_path: Path) -> None:
    key, other = JwtSigningKey.generate(), JwtSigningKey.generate()
    async with open_door(tmp_path) as door:
        app = await door.app()
        for headers in (None, proof(door, other)):
            code = (await app.authorize(dpop_jkt=key.thumbprint)).query["code"]
            assert (await app.redeem(code, headers=headers)).status == 400
        code = (await app.authorize(dpop_jkt=key.thumbprint)).query["code"]
        assert (await app.redeem(code, headers=proof(door, key))).status == 200


async def test_wrong_and_replayed_proofs_are_refused_before_the_code_is_used(tmp_path: Path) -> None:
    key = JwtSigningKey.generate()
    async with open_door(tmp_path) as door:
        app = await door.app()
        used = proof(door, key)
        await app.redeem((await app.authorize()).query["code"], headers=used)
        code = (await app.authorize()).query["code"]
        for headers in (used, proof(door, key, htu=f"{door.url}/mcp"), proof(door, key, iat=1), {"DPoP": "x"}):
            page = await app.redeem(code, headers=headers)
            assert (page.status, json.loads(page.text)["error"]) == (400, "invalid_dpop_proof")
        assert (await app.redeem(code, headers=proof(door, key))).status == 200
