"""A hub that watches its files: what a change applies, what it keeps, and notifications. Real files, real
servers."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.hub.file_hub import (
    SOURCE,
    WORKER,
    call_text,
    reload_count,
    reload_problem,
    replace_file,
    run_file_hub,
    wait_until,
    worker_section,
    worker_tool_names,
)
from tests.server.raw_client import MODERN, connect_raw_client


async def test_changing_how_a_server_is_listed_keeps_its_process(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        path.write_text("# a comment above\n\n" + worker_section("one", prefix="always", exclude=["*_work"]))
        await wait_until(lambda: reload_count(front) == 1)
        assert await worker_tool_names(client) == {"one__one_who"}
        assert await call_text(client, "one__one_who") == before


async def test_reordering_the_lines_of_a_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        assert front.hub.reload_state is not None
        replace_file(path, "# lines\n# above\n" + worker_section("one"))
        last = front.hub.reload_state.last_at
        await wait_until(lambda: front.hub.reload_state.last_at != last)  # type: ignore[union-attr]
        assert await call_text(client, "one_who") == before
        assert reload_count(front) == 0


async def test_servers_of_an_mcp_json_are_added_and_removed(tmp_path: Path) -> None:
    path, mcp_json = tmp_path / "hubbub.toml", tmp_path / "elsewhere" / "mcp.json"
    mcp_json.parent.mkdir()

    def servers(*names: str) -> str:
        entry = {"command": sys.executable, "env": {"PYTHONPATH": str(SOURCE)}}
        return json.dumps({"mcpServers": {name: {**entry, "args": [str(WORKER), name]} for name in names}})

    path.write_text(worker_section("one"))
    mcp_json.write_text(servers("two"))
    async with run_file_hub(path, mcp_json=str(mcp_json)) as (front, client):
        assert await worker_tool_names(client) == {"one_who", "one_work", "two_who", "two_work"}
        replace_file(mcp_json, servers("three"))
        await wait_until(lambda: reload_count(front) == 1)
        assert await worker_tool_names(client) == {"one_who", "one_work", "three_who", "three_work"}
        replace_file(mcp_json, servers("one"))
        await wait_until(lambda: reload_problem(front) is not None)
        assert "another server already has this name" in str(reload_problem(front))
        replace_file(mcp_json, '{\n  "mcpServers": {\n    "two": oops\n  }\n}\n')
        await wait_until(lambda: "invalid JSON" in str(reload_problem(front)))
        assert "line 3" in str(reload_problem(front))
        assert await worker_tool_names(client) == {"one_who", "one_work", "three_who", "three_work"}


async def test_a_changed_symlink_is_a_change_of_the_file(tmp_path: Path) -> None:
    """As in mounted configuration: the path goes through a symlink to a folder, and that symlink is replaced."""
    for version, name in (("v1", "one"), ("v2", "two")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "hubbub.toml").write_text(worker_section(name))
    (tmp_path / "now").symlink_to("v1")
    path = tmp_path / "hubbub.toml"
    path.symlink_to("now/hubbub.toml")
    async with run_file_hub(path) as (front, client):
        assert await worker_tool_names(client) == {"one_who", "one_work"}
        (tmp_path / "next").symlink_to("v2")
        (tmp_path / "next").replace(tmp_path / "now")
        await wait_until(lambda: reload_count(front) == 1)
        assert await worker_tool_names(client) == {"two_who", "two_work"}


async def test_clients_are_notified_of_list_changes_after_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path, dialect="2025-11-25") as (front, client):
        await worker_tool_names(client)
        path.write_text(worker_section("one") + worker_section("two"))
        await wait_until(lambda: reload_count(front) == 1)
        await client.wait_until_idle()
        assert client.notifications("notifications/tools/list_changed")
        assert await worker_tool_names(client) == {"one_who", "one_work", "two_who", "two_work"}


async def test_views_are_added_changed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one") + "[views.reader]\nexclude = ['*_work']\n[views.gone]\n")
    async with run_file_hub(path) as (front, client):
        await worker_tool_names(client)
        reader = front.views["reader"]
        path.write_text(worker_section("one") + "[views.reader]\nexclude = ['*_who']\n[views.writer]\n")
        await wait_until(lambda: reload_count(front) == 1)
        assert list(front.hub.views) == ["reader", "writer"]
        assert front.views["reader"] is reader, "its sessions go on"
        async with connect_raw_client(reader, MODERN, {}) as looking:
            assert await worker_tool_names(looking) == {"one_work"}


async def test_settings_that_need_a_restart_are_reported_and_the_others_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("port = 3000\n" + worker_section("one"))
    async with run_file_hub(path) as (front, client):
        await worker_tool_names(client)
        replace_file(path, "port = 4000\n" + worker_section("two"))
        await wait_until(lambda: reload_count(front) == 1)
        assert front.hub.reload_state is not None
        assert front.hub.reload_state.needs_restart == ["port"]
        assert [record.settings for record in caplog.records if record.message == "restart_needed"] == ["port"]  # type: ignore[attr-defined]
        assert await worker_tool_names(client) == {"two_who", "two_work"}
        replace_file(path, "port = 3000\n" + worker_section("two"))
        await wait_until(lambda: not front.hub.reload_state.needs_restart)  # type: ignore[union-attr]


async def test_changes_of_oauth_need_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    oauth = "[oauth]\npublic_url = 'https://hub.example.com'\n"
    issuer = "[[oauth.issuers]]\nissuer = 'https://login.example.com'\n"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        await worker_tool_names(client)
        state = front.hub.reload_state
        assert state is not None
        replace_file(path, worker_section("one") + oauth)
        await wait_until(lambda: "oauth.public_url" in state.needs_restart)
        replace_file(path, worker_section("one") + oauth + issuer)
        await wait_until(lambda: "oauth.issuers[0]" in state.needs_restart)
        replace_file(path, worker_section("one"))
        await wait_until(lambda: not state.needs_restart)


async def test_settings_of_the_hub_are_applied_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        before = await call_text(client, "one_who")
        path.write_text("[hub]\nsearch = 'on'\nname_limit = 20\n" + worker_section("one"))
        await wait_until(lambda: reload_count(front) == 1)
        listed = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
        assert {"hub.search", "hub.call"} <= listed
        assert await call_text(client, "one_who") == before


async def test_the_result_limit_is_reloaded(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text(worker_section("one"))
    async with run_file_hub(path) as (front, client):
        assert len(await call_text(client, "one_story", length=20_000)) == 20_000
        path.write_text("[hub]\nresult_bytes = 10000\n" + worker_section("one"))
        await wait_until(lambda: reload_count(front) == 1)
        assert len(await call_text(client, "one_story", length=20_000)) < 10_000


async def test_without_reload_the_file_is_read_again_on_sighup_only(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("[hub]\nreload = false\n" + worker_section("one"))
    async with run_file_hub(path) as (front, client):
        await worker_tool_names(client)
        path.write_text("[hub]\nreload = false\n" + worker_section("two"))
        assert front.hub.reload_state is not None
        assert not front.hub.reload_state.is_watching
        assert await worker_tool_names(client) == {"one_who", "one_work"}
        os.kill(os.getpid(), signal.SIGHUP)
        await wait_until(lambda: reload_count(front) == 1)
        assert await worker_tool_names(client) == {"two_who", "two_work"}
