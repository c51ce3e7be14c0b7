"""A hub that follows its files: what stays connected, what is let finish, and what a broken file does. Real files,
real servers."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.conversation import DIALECTS, MODERN, Conversation, conversing

from hubbub import bounds
from hubbub.assembly.assemble import assemble
from hubbub.assembly.checking import check_sources
from hubbub.errors import SettingsError
from hubbub.hub.config import HubConfig
from hubbub.hub.file_watch import FileWatch
from hubbub.hub.front import Front
from hubbub.hub.reload import Loaded, Reloader
from hubbub.settings import ServeSettings, gather, read_settings

WORKER = Path(__file__).with_name("worker.py")
SOURCE = Path(__file__).parents[2] / "src"
SOON_S = 20.0


def section(name: str, *, program: str | None = None, **more: Any) -> str:
    """`[servers.NAME]`, a worker."""
    env = {"PYTHONPATH": str(SOURCE), **more.pop("env", {})}
    lines = [
        f"[servers.{name}]",
        f"command = {json.dumps(sys.executable)}",
        f"args = {json.dumps([str(WORKER), program or name])}",
        f"env = {{{', '.join(f'{key} = {json.dumps(value)}' for key, value in env.items())}}}",
        *(f"{key} = {json.dumps(value)}" for key, value in more.items()),
    ]
    return "\n".join(lines) + "\n"


def replace_file(path: Path, text: str) -> None:
    """As careful editors save: written beside, then renamed."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


async def until(what: Callable[[], Any], patience_s: float = SOON_S) -> None:
    async with asyncio.timeout(patience_s):
        while not what():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def hub_of(
    path: Path, *, dialect: str = MODERN, capabilities: dict[str, Any] | None = None, **flags: str
) -> AsyncIterator[tuple[Front, Conversation]]:
    """The hub of a settings file, running, and a client of it."""
    environ = {**os.environ, "HUBBUB_HUB__LIST_S": str(SOON_S)}  # on a busy machine, servers take their time
    given = {f"--{key.replace('_', '-')}": value for key, value in flags.items()}
    sources = gather({"--config": str(path), **given}, environ)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    front = assemble(settings, sources)
    assert isinstance(front, Front)
    async with front.running(), conversing(front, dialect, capabilities or {}) as client:
        yield front, client


