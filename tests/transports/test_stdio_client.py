"""The stdio client with servers that exit, hang, flood or write invalid output."""

import asyncio
import json
import sys
from typing import Any

import psutil
import pytest
from tests.client.harness import assert_no_leaks, odd_server_config
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.processes import is_running

from hubbub import (
    Client,
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    ProtocolVersionNotSupported,
    RemoteError,
    ServerConfig,
    TransportError,
    bounds,
)
from hubbub.transports.stdio_client import INHERITED_VARIABLES, StdioTransport, child_environment


class RecordingReceiver:
    """A receiver that records messages and errors."""

    problem = ""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.errors: list[HubbubError] = []

    def receive(self, message: bytes, outgoing: Any = None) -> bool:
        self.messages.append(message)
        return True

    def receive_invalid(self, error: Any) -> None:
        self.errors.append(error)

    def transport_interrupted(self, error: Any) -> None:
        self.errors.append(error)

    def transport_lost(self, error: Any) -> None:
        self.errors.append(error)


def make_transport(*command: str, **options: Any) -> StdioTransport:
    async def variables() -> dict[str, str | None]:
        return {}

    return StdioTransport(command, variables, **options)


async def test_a_list_of_two_pages_and_a_call_work() -> None:
    async with assert_no_leaks(), Client(odd_server_config("sane")) as client:
        assert client.server_info.name == "odd"
        assert [tool.name for tool in await client.tools()] == ["echo", "second"]
        assert (await client.list_tools(cursor="")).tools[0].name == "second"
        result = await client.call_tool("echo", {"a": 1})
        assert result.text == '{"a": 1}'


async def test_an_unset_version_falls_back_to_the_default_of_the_legacy_era() -> None:
    async with assert_no_leaks(), Client(odd_server_config("sane", protocol_version=None)) as client:
        assert (client.era, client.protocol_version) == ("legacy", "2025-11-25")


async def test_an_unsupported_version_fails_the_start() -> None:
    async with assert_no_leaks():
        with pytest.raises(
            ProtocolVersionNotSupported, match=r"offered 2025-11-25, and the server supports 1999-01-01"
        ):
            await Client(odd_server_config("sane", env={"ODD_VERSION": "1999-01-01"})).start()


async def test_an_older_version_is_accepted() -> None:
    async with Client(odd_server_config("sane", env={"ODD_VERSION": "2024-11-05"})) as client:
        assert client.protocol_version == "2024-11-05"


async def test_a_silent_server_fails_at_the_deadline() -> None:
    async with assert_no_leaks(), Client(odd_server_config("silent")) as client:
        listing = asyncio.create_task(client.tools(timeout_s=500))
        await asyncio.sleep(0)
        advance_clock(500)
        with pytest.raises(DeadlineExceeded, match="after 500 s while waiting for the answer to tools/list"):
            await listing


async def test_a_timeout_sends_one_cancellation_with_its_reason() -> None:
    stderr_lines: list[str] = []
    async with Client(odd_server_config("silent", timeout_s=5, on_stderr_line=stderr_lines.append)) as client:
        with pytest.raises(DeadlineExceeded):
            await client.call_tool("echo", timeout_s=0.1)
    recorded: list[str] = []
    async with Client(odd_server_config("record", on_stderr_line=recorded.append)) as client:
        task = asyncio.create_task(client.call_tool("echo"))
        await task
        with pytest.raises(RemoteError):
            await client.get_prompt("unknown")
        await wait_until(lambda: len(recorded) >= 4)
    assert [json.loads(line)["method"] for line in recorded] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
        "prompts/get",
    ]
    assert [json.loads(line).get("id") for line in recorded] == [1, None, 2, 3]


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), True])
async def test_an_invalid_timeout_is_refused_before_anything_is_sent(timeout_s: float) -> None:
    recorded: list[str] = []
    async with Client(odd_server_config("record", on_stderr_line=recorded.append)) as client:
        with pytest.raises(HubbubError, match="above 0"):
            await client.call_tool("echo", timeout_s=timeout_s)
        await client.ping()
        await wait_until(lambda: len(recorded) >= 3)
    assert [json.loads(line)["method"] for line in recorded][2] == "ping"


async def test_lines_that_are_not_messages_are_ignored() -> None:
    seen: list[str] = []
    async with assert_no_leaks(), Client(odd_server_config("garbage", on_stdout_line=seen.append)) as client:
        assert len(await client.tools()) == 2
    assert any("not json" in line for line in seen)


