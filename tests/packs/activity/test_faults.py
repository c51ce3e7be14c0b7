"""Failures of ActivityWatch have an error code, advice and a timeout; the server continues."""

import asyncio
import json
import logging
import signal
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until
from tests.http.server_process import HUBBUB
from tests.interop.external_servers import free_port
from tests.packs.activity.activitywatch_proxies import API_KEY, run_proxy_with_key
from tests.packs.activity.activitywatch_server import (
    ActivityWatchServer,
    event,
    insert_morning,
    run_activitywatch,
)
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import connect_tool_client, make_server
from tests.server.raw_client import PLAIN

from hubbub import Secret, SettingsError
from hubbub.packs.activity import diagnosis, limits
from hubbub.packs.activity.json_client import normalize_url
from hubbub.packs.activity.settings import ActivitySettings

PAGE = b"<!doctype html><title>Hello</title>"
MANY_BUCKETS = json.dumps({f"bucket-{number:06}": {"id": "x" * 100, "type": "t"} for number in range(80_000)}).encode()


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (ScriptedResponse(body=PAGE, kind="text/html; charset=utf-8"), "html_page"),
        (ScriptedResponse(500, b"<html>" + b"x" * 50_000, "text/html"), "html_page"),
        (ScriptedResponse(500, b'{"message": "Internal Server Error"}'), "http_error"),
        (ScriptedResponse(404, b"null"), "http_error"),
        (ScriptedResponse(401, b'{"message": "no key"}'), "unauthorized"),
        (ScriptedResponse(403, b"{}"), "unauthorized"),
        (ScriptedResponse(400, b'{"message": "host header is invalid"}'), "host_refused"),
        (ScriptedResponse(body=b'{"hostname": "h"'), "invalid_json"),
        (ScriptedResponse(body=b"\xff\xfe"), "invalid_json"),
        (ScriptedResponse(body=b'{"a":' * 10_000), "invalid_json"),
        (ScriptedResponse(body=b""), "invalid_json"),
        (ScriptedResponse(body=b"[]"), "unexpected"),
        (ScriptedResponse(body=b"null"), "unexpected"),
        (ScriptedResponse(body=b'{"a": 1}', announced=100), "broken_off"),
        (ScriptedResponse(body=MANY_BUCKETS), "too_large"),
        (ScriptedResponse(body=b"{}", announced=10**12), "too_large"),
        (ScriptedResponse(302, b"", headers={"Location": "http://127.0.0.1:9/"}), "http_error"),
        (ScriptedResponse(308, b"", headers={"Location": "http://127.0.0.1:9/"}), "http_error"),
        (ScriptedResponse(308, b"", headers={"Location": "http://["}), "http_error"),
        (ScriptedResponse(hangs=True), "timeout"),
        (ScriptedResponse(body=b" " * 1000, drips=True), "timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_bad_response_has_an_error_code_and_a_null_part_of_the_frame(odd: ScriptedResponse, kind: str) -> None:
    with run_scripted_server(odd) as watch:
        async with connect_tool_client(
            watch.url, dialect=PLAIN, timeout_s=0.5 if kind == "timeout" else 8
        ) as tool_client:
            error = await tool_client.client.error("aw.get_state")
            frame = await tool_client.client.result("nowframe.build")
            health = await tool_client.client.result("system.health")
    assert (error["code"], error["data"]["kind"]) == (-32601, kind)
    advice = error["message"].partition(";")[2] or error["message"].partition(": set ")[2]
    assert len(advice) > 10, "the message has no advice"
    assert (frame["aw_info"], frame["aw_buckets"]) == (None, None)
    assert (health["aw_ok"], health["causes"]["activitywatch"]["kind"]) == (False, kind)


async def test_a_capture_failure_of_the_sidecar_is_reported_with_its_reason() -> None:
    odd = ScriptedResponse(503, b'{"ok": false, "error": "capture_unavailable", "details": "Wayland forbids it"}')
    with run_scripted_server(lambda method, path: odd if method == "POST" else ScriptedResponse()) as sidecar:
        async with connect_tool_client(sidecar_url=sidecar.url) as tool_client:
            error = await tool_client.failure("screen.read")
    assert "capture_unavailable: Wayland forbids it" in error["message"]


async def test_a_redirect_is_not_followed_even_to_the_same_server() -> None:
    with run_scripted_server(
        lambda _, path: ScriptedResponse(308, PAGE, "text/html", {"Location": f"{path}/"})
    ) as watch:
        async with connect_tool_client(watch.url, dialect=PLAIN) as tool_client:
            error = await tool_client.client.error("aw.get_state")
        assert not [path for _, path, _ in watch.requests if path.endswith("//") or path.endswith("info/")]
    assert error["data"]["kind"] == "http_error"
    assert "redirect (status 308) to another path of the same server" in error["message"]


async def test_the_requests_of_one_call_are_concurrent() -> None:
    all_asked = threading.Barrier(3, timeout=60)

    def answer(method: str, path: str) -> ScriptedResponse:
        all_asked.wait()
        return ScriptedResponse()

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, watch.url, dialect=PLAIN, timeout_s=25) as tool_client:
            frame = await tool_client.client.result("nowframe.build")
    assert frame["aw_buckets"] == frame["omni_probe"] == {}