async def names_in(client: Conversation) -> set[str]:
    listed = await client.result("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    return {name for name in names if name.endswith(("_who", "_work"))}


async def text_of(client: Conversation, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, arguments)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def reloads(front: Front) -> int:
    assert front.hub.reloading is not None
    return front.hub.reloading.reloads


def problem_of(front: Front) -> str | None:
    assert front.hub.reloading is not None
    return front.hub.reloading.problem


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Working:
    """A call in flight: begun, and known to have reached its server."""

    def __init__(self, client: Conversation, folder: Path) -> None:
        self._client = client
        self._started, self._until = folder / "started", folder / "until"
        self._id: Any = None

    async def begin(self, tool: str) -> None:
        arguments = {"started": str(self._started), "until": str(self._until)}
        self._id = self._client.begin("tools/call", {"name": tool, "arguments": arguments})
        await until(self._started.exists)

    async def end(self) -> str:
        self._until.touch()
        answer = await self._client.answer_to(self._id)
        assert not answer["result"].get("isError"), answer
        return str(answer["result"]["content"][0]["text"])


async def test_a_call_in_flight_survives_a_change_of_another_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one") + section("two"))
    async with hub_of(path) as (front, client):
        first = await text_of(client, "one_who")
        await text_of(client, "two_who")
        call = Working(client, tmp_path)
        await call.begin("one_work")
        path.write_text(section("one") + section("two", env={"GREETING": "anew"}))
        await until(lambda: reloads(front) == 1)
        assert (await text_of(client, "two_who")).endswith(" anew")
        assert await text_of(client, "one_who") == first, "its process stays"
        assert (await call.end()).split()[:2] == first.split()


async def test_a_call_in_flight_survives_a_change_of_its_own_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        old = int((await text_of(client, "one_who")).split()[1])
        call = Working(client, tmp_path)
        await call.begin("one_work")
        path.write_text(section("one", env={"GREETING": "anew"}))
        await until(lambda: reloads(front) == 1)
        new = await text_of(client, "one_who")
        assert new.endswith(" anew"), "new calls go to the new process"
        assert int(new.split()[1]) != old
        assert is_alive(old)
        assert await call.end() == f"one {old} is done"
        await until(lambda: not is_alive(old))


async def test_a_call_in_flight_survives_the_end_of_its_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one") + section("two"))
    async with hub_of(path) as (front, client):
        old = int((await text_of(client, "one_who")).split()[1])
        call = Working(client, tmp_path)
        await call.begin("one_work")
        path.write_text(section("two"))
        await until(lambda: reloads(front) == 1)
        assert await names_in(client) == {"two_who", "two_work"}
        assert (await client.ask("tools/call", {"name": "one_who"}))["error"]["code"] == -32602
        assert await call.end() == f"one {old} is done"
        await until(lambda: not is_alive(old))


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_an_answer_finds_its_question_though_the_server_was_replaced_meanwhile(
    tmp_path: Path, version: str
) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one", protocol_version=version))
    async with hub_of(path, capabilities={"elicitation": {"form": {}}}) as (front, client):
        asked = await client.call("one_greet")
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        path.write_text(section("one", protocol_version=version, env={"GREETING": "anew"}))
        await until(lambda: reloads(front) == 1)
        new = await text_of(client, "one_who")
        assert new.endswith(" anew")
        answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
        more = {"requestState": asked["requestState"], "inputResponses": answers}
        if version == MODERN:  # The question was asked by the old process itself, which has nothing more to do.
            assert (await client.ask("tools/call", {"name": "one_greet", **more}))["error"]["code"] == -32602
            return
        result = await client.call("one_greet", more=more)
        assert result["content"][0]["text"].startswith("hello Ann from ")
        assert result["content"][0]["text"].split()[-1] != new.split()[1]


async def test_a_hub_that_ends_leaves_nobody_behind_who_still_finishes(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        old = int((await text_of(client, "one_who")).split()[1])
        await Working(client, tmp_path).begin("one_work")
        path.write_text(section("one", env={"GREETING": "anew"}))
        await until(lambda: reloads(front) == 1)
        new = int((await text_of(client, "one_who")).split()[1])
        assert is_alive(old)
    await until(lambda: not is_alive(old) and not is_alive(new))


async def test_a_server_takes_over_only_once_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        path.write_text(section("one", env={"GREETING": "anew", "SLOW_START_S": "1"}))
        seen = [before]
        while reloads(front) == 0:
            seen.append(await text_of(client, "one_who"))
        seen.append(await text_of(client, "one_who"))
        after = seen[-1]
        assert after.endswith(" anew")
        # It may have taken over before that was counted, but then for good.
        assert seen == [before] * seen.count(before) + [after] * seen.count(after)
        assert seen.count(before) > 3, "the old one answers while the new one starts"


async def test_how_a_server_is_shown_changes_and_its_process_stays(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        path.write_text("# a comment above\n\n" + section("one", prefix="always", exclude=["*_work"]))
        await until(lambda: reloads(front) == 1)
        assert await names_in(client) == {"one__one_who"}
        assert await text_of(client, "one__one_who") == before


async def test_a_file_that_only_moves_its_lines_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        assert front.hub.reloading is not None
        replace_file(path, "# lines\n# above\n" + section("one"))
        last = front.hub.reloading.last_at
        await until(lambda: front.hub.reloading.last_at != last)  # type: ignore[union-attr]
        assert await text_of(client, "one_who") == before
        assert reloads(front) == 0


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("[servers.one\n", "line 1"),
        ('[servers.one]\ncommand = "x"\ncomand = "y"\n', "line 3: servers.one.comand is not a setting; did you mean"),
        ("[servers.one]\ncommand = 3\n", "line 2: servers.one.command must look like"),
        ('[servers.one]\nurl = "http://x"\ncommand = "y"\n', "line 1: servers.one: give either url or command"),
        ('[servers.hub]\ncommand = "x"\n', "line 1: servers.hub: a server cannot be called 'hub'"),
        ('[views.a]\nservers = ["none"]\n', "line 2: views.a.servers: there is no server 'none'"),
        ("port = 99999\n", "line 1: port must be"),
    ],
)
async def test_a_broken_file_changes_nothing_and_says_why_and_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str, told: str
) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        replace_file(path, broken)
        await until(lambda: problem_of(front) is not None)
        assert str(path) in str(problem_of(front))
        assert told in str(problem_of(front))
        (record,) = [record for record in caplog.records if record.message == "settings_not_taken_over"]
        assert told in record.reason  # type: ignore[attr-defined]
        status = (await client.call("hub.status"))["structuredContent"]
        assert any(told in problem for problem in status["problems"])
        assert told in status["reload"]["problem"]
        assert await text_of(client, "one_who") == before
        replace_file(path, section("one") + section("two"))
        await until(lambda: problem_of(front) is None)
        assert await text_of(client, "one_who") == before
        assert (await text_of(client, "two_who")).startswith("two ")