@pytest.mark.parametrize("mode", ["twice", "wrong-id"])
async def test_responses_with_unknown_ids_are_ignored(mode: str) -> None:
    async with assert_no_leaks(), Client(odd_server_config(mode)) as client:
        assert [tool.name for tool in await client.tools()] == ["echo", "second"]
        assert (await client.call_tool("echo", {"n": 1})).text == '{"n": 1}'


async def test_an_id_returned_as_a_string_is_matched() -> None:
    async with Client(odd_server_config("string-id")) as client:
        assert await client.tools() == []


async def test_a_line_over_the_limit_is_an_error_at_once() -> None:
    async with assert_no_leaks(), Client(odd_server_config("huge")) as client:
        with pytest.raises(TransportError, match="larger than") as raised:
            await client.tools(timeout_s=10)
        assert raised.value.code == "INVALID_RESPONSE"


async def test_an_endless_line_uses_bounded_memory() -> None:
    async with assert_no_leaks():
        client = await Client(odd_server_config("endless")).start()
        before = psutil.Process().memory_info().rss
        with pytest.raises(TransportError):
            await client.tools(timeout_s=10)
        with pytest.raises(DeadlineExceeded):
            await client.tools(timeout_s=1)
        assert psutil.Process().memory_info().rss - before < 100 << 20
        await client.close()


async def test_an_exit_fails_pending_requests_at_once_with_the_reason() -> None:
    async with assert_no_leaks(), Client(odd_server_config("exit")) as client:
        with pytest.raises(TransportError, match=r"has ended with status 3; stderr: one \| last words") as raised:
            await client.tools(timeout_s=3600)
        assert raised.value.code == "TRANSPORT_CLOSED"
        assert raised.value.data["exitstatus"] == 3
        assert raised.value.data["stderr"] == ["one", "last words"]
        with pytest.raises(ConnectionClosed, match="status 3"):
            await client.tools()
        assert await client.wait_lost() is raised.value
        assert not client.is_open


async def test_a_failed_start_has_the_stderr_of_the_server() -> None:
    async with assert_no_leaks():
        with pytest.raises(TransportError, match="status 7; stderr: cannot find my files"):
            await Client(odd_server_config("start-and-fail")).start()


@pytest.mark.parametrize("version", [None, "2025-11-25"])
@pytest.mark.parametrize("words", ["echo boom", "printf boom"])
async def test_a_server_that_exits_at_once_always_has_a_reason(words: str, version: str | None) -> None:
    config = ServerConfig(id="x", command="sh", args=["-c", f"{words} >&2; exit 3"], protocol_version=version)
    async with assert_no_leaks():
        for _ in range(20):
            with pytest.raises(TransportError, match="has ended with status 3; stderr: boom") as raised:
                await Client(config).start()
            assert (raised.value.data["exitstatus"], raised.value.data["stderr"]) == (3, ["boom"])


async def test_a_failed_write_to_an_exiting_server_waits_for_the_reason() -> None:
    server = make_transport("sh", "-c", "exec <&-; echo boom >&2; sleep 0.1; exit 3")

    async def write_on() -> None:
        while True:
            await server.send_message(b"{}")
            await asyncio.sleep(0)

    await server.start(RecordingReceiver())
    with pytest.raises(TransportError, match="status 3; stderr: boom"):
        await asyncio.wait_for(write_on(), 60)
    await server.close()


async def test_responses_written_before_the_exit_are_delivered() -> None:
    async with assert_no_leaks(), Client(odd_server_config("exit-after-answer")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]


async def test_a_grandchild_that_holds_the_pipe_does_not_delay_closing() -> None:
    async with assert_no_leaks(), Client(odd_server_config("exit-with-child")) as client:
        await client.list_tools()
        with pytest.raises((TransportError, ConnectionClosed), match="status 4"):
            await client.list_tools(timeout_s=3600)


async def test_a_server_that_closes_its_output_counts_as_lost() -> None:
    async with assert_no_leaks():
        client = await Client(odd_server_config("close-output")).start()
        with pytest.raises(TransportError, match="has closed its output"):
            await client.tools(timeout_s=3600)
        await client.close()


@pytest.mark.parametrize("mode", ["family", "stubborn"])
async def test_closing_ends_the_whole_process_tree(mode: str) -> None:
    client = await Client(odd_server_config(mode)).start()
    await client.ping()
    (server,) = [child for child in psutil.Process().children() if mode in child.cmdline()]
    family = [child for child in (server, *server.children(recursive=True)) if is_running(child)]
    assert len(family) == 3
    await client.close()
    await wait_until(lambda: not any(is_running(process) for process in family))


