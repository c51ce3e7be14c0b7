"""Log events and metrics of the HTTP side: stable event names, no payloads and no secrets."""

import asyncio
import contextlib
import json
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import initialize_request, modern_request, open_session
from tests.http.in_process_server import RunningServer, run_server, wait_until
from tests.http.playground import make_server
from tests.http.raw_http import JSON, TIMEOUT_S, RawConnection, call, request
from tests.http.server_process import HUBBUB, ServerProcess
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hubbub.observe import JsonFormatter
from hubbub.security.api_keys import append_record, generate_key
from hubbub.security.redact import redact
from hubbub.server.call_recording import record_calls

SECRET = "s3cr3t-that-nobody-may-read"


class LogRecorder(logging.Handler):
    """Records log lines as they would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self._formatter = JsonFormatter(redact)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self._formatter.format(record)))

    def fields(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of each line of an event, without the common ones."""
        usual = ("time", "level", "logger", "event")
        found = [line for line in self.lines if line["event"] == event]
        return [{name: value for name, value in line.items() if name not in usual} for line in found]


@pytest.fixture
def log_recorder() -> Iterator[LogRecorder]:
    handler, logger = LogRecorder(), logging.getLogger("hubbub")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


async def has_metric(instance: RunningServer, line: str, headers: dict[str, str] | None = None) -> bool:
    """Return whether the metrics have this line."""
    return f"\n{line}\n" in (await instance.site.get("/metrics", headers)).body.decode()


# -- refusals ---------------------------------------------------------------------------------


async def test_every_refusal_is_logged_with_its_reason_and_without_request_data(log_recorder: LogRecorder) -> None:
    async with run_server(limits=("sse=1/minute",)) as instance:
        site, ours = instance.site, {"address": "127.0.0.1"}
        await site.get("/health", {"Host": f"{SECRET}.example"})
        await site.get(f"/{SECRET}")
        await site.post(b"no JSON " + SECRET.encode())
        await site.get("/mcp", {"MCP-Protocol-Version": "2026-07-28"})
        for _ in range(2):
            async with site.stream("GET", "/sse"):
                pass
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://127.0.0.1:{site.port}/mcp-ws", subprotocols=["x"]):  # type: ignore[list-item]
                pass
        assert log_recorder.fields("refused") == [
            {"status": 403, "reason": "forbidden", "route": "/health", **ours},
            {"status": 404, "reason": "not_found", "route": "other", **ours},
            {"status": 400, "reason": "bad_request", "route": "/mcp", **ours},
            {"status": 405, "reason": "method_not_allowed", "route": "/mcp", **ours},
            {"status": 429, "reason": "too_many_requests", "route": "/sse", **ours},
            {"status": 400, "reason": "bad_request", "route": "/mcp-ws", **ours},
        ]
        assert SECRET not in json.dumps(log_recorder.lines)


async def test_the_log_names_authenticated_callers_and_no_wrong_keys(log_recorder: LogRecorder, tmp_path: Path) -> None:
    key, record = generate_key("ada")
    append_record(tmp_path / "keys.toml", record)
    async with run_server(key_file=str(tmp_path / "keys.toml"), limits=("mcp=3/minute",)) as instance:
        await instance.site.post(request("ping"), {"X-API-Key": "hb_00000000_" + "0" * 48})
        for _ in range(4):
            await instance.site.post(request("ping"), {"X-API-Key": key})
        url = f"ws://127.0.0.1:{instance.site.port}/mcp-ws"
        with pytest.raises(InvalidStatus):
            async with connect(url, additional_headers={"X-API-Key": key}):
                pass
    logged = [(one["status"], one.get("principal", one.get("address"))) for one in log_recorder.fields("refused")]
    assert logged == [(401, "127.0.0.1"), (429, "key:ada"), (429, "key:ada")]
    assert key not in json.dumps(log_recorder.lines)
    assert "hb_00000000" not in json.dumps(log_recorder.lines)


async def test_a_rate_limited_message_of_a_batch_is_logged_like_a_request(log_recorder: LogRecorder) -> None:
    async with run_server(limits=("mcp=1/minute",)) as instance:
        await instance.site.post([request("ping", id=1), request("ping", id=2)])
    logged = {"status": 429, "reason": "too_many_requests", "route": "/mcp", "address": "127.0.0.1"}
    assert log_recorder.fields("refused") == [logged]


