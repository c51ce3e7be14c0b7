"""The three calls of the contract, against a real ActivityWatch in both of its modes."""

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.http.server_process import HUBBUB
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event, insert_morning
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import UNUSED_URL, connect_tool_client
from tests.server.raw_client import DIALECTS, MODERN, PLAIN

MOCK_PROBE = {"ok": True, "model": "omniparser-mock", "gpu": "unknown", "message": "Omniparser API ready (mock)"}
HEALTH_KEYS = [
    "aw_ok", "sidecar_probe_status", "preflight_ok", "protected_env_ok", "protected_diff_count", "omni_probe", "causes",
]  # fmt: skip
Z_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def run_probe_server(body: Any) -> Any:
    return run_scripted_server(ScriptedResponse(body=json.dumps(body).encode()))


async def test_get_state_returns_info_and_buckets_of_activitywatch(either_watch: ActivityWatchServer) -> None:
    insert_morning(either_watch)
    async with connect_tool_client(either_watch.url, dialect=PLAIN) as tool_client:
        state = await tool_client.client.result("aw.get_state")
    assert list(state) == ["info", "buckets"]
    assert state["info"] == either_watch.request("GET", "info")
    assert state["buckets"] == either_watch.request("GET", "buckets/")
    assert state["buckets"]["aw-watcher-window_desk"]["id"] == "aw-watcher-window_desk"


async def test_a_frame_has_the_fields_of_the_contract(either_watch: ActivityWatchServer) -> None:
    insert_morning(either_watch)
    with run_probe_server(MOCK_PROBE) as sidecar:
        async with connect_tool_client(either_watch.url, sidecar.url, dialect=PLAIN) as tool_client:
            frame = await tool_client.client.result("nowframe.build", {"reason": "manual"})
    assert list(frame) == ["timestamp", "reason", "aw_info", "aw_buckets", "omni_probe"]
    assert Z_TIME.fullmatch(frame["timestamp"])
    assert frame["reason"] == "manual"
    assert frame["aw_info"]["hostname"]
    assert "aw-watcher-afk_desk" in frame["aw_buckets"]
    assert frame["omni_probe"] == MOCK_PROBE


@pytest.mark.parametrize("params", [None, {}, {"reason": None}, {"reason": 7}, {"unknown": 1}])
async def test_the_default_reason_of_a_frame_is_mcp(params: dict[str, Any] | None) -> None:
    async with connect_tool_client(dialect=PLAIN) as tool_client:
        frame = await tool_client.client.result("nowframe.build", params)
    assert frame["reason"] == "mcp"
    assert (frame["aw_info"], frame["aw_buckets"], frame["omni_probe"]) == (None, None, None)


async def test_parts_of_a_frame_fail_independently() -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse(body=b'{"hostname": "h"}') if path.endswith("/info") else ScriptedResponse(500, b"{}")

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, dialect=PLAIN) as tool_client:
            frame = await tool_client.client.result("nowframe.build")
    assert frame["aw_info"] == {"hostname": "h"}
    assert frame["aw_buckets"] is None


async def test_health_reports_that_everything_works(either_watch: ActivityWatchServer, tmp_path: Path) -> None:
    for stage in ("pre", "post"):
        tmp_path.joinpath(f"protect_{stage}.json").write_text('{"protected_freeze": ["torch==2"]}')
    now = datetime.now(UTC)
    for name, kind in (("w", "currentwindow"), ("a", "afkstatus")):
        either_watch.insert(either_watch.bucket(name, kind), [event(now - timedelta(seconds=60), 59)])
    with run_probe_server(MOCK_PROBE) as sidecar:
        settings = {"protected_folder": str(tmp_path)}
        async with connect_tool_client(either_watch.url, sidecar.url, dialect=PLAIN, **settings) as tool_client:
            health = await tool_client.client.result("system.health")
    assert list(health) == HEALTH_KEYS
    assert health == {
        "aw_ok": True,
        "sidecar_probe_status": True,
        "preflight_ok": True,
        "protected_env_ok": True,
        "protected_diff_count": 0,
        "omni_probe": MOCK_PROBE,
        "causes": {},
    }


async def test_health_reports_causes_when_nothing_is_reachable() -> None:
    async with connect_tool_client(dialect=PLAIN) as tool_client:
        health = await tool_client.client.result("system.health")
    causes = health.pop("causes")
    assert health == {
        "aw_ok": False,
        "sidecar_probe_status": False,
        "preflight_ok": False,
        "protected_env_ok": False,
        "protected_diff_count": -1,
        "omni_probe": None,
    }
    assert {name: cause["kind"] for name, cause in causes.items()} == {
        "activitywatch": "unreachable",
        "sidecar": "unreachable",
        "protected_env": "no_snapshot",
    }