async def test_a_missing_command_is_an_error() -> None:
    async with assert_no_leaks():
        with pytest.raises(TransportError, match="'no-such-program-here' cannot be started: No such file") as raised:
            await Client(ServerConfig(id="x", command="no-such-program-here")).start()
        assert not raised.value.may_have_executed


@pytest.mark.requirement("I4", "K4")
async def test_the_environment_is_minimal_and_can_be_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "x")
    monkeypatch.setenv("USER", "ada")
    assert "A_SECRET_OF_OURS" not in child_environment({})
    assert set(child_environment({})) <= set(INHERITED_VARIABLES)
    assert child_environment({"USER": None, "X": "1"}).get("USER") is None

    async def provide() -> dict[str, str]:
        return {"X": "provided", "Y": "2"}

    stderr_lines: list[str] = []
    code = "import os,sys; sys.stderr.write(' '.join(sorted(k+'='+v for k,v in os.environ.items())) + '\\n')"
    config = ServerConfig(
        id="x",
        command=sys.executable,
        args=["-c", code],
        env={"X": "static", "USER": None},
        env_provider=provide,
        on_stderr_line=stderr_lines.append,
    )
    with pytest.raises(HubbubError):
        await Client(config).start()
    assert "X=provided" in stderr_lines[0]
    assert "Y=2" in stderr_lines[0]
    assert "USER=" not in stderr_lines[0]
    assert "A_SECRET" not in stderr_lines[0]


async def test_the_error_of_a_failing_provider_hides_its_secret() -> None:
    def provide() -> dict[str, str]:
        raise RuntimeError("canary-77")

    for provider in (provide, lambda: "not a mapping"):
        with pytest.raises(TransportError, match="env_provider") as raised:
            await Client(ServerConfig(id="x", command="cat", env_provider=provider)).start()  # type: ignore[arg-type]
        assert "canary-77" not in str(raised.value)
        assert raised.value.__cause__ is None


async def test_starting_and_closing_twice_is_the_same_as_once() -> None:
    async with assert_no_leaks():
        client = Client(odd_server_config("sane"))
        await client.start()
        await client.start()
        await asyncio.gather(client.close(), client.close())
        await client.close()
        with pytest.raises(ConnectionClosed):
            await client.start()
        with pytest.raises(ConnectionClosed):
            await client.tools()


async def test_closing_without_a_start_does_nothing() -> None:
    async with assert_no_leaks():
        await Client(odd_server_config("sane")).close()


async def test_a_request_before_the_start_is_an_error() -> None:
    with pytest.raises(TransportError, match="not started"):
        await Client(odd_server_config("sane")).tools()


async def test_closing_from_another_task_fails_pending_requests() -> None:
    async with assert_no_leaks():
        client = await Client(odd_server_config("silent")).start()
        waiting = asyncio.create_task(client.tools(timeout_s=600))
        await yield_to_loop()
        await asyncio.create_task(client.close())
        with pytest.raises(ConnectionClosed, match="closed"):
            await waiting


async def test_cancelling_the_start_leaves_no_process() -> None:
    async with assert_no_leaks():
        children = len(psutil.Process().children())
        starting = asyncio.create_task(
            Client(odd_server_config("silent", protocol_version="2026-07-28", timeout_s=3600)).start()
        )
        await wait_until(lambda: len(psutil.Process().children()) > children)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting


async def test_many_writers_do_not_mix_their_lines() -> None:
    async with assert_no_leaks(), Client(odd_server_config("sane")) as client:
        texts = ["x" * size for size in range(0, 40_000, 1000)]
        results = await asyncio.gather(*(client.call_tool("echo", {"t": text}) for text in texts))
        assert [json.loads(result.text)["t"] for result in results] == texts


async def test_a_raw_transport_writes_and_reads_lines() -> None:
    async with assert_no_leaks():
        receiver, cat = RecordingReceiver(), make_transport("cat")
        await cat.start(receiver)
        await cat.send_message(b'{"jsonrpc":"2.0","method":"x"}')
        await wait_until(lambda: bool(receiver.messages))
        await cat.close()
        assert receiver.messages == [b'{"jsonrpc":"2.0","method":"x"}']
        assert receiver.errors == []
        with pytest.raises(TransportError):
            await cat.send_message(b"{}")
        with pytest.raises(TransportError, match="not started"):
            await make_transport("cat").send_message(b"{}")