async def test_the_api_key_is_sent_only_to_activitywatch_and_no_origin_header_is_sent() -> None:
    with run_scripted_server(ScriptedResponse()) as watch:
        async with connect_tool_client(watch.url, watch.url, dialect=PLAIN, api_key=Secret("k-1")) as tool_client:
            await tool_client.client.result("nowframe.build")
        asked = {path: headers for _, path, headers in watch.requests}
    assert asked["/api/0/info"]["Authorization"] == asked["/api/0/buckets/"]["Authorization"] == "Bearer k-1"
    assert "Authorization" not in asked["/probe"]
    assert all("Origin" not in headers for headers in asked.values())


async def test_a_missing_api_key_differs_from_an_unreachable_server() -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse() if path.endswith("info") else ScriptedResponse(401, b'{"message": "x"}')

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, dialect=PLAIN) as tool_client:
            error = await tool_client.client.error("aw.get_state")
            health = await tool_client.client.result("system.health")
    assert error["data"]["kind"] == "unauthorized"
    assert "HUBBUB_ACTIVITY_API_KEY" in error["message"]
    assert health["aw_ok"] is True
    assert health["causes"]["buckets"]["kind"] == "unauthorized"


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (ScriptedResponse(500), "http_error"),
        (ScriptedResponse(hangs=True), "timeout"),
        (ScriptedResponse(body=b"[]"), "unexpected"),
    ],
)
@pytest.mark.parametrize("place", ["/buckets/", "/events"])
async def test_health_reports_why_a_running_activitywatch_cannot_be_read(
    place: str, bad: ScriptedResponse, kind: str
) -> None:
    old = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    bucket = {"type": "web.tab.current", "last_updated": old}
    window = {"type": "currentwindow", "last_updated": datetime.now(UTC).isoformat()}
    buckets = json.dumps({"aw-watcher-web-firefox": bucket, "w": window}).encode()

    def answer(method: str, path: str) -> ScriptedResponse:
        if path.partition("?")[0].endswith(place):
            return ScriptedResponse(body=b"{}") if kind == "unexpected" and place == "/events" else bad
        return ScriptedResponse(body=buckets if "/buckets" in path else b"{}")

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(
            watch.url, timeout_s=1 if kind == "timeout" else 8, dialect=PLAIN
        ) as tool_client:
            health = await tool_client.client.result("system.health")
    assert health["aw_ok"] is True
    assert health["causes"]["buckets" if place == "/buckets/" else "watchers"]["kind"] == kind


