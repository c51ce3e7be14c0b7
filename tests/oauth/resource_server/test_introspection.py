"""Opaque tokens, which the authorization server is asked about."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.oauth.issuer import run_issuer
from tests.oauth.resource_server.sites import AUDIENCE, ProtectedSite, parse_challenge, run_protected

from hubbub.net.egress_rules import NO_RULES
from hubbub.oauth import limits
from hubbub.oauth.resource_server.introspection import IntrospectionVerifier
from hubbub.oauth.resource_server.issuers import Issuer
from hubbub.security.jwks import KeysUnavailable
from hubbub.security.token_claims import ClaimMapping
from hubbub.settings.governance import SecretSource
from hubbub.settings.oauth import IntrospectionSettings

TOKEN = "opaque-token"


@asynccontextmanager
async def run_introspecting(folder: Path, **answer: Any) -> AsyncIterator[ProtectedSite]:
    secret = folder / "secret.txt"
    secret.write_text("hunter:2\n")
    settings = IntrospectionSettings(client_id="the hub", client_secret=SecretSource(file=str(secret)))
    async with run_protected(issuer_settings={"introspection": settings}) as protected:
        usual = {"active": True, "sub": "alice", "aud": AUDIENCE, "scope": "mcp", "exp": time.time() + 600}
        protected.issuer.opaque[TOKEN] = usual | answer
        yield protected


async def test_an_opaque_token_is_introspected_once(tmp_path: Path) -> None:
    async with run_introspecting(tmp_path) as protected:
        for _ in range(3):
            assert await protected.whoami(TOKEN) == "alice mcp"
        assert protected.issuer.paths == ["/.well-known/oauth-authorization-server", "/introspect"]
        _, headers, body = protected.issuer.requests[-1]
        assert headers["authorization"] == f"Basic {b64encode(b'the+hub:hunter%3A2').decode()}"
        assert body == f"token={TOKEN}&token_type_hint=access_token"
        assert await protected.whoami(protected.issuer.sign(aud=AUDIENCE, sub="bob")) == "bob mcp"


@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        {"active": "true"},
        {"aud": "https://other.example.com"},
        {"aud": None},
        {"aud": 7},
        {"iss": "https://other.example.com"},
        {"exp": 1},
        {"exp": "soon"},
        {"exp": True},
        {"exp": 10**400},
        {"nbf": time.time() + 3600},
        {"sub": None},
        {"sub": "key:ci"},
        {"sub": ""},
        {"scope": 1},
        {"cnf": "key"},
        {"cnf": {"jkt": "AAAA"}},
    ],
)
async def test_a_token_that_is_not_active_or_not_for_this_server_is_refused(
    tmp_path: Path, answer: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with run_introspecting(tmp_path, **answer) as protected:
        response = await protected.call(authorization=f"Bearer {TOKEN}")
        assert response.status == 401
        assert parse_challenge(response)[1]["error"] == "invalid_token"
        assert TOKEN not in caplog.text
        assert "hunter" not in caplog.text


async def test_an_unknown_token_is_refused(tmp_path: Path) -> None:
    async with run_introspecting(tmp_path) as protected:
        assert (await protected.call(authorization="Bearer something-else")).status == 401
        assert (await protected.call(authorization="Bearer caf\xe9")).status == 401
        assert protected.issuer.paths.count("/introspect") == 1


async def test_while_introspection_fails_tokens_cannot_be_checked(tmp_path: Path) -> None:
    async with run_introspecting(tmp_path) as protected:
        protected.issuer.status = 500
        assert (await protected.call(authorization=f"Bearer {TOKEN}")).status == 503
        protected.issuer.status = 200
        assert await protected.whoami(TOKEN) == "alice mcp"


@pytest.mark.parametrize("body", [b"<html>maintenance</html>", b"[]", b"", b'{"active": true, "active": false}'])
async def test_an_answer_that_is_not_an_object_says_nothing_about_the_token(tmp_path: Path, body: bytes) -> None:
    async with run_introspecting(tmp_path) as protected:
        assert (await protected.call(authorization="Bearer other")).status == 401
        protected.issuer.body = body
        assert (await protected.call(authorization=f"Bearer {TOKEN}")).status == 503
        protected.issuer.body = None
        assert await protected.whoami(TOKEN) == "alice mcp"


async def test_introspection_that_hangs_ends(tmp_path: Path) -> None:
    async with run_introspecting(tmp_path) as protected:
        protected.issuer.hangs = True
        calling = asyncio.create_task(protected.call(authorization=f"Bearer {TOKEN}"))
        while not protected.issuer.requests:
            await asyncio.sleep(0)
        advance_clock(limits.INTROSPECTION_TIMEOUT_S)
        assert (await calling).status == 503


@pytest.mark.parametrize(("seconds", "expected"), [(600, limits.INTROSPECTED_TOKEN_TTL_S), (5, 5)])
async def test_an_answer_is_used_for_a_short_time_and_never_after_the_token_expires(
    seconds: float, expected: float
) -> None:
    async with run_issuer() as issuer:
        issuer.opaque[TOKEN] = {"active": True, "sub": "alice", "aud": "hub", "exp": 1000 + seconds}
        verified = await introspection(issuer.url).verify(TOKEN.encode())
        assert verified.usable_until == 1000 + expected


def introspection(url: str) -> IntrospectionVerifier:
    async def read_secret() -> str:
        return "secret"

    settings = IntrospectionSettings(client_id="hub", client_secret=SecretSource(env="UNUSED"))
    return IntrospectionVerifier(
        Issuer(url, lambda: NO_RULES),
        settings,
        read_secret,
        lambda audience: None,
        claims=ClaimMapping(),
        clock=lambda: 1000.0,
    )


async def test_only_so_many_tokens_are_introspected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INTROSPECTIONS", 1)
    async with run_issuer() as issuer:
        issuer.hangs = True
        one = introspection(issuer.url)
        running = [asyncio.create_task(one.verify(token)) for token in (TOKEN.encode(), b"another")]
        await wait_until(lambda: issuer.requests)
        await yield_to_loop()
        assert len(issuer.requests) == 1
        running[0].cancel()
        await wait_until(lambda: len(issuer.requests) == 2)
        advance_clock(limits.INTROSPECTION_TIMEOUT_S)
        with pytest.raises(KeysUnavailable, match="did not introspect the token"):
            await running[1]


async def test_tokens_from_one_address_do_not_keep_out_those_from_others() -> None:
    async with run_issuer() as issuer:
        issuer.hangs = True
        one = introspection(issuer.url)
        flood = [asyncio.create_task(one.verify(b"token-%d" % number, "192.0.2.7")) for number in range(100)]
        await wait_until(lambda: len(issuer.requests) >= limits.INTROSPECTIONS // 2)
        await yield_to_loop()
        before = len(issuer.requests)
        assert before < limits.INTROSPECTIONS
        other = asyncio.create_task(one.verify(b"mine", "192.0.2.8"))
        await wait_until(lambda: len(issuer.requests) > before)
        for task in (*flood, other):
            task.cancel()
        await asyncio.gather(*flood, other, return_exceptions=True)
