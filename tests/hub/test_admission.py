"""Admission of calls to an upstream: the limiter with its queue, and the circuit breaker."""

import asyncio

import pytest

from hubbub import Caller, Overloaded, Principal, bounds
from hubbub.hub.admission import Breaker, Breakers, CallLimiter
from hubbub.pack.http import Backoff
from hubbub.protocol.revisions import NEWEST_MODERN


def far_deadline() -> float:
    return asyncio.get_running_loop().time() + 600


async def start_waiting(slots: CallLimiter, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(slots.acquire(far_deadline())) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_queued_calls_are_served_in_order() -> None:
    slots = CallLimiter("calls", 1, 10)
    await slots.acquire(far_deadline())
    first, second = await start_waiting(slots, 2)
    assert slots.waiting == 2
    slots.release()
    await first
    assert not second.done()
    slots.release()
    await second
    slots.release()
    assert (slots.running, slots.waiting) == (0, 0)


async def test_a_full_queue_refuses_calls() -> None:
    slots = CallLimiter("calls to x", 1, 1)
    await slots.acquire(far_deadline())
    (waiting,) = await start_waiting(slots, 1)
    with pytest.raises(Overloaded, match="Too many calls to x "):
        await slots.acquire(far_deadline())
    slots.release()
    await waiting


def test_many_principals_of_one_tenant_leave_slots_for_others() -> None:
    slots = CallLimiter("calls", 64, 256)
    taken = [slots.acquire_nowait(f"acme/user{number}#key") for number in range(64)]
    assert taken.count(True) == 56
    assert slots.acquire_nowait("beta/ann#key")


async def test_queued_calls_end_at_their_deadline_or_when_cancelled() -> None:
    slots = CallLimiter("calls", 1, 10)
    await slots.acquire(far_deadline())
    with pytest.raises(Overloaded):
        await slots.acquire(asyncio.get_running_loop().time() + 0.01)
    (leaving,) = await start_waiting(slots, 1)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert slots.waiting == 0
    slots.release()
    await slots.acquire(far_deadline())
    assert slots.running == 1


async def test_a_slot_assigned_to_a_cancelled_call_is_not_lost() -> None:
    slots = CallLimiter("calls", 1, 10)
    await slots.acquire(far_deadline())
    (leaving,) = await start_waiting(slots, 1)
    slots.release()
    leaving.cancel()
    await asyncio.wait([leaving])
    await asyncio.wait_for(slots.acquire(far_deadline()), 60)
    assert slots.running == 1


async def test_a_call_that_waits_for_its_caller_yields_its_slot() -> None:
    slots = CallLimiter("calls", 1, 10)
    await slots.acquire(far_deadline())
    slots.yield_slot()
    await asyncio.wait_for(slots.acquire(far_deadline()), 60)
    slots.retake_slot()
    assert slots.running == 2
    (waiting,) = await start_waiting(slots, 1)
    slots.release()
    await asyncio.sleep(0)
    assert not waiting.done()
    slots.release()
    await waiting


async def test_the_limiter_is_idle_without_running_queued_or_yielded_calls() -> None:
    slots = CallLimiter("calls", 2, 10)
    await asyncio.wait_for(slots.wait_until_idle(), 60)
    await slots.acquire(far_deadline())
    await slots.acquire(far_deadline())
    slots.yield_slot()
    idle = asyncio.create_task(slots.wait_until_idle())
    slots.release()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not idle.done()
    slots.retake_slot()
    slots.release()
    await asyncio.wait_for(idle, 60)


@pytest.mark.parametrize("owner", ["", "ada"])
async def test_a_call_can_end_while_its_slot_is_yielded(owner: str) -> None:
    slots = CallLimiter("calls", 2, 10)
    await slots.acquire(far_deadline(), owner)
    slots.yield_slot(owner)
    idle = asyncio.create_task(slots.wait_until_idle())
    await asyncio.sleep(0)
    slots.release(owner)
    slots.retake_slot(owner)
    await asyncio.wait_for(idle, 60)
    assert (slots.running, slots.yielded, slots.waiting) == (0, 0, 0)


async def test_one_owner_cannot_fill_the_queue() -> None:
    slots = CallLimiter("calls", 2, 2)
    await slots.acquire(far_deadline(), "ada")
    waiting = asyncio.create_task(slots.acquire(far_deadline(), "ada"))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await slots.acquire(far_deadline(), "ada")
    await slots.acquire(far_deadline(), "bob")
    next_bob = asyncio.create_task(slots.acquire(far_deadline(), "bob"))
    await asyncio.sleep(0)
    assert slots.waiting == 2
    slots.release("ada")
    await waiting
    slots.release("bob")
    await next_bob


# -- the breaker ---------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def make_breaker(limit: int = 3) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(limit, backoff=Backoff((1.0, 5.0), jitter=0), clock=clock), clock


def test_the_breaker_opens_after_consecutive_failures_with_reason_and_retry_time() -> None:
    breaker, _ = make_breaker()
    for _ in range(2):
        breaker.record_failure("slow")
    breaker.record_success()
    for _ in range(2):
        assert breaker.admit()
        breaker.record_failure("slow")
    is_closed = breaker.is_closed
    assert is_closed
    breaker.record_failure("silent")
    assert not breaker.is_closed
    assert not breaker.admit()
    assert (breaker.reason, breaker.retry_in_s) == ("silent", 1.0)


def test_an_open_breaker_admits_one_trial_call_that_decides() -> None:
    breaker, clock = make_breaker(1)
    breaker.record_failure("gone")
    clock.now += 1
    assert breaker.admit()
    assert not breaker.admit()
    breaker.record_failure("still gone")
    assert breaker.retry_in_s == 5.0
    clock.now += 4.9
    assert not breaker.admit()
    clock.now += 0.2
    assert breaker.admit()
    breaker.record_success()
    assert breaker.is_closed
    assert breaker.admit()
    assert breaker.admit()


def test_an_abandoned_trial_call_admits_another() -> None:
    breaker, clock = make_breaker(1)
    breaker.record_failure("gone")
    clock.now += 2
    assert breaker.admit()
    breaker.record_abandoned()
    assert breaker.admit()


def test_failures_of_earlier_calls_do_not_extend_the_retry_time() -> None:
    breaker, _ = make_breaker(1)
    breaker.record_failure("gone")
    breaker.record_failure("gone too")
    assert breaker.retry_in_s == 1.0
    assert breaker.reason == "gone"


def test_allow_trial_admits_one_call_at_once() -> None:
    breaker, _ = make_breaker(1)
    breaker.allow_trial()
    assert breaker.is_closed
    breaker.record_failure("gone")
    breaker.allow_trial()
    assert breaker.admit()
    assert not breaker.admit()


def test_breakers_of_a_tenant_with_many_users_replace_each_other() -> None:
    def caller(tenant: str, user: str) -> Caller:
        return Caller(revision=NEWEST_MODERN, principal=Principal(f"{tenant}/{user}#key", tenant=tenant, user=user))

    breakers = Breakers(1)
    for who in (caller("beta", "ann"), caller("acme", "first"), caller("acme", "last")):
        breakers.get(who).record_failure("timeout")
    for number in range(bounds.UPSTREAM_QUEUED_CALLS - 2):
        breakers.get(caller("acme", str(number)))
    assert not breakers.get(caller("beta", "ann")).is_closed
    assert not breakers.get(caller("acme", "last")).is_closed
    assert breakers.get(caller("acme", "first")).is_closed
