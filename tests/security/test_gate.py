import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Principal, SettingsError
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.security.gate import SINGLE_HEADERS, EdgeSettings, Gate, KnownCaller, Refusal, check_bind, unauthorized

HOST = (b"host", b"127.0.0.1:3000")
ALICE = Principal("alice")


def check(gate: Gate, *pairs: tuple[bytes, bytes]) -> Principal | Refusal:
    return asyncio.run(gate(Headers(pairs), "127.0.0.1"))


class Password:
    """An authenticator with one valid credential."""

    async def __call__(self, headers: Headers, target: RequestTarget) -> Principal | Refusal | None:
        sent = headers.get(b"x-password")
        if sent is None:
            return None
        return ALICE if sent == "right" else unauthorized("wrong")


def test_a_loopback_caller_is_anonymous() -> None:
    assert check(Gate(EdgeSettings()), HOST) is ANONYMOUS


def test_a_loopback_origin_is_allowed() -> None:
    assert check(Gate(EdgeSettings()), HOST, (b"origin", b"http://localhost:5173")) is ANONYMOUS


@pytest.mark.parametrize("host", [None, b"", b"evil.example", b"localhost:99999"])
def test_a_wrong_host_is_refused_with_advice(host: bytes | None) -> None:
    refusal = check(Gate(EdgeSettings()), *([] if host is None else [(b"host", host)]))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403
    assert "Host" in refusal.message or "allowed_hosts" in refusal.message


@pytest.mark.parametrize("origin", [b"null", b"", b"https://evil.example", b"http://127.0.0.1@evil.example"])
def test_a_wrong_origin_is_refused_with_advice(origin: bytes) -> None:
    refusal = check(Gate(EdgeSettings()), HOST, (b"origin", origin))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403
    assert "allowed_origins" in refusal.message


def test_configured_hosts_and_origins_are_allowed() -> None:
    gate = Gate(EdgeSettings(allowed_hosts=("mcp.example.com",), allowed_origins=("https://app.example.com",)))
    assert check(gate, (b"host", b"mcp.example.com"), (b"origin", b"https://app.example.com")) is ANONYMOUS


@pytest.mark.parametrize("name", SINGLE_HEADERS)
def test_a_repeated_security_header_is_refused(name: bytes) -> None:
    refusal = check(Gate(EdgeSettings()), HOST, (name, b"127.0.0.1"), (name, b"127.0.0.1"))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
    assert name.decode() in refusal.message


def test_other_headers_may_be_repeated() -> None:
    assert check(Gate(EdgeSettings()), HOST, (b"accept", b"a"), (b"accept", b"b")) is ANONYMOUS


def test_with_authentication_every_caller_needs_a_credential() -> None:
    gate = Gate(EdgeSettings(bind_host="0.0.0.0"), [Password(), Password()])
    refusal = check(gate, HOST)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 401
    assert refusal.headers == ((b"www-authenticate", b'Bearer realm="hubbub"'),)
    assert "X-API-Key" in refusal.message
    assert check(gate, HOST, (b"x-password", b"right")) == ALICE
    wrong = check(gate, HOST, (b"x-password", b"wrong"))
    assert isinstance(wrong, Refusal)
    assert wrong.message == "wrong"


def test_a_wrong_host_is_refused_before_the_credential_is_checked() -> None:
    refusal = check(Gate(EdgeSettings(), [Password()]), (b"host", b"evil.example"), (b"x-password", b"right"))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403


def test_public_routes_still_need_an_allowed_host() -> None:
    gate = Gate(EdgeSettings(), [Password()])
    assert gate.check(Headers([HOST])) is None
    refusal = gate.check(Headers([(b"host", b"evil.example")]))
    assert refusal is not None
    assert refusal.status == 403


def test_an_ip_address_is_an_allowed_host_only_off_loopback() -> None:
    host = (b"host", b"192.168.1.20:3000")
    assert check(Gate(EdgeSettings(bind_host="0.0.0.0", insecure=True)), host) is ANONYMOUS
    assert isinstance(check(Gate(EdgeSettings()), host), Refusal)


@given(st.lists(st.tuples(st.sampled_from([b"host", b"origin", b"authorization", b"accept"]), st.binary(max_size=40))))
def test_any_headers_give_a_principal_or_an_encodable_refusal(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    outcome = check(Gate(EdgeSettings()), *pairs)
    if isinstance(outcome, Refusal):
        assert outcome.status in (400, 401, 403)
        assert outcome.message.isprintable()
        assert outcome.message.isascii()
        assert len(outcome.message) < 500
    else:
        assert outcome is ANONYMOUS


# -- binding -------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_loopback_may_be_bound_without_auth(host: str) -> None:
    check_bind(host, has_auth=False, insecure=False)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "[::]", "192.168.1.2", "example.com", "localhost.example"])
