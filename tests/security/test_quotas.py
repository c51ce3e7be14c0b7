import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.security.quotas import DEFAULTS, Quotas, caller_of, limits_for


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_hundred_and_first_request_of_a_minute_is_refused(clock):
    quotas = Quotas(DEFAULTS, clock=clock)
    for _ in range(100):
        assert quotas.check("/mcp", "alice") is None
        clock.now += 0.48
    refusal = quotas.check("/mcp", "alice")
    assert refusal == Refusal(
        429, "Too many requests: 100 per minute on /mcp; try again in 12 s", ((b"retry-after", b"12"),), 12
    )


def test_the_thousand_and_first_health_check_is_refused(clock):
    quotas = Quotas(DEFAULTS, clock=clock)
    assert all(quotas.check("health", "probe") is None for _ in range(1000))
    assert quotas.check("health", "probe").status == 429


def test_waiting_as_told_helps(clock):
    quotas = Quotas(["mcp=2/minute"], clock=clock)
    quotas.check("mcp", "alice")
    clock.now += 50.5
    quotas.check("mcp", "alice")
    refusal = quotas.check("mcp", "alice")
    assert refusal.headers == ((b"retry-after", b"10"),)
    clock.now += 10
    assert quotas.check("mcp", "alice") is None
    assert quotas.check("mcp", "alice").status == 429


def test_callers_and_endpoints_are_counted_apart(clock):
    quotas = Quotas(["mcp=1/minute", "health=1/minute"], clock=clock)
    assert quotas.check("mcp", "alice") is None
    assert quotas.check("mcp", "bob") is None
    assert quotas.check("health", "alice") is None
    assert quotas.check("mcp", "alice").status == 429


def test_a_path_and_its_name_are_one_endpoint(clock):
    quotas = Quotas(["/mcp=1/minute"], clock=clock)
    assert quotas.check("mcp", "alice") is None
    assert quotas.check("/mcp", "alice").status == 429


def test_an_endpoint_without_a_limit_is_not_counted():
    quotas = Quotas(["mcp=1/minute"])
    assert all(quotas.check("/metrics", "alice") is None for _ in range(100))


def test_callers_cannot_pass_for_one_another(clock):
    quotas = Quotas(["mcp=1/minute", "mcp/health=1/minute"], clock=clock)
    assert quotas.check("mcp", "a") is None
    assert quotas.check("mcp", "a/1/1/minute") is None
    assert quotas.check("mcp", "") is None
    assert quotas.check("mcp", "health/b") is None
    assert quotas.check("mcp/health", "b") is None


@settings(max_examples=50)
@given(st.integers(1, 6), st.lists(st.floats(0, 90), max_size=60))
def test_of_any_window_no_more_than_the_limit_is_accepted_and_no_less(limit, pauses):
    clock = Clock()
    quotas = Quotas([f"mcp={limit}/minute"], clock=clock)
    accepted = []
    for pause in pauses:
        clock.now += pause
        recent = sum(1 for moment in accepted if moment > clock.now - 60)
        outcome = quotas.check("mcp", "alice")
        assert (outcome is None) == (recent < limit)
        if outcome is None:
            accepted.append(clock.now)
        else:
            assert 1 <= int(outcome.headers[0][1]) <= 60


def test_limits_over_several_units_are_named_so(clock):
    quotas = Quotas(["mcp=1 per 5 minutes"], clock=clock)
    quotas.check("mcp", "a")
    assert quotas.check("mcp", "a").message == "Too many requests: 1 per 5 minutes on /mcp; try again in 300 s"


def test_the_number_of_callers_in_memory_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(bounds, "QUOTA_CALLERS", 10)
    quotas = Quotas(["mcp=1/minute"], clock=clock)
    for number in range(100):
        assert quotas.check("mcp", f"caller-{number}") is None
    storage = quotas._storage
    assert len(storage._rings) == 10
    assert storage._times == 10
    assert quotas.check("mcp", "caller-99").status == 429


def test_the_number_of_remembered_requests_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(bounds, "QUOTA_TIMES", 50)
    quotas = Quotas(["mcp=20/minute"], clock=clock)
    for number in range(10):
        assert all(quotas.check("mcp", f"caller-{number}") is None for _ in range(20))
        assert quotas.check("mcp", f"caller-{number}").status == 429
    storage = quotas._storage
    assert storage._times == sum(len(ring.times) for ring in storage._rings.values()) <= 50


def test_counting_starts_no_threads():
    before = threading.active_count()
    quotas = Quotas(["mcp=1000/second"])
    for _ in range(100):
        quotas.check("mcp", "alice")
    assert threading.active_count() == before


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
        "/=1/day",
        "m cp=1/day",
    ],
)
def test_a_limit_that_is_none_is_refused(wrong):
    with pytest.raises(SettingsError, match="limits"):
        Quotas([wrong])


@pytest.mark.parametrize(("wrong", "told"), [("mpc", "did you mean 'mcp'"), ("nope", "known: "), ("", "write mcp=")])
def test_a_route_that_is_none_is_refused_with_the_nearest(wrong, told):
    with pytest.raises(SettingsError, match=told):
        Quotas([f"{wrong}=5/minute"])


def test_messages_are_counted_like_requests(clock):
    quotas = Quotas(["mcp=3/minute"], clock=clock)
    count = quotas.count_for("/mcp-ws", ANONYMOUS, "192.0.2.1")
    assert count() is None
    assert quotas.check("/mcp", "192.0.2.1") is None
    assert count() is None
    limited = count()
    assert limited.retry_after_s == 60
    assert "try again in 60 s" in limited.message
    assert quotas.count_for("/health", ANONYMOUS, "192.0.2.1") is None


def test_two_limits_for_one_endpoint_are_refused():
    with pytest.raises(SettingsError, match="two limits"):
        Quotas(["mcp=1/minute", "/mcp=2/minute"])


def test_limits_are_off_on_loopback_unless_set():
    assert limits_for("127.0.0.1", None) == ()
    assert limits_for("0.0.0.0", None) == DEFAULTS
    assert limits_for("127.0.0.1", ["mcp=1/minute"]) == ("mcp=1/minute",)
    assert limits_for("0.0.0.0", []) == ()


def test_who_is_counted():
    assert caller_of(Principal("alice"), "10.0.0.1") == "alice"
    assert caller_of(ANONYMOUS, "10.0.0.1") == "10.0.0.1"
    assert caller_of(ANONYMOUS, None) == "unknown"
    assert caller_of(ANONYMOUS, "2001:db8:1:2::1") == caller_of(ANONYMOUS, "2001:db8:1:2:ffff::9")
    assert caller_of(ANONYMOUS, "2001:db8:1:2::1") != caller_of(ANONYMOUS, "2001:db8:1:3::1")
    assert caller_of(ANONYMOUS, "::ffff:10.0.0.1") == "10.0.0.1"
    assert caller_of(ANONYMOUS, "unix:") == "unix:"


def test_without_limits_the_library_is_not_loaded():
    code = (
        "import sys; from hubbub.security.quotas import Quotas; "
        "assert Quotas().check('mcp', 'a') is None; assert 'limits' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
