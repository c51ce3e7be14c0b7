"""Two callers share a session, connection or process with a server only if every part of the pool key is the same.

The parts are tenant, user, credential, server, config of the server and version of the policy. Each test first proves
that one caller gets the same again, so that a difference means something.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import pytest
from tests.http.eras import open_session
from tests.http.raw_http import call, request
from tests.hub import notebook
from tests.hub.counting_upstream import LEGACY, MODERN, CountingUpstream, run_counting_upstream
from tests.hub.file_hub import SOURCE
from tests.hub.tenant_hub import PARTS, TENANTS, Key, TenantHub, run_tenant_hub

pytestmark = [pytest.mark.usefixtures("own_folders"), pytest.mark.requirement("I1", "I2")]

RULE = '\n[[policy.rules]]\neffect = "deny"\ntools = ["no_such_tool"]\n'
Probe = Callable[["Setup", Key, str], Awaitable[object]]


class Setup(NamedTuple):
    """A hub and the servers behind it."""

    hub: TenantHub
    legacy: CountingUpstream
    modern: CountingUpstream


def server_section(name: str, url: str, mark: str = "first") -> str:
    return f'[servers.{name}]\nurl = "{url}"\nprefix = "always"\nheaders = {{X-Mark = "{mark}"}}\n'


def program_section(name: str) -> str:
    return (
        f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([notebook.__file__])}\n"
        f'prefix = "always"\nenv = {{PYTHONPATH = "{SOURCE}", X_MARK = "first"}}\n'
    )


@asynccontextmanager
async def run_setup(folder: Path, tenants: str = TENANTS) -> AsyncIterator[Setup]:
    async with AsyncExitStack() as stack:
        legacy, modern = [
            await stack.enter_async_context(run_counting_upstream(version)) for version in (LEGACY, MODERN)
        ]
        text = "".join(
            server_section(f"{kind}{number}", upstream.url)
            for number in ("1", "2")
            for kind, upstream in (("legacy", legacy), ("modern", modern))
        )
        text += program_section("notes1") + program_section("notes2")
        hub = await stack.enter_async_context(run_tenant_hub(folder, text, tenants))
        yield Setup(hub, legacy, modern)


async def probe(setup: Setup, key: Key, server: str) -> dict[str, object]:
    """Call a counting server; return what it says about the call."""
    return dict(json.loads(await setup.hub.call(key, f"{server}__probe")))


async def find_session(setup: Setup, key: Key, number: str) -> object:
    """The session that the server has given the hub."""
    return (await probe(setup, key, f"legacy{number}"))["session"]


async def find_legacy_connection(setup: Setup, key: Key, number: str) -> object:
    return (await probe(setup, key, f"legacy{number}"))["connection"]


async def find_modern_connection(setup: Setup, key: Key, number: str) -> object:
    return (await probe(setup, key, f"modern{number}"))["connection"]


async def find_process(setup: Setup, key: Key, number: str) -> object:
    return await setup.hub.call(key, f"notes{number}__pid")


async def find_text(setup: Setup, key: Key, number: str) -> object:
    """The text that is stored in the process of the caller; a new process has none."""
    before = await setup.hub.call(key, f"notes{number}__read")
    if before:
        return before
    text = token_hex(8)
    await setup.hub.call(key, f"notes{number}__write", text=text)
    return text


KINDS: list[Probe] = [find_session, find_legacy_connection, find_modern_connection, find_process, find_text]
each_kind = pytest.mark.parametrize("find", KINDS, ids=lambda find: find.__name__.removeprefix("find_"))


@each_kind
@pytest.mark.parametrize("part", [*PARTS, "server"])
async def test_callers_and_servers_that_differ_in_one_part_share_nothing(
    tmp_path: Path, find: Probe, part: str
) -> None:
    async with run_setup(tmp_path) as setup:
        mine = await find(setup, setup.hub.ada, "1")
        assert await find(setup, setup.hub.ada, "1") == mine, "the same caller gets the same"
        other, number = (setup.hub.ada, "2") if part == "server" else (await setup.hub.other(part), "1")
        theirs = await find(setup, other, number)
        assert theirs != mine
        assert await find(setup, other, number) == theirs
        assert await find(setup, setup.hub.ada, "1") == mine, "the other caller changes nothing"


@pytest.mark.requirement("L4")
@each_kind
@pytest.mark.parametrize("part", ["config", "policy"])
async def test_a_new_config_or_policy_replaces_what_was_opened_under_the_old_one(
    tmp_path: Path, find: Probe, part: str
) -> None:
    async with run_setup(tmp_path) as setup:
        before = await find(setup, setup.hub.ada, "1")
        assert await find(setup, setup.hub.ada, "1") == before
        if part == "config":
            await setup.hub.change(lambda text: text.replace('"first"', '"second"'))
        else:
            await setup.hub.change(lambda text: text + RULE)
        after = await find(setup, setup.hub.ada, "1")
        assert after != before
        assert await find(setup, setup.hub.ada, "1") == after


@pytest.mark.requirement("L4")
async def test_a_session_with_the_hub_is_decided_about_anew_at_each_call(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        session = await open_session(setup.hub.site, headers=setup.hub.ada)
        assert "result" in (await session.post(call("notes1__pid"))).json
        await setup.hub.change(lambda text: text + RULE.replace("no_such_tool", "notes1/pid"))
        assert (await session.post(call("notes1__pid"))).json["error"]["code"] == -32602
        listed = {tool["name"] for tool in (await session.post(request("tools/list"))).json["result"]["tools"]}
        assert "notes1__pid" not in listed
        assert "notes1__read" in listed


async def test_a_setting_that_no_session_depends_on_keeps_the_sessions(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        found = [await find(setup, setup.hub.ada, "1") for find in KINDS]
        await setup.hub.change(lambda text: text + '\n[[quotas]]\nlimit = "1000/minute"\n')
        assert [await find(setup, setup.hub.ada, "1") for find in KINDS] == found


async def test_state_that_a_server_has_per_session_is_counted_for_each_caller(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        callers = [setup.hub.ada, *[await setup.hub.other(part) for part in PARTS]]
        for expected in (1, 2, 3):
            for key in callers:
                assert (await probe(setup, key, "legacy1"))["count"] == expected
        assert len(set(setup.legacy.calls)) == len(callers)
        assert set(setup.legacy.calls.values()) == {3}


async def test_cookies_of_servers_are_stored_for_nobody(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        for key in (setup.hub.ada, setup.hub.ada, *[await setup.hub.other(part) for part in PARTS]):
            for server in ("legacy1", "modern1"):
                assert (await probe(setup, key, server))["cookie"] == ""
        for upstream in (setup.legacy, setup.modern):
            assert len(upstream.cookies) > 2 * len(PARTS)
            assert set(upstream.cookies) == {""}


# -- starting sessions ----------------------------------------------------------------


@pytest.mark.requirement("I3")
async def test_parallel_first_calls_of_one_caller_open_one_session(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        await setup.hub.send(setup.hub.ada, "tools/list")  # opens the sessions that read lists
        before = len(setup.legacy.initialized)
        found = await asyncio.gather(*(find_session(setup, setup.hub.ada, "1") for _ in range(100)))
        assert len(set(found)) == 1
        assert len(setup.legacy.initialized) == before + 1
        pids = await asyncio.gather(*(find_process(setup, setup.hub.ada, "1") for _ in range(20)))
        assert len(set(pids)) == 1


@pytest.mark.requirement("I3")
async def test_a_failed_start_is_not_cached(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        await setup.hub.send(setup.hub.ada, "tools/list")  # the hub's own sessions, which read the lists, are open now
        setup.legacy.refused_starts = 1
        failed = await setup.hub.send(setup.hub.ada, "tools/call", name="legacy1__probe", arguments={})
        assert setup.legacy.refused_starts == 0
        assert "session-" not in failed.body.decode()
        assert await find_session(setup, setup.hub.ada, "1") in setup.legacy.initialized
        assert await find_session(setup, await setup.hub.other("tenant"), "1") in setup.legacy.initialized


async def test_failures_of_one_tenant_do_not_mark_a_server_as_down_for_others(tmp_path: Path) -> None:
    async with run_setup(tmp_path) as setup:
        hub, beta = setup.hub, await setup.hub.other("tenant")
        await hub.send(hub.ada, "tools/list")  # the hub's own sessions, which read the lists, are open now
        await fail_until_paused(setup, hub.ada)
        assert await read_phase(hub, hub.ada, "legacy1") == "down"
        assert await read_phase(hub, beta, "legacy1") == "ready"
        listed = (await hub.send(beta, "tools/list")).body.decode()
        assert "legacy1__probe" in listed
        assert "stale" not in listed
        await fail_until_paused(setup, beta)
        assert await read_phase(hub, beta, "legacy1") == "down"


async def fail_until_paused(setup: Setup, key: Key) -> None:
    """Let the server refuse the sessions of a caller until the hub sends it no more calls of this caller."""
    before = -1
    setup.legacy.refused_starts = 1000
    while setup.legacy.refused_starts != before:
        before = setup.legacy.refused_starts
        await setup.hub.send(key, "tools/call", name="legacy1__probe", arguments={})
    setup.legacy.refused_starts = 0


async def read_phase(hub: TenantHub, key: Key, server: str) -> str:
    answer = await hub.send(key, "tools/call", name="hub.status", arguments={})
    servers = answer.json["result"]["structuredContent"]["servers"]
    return next(str(found["phase"]) for found in servers if found["id"] == server)


# -- limits of tenants ----------------------------------------------------------------


@pytest.mark.requirement("I4")
@pytest.mark.parametrize("limit", ["max_sessions", "max_processes", "max_calls"])
async def test_a_tenant_at_its_limit_is_refused_with_an_error_and_another_is_not(tmp_path: Path, limit: str) -> None:
    program = Path(notebook.__file__).with_name("asking_server.py")
    section = (
        f"[servers.slow]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(program)])}\n"
        f'prefix = "always"\nprotocol_version = "{LEGACY}"\n'
    )
    tenants = TENANTS.replace('name = "acme"\n', f'name = "acme"\n{limit} = 1\n')
    async with run_tenant_hub(tmp_path, section, tenants) as hub:
        door = tmp_path / "door"
        waiting = asyncio.create_task(hub.call(hub.ada, "slow__wait", file=str(door)))
        async with asyncio.timeout(60):
            while hub.front.hub.upstreams["slow"].state.in_flight < 1:
                await asyncio.sleep(0.02)
        refused = await hub.send(await hub.other("user"), "tools/call", name="slow__pid", arguments={})
        assert "acme" in refused.body.decode()
        assert {"max_sessions": "sessions", "max_processes": "processes", "max_calls": "calls"}[
            limit
        ] in refused.body.decode()
        assert refused.json.get("error", {}).get("code") or refused.json["result"]["isError"]
        assert await hub.call(await hub.other("tenant"), "slow__pid")
        door.touch()
        assert await waiting == "waited"
        assert await hub.call(await hub.other("user"), "slow__pid")


@pytest.mark.requirement("I4")
async def test_programs_are_hidden_from_tenants_that_do_not_allow_them(tmp_path: Path) -> None:
    tenants = TENANTS.replace('name = "beta"\nallow_stdio = true\n', 'name = "beta"\n')
    async with run_tenant_hub(tmp_path, program_section("notes1"), tenants) as hub:
        assert await hub.call(hub.ada, "notes1__pid")
        refused = await hub.send(await hub.other("tenant"), "tools/call", name="notes1__pid", arguments={})
        assert refused.json["error"]["code"] == -32602
        listed = await hub.send(await hub.other("tenant"), "tools/list")
        assert "notes1" not in listed.body.decode()


@pytest.mark.requirement("I4")
async def test_each_process_of_a_tenant_has_its_own_folder_for_temporary_files(tmp_path: Path) -> None:
    program = tmp_path / "temporary.py"
    program.write_text(
        "import os\n"
        "from hubbub import Server, run\n"
        "server = Server('temporary')\n"
        "@server.tool\n"
        "async def folder() -> str:\n"
        "    return os.environ['TMPDIR']\n"
        "run(server)\n"
    )
    section = (
        f"[servers.temporary]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(program)])}\n"
        f'env = {{PYTHONPATH = "{SOURCE}"}}\n'
    )
    async with run_tenant_hub(tmp_path, section, TENANTS) as hub:
        own = Path(await hub.call(hub.ada, "folder"))
        assert own == Path(await hub.call(hub.ada, "folder"))
        assert own.stat().st_mode & 0o777 == 0o700
        other = Path(await hub.call(await hub.other("user"), "folder"))
        assert own != other
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not own.exists()
    assert not other.exists()


WRITER = """
import os
from pathlib import Path
from hubbub import Server, run