async def test_a_failing_hook_does_not_stop_the_client() -> None:
    def fail(line: str) -> None:
        raise RuntimeError(line)

    async with Client(odd_server_config("record", on_stderr_line=fail, on_stdout_line=fail)) as client:
        assert len(await client.tools()) == 2


async def test_requests_are_distinguished_from_responses_by_their_method() -> None:
    async with Client(odd_server_config("question-with-our-id")) as client:
        found = (await client.call_tool("echo")).structured_content
        assert found["pong"] == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert found["refused"]["error"]["code"] == -32601


async def test_a_list_with_a_repeated_cursor_is_an_error() -> None:
    async with Client(odd_server_config("loop-cursor")) as client:
        with pytest.raises(TransportError, match="repeats a cursor"):
            await client.tools()


async def test_unusual_content_does_not_affect_other_content() -> None:
    async with Client(odd_server_config("odd-content")) as client:
        result = await client.call_tool("echo")
        assert [getattr(block, "type", type(block).__name__) for block in result.content or []] == [
            "Text",
            "hologram",
            "image",
        ]
        assert not result.is_error
        assert [tool.name for tool in await client.tools()] == ["good"]


async def test_secrets_of_the_config_are_masked_in_errors() -> None:
    code = "import os,sys; sys.stderr.write('I got ' + os.environ['API_TOKEN'] + '\\n')"
    config = ServerConfig(id="x", command=sys.executable, args=["-c", code], env={"API_TOKEN": "canary-31337"})
    with pytest.raises(TransportError, match=r"stderr: I got \*\*\*") as raised:
        await Client(config).start()
    assert "canary-31337" not in repr(raised.value.data)


async def test_secrets_of_the_config_are_masked_in_results() -> None:
    code = (
        "import json,os; request = json.loads(input()); got = os.environ['API_TOKEN'];"
        "error = {'code': -32000, 'message': 'not ' + got, 'data': [got]};"
        "print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'error': error}), flush=True); input()"
    )
    config = ServerConfig(
        id="x",
        command=sys.executable,
        args=["-c", code],
        env={"API_TOKEN": "canary-31337"},
        protocol_version="2025-11-25",
    )
    async with assert_no_leaks():
        with pytest.raises(RemoteError) as raised:
            await Client(config).start()
    assert (raised.value.message, raised.value.data) == ("not ***", ["***"])


@pytest.mark.parametrize("what", ["tools", "prompts", "resources", "templates"])
async def test_endless_pages_use_bounded_memory(what: str) -> None:
    async with assert_no_leaks(), Client(odd_server_config("large-pages", timeout_s=20)) as client:
        with pytest.raises(TransportError, match="more than 16777216 bytes"):
            await getattr(client, what)()
        await client.ping()


async def test_a_line_over_the_limit_fails_only_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LINE_BYTES", 2000)
    async with assert_no_leaks(), Client(odd_server_config("sane")) as client:
        with pytest.raises(TransportError, match="2000"):
            await client.call_tool("echo", {"a": "x" * 2000})
        assert (await client.call_tool("echo", {"a": 1})).text == '{"a": 1}'


async def test_the_time_limit_of_a_list_covers_all_its_pages() -> None:
    async with assert_no_leaks(), Client(odd_server_config("slow-pages", timeout_s=20)) as client:
        with pytest.raises(DeadlineExceeded):
            await client.tools(timeout_s=1)


async def test_a_cancelled_server_request_is_not_answered() -> None:
    ended = asyncio.Event()

    async def never(request: Any) -> dict[str, Any]:
        try:
            await client.ping()  # after which the server cancels its request
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        return {}

    async with assert_no_leaks(), Client(odd_server_config("withdraws-its-question"), elicitation=never) as client:
        await client.call_tool("echo")
        await ended.wait()


async def test_tools_may_change_during_a_call() -> None:
    changes: list[str] = []
    async with Client(odd_server_config("changes"), on_change=lambda change: changes.append(change.kind)) as client:
        calls = asyncio.gather(*(client.call_tool("echo", {"n": n}) for n in range(10)))
        results, _ = await asyncio.gather(calls, client.tools())
        assert [result.text for result in results] == [json.dumps({"n": n}) for n in range(10)]
        assert changes == ["tools"] * 11