async def test_activitywatch_accepts_only_known_host_names(watch: ActivityWatchServer) -> None:
    for name, is_known in (("localhost", True), ("127.0.0.1", True), ("127.0.0.1.nip.localhost", False)):
        async with connect_tool_client(watch.url.replace("127.0.0.1", name), dialect=PLAIN) as tool_client:
            answer = await tool_client.client.ask("aw.get_state")
        if is_known:
            assert answer["result"]["info"]["hostname"]
        else:
            assert answer["error"]["data"]["kind"] in ("host_refused", "unreachable")  # depends on the resolver


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://127.0.0.1:5600", "http://127.0.0.1:5600"),
        (" http://127.0.0.1:5600// ", "http://127.0.0.1:5600"),
        ("http://localhost:5600/api/0/", "http://localhost:5600"),
        ("http://[::1]:5600", "http://localhost:5600"),
        ("https://aw.example.org/base/", "https://aw.example.org/base"),
    ],
)
def test_common_forms_of_an_address_are_normalized(given: str, meant: str) -> None:
    assert normalize_url(given) == meant


@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:5600", "ftp://x", "http://", "http://u:p@h", "http://h?x", "http://h:x", "http://[::1"]
)
def test_an_invalid_address_is_refused(given: str) -> None:
    with pytest.raises(SettingsError):
        normalize_url(given)


@pytest.mark.parametrize(
    "tool", ["aw.now", "aw.summary", "aw.categories", "aw.export", "aw.timeline", "aw.chart", "screen.read"]
)
async def test_every_other_tool_reports_an_unreachable_server(tool: str) -> None:
    async with connect_tool_client() as tool_client:
        error = await tool_client.failure(tool)
        assert error["code"] == "unreachable"
        assert await tool_client.call("system.health")


@pytest.mark.parametrize(
    "answers",
    [
        {"info": {"hostname": "h"}, "buckets": {"b": 3, "c": {"type": 7}, "d": None}},
        {"info": {}, "buckets": {}},
        {"info": {"hostname": ["h"]}, "buckets": {"w": {"type": "currentwindow", "last_updated": "yesterday"}}},
    ],
)
async def test_malformed_buckets_are_ignored(answers: dict[str, Any]) -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        name = path.rstrip("/").rpartition("/")[2]
        return (
            ScriptedResponse(body=json.dumps(answers[name]).encode())
            if name in answers
            else ScriptedResponse(404, PAGE, "text/html")
        )

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url) as tool_client:
            now = await tool_client.call("aw.now")
            summary = await tool_client.call("aw.summary", period="yesterday")
    assert (now["window"], now["afk"]) == (None, None)
    assert len(now["notes"]) == 2
    assert summary["rows"] == []


def run_server_with_events(events: bytes) -> Any:
    """Run an ActivityWatch whose window bucket has these events."""
    answers = {"info": b'{"hostname": "h"}', "buckets": b'{"w": {"type": "currentwindow", "hostname": "h"}}'}

    def answer(method: str, path: str) -> ScriptedResponse:
        name = path.partition("?")[0].rstrip("/").rpartition("/")[2]
        body = {**answers, "events": events}.get(name)
        return ScriptedResponse(404, PAGE, "text/html") if body is None else ScriptedResponse(body=body)

    return run_scripted_server(answer)


EVERY_REPORT: list[tuple[str, dict[str, Any]]] = [
    ("aw.now", {}),
    ("aw.summary", {"by": "category", "period": "last_1h"}),
    ("aw.summary", {"by": "file", "per": "hour", "period": "last_1h"}),
    ("aw.categories", {"period": "last_1h"}),
    ("aw.export", {"period": "last_1h"}),
    ("aw.timeline", {"period": "last_1h"}),
    ("aw.chart", {"period": "last_1h"}),
    ("aw.query", {"query": 'RETURN = query_bucket("w");', "period": "last_1h"}),
]


