"""Valid and invalid tokens for tests: keys, claims, signatures and a fixed clock."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from joserfc import jwk, jws

from hubbub import Principal
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.jose import read_key_set
from hubbub.security.jwks import VerifyingKey, select_key
from hubbub.security.jwt import BearerTokens, JwtSettings

NOW = 1_900_000_000.0
ISSUER = "https://issuer.example"
SETTINGS = JwtSettings(keys="", issuer=ISSUER, audience=("https://mcp.example.com", "mcp"))

RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER_RSA = jwk.RSAKey.generate_key(2048, {"kid": "other"})
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
EC384 = jwk.ECKey.generate_key("P-384", {"kid": "ec384"})
ED = jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"})
EVERY_ALGORITHM = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "Ed25519", "EdDSA"]


def key_set(*keys: jwk.Key, **changes: object) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) | changes for key in keys]}).encode()


class FixedKeys:
    """Keys that never change."""

    generation = 0

    def __init__(self, keys: Sequence[VerifyingKey]) -> None:
        self._keys = keys

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        return select_key(self._keys, kid, algorithm)

    async def find_replacement(self, algorithm: str) -> None:
        return None


KEYS = FixedKeys(read_key_set(key_set(RSA, EC, EC384, ED)))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def claims(**changes: object) -> dict[str, Any]:
    defaults = {"iss": ISSUER, "aud": "mcp", "sub": "alice", "exp": NOW + 600, "iat": NOW - 5, "scope": "read write"}
    return {name: value for name, value in (defaults | changes).items() if value is not None}


def sign(
    payload: dict[str, Any] | bytes | None = None,
    key: jwk.Key = RSA,
    header: dict[str, Any] | None = None,
    algorithm: str = "RS256",
) -> str:
    fields = {"alg": algorithm, "kid": key.kid, "typ": "JWT"} | (header or {})
    fields = {name: value for name, value in fields.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=EVERY_ALGORITHM, strict_check_header=False)
    body = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload)
    return jws.serialize_compact(fields, body, key, registry=registry)


def encode_segment(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def authenticate(
    token: str | bytes, *, tokens: BearerTokens | None = None, scheme: str = "Bearer "
) -> Principal | Refusal | None:
    tokens = tokens or BearerTokens(SETTINGS, KEYS, clock=Clock())
    sent = token if isinstance(token, bytes) else token.encode("latin-1")
    return asyncio.run(tokens(Headers([(b"authorization", scheme.encode() + sent)])))


def assert_accepted(token: str | bytes, *, tokens: BearerTokens | None = None) -> Principal:
    outcome = authenticate(token, tokens=tokens)
    assert isinstance(outcome, Principal), outcome
    return outcome


def assert_refused(outcome: object) -> Refusal:
    assert isinstance(outcome, Refusal), outcome
    assert outcome.status == 401
    ((name, challenge),) = outcome.headers
    assert name == b"www-authenticate"
    assert challenge.startswith(b"Bearer ")
    assert b'error="invalid_token"' in challenge
    return outcome
