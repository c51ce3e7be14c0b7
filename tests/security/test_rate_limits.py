import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub import Principal, SettingsError, bounds
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.refusal import Refusal
from hubbub.security.rate_limits import DEFAULT_LIMITS, RateLimits, caller_key, effective_limits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def assert_refused(rate_limits: RateLimits, endpoint: str, caller: str) -> Refusal:
    refusal = rate_limits.check(endpoint, caller)
    assert refusal is not None
    return refusal


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_hundred_and_first_request_of_a_minute_is_refused(clock: Clock) -> None:
    rate_limits = RateLimits(DEFAULT_LIMITS, clock=clock)
    for _ in range(100):
        assert rate_limits.check("/mcp", "alice") is None
        clock.now += 0.48
    refusal = assert_refused(rate_limits, "/mcp", "alice")
    assert refusal == Refusal(
        429, "Too many requests: 100 per minute on /mcp; try again in 12 s", ((b"retry-after", b"12"),), 12
    )


def test_the_thousand_and_first_health_check_is_refused(clock: Clock) -> None:
    rate_limits = RateLimits(DEFAULT_LIMITS, clock=clock)
    assert all(rate_limits.check("health", "probe") is None for _ in range(1000))
    assert assert_refused(rate_limits, "health", "probe").status == 429


