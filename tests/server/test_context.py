"""`Context`: progress, log messages, waiting in a thread, the caller."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import pytest
from tests.server.raw_client import DIALECTS, LEGACY, MODERN, PLAIN, connect_raw_client

from hubbub import Ask, Client, Context, DefinitionError, LogLevel, Server
from hubbub.protocol.calls import LOG_LEVELS
from hubbub.server.server import Lifespan

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"


@dataclass
class Name:
    name: str


class WorkingServer(Server):
    late: list[asyncio.Future[None]]
    """What a tool left behind."""


def working_server() -> WorkingServer:
    server = WorkingServer("working")
    server.late = []

    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.progress(0.5, 2, "half")
        await ctx.progress(1)
        return "done"

    @server.tool
    def work_in_a_thread(ctx: Context) -> str:
        ctx.wait(ctx.progress(1, 1, "from a thread"))
        ctx.wait(ctx.warning("from a thread"))
        return threading.current_thread().name

    @server.tool
    async def leaves_work_behind(ctx: Context) -> str:
        async def later() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await ctx.progress(2)
            await ctx.error("too late")

        server.late.append(asyncio.ensure_future(later()))
        await ctx.progress(1)
        return "done"

    @server.tool
    async def logs(ctx: Context) -> str:
        for level in get_args(LogLevel):
            await ctx.log(level, {"level": level}, logger="tests")
        return "done"

    @server.tool
    async def short_logs(ctx: Context) -> str:
        await ctx.debug("d")
        await ctx.info("i")
        await ctx.warning("w")
        await ctx.error("e")
        return "done"

    @server.tool
    async def who(ctx: Context) -> dict[str, str | None]:
        caller = ctx.caller
        return {
            "name": caller.info.name if caller.info else None,
            "version": caller.revision.version,
            "principal": caller.principal.name,
            "lifespan": ctx.lifespan,
        }

    return server


# -- progress --------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("token", ["a", 7, 0, "", -3])
async def test_progress_has_the_token_of_the_request_and_precedes_the_response(dialect: str, token: int | str) -> None:
    async with connect_raw_client(working_server(), dialect) as client:
        identifier = client.send_request("tools/call", {"name": "work"}, meta={"progressToken": token})
        first, second, answer = [await client.next_message() for _ in range(3)]
    assert first["method"] == second["method"] == PROGRESS
    expected = {"progressToken": token, "progress": 0.5, "total": 2, "message": "half"}
    if dialect == "2024-11-05":
        del expected["message"]
    assert first["params"] == expected
    assert second["params"] == {"progressToken": token, "progress": 1}
    assert answer["id"] == identifier


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": {}}, {"progressToken": True}])
async def test_without_a_token_there_is_no_progress(dialect: str, meta: dict[str, Any]) -> None:
    async with connect_raw_client(working_server(), dialect) as client:
        assert (await client.call("work", meta=meta))["content"][0]["text"] == "done"
        assert client.received == []


@pytest.mark.parametrize("dialect", [PLAIN, "2025-11-25", MODERN])
async def test_no_progress_is_sent_after_the_response(dialect: str) -> None:
    server = working_server()
    async with connect_raw_client(server, dialect) as client:
        meta = {"progressToken": 1} | ({LEVEL_KEY: "debug"} if dialect == MODERN else {})
        await client.call("leaves_work_behind", meta=meta)
        await asyncio.gather(*server.late)
        await client.wait_until_idle()
        assert [note["progress"] for note in client.notifications(PROGRESS)] == [1]
        assert client.notifications(MESSAGE) == []


# -- threads -----------------------------------------------------------------------


@pytest.mark.parametrize("dialect", LEGACY)
async def test_a_synchronous_tool_runs_in_a_thread_and_reports_from_there(dialect: str) -> None:
    async with connect_raw_client(working_server(), dialect) as client:
        result = await client.call("work_in_a_thread", meta={"progressToken": 1})
        assert result["content"][0]["text"].startswith("hubbub-tool")
        assert [note["progress"] for note in client.notifications(PROGRESS)] == [1]
        assert [note["data"] for note in client.notifications(MESSAGE)] == ["from a thread"]


async def test_synchronous_tools_run_concurrently() -> None:
    server, barrier = Server("s"), threading.Barrier(4, timeout=60)

    @server.tool
    def meet() -> str:
        return str(barrier.wait() >= 0)

    async with connect_raw_client(server) as client:
        ids = [client.send_request("meet") for _ in range(4)]
        assert {(await client.response_to(identifier))["result"] for identifier in ids} == {"True"}
    server.threads.close()


@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_a_synchronous_tool_that_waits_for_its_client_ends_when_its_call_is_cancelled(dialect: str) -> None:
    server = Server("s")
    ended, error_names = threading.Event(), []

    @server.tool
    def asks(ctx: Context) -> str:
        try:
            ctx.wait(ctx.elicit("Name?", Name))
        except Exception as error:
            error_names.append(type(error).__name__)
            raise
        finally:
            ended.set()
        return "never"

    async with connect_raw_client(server, dialect) as client:
        if dialect == MODERN:
            assert (await client.call("asks"))["resultType"] == "input_required"
            await server.rounds.close()
        else:
            client.send_request("tools/call", {"name": "asks"}, id="c")
            assert (await client.next_message())["method"] == "elicitation/create"
            client.notify("notifications/cancelled", {"requestId": "c"})
        assert await asyncio.to_thread(ended.wait, 60)
    assert error_names == ["ConnectionClosed"]


async def test_a_synchronous_tool_notices_at_its_next_report_that_it_was_cancelled() -> None:
    server = Server("s")
    started, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    @server.tool
    def works(ctx: Context) -> str:
        started.set()
        cancelled.wait(60)
        try:
            ctx.wait(ctx.progress(1))
        finally:
            ended.set()
        return "never"

    async with connect_raw_client(server) as client:
        client.send_request("tools/call", {"name": "works"}, id="c", meta={"progressToken": 1})
        assert await asyncio.to_thread(started.wait, 60)
        client.notify("notifications/cancelled", {"requestId": "c"})
        await client.wait_until_idle()
        cancelled.set()
        assert await asyncio.to_thread(ended.wait, 60)
        await client.wait_until_idle()
        assert client.received == []


# -- logs --------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("level", [None, *LOG_LEVELS])
async def test_a_session_receives_log_messages_of_its_level_and_above(version: str, level: str | None) -> None:
    async with connect_raw_client(working_server(), version) as client:
        if level is not None:
            assert await client.result("logging/setLevel", {"level": level}) == {}
        await client.call("logs")
        lowest = LOG_LEVELS.index(level or "info")
        assert client.notifications(MESSAGE) == [
            {"level": name, "data": {"level": name}, "logger": "tests"} for name in LOG_LEVELS[lowest:]
        ]


@pytest.mark.parametrize("level", [None, *LOG_LEVELS])
async def test_a_modern_request_sets_its_own_log_level(level: str | None) -> None:
    async with connect_raw_client(working_server(), MODERN) as client:
        await client.call("logs", meta={} if level is None else {LEVEL_KEY: level})
        received = [note["level"] for note in client.notifications(MESSAGE)]
        assert received == ([] if level is None else list(LOG_LEVELS[LOG_LEVELS.index(level) :]))
        client.received.clear()
        await client.call("logs")
        assert client.received == []


async def test_a_plain_caller_receives_no_log_messages() -> None:
    async with connect_raw_client(working_server(), PLAIN) as client:
        await client.call("logs")
        assert client.received == []


async def test_context_has_a_method_for_each_common_log_level() -> None:
    async with connect_raw_client(working_server(), "2025-11-25") as client:
        await client.result("logging/setLevel", {"level": "debug"})
        await client.call("short_logs")
        received = [(note["level"], note["data"]) for note in client.notifications(MESSAGE)]
    assert received == [("debug", "d"), ("info", "i"), ("warning", "w"), ("error", "e")]


async def test_each_session_has_its_own_log_level() -> None:
    server = working_server()
    async with connect_raw_client(server, "2025-11-25") as quiet, connect_raw_client(server, "2025-11-25") as other:
        await quiet.result("logging/setLevel", {"level": "emergency"})
        await quiet.call("short_logs")
        await other.call("short_logs")
        assert len(quiet.received) == 0
        assert len(other.received) == 3


# -- the caller --------------------------------------------------------------------


async def test_a_handler_sees_its_caller_and_the_lifespan_value() -> None:
    server = working_server()
    async with connect_raw_client(server, "2025-06-18") as client:
        result = (await client.call("who"))["structuredContent"]
        assert result == {"name": "test", "version": "2025-06-18", "principal": "anonymous", "lifespan": None}
    async with connect_raw_client(server, MODERN) as client:
        info = {"io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"}}
        assert (await client.call("who", meta=info))["structuredContent"]["name"] == "modern"
        assert (await client.call("who"))["structuredContent"]["name"] is None


async def test_the_lifespan_is_open_while_the_server_runs() -> None:
    events = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        events.append("open")
        yield "the state"
        events.append("closed")

    server = Server("s", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.lifespan)

    async with server.running(), connect_raw_client(server) as client:
        assert await client.result("state") == "the state"
        assert events == ["open"]
    assert events == ["open", "closed"]


async def test_additional_lifespans_do_not_replace_the_lifespan_value() -> None:
    events = []

    def named(name: str) -> Lifespan:
        @asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[str]:
            events.append(f"open {name}")
            yield name
            events.append(f"close {name}")

        return lifespan

    server = Server("s")
    server.add_lifespan(named("first"))
    server.lifespan(named("own"))
    server.add_lifespan(named("second"))

    @server.tool
    async def state(ctx: Context) -> str:
        return str(ctx.lifespan)

    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "own"
    assert events == ["open own", "open first", "open second", "close second", "close first", "close own"]


def test_a_second_lifespan_is_refused_instead_of_replacing_the_first() -> None:
    server = Server("s", lifespan=lambda server: nullcontext())
    with pytest.raises(DefinitionError, match="add_lifespan"):
        server.lifespan(lambda server: nullcontext())


# -- URL elicitation -----------------------------------------------------------------


def url_server() -> Server:
    server = Server("s")

    @server.tool
    async def sign_in(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", "https://example.com/login", key="page")).action

    @server.tool
    async def form(ctx: Context) -> str:
        return (await ctx.elicit("Name?", Name, key="who")).action

    @server.tool
    async def declared_form(who: Annotated[Name, Ask("Name?")]) -> str:
        return who.name

    return server


async def test_url_elicitation_is_sent_to_clients_that_support_it() -> None:
    async with connect_raw_client(url_server(), "2025-11-25") as client:
        client.reply_with = lambda message: {"result": {"action": "accept"}}
        for _ in range(2):
            assert (await client.call("sign_in"))["content"][0]["text"] == "accept"
        first, second = (message["params"] for message in client.received)
        assert first.pop("elicitationId") != second.pop("elicitationId")
        assert first == {"mode": "url", "message": "Sign in", "url": "https://example.com/login"}
    async with connect_raw_client(url_server(), MODERN) as client:
        question = (await client.call("sign_in"))["inputRequests"]["page"]["params"]
        assert question == {"mode": "url", "message": "Sign in", "url": "https://example.com/login"}


@pytest.mark.parametrize(
    ("tool", "declared", "required"),
    [
        ("sign_in", {}, {"url": {}}),
        ("sign_in", {"form": {}}, {"url": {}}),
        ("form", {"url": {}}, {"form": {}}),
        ("declared_form", {"url": {}}, {"form": {}}),
    ],
)
async def test_an_elicitation_mode_that_the_client_lacks_is_refused(
    tool: str, declared: dict[str, Any], required: dict[str, Any]
) -> None:
    async with connect_raw_client(url_server(), MODERN, {"elicitation": declared}) as client:
        error = await client.error("tools/call", {"name": tool})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": required}}
    async with connect_raw_client(url_server(), "2025-11-25", {"elicitation": declared}) as client:
        assert (await client.call(tool))["isError"] is True


@pytest.mark.parametrize("declared", [{}, {"form": {}}, {"form": {}, "url": {}}])
async def test_form_elicitation_does_not_require_a_declared_mode(declared: dict[str, Any]) -> None:
    async with connect_raw_client(url_server(), MODERN, {"elicitation": declared}) as client:
        for tool in ("form", "declared_form"):
            assert (await client.call(tool))["resultType"] == "input_required"
