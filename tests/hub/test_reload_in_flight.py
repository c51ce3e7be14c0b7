"""A hub whose file changes during calls: running calls finish on the old server, new ones wait for the new server."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.hub.file_hub import call_text, reload_count, run_file_hub, wait_until, worker_section, worker_tool_names
from tests.server.raw_client import MODERN, RawClient


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class CallInFlight:
    """A call in flight that has reached its server."""

    def __init__(self, client: RawClient, folder: Path) -> None:
        self._client = client
        self._started_file, self._finish_file = folder / "started", folder / "until"
        self._id: Any = None

    async def begin(self, tool: str) -> None:
        arguments = {"started": str(self._started_file), "until": str(self._finish_file)}
        self._id = self._client.send_request("tools/call", {"name": tool, "arguments": arguments})
        await wait_until(self._started_file.exists)

    async def end(self) -> str:
        self._finish_file.touch()
        answer = await self._client.response_to(self._id)
        assert not answer["result"].get("isError"), answer
        return str(answer["result"]["content"][0]["text"])


async def test_a_call_in_flight_survives_a_change_of_another_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one") + worker_section("two"))
    async with run_file_hub(path) as (front, client):
        first = await call_text(client, "one_who")
        await call_text(client, "two_who")
        call = CallInFlight(client, tmp_path)
        await call.begin("one_work")
        path.write_text(worker_section("one") + worker_section("two", env={"GREETING": "anew"}))
        await wait_until(lambda: reload_count(front) == 1)
        assert (await call_text(client, "two_who")).endswith(" anew")
        assert await call_text(client, "one_who") == first, "its process stays"
        assert (await call.end()).split()[:2] == first.split()


async def test_a_call_in_flight_survives_a_change_of_its_own_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        old = int((await call_text(client, "one_who")).split()[1])
        call = CallInFlight(client, tmp_path)
        await call.begin("one_work")
        path.write_text(worker_section("one", env={"GREETING": "anew"}))
        await wait_until(lambda: reload_count(front) == 1)
        new = await call_text(client, "one_who")
        assert new.endswith(" anew"), "new calls go to the new process"
        assert int(new.split()[1]) != old
        assert is_alive(old)
        assert await call.end() == f"one {old} is done"
        await wait_until(lambda: not is_alive(old))


async def test_a_call_in_flight_survives_the_removal_of_its_server(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one") + worker_section("two"))
    async with run_file_hub(path) as (front, client):
        old = int((await call_text(client, "one_who")).split()[1])
        call = CallInFlight(client, tmp_path)
        await call.begin("one_work")
        path.write_text(worker_section("two"))
        await wait_until(lambda: reload_count(front) == 1)
        assert await worker_tool_names(client) == {"two_who", "two_work"}
        assert (await client.ask("tools/call", {"name": "one_who"}))["error"]["code"] == -32602
        assert await call.end() == f"one {old} is done"
        await wait_until(lambda: not is_alive(old))


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_an_input_response_reaches_its_call_after_the_server_was_replaced(tmp_path: Path, version: str) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one", protocol_version=version))
    async with run_file_hub(path, capabilities={"elicitation": {"form": {}}}) as (front, client):
        asked = await client.call("one_greet")
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        path.write_text(worker_section("one", protocol_version=version, env={"GREETING": "anew"}))
        await wait_until(lambda: reload_count(front) == 1)
        new = await call_text(client, "one_who")
        assert new.endswith(" anew")
        answers = {key: {"action": "accept", "content": {"name": "Ann"}}}
        more = {"requestState": asked["requestState"], "inputResponses": answers}
        if version == MODERN:  # The request came from the old process, which has no running call any more.
            assert (await client.ask("tools/call", {"name": "one_greet", **more}))["error"]["code"] == -32602
            return
        result = await client.call("one_greet", more=more)
        assert result["content"][0]["text"].startswith("hello Ann from ")
        assert result["content"][0]["text"].split()[-1] != new.split()[1]


async def test_closing_a_hub_ends_replaced_servers_with_running_calls(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        old = int((await call_text(client, "one_who")).split()[1])
        await CallInFlight(client, tmp_path).begin("one_work")
        path.write_text(worker_section("one", env={"GREETING": "anew"}))
        await wait_until(lambda: reload_count(front) == 1)
        new = int((await call_text(client, "one_who")).split()[1])
        assert is_alive(old)
    await wait_until(lambda: not is_alive(old) and not is_alive(new))


async def test_a_replaced_server_serves_until_the_new_one_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        path.write_text(worker_section("one", env={"GREETING": "anew", "SLOW_START_S": "1"}))
        answers_seen = [before]
        while reload_count(front) == 0:
            answers_seen.append(await call_text(client, "one_who"))
        answers_seen.append(await call_text(client, "one_who"))
        after = answers_seen[-1]
        assert after.endswith(" anew")
        # The new server may serve before the reload is counted, but then the old one never does again.
        assert answers_seen == [before] * answers_seen.count(before) + [after] * answers_seen.count(after)
        assert answers_seen.count(before) > 3, "the old one answers while the new one starts"