def test_a_request_after_the_retry_after_time_is_accepted(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=2/minute"], clock=clock)
    rate_limits.check("mcp", "alice")
    clock.now += 50.5
    rate_limits.check("mcp", "alice")
    refusal = assert_refused(rate_limits, "mcp", "alice")
    assert refusal.headers == ((b"retry-after", b"10"),)
    clock.now += 10
    assert rate_limits.check("mcp", "alice") is None
    assert assert_refused(rate_limits, "mcp", "alice").status == 429


def test_callers_and_endpoints_are_counted_separately(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=1/minute", "health=1/minute"], clock=clock)
    assert rate_limits.check("mcp", "alice") is None
    assert rate_limits.check("mcp", "bob") is None
    assert rate_limits.check("health", "alice") is None
    assert assert_refused(rate_limits, "mcp", "alice").status == 429


def test_a_path_and_its_name_share_a_limit(clock: Clock) -> None:
    rate_limits = RateLimits(["/mcp=1/minute"], clock=clock)
    assert rate_limits.check("mcp", "alice") is None
    assert assert_refused(rate_limits, "/mcp", "alice").status == 429


def test_paths_without_their_own_limit_share_the_default(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=1/minute", "other=4/minute"], clock=clock)
    for path in ("/", "/metrics", "/mcp/health", "/nowhere"):
        assert rate_limits.check(path, "alice") is None
    refusal = assert_refused(rate_limits, "/somewhere", "alice")
    assert refusal.message == "Too many requests: 4 per minute on other paths; try again in 60 s"
    assert rate_limits.check("/", "bob") is None
    assert rate_limits.check("/mcp", "alice") is None


def test_if_any_path_has_a_limit_all_have_one(clock: Clock) -> None:
    for rate_limits in (RateLimits(["mcp=1/minute"], clock=clock), RateLimits(DEFAULT_LIMITS, clock=clock)):
        assert all(rate_limits.check("/metrics", "alice") is None for _ in range(1000))
        assert assert_refused(rate_limits, "/", "alice").status == 429


def test_mcp_endpoints_are_limited_only_by_their_own_limit() -> None:
    rate_limits = RateLimits(["health=1/minute", "other=1/minute"])
    assert all(rate_limits.check(path, "alice") is None for path in ("/mcp", "/sse", "/messages", "/mcp-ws") * 10)


def test_without_any_limit_nothing_is_counted() -> None:
    assert all(RateLimits(()).check("/", "alice") is None for _ in range(2000))


def test_one_caller_cannot_use_the_limit_of_another(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=1/minute", "mcp/health=1/minute"], clock=clock)
    assert rate_limits.check("mcp", "a") is None
    assert rate_limits.check("mcp", "a/1/1/minute") is None
    assert rate_limits.check("mcp", "") is None
    assert rate_limits.check("mcp", "health/b") is None
    assert rate_limits.check("mcp/health", "b") is None


@settings(max_examples=50)
@given(st.integers(1, 6), st.lists(st.floats(0, 90), max_size=60))
def test_every_window_accepts_exactly_the_limit(limit: int, pauses: list[float]) -> None:
    clock = Clock()
    rate_limits = RateLimits([f"mcp={limit}/minute"], clock=clock)
    accepted: list[float] = []
    for pause in pauses:
        clock.now += pause
        recent = sum(1 for moment in accepted if moment > clock.now - 60)
        outcome = rate_limits.check("mcp", "alice")
        assert (outcome is None) == (recent < limit)
        if outcome is None:
            accepted.append(clock.now)
        else:
            assert 1 <= int(outcome.headers[0][1]) <= 60


def test_limits_over_several_units_are_named_in_refusals(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=1 per 5 minutes"], clock=clock)
    rate_limits.check("mcp", "a")
    assert (
        assert_refused(rate_limits, "mcp", "a").message
        == "Too many requests: 1 per 5 minutes on /mcp; try again in 300 s"
    )


def test_the_number_of_callers_in_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "QUOTA_CALLERS", 10)
    rate_limits = RateLimits(["mcp=1/minute"], clock=clock)
    for number in range(100):
        assert rate_limits.check("mcp", f"caller-{number}") is None
    outcomes = [rate_limits.check("mcp", f"caller-{number}") is not None for number in reversed(range(100))]
    assert outcomes == [True] * 10 + [False] * 90


def test_the_number_of_remembered_requests_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "QUOTA_TIMES", 50)
    rate_limits = RateLimits(["mcp=20/minute"], clock=clock)
    for number in range(10):
        assert all(rate_limits.check("mcp", f"caller-{number}") is None for _ in range(20))
        assert assert_refused(rate_limits, "mcp", f"caller-{number}").status == 429
    outcomes = [rate_limits.check("mcp", f"caller-{number}") is not None for number in reversed(range(10))]
    assert outcomes == [True] * 2 + [False] * 8


@pytest.mark.parametrize(
    ("written", "limit", "wait_s"),
    [
        ("1/second", "1 per second", 1),
        ("1 / MINUTES ", "1 per minute", 60),
        ("1per2hours", "1 per 2 hours", 7200),
        (" 01 per 1 day", "1 per day", 86400),
        ("1/month", "1 per month", 30 * 86400),
        ("1/3year", "1 per 3 years", 3 * 360 * 86400),
    ],
)
def test_a_rate_may_be_written_in_several_ways(clock: Clock, written: str, limit: str, wait_s: int) -> None:
    rate_limits = RateLimits([f"mcp={written}"], clock=clock)
    assert rate_limits.check("mcp", "alice") is None
    assert (
        assert_refused(rate_limits, "mcp", "alice").message
        == f"Too many requests: {limit} on /mcp; try again in {wait_s} s"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "mcp",
        "mcp=",
        "=100/minute",
        "mcp=0/minute",
        "mcp=-1/minute",
        "mcp=x",
        "mcp=1000000/day",
        "mcp=1/day;2/hour",
        "mcp=1/0 days",
        "mcp=1/fortnight",
        "/=1/day",
        "m cp=1/day",
    ],
)
def test_an_invalid_limit_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="limits"):
        RateLimits([wrong])


@pytest.mark.parametrize(
    ("wrong", "message"), [("mpc", "did you mean 'mcp'"), ("nope", "known: "), ("", "write it as mcp=")]
)
def test_an_unknown_route_is_refused_with_the_nearest_one(wrong: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        RateLimits([f"{wrong}=5/minute"])


def test_messages_are_counted_like_requests(clock: Clock) -> None:
    rate_limits = RateLimits(["mcp=3/minute"], clock=clock)
    count = rate_limits.count_for("/mcp-ws", ANONYMOUS, "192.0.2.1")
    assert count is not None
    assert count() is None
    assert rate_limits.check("/mcp", "192.0.2.1") is None
    assert count() is None
    limited = count()
    assert limited is not None
    assert limited.retry_after_s == 60
    assert "try again in 60 s" in limited.message
    assert rate_limits.count_for("/health", ANONYMOUS, "192.0.2.1") is None


def test_two_limits_for_one_endpoint_are_refused() -> None:
    with pytest.raises(SettingsError, match="two limits"):
        RateLimits(["mcp=1/minute", "/mcp=2/minute"])


def test_limits_are_off_on_loopback_unless_set() -> None:
    assert effective_limits("127.0.0.1", None) == ()
    assert effective_limits("0.0.0.0", None) == DEFAULT_LIMITS
    assert effective_limits("127.0.0.1", ["mcp=1/minute"]) == ("mcp=1/minute",)
    assert effective_limits("0.0.0.0", []) == ()


def test_requests_are_counted_by_principal_or_by_address() -> None:
    assert caller_key(Principal("alice"), "10.0.0.1") == "alice"
    assert caller_key(ANONYMOUS, "10.0.0.1") == "10.0.0.1"
    assert caller_key(ANONYMOUS, None) == "unknown"
    assert caller_key(ANONYMOUS, "2001:db8:1:2::1") == caller_key(ANONYMOUS, "2001:db8:1:2:ffff::9")
    assert caller_key(ANONYMOUS, "2001:db8:1:2::1") != caller_key(ANONYMOUS, "2001:db8:1:3::1")
    assert caller_key(ANONYMOUS, "::ffff:10.0.0.1") == "10.0.0.1"
    assert caller_key(ANONYMOUS, "unix:") == "unix:"