async def test_only_get_requests_are_sent_to_activitywatch() -> None:
    with run_server_with_events(b"[]") as watch:
        async with connect_tool_client(watch.url) as tool_client:
            for tool in ("aw.get_state", "nowframe.build", "system.health"):
                await tool_client.call(tool)
            for tool, arguments in EVERY_REPORT:
                assert not (await tool_client.client.call(tool, arguments)).get("isError")
            await tool_client.client.result("resources/read", {"uri": "activity://now"})
            for prompt in ("what_did_i_do", "standup", "where_was_i", "week_in_review"):
                await tool_client.client.result("prompts/get", {"name": prompt})
        asked = list(watch.requests)
    assert len(asked) > 20
    assert {method for method, _, _ in asked} == {"GET"}


@pytest.mark.parametrize(("tool", "arguments"), EVERY_REPORT, ids=[tool for tool, _ in EVERY_REPORT])
async def test_event_requests_that_hang_time_out(
    tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENTS_TIMEOUT_S", 0.5)
    bucket = b'{"w": {"type": "currentwindow", "hostname": "h"}}'

    def answer(method: str, path: str) -> ScriptedResponse:
        return (
            ScriptedResponse(hangs=True)
            if "/events" in path
            else ScriptedResponse(body=bucket if "/buckets" in path else b"{}")
        )

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, timeout_s=0.5) as tool_client:
            error = await tool_client.failure(tool, **arguments)
            assert (await tool_client.call("nowframe.build"))["aw_buckets"]
    assert error["code"] in ("timeout", "invalid_argument")
    assert "0.5 s" in error["message"]


async def test_a_bucket_with_little_metadata_can_be_queried() -> None:
    events = b'[{"timestamp": "2026-11-15T10:00:00Z", "duration": 60, "data": {"n": 1}}]'

    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse(
            body=events if "/events" in path else b'{"own": {"client": null, "hostname": null, "type": 7}}'
        )

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url) as tool_client:
            found = await tool_client.call("aw.query", period="2026-11-15", query='RETURN = query_bucket("own");')
    assert [each["data"] for each in found["result"]] == [{"n": 1}]


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("2026-11-15T10:00:00Z", 1e300),
        ("2026-11-15T10:00:00Z", 1e12),
        ("9999-12-31T23:59:59Z", 100),
        ("0001-01-01T00:00:00+12:00", 1),
    ],
)
async def test_an_event_outside_the_datetime_range_is_ignored(when: str, seconds: float) -> None:
    odd = {"timestamp": when, "duration": seconds, "data": {"app": "Odd"}}
    good = {"timestamp": "2026-11-15T10:00:00Z", "duration": 60, "data": {"app": "Good"}}
    with run_server_with_events(json.dumps([odd, good]).encode()) as watch:
        async with connect_tool_client(watch.url, time_zone="America/Lima") as tool_client:
            now = await tool_client.call("aw.now")
            summary = await tool_client.call("aw.summary", period="2026-11-15")
            timeline = await tool_client.call("aw.timeline", period="2026-11-15")
            query = await tool_client.call("aw.query", period="2026-11-15", query='RETURN = query_bucket("w");')
    assert now["window"]["app"] == "Good"
    assert [row["name"] for row in summary["rows"]] == ["Good"]
    assert [block["app"] for block in timeline["blocks"] if block["kind"] == "active"] == ["Good"]
    assert [event["data"]["app"] for event in query["result"]] == ["Good"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\uDE00 cut", "\ufffd cut"),
        (rb"whole \ud83d\ude00 \u00e9", "whole \U0001f600 \u00e9"),
        (rb"\ud83d whole \ud83d\ude00", "\ufffd whole \U0001f600"),
        (rb"\\ud83d is no escape \ud83d", "\\ud83d is no escape \ufffd"),
    ],
)
async def test_a_lone_surrogate_in_a_title_is_replaced(written: bytes, meant: str) -> None:
    """ActivityWatch stores and returns titles that Windows truncated in the middle of an emoji."""
    event = b'{"timestamp": "2026-11-15T10:00:00Z", "duration": 60, "data": {"app": "a", "title": "%b"}}' % written
    with run_server_with_events(b"[" + event + b"]") as watch:
        async with connect_tool_client(watch.url) as tool_client:
            summary = await tool_client.call("aw.summary", period="2026-11-15", by="title")
    assert [row["name"] for row in summary["rows"]] == [meant]


