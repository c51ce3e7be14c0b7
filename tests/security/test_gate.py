import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Principal, SettingsError
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.security.gate import SINGLE_HEADERS, EdgeSettings, Gate, Refusal, check_bind, unauthorized

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


class Badge:
    """An authenticator that recognizes callers at once."""

    def find_known(self, headers: Headers) -> Principal | None:
        return ALICE if headers.get(b"authorization") == "Badge alice" else None

    async def __call__(self, headers: Headers, target: RequestTarget) -> Principal | Refusal | None:
        return self.find_known(headers) or unauthorized("unknown badge")


BADGE = (b"authorization", b"Badge alice")


def test_a_known_caller_is_admitted_without_waiting() -> None:
    gate = Gate(EdgeSettings(), [Badge()])
    assert gate.admit_nowait(Headers([HOST, BADGE])) is ALICE
    assert gate.admit_nowait(Headers([HOST, (b"authorization", b"Badge mallory")])) is None


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
