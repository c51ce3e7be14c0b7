"""Quotas on calls per tenant, user, server and tool, and the concurrent calls of a tenant."""

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Call, CallNext, Client, Principal, QuotaExceeded, Reply, Server, SettingsError, TooManyCalls
from hubbub.governance import call_quotas
from hubbub.governance.call_quotas import CallQuotas, TenantCalls
from hubbub.protocol.error_codes import error_object
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, PLAIN
from hubbub.security.rates import parse_rate
from hubbub.settings.governance import QuotaSettings, TenantSettings


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def person(user: str, tenant: str = "acme", key: str = "1") -> Principal:
    return Principal(f"{tenant}/{user}#{key}", tenant=tenant, user=user)


def is_refused(
    quotas: CallQuotas, user: str, server: str = "github", tool: str = "search", tenant: str = "acme"
) -> bool:
    return quotas.check(person(user, tenant), server, tool) is not None


# -- counting ----------------------------------------------------------------------------


def test_a_call_over_the_limit_is_refused_until_the_first_leaves_the_window(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="2/minute")], clock)
    assert not is_refused(quotas, "alice")
    clock.now += 50
    assert not is_refused(quotas, "bob")
    refusal = quotas.check(person("carol"), "github", "search")
    assert refusal is not None
    assert refusal.message == (
        "Too many calls: the limit is 2 per minute for each tenant. The call was not made; wait 10 s, then repeat it"
    )
    assert refusal.data == {"retryAfterMs": 10_000}
    clock.now += 10
    assert not is_refused(quotas, "carol")
    assert is_refused(quotas, "carol")


@pytest.mark.parametrize(
    ("per", "same", "other"),
    [
        (("tenant",), ("bob", "slack", "post", "acme"), ("alice", "github", "search", "globex")),
        (("user",), ("alice", "slack", "post", "acme"), ("bob", "github", "search", "acme")),
        (("user",), ("alice", "slack", "post", "acme"), ("alice", "github", "search", "globex")),
        (("server",), ("bob", "github", "post", "globex"), ("alice", "slack", "search", "acme")),
        (("tenant", "tool"), ("bob", "slack", "search", "acme"), ("alice", "github", "post", "acme")),
        ((), ("bob", "slack", "post", "globex"), None),
    ],
)
def test_each_combination_of_the_parts_is_counted_on_its_own(
    clock: Clock, per: tuple[str, ...], same: tuple[str, ...], other: tuple[str, ...] | None
) -> None:
    quotas = CallQuotas([msgspec.convert({"limit": "1/minute", "per": per}, QuotaSettings)], clock)
    assert not is_refused(quotas, "alice")
    assert is_refused(quotas, *same)
    assert other is None or not is_refused(quotas, *other)


def test_all_keys_of_a_user_count_together(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="1/minute", per=("user",))], clock)
    assert quotas.check(person("alice", key="1"), "github", "search") is None
    assert quotas.check(person("alice", key="2"), "github", "search") is not None


def test_without_tenants_a_user_is_the_principal(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="1/minute", per=("user",))], clock)
    assert quotas.check(Principal("laptop"), "github", "search") is None
    assert quotas.check(Principal("phone"), "github", "search") is None
    assert quotas.check(Principal("laptop"), "github", "search") is not None


def test_patterns_say_what_a_quota_applies_to(clock: Clock) -> None:
    limits = QuotaSettings(limit="1/minute", tenants=("ac*",), users=("al*", "bob"), servers=("git?ub",), tools=("s*",))
    quotas = CallQuotas([limits], clock)
    assert not is_refused(quotas, "bob")
    for call in [
        ("alice", "github", "search", "globex"),
        ("carol", "github", "search", "acme"),
        ("alice", "gitlab", "search", "acme"),
        ("alice", "github", "post", "acme"),
    ]:
        assert not is_refused(quotas, *call)
    assert is_refused(quotas, "alice")


def test_a_call_that_one_quota_refuses_is_counted_by_none(clock: Clock) -> None:
    quotas = CallQuotas(
        [QuotaSettings(limit="3/hour", per=("tenant",)), QuotaSettings(limit="1/minute", per=("user",))], clock
    )
    assert not is_refused(quotas, "alice")
    assert all(is_refused(quotas, "alice") for _ in range(10))
    assert not is_refused(quotas, "bob")
    assert not is_refused(quotas, "carol")
    assert is_refused(quotas, "dave")


def test_the_error_names_the_quota_that_has_room_last(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="1/minute"), QuotaSettings(limit="1/hour", per=("user",))], clock)
    assert not is_refused(quotas, "alice")
    refusal = quotas.check(person("alice"), "github", "search")
    assert refusal is not None
    assert "1 per hour for each user" in refusal.message
    assert refusal.retry_after_s == 3600


def test_a_clock_that_jumps_back_refuses_nobody_for_longer(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="1/minute")], clock)
    assert not is_refused(quotas, "alice")
    clock.now -= 86_400
    assert is_refused(quotas, "alice")
    clock.now += 59
    assert is_refused(quotas, "alice")
    clock.now += 1
    assert not is_refused(quotas, "alice")