async def test_a_lone_surrogate_from_a_real_activitywatch_is_replaced(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    watch.insert(watch.bucket("w", "currentwindow"), [event(now - timedelta(minutes=1), 59, app="a", title="x \ud83d")])
    async with connect_tool_client(watch.url) as tool_client:
        assert (await tool_client.call("aw.now"))["window"]["title"] == "x \ufffd"


async def test_every_tool_works_with_the_api_key(watch: ActivityWatchServer, caplog: pytest.LogCaptureFixture) -> None:
    insert_morning(watch)
    caplog.set_level(logging.DEBUG)
    with run_proxy_with_key(watch) as locked:
        async with connect_tool_client(locked.url, api_key=Secret(API_KEY)) as tool_client:
            state = await tool_client.call("aw.get_state")
            frame = await tool_client.call("nowframe.build")
            summary = await tool_client.call("aw.summary", period="yesterday")
            now = await tool_client.call("aw.now")
            query = await tool_client.call(
                "aw.query", period="yesterday", query='RETURN = query_bucket("aw-watcher-afk_desk");'
            )
        check = await diagnosis.activitywatch(ActivitySettings(aw_url=locked.url, api_key=Secret(API_KEY)))
    assert set(state["buckets"]) == set(frame["aw_buckets"]) == set(watch.request("GET", "buckets/"))
    assert (round(summary["active_s"]), now["window"]["app"], len(query["result"])) == (5400, "Code", 3)
    assert check.ok
    assert API_KEY not in caplog.text + str([state, frame, summary, now, query, check])


@pytest.mark.parametrize("key", [None, "not-the-key", f"{API_KEY}x", ""])
async def test_without_the_api_key_only_info_can_be_read(key: str | None, watch: ActivityWatchServer) -> None:
    given: dict[str, Any] = {} if key is None else {"api_key": Secret(key)}
    with run_proxy_with_key(watch) as locked:
        async with connect_tool_client(locked.url, **given) as tool_client:
            health = await tool_client.call("system.health")
            frame = await tool_client.call("nowframe.build")
            failures = [
                await tool_client.failure(tool) for tool in ("aw.get_state", "aw.now", "aw.summary", "aw.timeline")
            ]
    assert health["aw_ok"] is True
    assert (frame["aw_info"]["testing"], frame["aw_buckets"]) == (False, None)
    assert {failure["code"] for failure in failures} == {"unauthorized"}
    assert all("HUBBUB_ACTIVITY_API_KEY" in failure["message"] for failure in failures)
    if key:
        assert key not in str(failures)


def test_the_api_key_can_be_read_from_a_file(watch: ActivityWatchServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{API_KEY}\n")
    with run_proxy_with_key(watch) as locked:
        done = subprocess.run(
            [HUBBUB, "serve", "--pack", "activity", "--transport", "stdio"],
            input='{"jsonrpc":"2.0","id":1,"method":"aw.get_state"}\n', capture_output=True, text=True, timeout=60,
            check=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path),
            "HUBBUB_ACTIVITY_AW_URL": locked.url, "HUBBUB_ACTIVITY_API_KEY_FILE": str(file)},
        )  # fmt: skip
    assert json.loads(done.stdout)["result"]["info"]["hostname"]
    assert API_KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("key", ["two\nlines", "a\r\nX-Other: 1", "zero\0", "schlüssel"])