def test_binding_off_loopback_needs_authentication_or_insecure(host: str) -> None:
    with pytest.raises(SettingsError, match="--insecure"):
        check_bind(host, has_auth=False, insecure=False)
    with pytest.raises(SettingsError, match="--insecure"):
        Gate(EdgeSettings(bind_host=host))
    check_bind(host, has_auth=True, insecure=False)
    check_bind(host, has_auth=False, insecure=True)


# -- callers that are known without waiting ---------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Badge:
    """An authenticator that recognizes callers at once, until 60, and at one path only if it is given."""

    def __init__(self, path: str = "") -> None:
        self.generation = self.lookups = 0
        self.clock = Clock()
        self.holders = {"Badge alice": ALICE}
        self._path = path

    def find_known(self, headers: Headers, path: str) -> KnownCaller | None:
        self.lookups += 1
        holder = self.holders.get(headers.get(b"authorization") or "")
        is_valid = holder is not None and self.clock() < 60 and (not self._path or path == self._path)
        return KnownCaller(holder, 60.0) if holder is not None and is_valid else None

    async def __call__(self, headers: Headers, target: RequestTarget) -> Principal | Refusal | None:
        known = self.find_known(headers, target.path)
        return unauthorized("unknown badge") if known is None else known.principal


BADGE = (b"authorization", b"Badge alice")


def test_a_known_caller_is_admitted_without_waiting() -> None:
    gate = Gate(EdgeSettings(), [Badge()])
    assert gate.admit_nowait(Headers([HOST, BADGE])) is ALICE
    assert gate.admit_nowait(Headers([HOST, (b"authorization", b"Badge mallory")])) is None


def test_a_known_caller_is_looked_up_once_for_requests_with_the_same_head() -> None:
    badge, headers = Badge(), Headers([HOST, BADGE])
    gate = Gate(EdgeSettings(), [badge])
    assert [gate.admit_nowait(headers) for _ in range(3)] == [ALICE] * 3
    assert badge.lookups == 1


def test_a_known_caller_is_refused_at_once_after_a_change() -> None:
    badge, headers = Badge(), Headers([HOST, BADGE])
    gate = Gate(EdgeSettings(), [badge])
    assert gate.admit_nowait(headers) is ALICE
    badge.holders.clear()
    badge.generation += 1
    assert gate.admit_nowait(headers) is None


def test_a_change_while_a_caller_is_looked_up_is_not_missed() -> None:
    class Changing(Badge):
        def find_known(self, headers: Headers, path: str) -> KnownCaller | None:
            known = super().find_known(headers, path)
            self.holders.clear()
            self.generation += 1
            return known

    headers = Headers([HOST, BADGE])
    gate = Gate(EdgeSettings(), [Changing()])
    assert gate.admit_nowait(headers) is ALICE
    assert gate.admit_nowait(headers) is None


def test_a_caller_is_known_until_its_credential_expires() -> None:
    badge, headers = Badge(), Headers([HOST, BADGE])
    gate = Gate(EdgeSettings(), [badge])
    assert gate.admit_nowait(headers) is ALICE
    badge.clock.now += 60
    assert gate.admit_nowait(headers) is None


def test_a_caller_that_is_known_at_one_path_is_not_at_others() -> None:
    headers = Headers([HOST, BADGE])
    gate = Gate(EdgeSettings(), [Badge("/mcp")])
    assert gate.admit_nowait(headers, "/mcp") is ALICE
    assert gate.admit_nowait(headers, "/mcp/other") is None


def test_a_caller_that_one_gate_knows_is_unknown_to_another() -> None:
    headers, other = Headers([HOST, BADGE]), Badge()
    other.holders.clear()
    assert Gate(EdgeSettings(), [Badge()]).admit_nowait(headers) is ALICE
    assert Gate(EdgeSettings(), [other]).admit_nowait(headers) is None


def test_a_known_caller_with_a_wrong_host_is_refused_without_waiting() -> None:
    refusal = Gate(EdgeSettings(), [Badge()]).admit_nowait(Headers([(b"host", b"evil.example"), BADGE]))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403


def test_no_caller_is_known_if_an_authenticator_must_be_awaited_because_it_may_refuse() -> None:
    gate = Gate(EdgeSettings(), [Password(), Badge()])
    assert gate.admit_nowait(Headers([HOST, BADGE])) is None
    outcome = check(gate, HOST, BADGE, (b"x-password", b"wrong"))
    assert isinstance(outcome, Refusal)
    assert outcome.status == 401


def test_a_caller_with_two_credentials_is_not_known() -> None:
    gate = Gate(EdgeSettings(), [Badge()])
    assert gate.admit_nowait(Headers([HOST, BADGE, (b"x-api-key", b"hb_other")])) is None
