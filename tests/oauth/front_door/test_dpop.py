"""Tokens that are bound to a key of the client (RFC 9449)."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
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


async def test_proofs_of_unknown_clients_and_refused_requests_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.limits.ACCEPTED_PROOFS", 2)
    key, soon = JwtSigningKey.generate(), int(time.time()) + 20
    async with open_door(tmp_path) as door:
        app = await door.app()
        first = proof(door, key, iat=soon - 30)
        tokens = json.loads((await app.redeem((await app.authorize()).query["code"], headers=first)).text)
        for client_id in ("unknown", "", app.client_id):
            for _ in range(3):
                headers = proof(door, JwtSigningKey.generate(), iat=soon)
                page = await app.redeem("wrong", headers=headers, changes={"client_id": client_id})
                assert page.status in (400, 401)
                await door.send("/oauth/revoke", {"token": "x", "client_id": client_id}, headers=headers)
        page = await app.refresh(tokens["refresh_token"], headers=first)
        assert "used before" in page.text
        assert (await app.refresh(tokens["refresh_token"], headers=proof(door, key, iat=soon - 29))).status == 200