server = Server("writer")

@server.tool
def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return os.getcwd()

@server.tool
def read(name: str) -> str:
    return Path(name).read_text() if Path(name).exists() else "nothing"

run(server)
"""


@pytest.mark.requirement("I4")
@pytest.mark.parametrize("part", ["tenant", "user", "credential"])
async def test_files_that_a_program_writes_into_its_working_folder_belong_to_one_caller(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "writer.py").write_text(WRITER)
    monkeypatch.chdir(tmp_path)
    section = (  # the program is found by its path relative to the folder of the hub
        f'[servers.writer]\ncommand = {json.dumps(sys.executable)}\nargs = ["programs/writer.py"]\n'
        f'env = {{PYTHONPATH = "{SOURCE}"}}\n'
    )
    async with run_tenant_hub(tmp_path, section, TENANTS) as hub:
        other = await hub.other(part)
        own_folder = Path(await hub.call(hub.ada, "write", name="notes.txt", text="ada's"))
        assert await hub.call(other, "read", name="notes.txt") == "nothing"
        other_folder = Path(await hub.call(other, "write", name="notes.txt", text="other's"))
        assert await hub.call(hub.ada, "read", name="notes.txt") == "ada's"
        assert len({own_folder, other_folder, tmp_path}) == 3
        assert [folder.stat().st_mode & 0o777 for folder in (own_folder, other_folder)] == [0o700, 0o700]
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not own_folder.exists()
    assert not (tmp_path / "notes.txt").exists()


@pytest.mark.requirement("I4")
async def test_a_working_folder_in_the_settings_is_used_by_every_caller(tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    section = (
        f'[servers.writer]\ncommand = {json.dumps(sys.executable)}\nargs = ["writer.py"]\n'
        f'cwd = {json.dumps(str(tmp_path))}\nenv = {{PYTHONPATH = "{SOURCE}"}}\n'
    )
    async with run_tenant_hub(tmp_path, section, TENANTS) as hub:
        assert Path(await hub.call(hub.ada, "write", name="notes.txt", text="ada's")) == tmp_path
        assert await hub.call(await hub.other("user"), "read", name="notes.txt") == "ada's"
