"""When an upstream is asked, and when it is left alone."""

from hubbub.hub.breaker import Breaker
from hubbub.net.backoff import Backoff


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(limit: int = 3) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(limit, backoff=Backoff((1.0, 5.0), jitter=0), clock=clock), clock


def test_it_opens_after_so_many_failures_in_a_row_and_says_why_and_for_how_long() -> None:
    breaker, _ = made()
    for _ in range(2):
        breaker.failed("slow")
    breaker.succeeded()
    for _ in range(2):
        assert breaker.admit()
        breaker.failed("slow")
    assert breaker.is_closed
    breaker.failed("silent")
    assert not breaker.is_closed
    assert not breaker.admit()
    assert (breaker.reason, breaker.retry_in_s) == ("silent", 1.0)


def test_then_one_call_may_try_and_decides_for_the_others() -> None:
    breaker, clock = made(1)
    breaker.failed("gone")
    clock.now += 1
    assert breaker.admit()
    assert not breaker.admit()
    breaker.failed("still gone")
    assert breaker.retry_in_s == 5.0
    clock.now += 4.9
    assert not breaker.admit()
    clock.now += 0.2
    assert breaker.admit()
    breaker.succeeded()
    assert breaker.is_closed
    assert breaker.admit()
    assert breaker.admit()


def test_a_try_that_was_given_up_leaves_it_to_another() -> None:
    breaker, clock = made(1)
    breaker.failed("gone")
    clock.now += 2
    assert breaker.admit()
    breaker.abandoned()
    assert breaker.admit()


def test_failures_of_calls_that_began_earlier_do_not_make_the_wait_longer() -> None:
    breaker, _ = made(1)
    breaker.failed("gone")
    breaker.failed("gone too")
    assert breaker.retry_in_s == 1.0
    assert breaker.reason == "gone"


def test_a_sign_of_life_lets_one_try_at_once() -> None:
    breaker, _ = made(1)
    breaker.let_try()
    assert breaker.is_closed
    breaker.failed("gone")
    breaker.let_try()
    assert breaker.admit()
    assert not breaker.admit()
