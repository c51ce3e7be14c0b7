"""When the credentials of open connections are checked again, and what ends a connection."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.http.keyring import Keyring
from tests.security.tokens import KEYS, NOW, SETTINGS, Clock, claims, sign

from hubbub import Principal, bounds
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import ApiKeys
from hubbub.security.gate import EdgeSettings, Gate, unauthorized
from hubbub.security.jwt import BearerTokens
from hubbub.security.open_connections import OpenConnections

SWEEP_S = 1.0
REVOKE_MAX_S = 5.0


async def run_checks() -> None:
    """Wait until the checks that were started are done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def require_principal(gate: Gate, headers: Headers) -> Principal:
    principal = await gate.authenticate(headers)
    assert isinstance(principal, Principal), principal
    return principal


def key_headers(key: dict[str, str]) -> Headers:
    return Headers([(b"x-api-key", key["X-API-Key"].encode())])


async def test_a_revoked_key_ends_its_connections_within_five_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hubbub.security")
    clock = Clock()
    clock.now = 0.0
    ring = Keyring(tmp_path / "keys.toml")
    ada, bob = key_headers(ring.add("ada")), key_headers(ring.add("bob"))
    gate = Gate(EdgeSettings(), [ApiKeys(ring.path, monotonic=clock)])
    connections = OpenConnections(gate.authenticate, clock=clock)
    ended: list[str] = []
    for headers, name in ((ada, "ada"), (ada, "ada"), (bob, "bob")):
        connections.add(headers, await require_principal(gate, headers), partial(ended.append, name))
    for _ in range(10):
        clock.now += SWEEP_S
        connections.sweep()
        await run_checks()
    assert ended == []
    revoked_at = clock.now
    ring.revoke("ada")
    while not ended:
        clock.now += SWEEP_S
        connections.sweep()
        await run_checks()
    assert ended == ["ada", "ada"]
    assert clock.now - revoked_at <= REVOKE_MAX_S - SWEEP_S
    revocations = [record for record in caplog.records if record.message == "credential_revoked"]
    fields = [vars(record) for record in revocations]
    assert [(field["principal"], field["connections"]) for field in fields] == [("key:ada", 2)]


async def test_an_expired_token_ends_its_connection() -> None:
    clock = Clock()
    token = sign(claims(exp=NOW + 60))
    headers = Headers([(b"authorization", f"Bearer {token}".encode())])
    gate = Gate(EdgeSettings(), [BearerTokens(SETTINGS, KEYS, clock=clock)])
    connections = OpenConnections(gate.authenticate, clock=clock)
    ended = []
    connection = connections.add(headers, await require_principal(gate, headers), lambda: ended.append(clock.now))
    while not ended:
        clock.now += SWEEP_S
        connections.sweep()
        await run_checks()
    assert connection.refusal is not None
    assert connection.refusal.status == 401
    assert NOW + 60 <= ended[0] <= NOW + 60 + bounds.CLOCK_LEEWAY_S + REVOKE_MAX_S


async def test_a_credential_that_cannot_be_checked_ends_nothing_and_delays_no_other_check() -> None:
    loop = asyncio.get_running_loop()
    outcomes: dict[bytes | None, asyncio.Future[Principal | Refusal]]
    outcomes = {name: loop.create_future() for name in (b"slow", b"unknown", b"gone")}
    outcomes[b"unknown"].set_result(Refusal(503, "later"))
    outcomes[b"gone"].set_result(unauthorized("no"))

    async def authenticate(headers: Headers) -> Principal | Refusal:
        return await outcomes[headers.raw(b"x-api-key")]

    clock = Clock()
    connections = OpenConnections(authenticate, clock=clock)
    ended: list[bytes] = []
    for name in (b"slow", b"unknown", b"gone"):
        connections.add(Headers([(b"x-api-key", name)]), Principal("p"), partial(ended.append, name))
    connections.sweep()
    await run_checks()
    assert ended == [b"gone"]
    clock.now += bounds.CREDENTIAL_CHECK_INTERVAL_S
    connections.sweep()
    outcomes[b"slow"].set_result(Principal("p", frozenset({"other scopes"})))
    await run_checks()
    assert ended == [b"gone", b"gone", b"slow"]


async def test_an_ended_connection_is_not_checked() -> None:
    checked = []

    async def authenticate(headers: Headers) -> Principal | Refusal:
        checked.append(headers)
        return unauthorized("no")

    connections = OpenConnections(authenticate, clock=Clock())
    connection = connections.add(Headers([]), Principal("p"), lambda: None)
    connections.remove(connection)
    connections.sweep()
    await run_checks()
    assert (checked, len(connections)) == ([], 0)


def test_a_revoked_key_is_reported_as_revoked_and_other_principals_are_not(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    ring.add("ada")
    clock = Clock()
    keys = ApiKeys(ring.path, monotonic=clock)
    gate = Gate(EdgeSettings(), [BearerTokens(SETTINGS, KEYS), keys])
    assert not gate.is_revoked("key:ada")
    ring.revoke("ada")
    clock.now += bounds.KEY_FILE_CHECK_INTERVAL_S
    assert gate.is_revoked("key:ada")
    assert not gate.is_revoked("alice")
