"""Sessions of principals end: when they are idle, when they are too old, and when their user is logged out."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.hub.upstream_callers import ELICITATION, LEGACY, MODERN, call_tool, make_caller, result_text
from tests.hub.upstreams import asking_config, interop_upstream, open_upstream
from tests.processes import is_running

from hubbub import Caller, Overloaded, Principal, UpstreamUnavailable, bounds
from hubbub.hub.forwarding.tenant_sessions import TenantSessions
from hubbub.hub.remote import RemoteUpstream
from hubbub.settings.governance import TenantSettings

IDLE_S, MAX_S = 100.0, 1000.0
ACME = TenantSettings(name="acme", session_idle_s=IDLE_S, session_max_s=MAX_S, max_sessions=3, max_processes=2)
OTHER = TenantSettings(name="other")


def member(tenant: str, user: str, capabilities: Any = None, credential: str = "k1") -> Caller:
    """A modern caller of a tenant."""
    principal = Principal(f"{tenant}/{user}#{credential}", tenant=tenant, user=user, credential=credential)
    return msgspec.structs.replace(make_caller(MODERN, capabilities), principal=principal)


def is_user(tenant: str, user: str) -> Any:
    return lambda principal: (principal.tenant, principal.user) == (tenant, user)


@asynccontextmanager
async def tenant_upstream(
    *tenants: TenantSettings, table: TenantSessions | None = None, **options: Any
) -> AsyncIterator[RemoteUpstream]:
    """A server on stdio, with the limits of these tenants; each session is a process."""
    async with open_upstream(asking_config(), **options) as upstream:
        upstream.use_tenants(TenantSessions(tenants) if table is None else table)
        yield upstream


async def find_pid(upstream: RemoteUpstream, who: Caller) -> int:
    return int(result_text(await call_tool(upstream, "pid", {}, who)))


async def start_waiting(upstream: RemoteUpstream, who: Caller, file: Path) -> asyncio.Task[Any]:
    """Start a call that ends when the file exists; return when it is in flight."""
    await find_pid(upstream, who)  # so that the session is open
    before = upstream.state.in_flight
    task = asyncio.create_task(call_tool(upstream, "wait", {"file": str(file)}, who))
    await wait_until(lambda: upstream.state.in_flight == before + 1)
    await yield_to_loop()
    return task


@pytest.mark.requirement("L1")
async def test_an_idle_session_of_a_tenant_ends_after_its_own_time() -> None:
    async with tenant_upstream(ACME, OTHER) as upstream:
        acme = await find_pid(upstream, member("acme", "ann"))
        other = await find_pid(upstream, member("other", "ann"))
        advance_clock(IDLE_S - 1)
        await yield_to_loop()
        assert is_running(acme)
        advance_clock(1)
        await wait_until(lambda: not is_running(acme))
        assert is_running(other)
        assert [info.principal.tenant for info in upstream.sessions()] == ["other"]


@pytest.mark.requirement("L1")
async def test_a_used_session_is_not_idle_but_gets_no_calls_after_its_longest_time() -> None:
    async with tenant_upstream(ACME) as upstream:
        who = member("acme", "ann")
        first = await find_pid(upstream, who)
        for _ in range(11):
            advance_clock(0.09 * MAX_S)
            assert await find_pid(upstream, who) == first
        advance_clock(0.01 * MAX_S)
        assert await find_pid(upstream, who) != first
        await wait_until(lambda: not is_running(first))


@pytest.mark.requirement("L1")
async def test_a_call_in_flight_keeps_an_old_session_until_it_ends(tmp_path: Path) -> None:
    async with tenant_upstream(ACME, timeout_s=10 * MAX_S) as upstream:
        who = member("acme", "ann")
        old = await find_pid(upstream, who)
        task = await start_waiting(upstream, who, tmp_path / "go")
        advance_clock(MAX_S)
        await wait_until(lambda: upstream.sessions()[0].is_ending)
        assert await find_pid(upstream, who) != old
        assert is_running(old)
        (tmp_path / "go").touch()
        assert result_text(await task) == "waited"
        await wait_until(lambda: not is_running(old))


@pytest.mark.requirement("L1")
async def test_a_call_that_outlives_the_drain_time_of_an_old_session_fails(tmp_path: Path) -> None:
    async with tenant_upstream(ACME, timeout_s=10 * MAX_S) as upstream:
        old = await find_pid(upstream, member("acme", "ann"))
        task = await start_waiting(upstream, member("acme", "ann"), tmp_path / "never")
        advance_clock(MAX_S)
        await wait_until(lambda: upstream.sessions()[0].is_ending)
        assert not task.done()
        advance_clock(bounds.UPSTREAM_DRAIN_TIMEOUT_S)
        with pytest.raises(UpstreamUnavailable):
            await task
        await wait_until(lambda: not is_running(old))
        assert upstream.state.in_flight == 0


@pytest.mark.requirement("L2")
@pytest.mark.parametrize("part", ["tenant", "user"])
async def test_logout_ends_the_processes_of_that_user_only(part: str) -> None:
    stranger = member("other", "ann") if part == "tenant" else member("acme", "bob")
    async with tenant_upstream(msgspec.structs.replace(ACME, max_processes=3), OTHER) as upstream:
        mine = [
            await find_pid(upstream, member("acme", "ann")),
            await find_pid(upstream, member("acme", "ann", credential="k2")),
        ]
        theirs = await find_pid(upstream, stranger)
        assert await upstream.end_sessions(is_user("acme", "ann"), 5) == 2
        assert not any(map(is_running, mine))
        assert await find_pid(upstream, stranger) == theirs
        assert await find_pid(upstream, member("acme", "ann")) not in mine


async def test_logout_lets_calls_in_flight_finish(tmp_path: Path) -> None:
    async with tenant_upstream(ACME) as upstream:
        task = await start_waiting(upstream, member("acme", "ann"), tmp_path / "go")
        ending = asyncio.create_task(upstream.end_sessions(is_user("acme", "ann"), 1000))
        await wait_until(lambda: upstream.sessions()[0].is_ending)
        assert not ending.done()
        (tmp_path / "go").touch()
        assert result_text(await task) == "waited"
        assert await ending == 1
        assert upstream.sessions() == []


@pytest.mark.requirement("L2")
async def test_logout_cancels_calls_that_do_not_finish_in_time(tmp_path: Path) -> None:
    async with tenant_upstream(ACME, timeout_s=5000) as upstream:
        theirs = await start_waiting(upstream, member("acme", "bob"), tmp_path / "go")
        mine = await start_waiting(upstream, member("acme", "ann"), tmp_path / "never")
        ending = asyncio.create_task(upstream.end_sessions(is_user("acme", "ann"), 1000))
        await wait_until(lambda: any(info.is_ending for info in upstream.sessions()))
        advance_clock(1000)
        with pytest.raises(UpstreamUnavailable):
            await mine
        assert await ending == 1
        (tmp_path / "go").touch()
        assert result_text(await theirs) == "waited"


async def test_logout_ends_calls_that_wait_for_input_of_the_user() -> None:
    async with tenant_upstream(ACME) as upstream:
        asked = await call_tool(upstream, "ask", {"say": "?"}, member("acme", "ann", ELICITATION))
        assert asked["resultType"] == "input_required"
        assert await upstream.end_sessions(is_user("acme", "ann"), 1000) == 1
        assert (upstream.state.in_flight, upstream.sessions()) == (0, [])


@pytest.mark.requirement("L2")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_logout_ends_sessions_over_http(version: str) -> None:
    async with interop_upstream("streamable_http", version) as upstream:
        for user in ("ann", "bob"):
            assert result_text(await call_tool(upstream, "echo", {"text": user}, member("acme", user))) == user
        assert await upstream.end_sessions(is_user("acme", "ann"), 5) == 1
        assert [info.principal.user for info in upstream.sessions()] == ["bob"]
        assert result_text(await call_tool(upstream, "echo", {"text": "again"}, member("acme", "ann"))) == "again"


async def test_sessions_are_described() -> None:
    async with tenant_upstream(ACME) as upstream:
        pid = await find_pid(upstream, member("acme", "ann"))
        advance_clock(10)
        (info,) = upstream.sessions()
        assert (info.server, info.transport, info.pid, info.in_flight) == ("asker", "stdio", pid, 0)
        assert (info.principal.tenant, info.principal.user, info.principal.credential) == ("acme", "ann", "k1")
        assert info.age_s >= info.idle_s >= 10
        assert not info.is_ending


async def test_callers_without_a_tenant_have_the_lifetimes_of_the_server() -> None:
    async with tenant_upstream(ACME, idle_s=3 * MAX_S) as upstream:
        pid = await find_pid(upstream, make_caller(LEGACY, ELICITATION, scope="1"))
        advance_clock(2 * MAX_S)
        assert await find_pid(upstream, make_caller(LEGACY, ELICITATION, scope="1")) == pid
        advance_clock(3 * MAX_S)
        await wait_until(lambda: not is_running(pid))


@pytest.mark.requirement("I4")
async def test_a_tenant_with_too_many_processes_is_refused_and_others_are_not(tmp_path: Path) -> None:
    table = TenantSessions([ACME, OTHER])
    async with tenant_upstream(table=table) as one, tenant_upstream(table=table) as two:
        tasks = [
            await start_waiting(upstream, member("acme", f"user{number}"), tmp_path / "go")
            for number, upstream in enumerate((one, two))
        ]
        for upstream in (one, two):
            with pytest.raises(Overloaded, match=r"limit 2.*the operator can raise max_processes of the tenant acme"):
                await find_pid(upstream, member("acme", "more"))
            assert await find_pid(upstream, member("other", "ann"))
        (tmp_path / "go").touch()
        await asyncio.gather(*tasks)
        assert await find_pid(one, member("acme", "more"))


async def test_a_tenant_with_too_many_sessions_loses_its_longest_idle_one_at_any_server() -> None:
    settings = msgspec.structs.replace(ACME, max_processes=9)
    table = TenantSessions([settings, OTHER])
    async with tenant_upstream(table=table) as one, tenant_upstream(table=table) as two:
        stranger = await find_pid(one, member("other", "ann"))
        pids = []
        for number, upstream in enumerate((one, two, two)):
            pids.append(await find_pid(upstream, member("acme", f"user{number}")))
            advance_clock(1)
        await find_pid(two, member("acme", "more"))
        await wait_until(lambda: not is_running(pids[0]))
        assert list(map(is_running, [*pids[1:], stranger])) == [True, True, True]
        assert (table.count("acme"), table.count("other")) == (3, 1)


@pytest.mark.requirement("L5")
async def test_a_session_whose_process_has_ended_is_not_counted() -> None:
    table = TenantSessions([ACME])
    async with tenant_upstream(table=table) as upstream:
        for number in range(4):
            with pytest.raises(UpstreamUnavailable):
                await call_tool(upstream, "exit", {}, member("acme", f"user{number}"))
        await wait_until(lambda: table.count("acme") == 0)


async def test_new_limits_apply_to_new_sessions() -> None:
    table = TenantSessions([ACME])
    async with tenant_upstream(table=table) as upstream:
        pid = await find_pid(upstream, member("acme", "ann"))
        table.configure([msgspec.structs.replace(ACME, session_idle_s=5 * IDLE_S)])
        advance_clock(2 * IDLE_S)
        await yield_to_loop()
        assert await find_pid(upstream, member("acme", "ann")) == pid


async def test_sessions_of_principals_are_reported_when_they_open_and_end() -> None:
    reported: list[tuple[str, str, str]] = []
    async with tenant_upstream(ACME, OTHER) as upstream:
        upstream.on_event = lambda event, principal, facts: reported.append(
            (event, principal.user, str(facts.get("reason", "")))
        )
        await call_tool(upstream, "pid", {}, make_caller())  # without an identity
        for user in ("ann", "bob", "cat"):  # one more than `max_processes`
            await find_pid(upstream, member("acme", user))
        assert reported == [
            ("session.open", "ann", ""),
            ("session.open", "bob", ""),
            ("session.evict", "ann", "evicted"),
            ("session.open", "cat", ""),
        ]
        reported.clear()
        await upstream.end_sessions(is_user("acme", "bob"), 0)
        advance_clock(IDLE_S)
        await wait_until(lambda: len(reported) == 2)
        assert reported == [("session.close", "bob", "ended"), ("session.close", "cat", "idle")]
        reported.clear()
        pid = await find_pid(upstream, member("other", "dan"))
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: not is_running(pid))
        with suppress(UpstreamUnavailable):  # the call may find out that the process has ended
            await find_pid(upstream, member("other", "dan"))
        await find_pid(upstream, member("other", "dan"))
        assert reported == [
            ("session.open", "dan", ""),
            ("session.close", "dan", "lost"),
            ("session.open", "dan", ""),
        ]