def test_an_api_key_that_no_header_can_contain_is_refused_at_startup(key: str) -> None:
    with pytest.raises(SettingsError, match="API key") as refused:
        make_server(api_key=Secret(key))
    assert key not in str(refused.value)


async def test_server_info_is_cached_between_calls() -> None:
    with run_server_with_events(b"[]") as watch:
        async with connect_tool_client(watch.url) as tool_client:
            frames = [await tool_client.call("nowframe.build") for _ in range(3)]
            await tool_client.call("aw.get_state")
            asked = [path for _, path, _ in watch.requests]
            await tool_client.call("system.health")
            after = [path for _, path, _ in watch.requests]
    assert [frame["aw_info"] for frame in frames] == [{"hostname": "h"}] * 3
    assert (asked.count("/api/0/info"), asked.count("/api/0/buckets/")) == (1, 4)
    assert after.count("/api/0/info") == 2  # only a request shows whether it is reachable


@pytest.mark.parametrize("is_slow", [False, True])
async def test_cached_server_info_is_not_used_when_the_server_fails(is_slow: bool) -> None:
    is_well = True

    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse() if is_well else ScriptedResponse(hangs=True) if is_slow else ScriptedResponse(500)

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, timeout_s=60) as tool_client:
            assert (await tool_client.call("nowframe.build"))["aw_info"] == {}
            is_well = False
            calling = asyncio.create_task(tool_client.call("nowframe.build"))
            if is_slow:
                await wait_until(lambda: watch.hanging_count == 2)
                advance_clock(60)
            frame = await calling
    assert (frame["aw_info"], frame["aw_buckets"]) == (None, None)


@pytest.mark.parametrize("tool", ["aw.get_state", "nowframe.build", "aw.now", "aw.summary"])
async def test_a_replaced_activitywatch_is_detected(tool: str) -> None:
    """Both servers have the buckets of both machines, as after an import; each runs on another machine."""
    host, year = "one", 2025

    def answer(method: str, path: str) -> ScriptedResponse:
        if "/buckets" not in path:
            return ScriptedResponse(body=json.dumps({"hostname": host}).encode())
        if "/events" in path:
            return ScriptedResponse(body=b"[]")
        created = f"{year}-01-01T00:00:00Z"
        buckets = {name: {"type": "currentwindow", "hostname": name, "created": created} for name in ("one", "two")}
        return ScriptedResponse(body=json.dumps(buckets).encode())

    def reported_host(found: dict[str, Any]) -> str:
        return str((found.get("info") or found.get("aw_info") or {}).get("hostname") or found["host"])

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url) as tool_client:
            before = reported_host(await tool_client.call(tool))
            host, year = "two", 2026
            after = reported_host(await tool_client.call(tool))
    assert (before, after) == ("one", "two")


async def test_calls_recover_when_activitywatch_freezes_dies_and_restarts(tmp_path: Path) -> None:
    """The server with the pack keeps running."""
    port = free_port()
    with run_activitywatch(tmp_path, is_testing=False, port=port) as first:
        insert_morning(first)
        async with connect_tool_client(first.url, timeout_s=4) as tool_client:
            before = await tool_client.call("aw.summary", period="yesterday")
            first.process.send_signal(signal.SIGSTOP)
            frozen = await tool_client.failure("aw.summary", period="yesterday")
            frame = await tool_client.call("nowframe.build")
            first.process.send_signal(signal.SIGCONT)
            first.process.kill()
            first.process.wait()
            dead = await tool_client.failure("aw.summary", period="yesterday")
            health = await tool_client.call("system.health")
            with run_activitywatch(tmp_path, is_testing=False, port=port):
                after = await tool_client.call("aw.summary", period="yesterday")
    assert (frozen["code"], dead["code"]) == ("timeout", "unreachable")
    assert (frame["aw_info"], frame["aw_buckets"], health["aw_ok"]) == (None, None, False)
    assert after["rows"] == before["rows"] != []