@pytest.mark.parametrize("limit", ["100", "0/minute", "5/fortnight", "100001/day", "-1/minute", ""])
def test_a_limit_that_is_not_a_rate_is_an_error_that_names_it(limit: str) -> None:
    with pytest.raises(SettingsError, match=r"^quotas\[1\]\.limit: .* is not a rate; write it as 100/minute"):
        CallQuotas([QuotaSettings(limit="1/minute"), QuotaSettings(limit=limit)])


def test_other_settings_keep_the_counters_of_unchanged_quotas(clock: Clock) -> None:
    kept, removed = QuotaSettings(limit="1/minute", per=("user",)), QuotaSettings(limit="2/minute")
    quotas = CallQuotas([kept, removed], clock)
    assert not is_refused(quotas, "alice")
    quotas.configure([QuotaSettings(limit="1/hour", tools=("never",)), kept])
    assert is_refused(quotas, "alice")
    assert not is_refused(quotas, "bob")
    assert quotas.counters == 2
    with pytest.raises(SettingsError):
        quotas.configure([QuotaSettings(limit="?")])
    assert is_refused(quotas, "alice"), "broken settings change nothing"


# -- a naive model -----------------------------------------------------------------------


class NaiveQuotas:
    """Lists of times, and every rule spelled out."""

    def __init__(self, settings: Sequence[QuotaSettings]) -> None:
        self.settings = settings
        self.accepted: list[tuple[int, tuple[str, ...], float]] = []
        self.elapsed = 0.0

    def check(self, user: str, server: str, tool: str, tenant: str) -> float | None:
        """Return how long to wait, or None."""
        parts = {"tenant": tenant, "user": f"{tenant}/{user}", "server": server, "tool": tool}
        waits, found = [0.0], []
        for index, quota in enumerate(self.settings):
            if (quota.users and user not in quota.users) or (quota.tools and tool not in quota.tools):
                continue
            rate = parse_rate(quota.limit)
            assert rate is not None
            key = tuple(parts[name] for name in sorted(set(quota.per)))
            times = [time for number, other, time in self.accepted if (number, other) == (index, key)]
            recent = [time for time in times if time > self.elapsed - rate.window_s]
            if len(recent) >= rate.amount:
                waits.append(recent[-rate.amount] + rate.window_s - self.elapsed)
            found.append((index, key, self.elapsed))
        if max(waits):
            return max(waits)
        self.accepted += found
        return None


PARTS = ["tenant", "user", "server", "tool"]
quota_settings = st.builds(
    QuotaSettings,
    limit=st.sampled_from(["1/second", "2/minute", "3 per 5 seconds", "5/hour"]),
    per=st.lists(st.sampled_from(PARTS), max_size=4).map(tuple),
    users=st.sampled_from([(), ("alice",), ("alice", "bob")]),
    tools=st.sampled_from([(), ("search",)]),
)
calls = st.tuples(
    st.sampled_from(["alice", "bob", "carol"]),
    st.sampled_from(["github", "slack"]),
    st.sampled_from(["search", "post"]),
    st.sampled_from(["acme", "globex"]),
)


@given(
    st.lists(quota_settings, max_size=4),
    st.lists(st.tuples(st.one_of(st.integers(0, 90), st.integers(-5000, 5000)), calls), max_size=60),
)
def test_quotas_decide_as_a_naive_model_does(
    settings: list[QuotaSettings], events: list[tuple[int, tuple[str, str, str, str]]]
) -> None:
    clock = Clock()
    quotas, naive = CallQuotas(settings, clock), NaiveQuotas(settings)
    for seconds, call in events:
        clock.now += seconds
        naive.elapsed += max(seconds, 0)
        quotas.check(person("clock"), "no", "tool")  # reads the clock, so that a jump back and forth is not missed
        naive.check("clock", "no", "tool", "acme")
        user, server, tool, tenant = call
        refusal, wait_s = quotas.check(person(user, tenant), server, tool), naive.check(*call)
        assert (refusal is None) == (wait_s is None)
        if refusal is not None and wait_s is not None:
            assert refusal.retry_after_s == max(1, math.ceil(wait_s))


# -- bounds ------------------------------------------------------------------------------


def test_a_flood_of_one_tenant_forgets_no_counter_of_another(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_quotas, "MAX_COUNTERS_PER_TENANT", 10)
    quotas = CallQuotas([QuotaSettings(limit="1/hour", per=("user",))], clock)
    assert not is_refused(quotas, "alice", tenant="acme")
    outcomes = [is_refused(quotas, f"user-{number}", tenant="flood") for number in range(100)]
    assert outcomes == [False] * 10 + [True] * 90
    assert is_refused(quotas, "alice", tenant="acme")
    assert not is_refused(quotas, "bob", tenant="acme")
    assert quotas.counters == 12