async def test_a_file_that_is_gone_changes_nothing_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        path.unlink()
        await until(lambda: problem_of(front) is not None)
        assert await text_of(client, "one_who") == before
        path.write_text(section("one"))
        await until(lambda: problem_of(front) is None)
        assert await text_of(client, "one_who") == before
        assert reloads(front) == 0


async def test_a_program_that_does_not_load_changes_nothing(tmp_path: Path) -> None:
    path, program = tmp_path / "hubbub.toml", tmp_path / "program.py"
    path.write_text(section("one"))
    program.write_text("raise RuntimeError('not today')")
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        both = section("one", env={"GREETING": "anew"}) + f"[servers.local]\ntarget = {json.dumps(str(program))}\n"
        path.write_text(both)
        await until(lambda: problem_of(front) is not None)
        assert "not today" in str(problem_of(front))
        assert await text_of(client, "one_who") == before
        program.write_text(
            "from hubbub import Server\nserver = Server('local')\n@server.tool\ndef here() -> str:\n    return 'here'\n"
        )
        os.kill(os.getpid(), signal.SIGHUP)  # the program is none of the files that are watched
        await until(lambda: problem_of(front) is None)
        assert await text_of(client, "here") == "here"
        assert (await text_of(client, "one_who")).endswith(" anew")


async def test_servers_of_an_mcp_json_come_and_go(tmp_path: Path) -> None:
    path, mcp_json = tmp_path / "hubbub.toml", tmp_path / "elsewhere" / "mcp.json"
    mcp_json.parent.mkdir()

    def servers(*names: str) -> str:
        entry = {"command": sys.executable, "env": {"PYTHONPATH": str(SOURCE)}}
        return json.dumps({"mcpServers": {name: {**entry, "args": [str(WORKER), name]} for name in names}})

    path.write_text(section("one"))
    mcp_json.write_text(servers("two"))
    async with hub_of(path, mcp_json=str(mcp_json)) as (front, client):
        assert await names_in(client) == {"one_who", "one_work", "two_who", "two_work"}
        replace_file(mcp_json, servers("three"))
        await until(lambda: reloads(front) == 1)
        assert await names_in(client) == {"one_who", "one_work", "three_who", "three_work"}
        replace_file(mcp_json, servers("one"))
        await until(lambda: problem_of(front) is not None)
        assert "another server has this name" in str(problem_of(front))
        replace_file(mcp_json, '{\n  "mcpServers": {\n    "two": oops\n  }\n}\n')
        await until(lambda: "not JSON" in str(problem_of(front)))
        assert "line 3" in str(problem_of(front))
        assert await names_in(client) == {"one_who", "one_work", "three_who", "three_work"}


