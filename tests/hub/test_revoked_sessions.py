"""Sessions with servers, and their processes, end when the credential or the tenant of their caller does."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.clock import wait_until
from tests.hub import notebook
from tests.hub.file_hub import SOURCE
from tests.hub.forwarding.test_session_lifetimes import find_pid, member, start_waiting
from tests.hub.tenant_hub import run_tenant_hub
from tests.hub.upstream_callers import make_caller
from tests.hub.upstreams import asking_config, open_upstream
from tests.processes import is_running
from tests.security.test_tenant_keys import Keys, identified, rotate

from hubbub import Caller, Principal, UpstreamUnavailable
from hubbub.protocol.revisions import NEWEST_MODERN
from hubbub.security.api_keys import ROTATED_KEY_GRACE_S

PROGRAM = (
    f"[servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([notebook.__file__])}\n"
    f'env = {{PYTHONPATH = "{SOURCE}"}}\n'
)


async def test_a_revoked_principal_loses_its_processes_and_calls_at_once_and_others_keep_theirs(
    tmp_path: Path,
) -> None:
    ann, ben = member("acme", "ann"), member("acme", "ben")
    async with open_upstream(asking_config()) as upstream:
        shared = await find_pid(upstream, make_caller())
        anns, bens = await find_pid(upstream, ann), await find_pid(upstream, ben)
        running = [await start_waiting(upstream, who, tmp_path / "go") for who in (ann, ben)]
        asked: list[str] = []

        def is_revoked(name: str) -> bool:
            asked.append(name)
            return name == ann.principal.name

        upstream.end_revoked(is_revoked)
        with pytest.raises(UpstreamUnavailable):
            await running[0]
        await wait_until(lambda: not is_running(anns))
        assert [info.principal for info in upstream.sessions()] == [ben.principal]
        assert set(asked) == {ann.principal.name, ben.principal.name}
        (tmp_path / "go").touch()
        await running[1]
        assert await find_pid(upstream, ben) == bens
        assert await find_pid(upstream, make_caller()) == shared


async def test_a_session_that_is_already_draining_ends_too(tmp_path: Path) -> None:
    ann = member("acme", "ann")
    async with open_upstream(asking_config()) as upstream:
        pid = await find_pid(upstream, ann)
        running = await start_waiting(upstream, ann, tmp_path / "never")
        retired = asyncio.create_task(upstream.retire_sessions(drain_s=1000))
        await wait_until(lambda: upstream.sessions()[0].is_ending)
        upstream.end_revoked(lambda name: True)
        with pytest.raises(UpstreamUnavailable):
            await running
        await retired
        await wait_until(lambda: not is_running(pid))


async def test_sessions_of_a_rotated_key_end_when_its_running_calls_had_their_time(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.toml", "acme")
    old_key = keys.add("ada", "acme")
    authenticator = keys.authenticator()
    old = identified(keys, old_key, authenticator)
    new = identified(keys, rotate(keys, "ada", 3600), authenticator)

    def caller(principal: Principal) -> Caller:
        return Caller(revision=NEWEST_MODERN, principal=principal)

    async with open_upstream(asking_config()) as upstream:
        olds, news = await find_pid(upstream, caller(old)), await find_pid(upstream, caller(new))
        keys.clock.now += 3600
        upstream.end_revoked(authenticator.is_revoked)
        assert len(upstream.sessions()) == 2
        keys.clock.now += ROTATED_KEY_GRACE_S
        upstream.end_revoked(authenticator.is_revoked)
        await wait_until(lambda: not is_running(olds))
        assert is_running(news)
        assert [info.principal for info in upstream.sessions()] == [new]


@pytest.mark.usefixtures("own_folders")
async def test_a_running_hub_ends_the_processes_of_a_revoked_key(tmp_path: Path) -> None:
    async with run_tenant_hub(tmp_path, PROGRAM) as hub:
        other = await hub.other("credential")
        revoked, kept = int(await hub.call(hub.ada, "pid")), int(await hub.call(other, "pid"))
        hub.ring.revoke("laptop")
        await wait_until(lambda: not is_running(revoked))
        assert is_running(kept)
        assert len(hub.front.hub.upstreams["notes"].sessions()) == 1
