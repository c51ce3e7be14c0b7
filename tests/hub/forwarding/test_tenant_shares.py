"""A tenant that uses much of a server takes no session, process or call from another tenant."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.hub.forwarding.test_session_lifetimes import find_pid, member, start_waiting, tenant_upstream
from tests.hub.upstream_callers import ELICITATION, call_tool, request_result, result_text
from tests.processes import is_running

from hubbub import InvalidParams, bounds
from hubbub.hub.remote import RemoteUpstream
from hubbub.settings.governance import TenantSettings

pytestmark = pytest.mark.requirement("I4")
TENANTS = [TenantSettings(name=name, max_sessions=99, max_processes=99) for name in ("acme", "beta", "cell")]


async def open_sessions(upstream: RemoteUpstream, tenant: str, *users: object) -> list[int]:
    """Open an idle session for each user, one after another."""
    pids = []
    for user in users:
        pids.append(await find_pid(upstream, member(tenant, str(user))))
        advance_clock(1)
    return pids


async def test_many_users_of_a_tenant_do_not_end_the_idle_process_of_another() -> None:
    async with tenant_upstream(*TENANTS) as upstream:
        (pid,) = await open_sessions(upstream, "beta", "ann")
        await open_sessions(upstream, "acme", *range(bounds.UPSTREAM_SESSIONS + 2))
        assert await find_pid(upstream, member("beta", "ann")) == pid
        assert len(upstream.sessions()) == bounds.UPSTREAM_SESSIONS


async def test_many_running_calls_of_a_tenant_leave_a_session_for_another(tmp_path: Path) -> None:
    async with tenant_upstream(*TENANTS) as upstream:
        wait = {"file": str(tmp_path / "go")}
        calls = [
            asyncio.create_task(call_tool(upstream, "wait", wait, member("acme", str(number))))
            for number in range(bounds.UPSTREAM_SESSIONS)
        ]
        await wait_until(lambda: len(upstream.sessions()) == bounds.UPSTREAM_SESSIONS - 1)
        await yield_to_loop()
        assert await find_pid(upstream, member("beta", "ann"))
        (tmp_path / "go").touch()
        assert {result_text(found) for found in await asyncio.gather(*calls)} == {"waited"}


async def test_a_tenant_below_its_fair_share_gets_a_process_of_the_tenant_with_the_most() -> None:
    async with tenant_upstream(*TENANTS, max_sessions=6) as upstream:
        (beta,) = await open_sessions(upstream, "beta", "ann")
        acme = await open_sessions(upstream, "acme", 0, 1, 2, 3, 4)
        (again,) = await open_sessions(upstream, "beta", "bob")
        await wait_until(lambda: not is_running(acme[0]))
        assert all(map(is_running, [beta, again, *acme[1:]]))


async def test_a_tenant_with_its_fair_share_replaces_its_own_processes(tmp_path: Path) -> None:
    async with tenant_upstream(*TENANTS, max_sessions=4, timeout_s=100) as upstream:
        beta = await open_sessions(upstream, "beta", "ann", "bob")
        tasks = [await start_waiting(upstream, member("acme", user), tmp_path / user) for user in ("ann", "bob")]
        waiting = asyncio.create_task(find_pid(upstream, member("acme", "cat")))
        await yield_to_loop()
        assert not waiting.done()
        (tmp_path / "ann").touch()
        assert await waiting
        assert all(map(is_running, beta))
        (tmp_path / "bob").touch()
        await asyncio.gather(*tasks)


async def test_more_tenants_than_processes_take_turns() -> None:
    async with tenant_upstream(*TENANTS, max_sessions=2) as upstream:
        pids = [(await open_sessions(upstream, tenant, "ann"))[0] for tenant in ("acme", "beta", "cell", "acme")]
        assert len(set(pids)) == 4
        await wait_until(lambda: list(map(is_running, pids)) == [False, False, True, True])


async def test_a_tenant_ends_only_its_own_abandoned_calls_to_get_a_session() -> None:
    async with tenant_upstream(*TENANTS, max_sessions=3, timeout_s=1000) as upstream:
        params: dict[str, Any] = {"name": "ask", "arguments": {"say": "?"}}
        callers = [member(tenant, "ann", ELICITATION) for tenant in ("beta", "acme")]
        asked = [await request_result(upstream, "tools/call", params, who) for who in callers]
        advance_clock(bounds.UNANSWERED_INPUT_MAX_S)
        assert await find_pid(upstream, member("acme", "bob"))
        answers = [
            {"inputResponses": {key: {"action": "accept", "content": {"name": "late"}}}, "requestState": state}
            for found in asked
            for state, (key,) in [(found["requestState"], found["inputRequests"])]
        ]
        assert result_text(await request_result(upstream, "tools/call", params | answers[0], callers[0])) == "?: late"
        with pytest.raises(InvalidParams, match="start again"):
            await request_result(upstream, "tools/call", params | answers[1], callers[1])
