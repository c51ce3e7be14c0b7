"""A hub whose file is invalid, missing or names a broken program: nothing changes, and the problem is reported."""

import asyncio
import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.hub.file_hub import (
    call_text,
    reload_count,
    reload_problem,
    replace_file,
    run_file_hub,
    wait_until,
    worker_section,
)

from hubbub import SettingsError
from hubbub.hub.config import HubConfig
from hubbub.hub.reload import LoadedConfig, Reloader
from hubbub.settings import ServeSettings


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("[servers.one\n", "line 1"),
        ('[servers.one]\ncommand = "x"\ncomand = "y"\n', "line 3: servers.one.comand is not a setting; did you mean"),
        ("[servers.one]\ncommand = 3\n", "line 2: servers.one.command must be text, not '3'"),
        ('[servers.one]\nurl = "http://x"\ncommand = "y"\n', "line 1: servers.one: set exactly one of url, command"),
        ('[servers.hub]\ncommand = "x"\n', "line 1: servers.hub: the server name 'hub' is reserved"),
        ('[views.a]\nservers = ["none"]\n', "line 2: views.a.servers: unknown server 'none'"),
        ("port = 99999\n", "line 1: port must be"),
    ],
)
async def test_an_invalid_file_changes_nothing_and_the_problem_names_the_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str, message: str
) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        replace_file(path, broken)
        await wait_until(lambda: reload_problem(front) is not None)
        assert str(path) in str(reload_problem(front))
        assert message in str(reload_problem(front))
        (record,) = [record for record in caplog.records if record.message == "settings_not_applied"]
        assert message in record.reason  # type: ignore[attr-defined]
        status = (await client.call("hub.status"))["structuredContent"]
        assert any(message in problem for problem in status["problems"])
        assert message in status["reload"]["problem"]
        assert await call_text(client, "one_who") == before
        replace_file(path, worker_section("one") + worker_section("two"))
        await wait_until(lambda: reload_problem(front) is None)
        assert await call_text(client, "one_who") == before
        assert (await call_text(client, "two_who")).startswith("two ")


async def test_a_deleted_file_changes_nothing_until_it_exists_again(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        path.unlink()
        await wait_until(lambda: reload_problem(front) is not None)
        assert await call_text(client, "one_who") == before
        path.write_text(worker_section("one"))
        await wait_until(lambda: reload_problem(front) is None)
        assert await call_text(client, "one_who") == before
        assert reload_count(front) == 0


async def test_a_program_that_fails_to_load_changes_nothing(tmp_path: Path) -> None:
    path, program = tmp_path / "hubbub.toml", tmp_path / "program.py"
    path.write_text(worker_section("one"))
    program.write_text("raise RuntimeError('not today')")
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        both = (
            worker_section("one", env={"GREETING": "anew"}) + f"[servers.local]\ntarget = {json.dumps(str(program))}\n"
        )
        path.write_text(both)
        await wait_until(lambda: reload_problem(front) is not None)
        assert "not today" in str(reload_problem(front))
        assert await call_text(client, "one_who") == before
        program.write_text(
            "from hubbub import Server\nserver = Server('local')\n@server.tool\ndef here() -> str:\n    return 'here'\n"
        )
        os.kill(os.getpid(), signal.SIGHUP)  # the program is not one of the watched files
        await wait_until(lambda: reload_problem(front) is None)
        assert await call_text(client, "here") == "here"
        assert (await call_text(client, "one_who")).endswith(" anew")


# -- the reloader alone --------------------------------------------------------


class RecordingHub:
    """Records the configurations that the reloader applies."""

    def __init__(self) -> None:
        self.configs: list[HubConfig] = []

    async def apply(self, config: HubConfig) -> None:
        self.configs.append(config)


def has_problem(reloader: Reloader, problem: str | None) -> bool:
    return reloader.state.last_at is not None and reloader.state.problem == problem


def make_loaded(name: str) -> LoadedConfig:
    return LoadedConfig(config=HubConfig(lists_safe_names=name == "safe"), settings=ServeSettings())


async def test_an_unexpected_exception_while_loading_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Exception | LoadedConfig] = [
        ZeroDivisionError("surprise"),
        SettingsError("wrong"),
        make_loaded("safe"),
    ]

    def load() -> LoadedConfig:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    hub = RecordingHub()
    reloader = Reloader(hub, make_loaded("exact"), load)
    task = asyncio.create_task(reloader.run())
    for expected in ("ZeroDivisionError: surprise", "wrong", None):
        reloader.request_reload()
        await wait_until(partial(has_problem, reloader, expected))
    await wait_until(lambda: len(hub.configs) == 1)
    task.cancel()
    await asyncio.wait([task])


async def test_the_same_problem_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> LoadedConfig:
        raise SettingsError("password = 'hunter2-hunter2' is wrong")

    reloader = Reloader(RecordingHub(), make_loaded("exact"), load)
    assert [await reloader.reload() for _ in range(3)] == [None] * 3
    assert [record.message for record in caplog.records] == ["settings_not_applied"]
    assert "hunter2" not in str(reloader.state.problem)
