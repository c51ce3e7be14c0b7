"""Tokens that are bound to a key: a proof for each request, and nonces of both servers."""

import base64
import hashlib
import json
from typing import Any

import pytest
from joserfc import jwk, jws
from tests.client.scripted_server import ScriptedRequest
from tests.oauth.client.protected_server import ProtectedServer, protected_server, serve_mcp

from hubbub import MemoryCredentialStore, OAuth, OAuthError


class DpopServer:
    """Makes a server require proofs, and keeps them."""

    def __init__(self, server: ProtectedServer) -> None:
        self.server = server
        self.proofs: list[dict[str, Any]] = []
        self.server_nonce = self.resource_nonce = ""
        self.asked_for_nonce = 0
        server.metadata["dpop_signing_alg_values_supported"] = ["ES256"]
        server.token_fields = {"token_type": "DPoP", "expires_in": 3600}
        server.handle["/token"] = self.answer_token_request
        server.handle["/mcp"] = self.answer_mcp

    def read_proof(self, request: ScriptedRequest, path: str) -> dict[str, Any]:
        """Verify a proof as RFC 9449 requires."""
        signed = jws.extract_compact(request.headers["dpop"].encode())
        key = jwk.import_key(signed.headers()["jwk"])
        assert jws.validate_compact(signed, key, algorithms=["ES256"])
        assert signed.headers()["typ"] == "dpop+jwt"
        assert "d" not in signed.headers()["jwk"]
        claims: dict[str, Any] = json.loads(signed.payload)
        assert (claims["htm"], claims["htu"]) == (request.method, self.server.origin + path)
        assert claims["jti"] not in [proof["jti"] for proof in self.proofs]
        self.proofs.append(claims)
        return claims

    async def answer_token_request(self, request: ScriptedRequest) -> None:
        if self.read_proof(request, "/token").get("nonce", "") != self.server_nonce:
            self.asked_for_nonce += 1
            return await request.reply(400, {"error": "use_dpop_nonce"}, dpop_nonce=self.server_nonce)
        await self.server.answer_token_request(request)

    async def answer_mcp(self, request: ScriptedRequest) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "DPoP" or token not in self.server.valid_tokens:
            return await request.reply(401, www_authenticate=self.server.challenge.replace("Bearer", "DPoP"))
        claims = self.read_proof(request, "/mcp")
        digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        assert claims["ath"] == digest
        if claims.get("nonce", "") != self.resource_nonce:
            self.asked_for_nonce += 1
            challenge = 'DPoP error="use_dpop_nonce"'
            return await request.reply(401, www_authenticate=challenge, dpop_nonce=self.resource_nonce)
        await serve_mcp(request)


async def test_each_request_has_a_proof_of_its_own() -> None:
    async with protected_server() as server:
        dpop = DpopServer(server)
        async with server.client() as client:
            for _ in range(3):
                await client.call_tool("echo", {})
        assert "dpop_jkt" in server.authorizations[0]
        assert len(dpop.proofs) >= 5


async def test_nonces_of_both_servers_are_used_until_they_change() -> None:
    async with protected_server() as server:
        dpop = DpopServer(server)
        dpop.server_nonce, dpop.resource_nonce = "n-as", "n-rs"
        async with server.client() as client:
            await client.tools()
            assert dpop.asked_for_nonce == 2
            dpop.resource_nonce = "n-rs-2"
            await client.call_tool("echo", {})
            await client.call_tool("echo", {})
            assert dpop.asked_for_nonce == 3
        assert len(server.token_requests) == 1


async def test_a_server_that_asks_for_a_new_nonce_for_ever_is_given_up() -> None:
    async with protected_server() as server:
        dpop = DpopServer(server)

        async def ask_again(request: ScriptedRequest) -> None:
            if "dpop" not in request.headers:
                return await dpop.answer_mcp(request)
            dpop.asked_for_nonce += 1
            await request.reply(
                401, www_authenticate='DPoP error="use_dpop_nonce"', dpop_nonce=f"n{dpop.asked_for_nonce}"
            )

        server.handle["/mcp"] = ask_again
        client = server.client()
        with pytest.raises(Exception, match="401"):
            await client.start()
        await client.close()
        assert dpop.asked_for_nonce == 5
        assert len(server.authorizations) == 1


async def test_the_key_is_kept_with_the_tokens_and_used_for_their_refresh() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        DpopServer(server)
        async with server.client(server.oauth(store=store)):
            pass
        (key,) = await store.list()
        before = await store.load(key)
        async with server.client(OAuth(store=store)) as client:
            server.revoke_tokens()
            await client.tools()
        after = await store.load(key)
    assert before is not None
    assert after is not None
    assert before.dpop_key == after.dpop_key is not None
    assert before.access_token != after.access_token


async def test_without_support_tokens_are_not_bound_unless_that_is_required() -> None:
    async with protected_server() as server:
        async with server.client() as client:
            await client.tools()
        assert "dpop_jkt" not in server.authorizations[0]
        strict = server.client(server.oauth(dpop="require"))
        with pytest.raises(OAuthError, match="does not support DPoP, so set `dpop` to auto or off"):
            await strict.start()
        await strict.close()


async def test_dpop_can_be_switched_off() -> None:
    async with protected_server() as server:
        server.metadata["dpop_signing_alg_values_supported"] = ["ES256"]
        async with server.client(server.oauth(dpop="off")) as client:
            await client.tools()
        assert "dpop" not in server.token_headers[0]