@pytest.mark.parametrize(
    ("probe", "status", "preflight"),
    [
        ({"ok": True, "preflight_ok": False}, True, False),
        ({"ok": False, "preflight_ok": True}, False, True),
        ({"ok": False}, False, False),
        ({"ok": "yes"}, False, False),
        ({"message": "Omniparser API ready"}, True, True),  # all that OmniParser's own server returns
    ],
)
async def test_health_reports_the_flags_of_the_probe(probe: dict[str, Any], status: bool, preflight: bool) -> None:
    with run_probe_server(probe) as sidecar:
        async with connect_tool_client(sidecar_url=sidecar.url, dialect=PLAIN) as tool_client:
            health = await tool_client.client.result("system.health")
    assert (health["sidecar_probe_status"], health["preflight_ok"], health["omni_probe"]) == (status, preflight, probe)


async def test_a_path_with_a_trailing_slash_is_tried_after_404() -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse(body=b'{"message": "ready"}') if path == "/probe/" else ScriptedResponse(404, b"{}")

    with run_scripted_server(answer) as sidecar:
        async with connect_tool_client(sidecar_url=sidecar.url, dialect=PLAIN) as tool_client:
            health = await tool_client.client.result("system.health")
    assert health["sidecar_probe_status"] is True


@pytest.mark.parametrize("params", [[1], [], "x", 7, True, None])
@pytest.mark.parametrize("method", ["aw.get_state", "nowframe.build", "system.health"])
async def test_params_must_be_an_object(method: str, params: Any) -> None:
    async with connect_tool_client(dialect=PLAIN) as tool_client:
        tool_client.client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = await tool_client.client.next_message()
    assert answer["error"]["code"] == -32602


async def test_health_ignores_unknown_params() -> None:
    async with connect_tool_client(dialect=PLAIN) as tool_client:
        assert (await tool_client.client.result("system.health", {"verbose": True}))["aw_ok"] is False


async def test_an_unreachable_activitywatch_is_the_error_of_the_contract_with_its_cause() -> None:
    async with connect_tool_client(dialect=PLAIN) as tool_client:
        error = await tool_client.client.error("aw.get_state")
    assert error["code"] == -32601
    assert error["data"] == {"kind": "unreachable", "url": UNUSED_URL}
    assert "start ActivityWatch" in error["message"]


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != PLAIN])
async def test_the_contract_calls_are_tools_in_every_revision(dialect: str, watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url, dialect=dialect) as tool_client:
        listed = await tool_client.client.result("tools/list")
        names = {tool["name"] for tool in listed["tools"]}
        assert {"aw.get_state", "nowframe.build", "system.health"} <= names
        state = await tool_client.call("aw.get_state")
        frame = await tool_client.call("nowframe.build", reason="manual")
        health = await tool_client.call("system.health")
    assert set(state["buckets"]) == set(frame["aw_buckets"]) == {
        "aw-watcher-window_desk", "aw-watcher-afk_desk", "aw-watcher-web-firefox",
    }  # fmt: skip
    assert (frame["reason"], health["aw_ok"]) == ("manual", True)


@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_an_unreachable_activitywatch_is_a_tool_error_in_both_eras(dialect: str) -> None:
    async with connect_tool_client(dialect=dialect) as tool_client:
        error = await tool_client.failure("aw.get_state")
    assert (error["type"], error["code"], error["data"]["kind"]) == ("tool_error", "unreachable", "unreachable")


def test_the_requests_of_the_contract_work_on_stdio(watch: ActivityWatchServer, tmp_path: Path) -> None:
    lines = [
        '{"jsonrpc":"2.0","id":1,"method":"aw.get_state"}',
        '{"jsonrpc":"2.0","id":2,"method":"nowframe.build","params":{"reason":"manual"}}',
        '{"jsonrpc":"2.0","id":3,"method":"system.health"}',
        '{"jsonrpc":"2.0","id":4,"method":"no.such"}',
        "this is no JSON",
    ]
    done = subprocess.run(
        [HUBBUB, "serve", "--pack", "activity", "--transport", "stdio"],
        input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HUBBUB_ACTIVITY_AW_URL": f"{watch.url}/",
             "HUBBUB_ACTIVITY_SIDECAR_URL": UNUSED_URL},
    )  # fmt: skip
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["info"]["version"]
    assert answers[2]["result"]["reason"] == "manual"
    assert list(answers[3]["result"]) == HEALTH_KEYS
    assert answers[4]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32700