def test_a_flood_gives_a_tenant_none_of_its_quota_back(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_quotas, "MAX_COUNTERS_PER_TENANT", 10)
    quotas = CallQuotas([QuotaSettings(limit="1/hour", per=("user",))], clock)
    for number in range(100):
        is_refused(quotas, f"user-{number}")
    assert all(is_refused(quotas, f"user-{number}") for number in range(100))
    refusal = quotas.check(person("user-99"), "github", "search")
    assert refusal is not None
    assert "Too many different users, servers and tools of this tenant" in refusal.message
    assert refusal.retry_after_s == 3600
    clock.now += 3600
    assert not is_refused(quotas, "user-99")


def test_stored_times_are_bounded_and_room_is_made_when_windows_have_passed(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_quotas, "MAX_TIMES_PER_TENANT", 50)
    settings = [QuotaSettings(limit="20/minute", per=("user",)), QuotaSettings(limit="1000/second")]
    quotas = CallQuotas(settings, clock)
    accepted = sum(not is_refused(quotas, f"user-{number % 5}") for number in range(200))
    assert accepted == 25, "two times each"
    assert is_refused(quotas, "user-0")
    assert not is_refused(quotas, "alice", tenant="globex")
    clock.now += 60
    assert sum(not is_refused(quotas, "user-0") for _ in range(200)) == 20


def test_counters_are_forgotten_when_their_window_has_passed(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="5/second", per=("user",)), QuotaSettings(limit="9/day")], clock)
    for number in range(1000):
        is_refused(quotas, f"user-{number}", tenant=f"tenant-{number % 7}")
        clock.now += 0.5
    assert quotas.counters <= 7 + 7 * 3


def test_a_counter_in_constant_use_does_not_keep_the_others(clock: Clock) -> None:
    quotas = CallQuotas([QuotaSettings(limit="9/second", per=("user",))], clock)
    for number in range(100):
        assert not is_refused(quotas, "busy")
        assert not is_refused(quotas, f"user-{number}")
        clock.now += 0.5
    assert quotas.counters <= 5


# -- the form of the error -----------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_model_reads_when_to_come_back(clock: Clock, version: str) -> None:
    quotas = CallQuotas([QuotaSettings(limit="1/minute")], clock)
    server = Server("shop")

    @server.tool
    async def search() -> str:
        return "found"

    @server.middleware
    async def count(call: Call, call_next: CallNext) -> Reply:
        if call.method == "tools/call":
            refusal = quotas.check(call.caller.principal, "shop", call.params.name)
            if refusal is not None:
                raise refusal
        return await call_next(call)

    async with Client(server, protocol_version=version) as client:
        assert not (await client.call_tool("search")).is_error
        refused = await client.call_tool("search")
    assert refused.is_error
    assert refused.structured_content is not None
    assert refused.structured_content["error"] == {
        "type": "quota_exceeded",
        "message": (
            "Too many calls: the limit is 1 per minute for each tenant. The call was not made; "
            "wait 60 s, then repeat it"
        ),
        "tool": "search",
        "data": {"retryAfterMs": 60_000},
    }


@pytest.mark.parametrize(("revision", "code"), [(NEWEST_MODERN, -32600), (NEWEST_LEGACY, -32600), (PLAIN, -32002)])
def test_where_it_is_no_result_it_is_an_error_with_the_same_data(revision: object, code: int) -> None:
    error = error_object(QuotaExceeded("Too many calls", 1.5), revision)  # type: ignore[arg-type]
    assert (error.code, error.data) == (code, {"retryAfterMs": 1500})


# -- concurrent calls ----------------------------------------------------------------------


def test_a_tenant_has_at_most_its_number_of_concurrent_calls() -> None:
    tenant_calls = TenantCalls([TenantSettings(name="acme", max_calls=2), TenantSettings(name="globex", max_calls=1)])
    assert tenant_calls.acquire("acme") is None
    assert tenant_calls.acquire("acme") is None
    refusal = tenant_calls.acquire("acme")
    assert isinstance(refusal, TooManyCalls)
    assert refusal.message == (
        "Too many calls: tenant 'acme' has reached its limit of 2 concurrent calls. The call was not made; "
        "repeat it when others have finished"
    )
    assert refusal.data == {"retryAfterMs": 1000}
    assert tenant_calls.acquire("globex") is None, "other tenants are not affected"
    tenant_calls.release("acme")
    assert tenant_calls.running("acme") == 1
    assert tenant_calls.acquire("acme") is None


def test_a_lower_limit_waits_for_the_calls_that_are_running() -> None:
    tenant_calls = TenantCalls([TenantSettings(name="acme", max_calls=2)])
    assert tenant_calls.acquire("acme") is tenant_calls.acquire("acme") is None
    tenant_calls.configure([TenantSettings(name="acme", max_calls=1)])
    tenant_calls.release("acme")
    assert tenant_calls.acquire("acme") is not None
    tenant_calls.release("acme")
    assert tenant_calls.acquire("acme") is None
    tenant_calls.configure([])
    assert tenant_calls.acquire("acme") is None, "the hub itself, and tenants that were removed, have no limit"
    tenant_calls.release("acme")
    tenant_calls.release("acme")
    assert tenant_calls.running("acme") == 0
