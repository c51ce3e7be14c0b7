"""API keys of a hub with tenants: the principal, rotation, revocation and removed tenants."""

import asyncio
import hashlib
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hubbub import Principal, SettingsError
from hubbub.governance.tenants import Tenants
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.api_keys import ROTATED_KEY_GRACE_S, ApiKeys
from hubbub.security.gate import EdgeSettings, Gate
from hubbub.security.key_file_editor import append_record, revoke_records, rotate_record
from hubbub.security.key_records import KeyRecord, generate_key, read_records
from hubbub.security.tenant_identity import TenantIdentity, derive_fingerprint_key
from hubbub.settings.governance import TenantSettings

SEALING_KEY = bytes(range(32))


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC).timestamp()

    def __call__(self) -> float:
        return self.now


class Keys:
    """A key file, and an authenticator of it whose clocks stand still."""

    def __init__(self, path: Path, *tenants: str, sealing_key: bytes = SEALING_KEY) -> None:
        self.path = path
        self.tenants = Tenants([TenantSettings(name=name) for name in tenants])
        self.identity = TenantIdentity(self.tenants, derive_fingerprint_key(sealing_key))
        self.clock = Clock()
        self.path.touch(mode=0o600)

    def add(self, name: str, tenant: str | None, user: str | None = None, scopes: tuple[str, ...] = ()) -> str:
        key, record = generate_key(name, tenant=tenant, user=user, scopes=scopes)
        append_record(self.path, record)
        return key

    def authenticator(self) -> ApiKeys:
        # Every check reads the file again, if it has changed.
        seconds = iter(range(10**6))
        return ApiKeys(self.path, identity=self.identity, clock=self.clock, monotonic=lambda: float(next(seconds) * 10))

    def identify(self, key: str, keys: ApiKeys | None = None) -> Principal | None:
        return (keys or self.authenticator()).identify(key.encode())


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.toml", "acme", "beta")


def identified(keys: Keys, key: str, authenticator: ApiKeys | None = None) -> Principal:
    found = keys.identify(key, authenticator)
    assert found is not None
    return found


def test_a_key_gives_tenant_user_client_scopes_and_fingerprint(keys: Keys) -> None:
    key = keys.add("laptop", "acme", "ada@acme.example", ("notes:read",))
    found = identified(keys, key)
    assert (found.tenant, found.user, found.client) == ("acme", "ada@acme.example", "laptop")
    assert found.scopes == {"notes:read"}
    assert found.name == f"acme/ada@acme.example#{found.credential}"
    assert len(found.credential) == 16
    assert int(found.credential, 16) >= 0


def test_the_user_is_the_name_of_the_key_by_default(keys: Keys) -> None:
    assert identified(keys, keys.add("ada", "acme")).user == "ada"


def test_two_keys_of_one_user_are_two_principals(keys: Keys) -> None:
    one, two = (identified(keys, keys.add(name, "acme", "ada")) for name in ("laptop", "phone"))
    assert (one.tenant, one.user) == (two.tenant, two.user)
    assert one.name != two.name


def test_the_fingerprint_is_stable_and_depends_on_the_installation_and_never_on_the_secret(keys: Keys) -> None:
    key = keys.add("ada", "acme")
    first = identified(keys, key)
    assert identified(keys, key) == first, "another process computes the same"
    other = Keys(keys.path, "acme", sealing_key=bytes(32))
    assert identified(other, key).credential != first.credential
    (record,) = read_records(keys.path)
    secret, replaced = generate_key("ada", tenant="acme")
    secret = secret.replace(replaced.id, record.id)
    text = keys.path.read_text().replace(record.hash, "sha256:" + hashlib.sha256(secret.encode()).hexdigest())
    keys.path.write_text(text)
    assert identified(keys, secret).name == first.name