async def test_a_link_to_another_file_is_a_change(tmp_path: Path) -> None:
    """Mounted configuration changes so: the file is a link through a folder, and the folder's link is swapped."""
    for version, name in (("v1", "one"), ("v2", "two")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "hubbub.toml").write_text(section(name))
    (tmp_path / "now").symlink_to("v1")
    path = tmp_path / "hubbub.toml"
    path.symlink_to("now/hubbub.toml")
    async with hub_of(path) as (front, client):
        assert await names_in(client) == {"one_who", "one_work"}
        (tmp_path / "next").symlink_to("v2")
        (tmp_path / "next").replace(tmp_path / "now")
        await until(lambda: reloads(front) == 1)
        assert await names_in(client) == {"two_who", "two_work"}


async def test_clients_are_told_that_the_lists_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path, dialect="2025-11-25") as (front, client):
        await names_in(client)
        path.write_text(section("one") + section("two"))
        await until(lambda: reloads(front) == 1)
        await client.settle()
        assert client.notes("notifications/tools/list_changed")
        assert await names_in(client) == {"one_who", "one_work", "two_who", "two_work"}


async def test_views_come_change_and_go(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one") + "[views.reader]\nexclude = ['*_work']\n[views.gone]\n")
    async with hub_of(path) as (front, client):
        await names_in(client)
        reader = front.views["reader"]
        path.write_text(section("one") + "[views.reader]\nexclude = ['*_who']\n[views.writer]\n")
        await until(lambda: reloads(front) == 1)
        assert list(front.views) == ["reader", "writer"]
        assert front.views["reader"] is reader, "its sessions go on"
        async with conversing(reader, MODERN, {}) as looking:
            assert await names_in(looking) == {"one_work"}


async def test_what_needs_a_new_process_is_named_and_the_rest_is_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("port = 3000\n" + section("one"))
    async with hub_of(path) as (front, client):
        await names_in(client)
        replace_file(path, "port = 4000\n" + section("two"))
        await until(lambda: reloads(front) == 1)
        assert front.hub.reloading is not None
        assert front.hub.reloading.needs_restart == ["port"]
        assert [record.settings for record in caplog.records if record.message == "restart_needed"] == ["port"]  # type: ignore[attr-defined]
        assert await names_in(client) == {"two_who", "two_work"}
        replace_file(path, "port = 3000\n" + section("two"))
        await until(lambda: not front.hub.reloading.needs_restart)  # type: ignore[union-attr]


async def test_settings_of_the_hub_itself_hold_at_once(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        before = await text_of(client, "one_who")
        path.write_text("[hub]\nsearch = 'on'\nname_limit = 20\n" + section("one"))
        await until(lambda: reloads(front) == 1)
        listed = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
        assert {"hub.search", "hub.call"} <= listed
        assert await text_of(client, "one_who") == before


async def test_a_hub_that_is_not_to_follow_its_file_waits_to_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("[hub]\nreload = false\n" + section("one"))
    async with hub_of(path) as (front, client):
        await names_in(client)
        path.write_text("[hub]\nreload = false\n" + section("two"))
        assert front.hub.reloading is not None
        assert not front.hub.reloading.is_watching
        assert await names_in(client) == {"one_who", "one_work"}
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: reloads(front) == 1)
        assert await names_in(client) == {"two_who", "two_work"}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_result_too_large_is_read_through_the_hub_page_by_page(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("[hub]\nresult_bytes = 10000\n" + section("one"))
    async with hub_of(path, dialect=dialect) as (_, client):
        whole = await text_of(client, "one_story", length=9000)
        assert whole.startswith("0 1 2 ")
        assert len(whole) == 9000
        told = await text_of(client, "one_story", length=200_000)
        assert len(told) < 2 * bounds.PREVIEW_BYTES
        found = re.search(r"id ([\w-]+), offset (\d+)\)", told)
        assert found is not None
        by_tool, offset = told.partition("\n\n")[2], int(found[2])
        while len(by_tool) < 200_000:
            page = (await client.call("hub.read_result", {"id": found[1], "offset": offset}))["content"][0]["text"]
            by_tool, offset = by_tool + page, offset + len(page)
        by_resource, uri = "", f"hub://results/{found[1]}"
        while uri:
            (contents,) = (await client.result("resources/read", {"uri": uri}))["contents"]
            by_resource, uri = by_resource + contents["text"], contents["_meta"].get("next")
        assert by_tool == by_resource
        assert len(by_tool) == 200_000
        assert by_tool.startswith(whole[:4000])


async def test_the_limit_of_results_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(section("one"))
    async with hub_of(path) as (front, client):
        assert len(await text_of(client, "one_story", length=20_000)) == 20_000
        path.write_text("[hub]\nresult_bytes = 10000\n" + section("one"))
        await until(lambda: reloads(front) == 1)
        assert len(await text_of(client, "one_story", length=20_000)) < 10_000


# -- the parts ---------------------------------------------------------------------


class Taking:
    """Something that is brought from one configuration to the next, and notes which it got."""

    def __init__(self) -> None:
        self.configs: list[HubConfig] = []

    async def apply(self, config: HubConfig) -> None:
        self.configs.append(config)


def loaded(name: str) -> Loaded:
    return Loaded(config=HubConfig(lists_safe_names=name == "safe"), settings=ServeSettings())


async def test_a_surprise_in_reading_does_not_end_the_following(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [ZeroDivisionError("surprise"), SettingsError("wrong"), loaded("safe")]

    def load() -> Loaded:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    hub = Taking()
    reloader = Reloader(hub, loaded("exact"), load)
    task = asyncio.create_task(reloader.run())
    for expected in ("ZeroDivisionError: surprise", "wrong", None):
        reloader.ask()
        await until(lambda expected=expected: reloader.state.last_at and reloader.state.problem == expected)
    await until(lambda: len(hub.configs) == 1)
    task.cancel()
    await asyncio.wait([task])


async def test_the_same_mistake_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Loaded:
        raise SettingsError("password = 'hunter2-hunter2' is wrong")

    reloader = Reloader(Taking(), loaded("exact"), load)
    assert [await reloader.reload() for _ in range(3)] == [None] * 3
    assert [record.message for record in caplog.records] == ["settings_not_taken_over"]
    assert "hunter2" not in str(reloader.state.problem)


async def test_files_are_looked_at_even_where_nothing_tells_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounds, "WATCH_POLL_S", 0.05)
    missing = tmp_path / "not-yet" / "hubbub.toml"
    watch = FileWatch([missing]).changes()
    async with asyncio.timeout(SOON_S):
        await anext(watch)  # nobody knows what was before
        missing.parent.mkdir()
        missing.write_text("a = 1")
        await anext(watch)
    assert caplog.messages == ["files_not_watched"]
    await watch.aclose()


async def test_a_file_written_in_many_steps_is_one_change(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("")
    seen: list[str] = []
    watch = FileWatch([path]).changes()

    async def listen() -> None:
        async for _ in watch:
            seen.append(path.read_text())

    task = asyncio.create_task(listen())
    await until(lambda: len(seen) == 1)
    for step in range(20):
        with path.open("a") as file:
            file.write(f"{step}\n")
        await asyncio.sleep(0)
    await until(lambda: seen[-1].endswith("19\n"))
    assert len(seen) <= 3
    task.cancel()
    await asyncio.wait([task])