async def test_a_server_at_its_limits_logs_it(log_recorder: LogRecorder) -> None:
    async with run_server(max_sessions=1) as instance:
        for _ in range(2):
            await instance.site.post(initialize_request())
        logged = {"status": 503, "reason": "service_unavailable", "route": "/mcp", "address": "127.0.0.1"}
        assert log_recorder.fields("overloaded") == [logged]


async def test_one_connection_too_many_is_503_and_logged(log_recorder: LogRecorder) -> None:
    async with run_server(max_connections=3) as instance, instance.site.connect(), instance.site.connect():
        await wait_until(lambda: len(instance.http.connections) == 2)
        assert (await instance.site.get("/health")).status == 503
        assert log_recorder.fields("caller_cut_off") == [{"reason": "too_many_connections", "address": "127.0.0.1"}]


async def test_calls_that_outlast_their_connections_are_limited_and_logged(log_recorder: LogRecorder) -> None:
    server, started, may_finish = make_server(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        started.set()
        while not may_finish.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_finish.wait()
        return "done"

    async with run_server(server, max_connections=1) as instance:
        async with instance.site.connect() as link:
            await link.send_request("POST", "/mcp", JSON, json.dumps(call("stubborn")).encode())
            await started.wait()
        await wait_until(lambda: not instance.http.connections)
        assert (await instance.site.get("/health")).status == 503
        logged = {"status": 503, "reason": "service_unavailable", "route": "/health", "address": "127.0.0.1"}
        assert log_recorder.fields("overloaded") == [logged]
        may_finish.set()


# -- disconnects ---------------------------------------------------------------------------------


async def assert_cut_off(instance: RunningServer, log_recorder: LogRecorder, reason: str) -> None:
    """Wait until one caller was disconnected for this reason, and check the metric."""
    await wait_until(lambda: bool(log_recorder.fields("caller_cut_off")))
    assert log_recorder.fields("caller_cut_off") == [{"reason": reason, "address": "127.0.0.1"}]
    assert await has_metric(instance, f'hubbub_callers_cut_off_total{{reason="{reason}"}} 1.0')


async def open_unread_connection(instance: RunningServer) -> RawConnection:
    """Open a connection with small buffers that is never read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return RawConnection(reader, writer)


async def test_a_caller_that_reads_nothing_is_disconnected(log_recorder: LogRecorder) -> None:
    async with run_server(slow_reader_s=0.5) as instance:
        link = await open_unread_connection(instance)
        await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 20_000_000})).encode())
        await assert_cut_off(instance, log_recorder, "slow_reader")
        link.abort()


async def test_a_caller_that_sends_too_slowly_is_disconnected(log_recorder: LogRecorder) -> None:
    async with run_server(head_s=0.3) as instance, instance.site.connect() as link:
        await link.send(b"GET /hea")
        assert (await link.read_response()).status == 408
        await assert_cut_off(instance, log_recorder, "slow_sender")


async def test_a_caller_that_sends_its_body_too_slowly_is_disconnected(log_recorder: LogRecorder) -> None:
    async with run_server(body_s=0.3) as instance, instance.site.connect() as link:
        await link.send_request("POST", "/mcp", JSON | {"Content-Length": "100"}, b"{")
        await assert_cut_off(instance, log_recorder, "slow_sender")


async def test_a_caller_with_an_oversized_head_is_disconnected(log_recorder: LogRecorder) -> None:
    async with run_server(max_head_bytes=2048) as instance, instance.site.connect() as link:
        await link.send_request("GET", "/health", {"X-Long": "x" * 3000})
        assert (await link.read_response()).status == 431
        await assert_cut_off(instance, log_recorder, "large_head")


async def test_a_client_with_too_many_unread_bytes_is_disconnected(log_recorder: LogRecorder) -> None:
    async with run_server(max_queue_bytes=4096, slow_reader_s=60.0) as instance:
        link = await open_unread_connection(instance)
        await link.send_request("GET", "/sse")
        await wait_until(lambda: len(instance.server.broadcaster) == 1)
        for number in range(400):
            instance.server.resource_updated("x")
            instance.server.tool(name=f"{'t' * 100}{number}")(make_tool())
        await assert_cut_off(instance, log_recorder, "full_queue")
        link.abort()


def make_tool() -> Any:
    async def tool() -> str:
        return ""

    return tool


async def test_stored_events_are_limited_by_the_setting() -> None:
    async with run_server(max_stored_events=3) as instance:
        session = await open_session(instance.site)
        async with session.call(call("count", {"to": 20}, token=1)) as stream:
            first = await stream.next()
            await stream.rest()
        assert first is not None
        assert first.id is not None
        async with session.listen(first.id) as again:
            assert len(await again.rest()) == 3


# -- start, stop, sessions and calls ----------------------------------------------------------------------------------


async def test_sessions_and_calls_are_logged_at_debug_without_their_ids(log_recorder: LogRecorder) -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        await session.post(call("echo", {"text": SECRET}))
        await instance.site.post(*modern_request("tools/call", {"name": "broken", "arguments": {}}))
        await instance.site.post(request(SECRET))
        await session.end()
        opened, closed = log_recorder.fields("session_opened"), log_recorder.fields("session_closed")
        assert closed == [opened[0] | {"reason": "ended"}]
        assert opened[0]["principal"] == "anonymous"
        calls = [(one["method"], one["era"], one["outcome"]) for one in log_recorder.fields("call")]
        assert calls == [
            ("initialize", "legacy", "ok"),
            ("tools/call", "legacy", "ok"),
            ("tools/call", "modern", "tool_error"),
            ("other", "plain", "error"),
        ]
        assert all(one["ms"] >= 0 for one in log_recorder.fields("call"))
        written = json.dumps(log_recorder.lines)
        assert session.id not in written
        assert SECRET not in written


def test_calls_are_not_recorded_if_neither_logs_nor_metrics_need_them(log_recorder: LogRecorder) -> None:
    logging.getLogger("hubbub").setLevel(logging.INFO)
    server = make_server()
    record_calls(server)
    assert server.peer is server


@pytest.mark.parametrize("format", ["auto", "json"])
def test_start_and_stop_are_logged_as_json_without_a_terminal(format: str) -> None:
    with ServerProcess("--pack", "demo", "--log-level", "info", "--log-format", format) as process:
        process.signal()
        assert process.wait() == 0
        lines = [json.loads(line) for line in process.stderr_lines if line.startswith("{")]
        life = [line for line in lines if line["event"] in ("started", "stopped")]
        assert [line["event"] for line in life] == ["started", "stopped"]
        assert (life[0]["address"], life[0]["server"], life[0]["version"][0]) == (process.url, "hubbub", "0")


def test_nothing_is_logged_by_default() -> None:
    done = subprocess.run(
        [str(HUBBUB), "serve", "--pack", "demo", "--transport", "stdio"],
        input="",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- metrics ---------------------------------------------------------------------------------


async def test_every_kind_of_connection_is_counted() -> None:
    async with run_server() as instance:
        async with connect(f"ws://127.0.0.1:{instance.site.port}/mcp-ws"), instance.site.stream("GET", "/sse") as old:
            await old.next()
            assert await has_metric(instance, 'hubbub_http_responses_total{route="/mcp-ws",status="101"} 1.0')
            assert await has_metric(instance, "hubbub_websockets 1.0")
            assert await has_metric(instance, "hubbub_old_streams 1.0")
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://127.0.0.1:{instance.site.port}/mcp-ws", origin="http://evil"):  # type: ignore[arg-type]
                pass
        assert await has_metric(instance, 'hubbub_http_responses_total{route="/mcp-ws",status="403"} 1.0')
        async with asyncio.timeout(TIMEOUT_S):
            while not await has_metric(instance, 'hubbub_http_responses_total{route="/sse",status="200"} 1.0'):
                await asyncio.sleep(0.05)


async def test_a_preflight_request_is_checked_and_counted() -> None:
    page = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST"}
    async with run_server() as instance:
        assert (await instance.site.request("OPTIONS", "/mcp", page)).status == 200
        refused = await instance.site.request("OPTIONS", "/mcp", page | {"Host": "evil.example"})
        assert (refused.status, refused.header("access-control-allow-origin")) == (403, None)
        assert (await instance.site.request("OPTIONS", "/mcp", page | {"Origin": "http://evil.example"})).status == 403
        assert await has_metric(instance, 'hubbub_http_responses_total{route="/mcp",status="200"} 1.0')
        assert await has_metric(instance, 'hubbub_http_responses_total{route="/mcp",status="403"} 2.0')