@pytest.mark.parametrize("tenant", [None, "gamma"])
def test_a_key_without_a_known_tenant_authenticates_nobody(
    keys: Keys, tenant: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    key = keys.add("ada", tenant)
    with caplog.at_level(logging.INFO, "hubbub.security"):
        outcome = asyncio.run(keys.authenticator()(Headers([(b"x-api-key", key.encode())])))
    assert isinstance(outcome, Refusal)
    assert outcome.status == 401
    assert "tenant" not in outcome.message, "callers are not told why"
    reasons = [record.__dict__.get("reason", "") for record in caplog.records if record.message == "key_refused"]
    assert reasons == ["it has no tenant" if tenant is None else "there is no tenant 'gamma' in the settings"]


def test_a_key_without_a_tenant_and_with_the_scope_of_operators_is_an_operators(keys: Keys) -> None:
    key, other = keys.add("root", None, scopes=("hub:admin",)), keys.add("root2", None, scopes=("hub:admin", "x"))
    authenticator = keys.authenticator()
    gate = Gate(EdgeSettings(), [authenticator], identity=keys.identity)
    root = identified(keys, key, authenticator)
    assert (root.tenant, root.user, root.client) == ("", "root", "root")
    assert root.scopes == {"hub:admin"}
    assert root.name == f"/root#{root.credential}"
    assert identified(keys, other, authenticator).name != root.name
    keys.tenants.update([TenantSettings(name="gamma")])
    assert not gate.is_revoked(root.name), "it belongs to no tenant that could be removed"
    revoke_records(keys.path, "root")
    assert keys.identify(key, authenticator) is None
    assert gate.is_revoked(root.name)


def test_a_removed_tenant_loses_its_callers_and_a_new_one_gets_its_own(keys: Keys) -> None:
    ada, bob = keys.add("ada", "acme"), keys.add("bob", "gamma")
    authenticator = keys.authenticator()
    gate = Gate(EdgeSettings(), [authenticator], identity=keys.identity)
    before = identified(keys, ada, authenticator)
    assert not gate.is_revoked(before.name)
    keys.tenants.update([TenantSettings(name="gamma")])
    assert keys.identify(ada, authenticator) is None
    assert gate.is_revoked(before.name)
    assert identified(keys, bob, authenticator).tenant == "gamma"


def test_only_removed_and_expired_keys_are_revoked_and_never_tokens(keys: Keys) -> None:
    ada = identified(keys, keys.add("ada", "acme"))
    keys.add("bob", "acme")
    authenticator = keys.authenticator()
    token = "acme/ada#0123456789abcdef"
    assert not authenticator.is_revoked(ada.name)
    assert not authenticator.is_revoked(token)
    text = keys.path.read_text()
    revoke_records(keys.path, "ada")
    assert authenticator.is_revoked(ada.name)
    assert not authenticator.is_revoked(token)
    keys.path.write_text(text)
    assert not authenticator.is_revoked(ada.name), "it was put back"


def rotate(keys: Keys, name: str, overlap_s: float) -> str:
    made: list[str] = []

    def make(current: KeyRecord) -> KeyRecord:
        key, record = generate_key(name, tenant=current.tenant, user=current.user, version=current.version + 1)
        made.append(key)
        return record

    ends = datetime.fromtimestamp(keys.clock.now, UTC).replace(microsecond=0) + timedelta(seconds=overlap_s)
    rotate_record(keys.path, name, make, old_expires=ends)
    return made[0]


@pytest.mark.requirement("I1")
def test_a_rotated_key_is_another_principal_of_the_same_user(keys: Keys) -> None:
    old_key = keys.add("ada", "acme")
    authenticator = keys.authenticator()
    old = identified(keys, old_key, authenticator)
    new = identified(keys, rotate(keys, "ada", 3600), authenticator)
    assert (new.tenant, new.user) == (old.tenant, old.user)
    assert new.name != old.name
    assert identified(keys, old_key, authenticator) == old, "during the overlap both are valid"
    keys.clock.now += 3601
    assert keys.identify(old_key, authenticator) is None


@pytest.mark.requirement("L3")
def test_calls_of_a_rotated_key_may_finish_but_not_begin(keys: Keys) -> None:
    old_key = keys.add("ada", "acme")
    authenticator = keys.authenticator()
    gate = Gate(EdgeSettings(), [authenticator], identity=keys.identity)
    old = identified(keys, old_key, authenticator)
    rotate(keys, "ada", 0)
    headers = Headers([(b"x-api-key", old_key.encode())])
    assert isinstance(asyncio.run(gate.authenticate(headers)), Refusal)
    assert asyncio.run(gate.recheck(headers)) == old
    assert not gate.is_revoked(old.name)
    keys.clock.now += ROTATED_KEY_GRACE_S + 1
    assert isinstance(asyncio.run(gate.recheck(headers)), Refusal)
    assert gate.is_revoked(old.name)


def test_an_expired_key_that_was_not_rotated_ends_its_connections_at_once(keys: Keys) -> None:
    expires = datetime.fromtimestamp(keys.clock.now + 10, UTC)
    key, record = generate_key("ada", tenant="acme", expires=expires)
    append_record(keys.path, record)
    authenticator = keys.authenticator()
    principal = identified(keys, key, authenticator)
    keys.clock.now += 11
    assert isinstance(asyncio.run(authenticator.recheck(Headers([(b"x-api-key", key.encode())]))), Refusal)
    assert authenticator.is_revoked(principal.name)


@pytest.mark.parametrize("user", ["", "a/b", "a#b", "a\nb", "a\u202eb", "a\u200bb", " a", "a" * 257])
def test_a_user_has_no_separators_and_no_invisible_characters(tmp_path: Path, user: str) -> None:
    with pytest.raises(SettingsError, match="the user"):
        generate_key("ada", tenant="acme", user=user)


def test_with_tenants_two_credentials_in_one_request_are_refused(keys: Keys) -> None:
    key = keys.add("ada", "acme")
    gate = Gate(EdgeSettings(), [keys.authenticator()], identity=keys.identity)
    both = Headers([(b"x-api-key", key.encode()), (b"authorization", b"Bearer " + key.encode())])
    outcome = asyncio.run(gate.authenticate(both))
    assert isinstance(outcome, Refusal)
    assert outcome.status == 400
    without_tenants = Gate(EdgeSettings(), [ApiKeys(keys.path)])
    assert asyncio.run(without_tenants.authenticate(both)) == Principal("key:ada")


def test_without_tenants_a_key_keeps_its_name(keys: Keys) -> None:
    key = keys.add("ada", "acme", "someone")
    assert ApiKeys(keys.path).identify(key.encode()) == Principal("key:ada")


def test_tenants_need_an_authenticator(keys: Keys) -> None:
    with pytest.raises(SettingsError, match=r"hubbub keys create.*--key-file.*--jwt-keys"):
        Gate(EdgeSettings(insecure=True, requires_client_certificate=True), [], identity=keys.identity)


def test_a_known_caller_is_refused_at_once_when_its_tenant_is_removed(keys: Keys) -> None:
    key = keys.add("laptop", "acme", "ada")
    gate = Gate(EdgeSettings(), [keys.authenticator()], identity=keys.identity)
    headers = Headers([(b"host", b"localhost"), (b"x-api-key", key.encode())])
    assert isinstance(gate.admit_nowait(headers), Principal)
    keys.tenants.update([TenantSettings(name="beta")])
    assert gate.admit_nowait(headers) is None
