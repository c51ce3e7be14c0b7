"""Sessions of upstreams: messages that belong to one client never reach another."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import Raw
from tests.client.harness import assert_no_unretrieved_errors
from tests.client.test_rpc import FailingStartTransport
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.hub.upstream_callers import (
    ALL_CAPABILITIES,
    ELICITATION,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    make_call,
    make_caller,
    request_result,
    result_text,
)
from tests.hub.upstreams import TRANSPORTS_AND_VERSIONS, asking_config, interop_upstream, open_upstream

from hubbub import Call, Client, InvalidParams, Notification, Overloaded, bounds
from hubbub.hub.admission import CallLimiter
from hubbub.hub.forwarding.forwarded_call import ForwardedCall
from hubbub.hub.forwarding.session_pool import SessionPool
from hubbub.hub.forwarding.session_profile import SessionProfile
from hubbub.hub.forwarding.upstream_session import UpstreamSession
from hubbub.hub.upstream import UpstreamOptions
from hubbub.protocol.calls import NO_META
from hubbub.protocol.revisions import PLAIN

each_transport = pytest.mark.parametrize(
    ("transport", "version"), TRANSPORTS_AND_VERSIONS, ids=[f"{case[0]}-{case[1]}" for case in TRANSPORTS_AND_VERSIONS]
)


@each_transport
async def test_concurrent_callers_never_get_client_requests_of_each_other(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        backs = [RecordingReturnPath(f"person{number}") for number in range(6)]
        asked = asyncio.Event()

        async def both_open() -> None:
            if all(back.requests for back in backs):
                asked.set()
            await asked.wait()

        async def ask(back: RecordingReturnPath) -> str:
            back.before_answer = both_open
            who = make_caller(LEGACY, ELICITATION, scope=back.name)
            return result_text(await call_tool(upstream, "ask_name", {}, who, back))

        answers = await asyncio.gather(*(ask(back) for back in backs))
        assert answers == [f"{back.name} is 36" for back in backs]
        assert all(len(back.requests) == 1 for back in backs)


async def test_client_requests_without_a_call_go_to_the_owner_of_the_session() -> None:
    async with open_upstream(asking_config()) as upstream:
        one, two = RecordingReturnPath("one"), RecordingReturnPath("two")
        found = await asyncio.gather(
            call_tool(upstream, "ask", {"say": "a"}, make_caller(LEGACY, ELICITATION, scope="1"), one),
            call_tool(upstream, "ask", {"say": "b"}, make_caller(LEGACY, ELICITATION, scope="2"), two),
            call_tool(upstream, "ask", {"say": "c"}, make_caller(LEGACY, ELICITATION, scope="1"), one),
        )
        assert [result_text(item) for item in found] == ["a: one", "b: two", "c: one"]
        assert sorted(params["message"] for _, params in one.requests) == ["a", "c"]
        assert [params["message"] for _, params in two.requests] == ["b"]
        assert upstream.state.sessions == 3


async def test_callers_without_the_capability_get_no_client_requests() -> None:
    async with open_upstream(asking_config()) as upstream:
        for who in (make_caller(MODERN), make_caller(LEGACY, scope="1"), make_caller(PLAIN, scope="2")):
            back = RecordingReturnPath()
            found = await call_tool(upstream, "ask", {"say": "a"}, who, back)
            assert result_text(found) == "a: refused"
            assert not back.requests
        assert upstream.state.sessions == 1


async def test_a_session_is_reused_for_callers_with_the_same_capabilities() -> None:
    async with open_upstream(asking_config()) as upstream:
        pids = [
            result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, capabilities, scope=scope)))
            for capabilities, scope in (
                (ELICITATION, "1"),
                (ELICITATION, "2"),
                ({"sampling": {}}, "2"),
                (ELICITATION, "1"),
            )
        ]
        assert pids[0] == pids[1] == pids[3] != pids[2]


async def test_a_session_with_an_abandoned_call_is_not_reused_for_another_caller(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with open_upstream(asking_config()) as upstream:
        one, two = RecordingReturnPath("one"), RecordingReturnPath("two")
        first = result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, ELICITATION, scope="1"), one))
        task = asyncio.create_task(
            call_tool(
                upstream, "ask_later", {"say": "?", "file": str(file)}, make_caller(LEGACY, ELICITATION, scope="1"), one
            )
        )
        await wait_until(lambda: upstream.state.in_flight == 1)
        await yield_to_loop()
        task.cancel()
        await asyncio.wait([task])
        second = result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, ELICITATION, scope="2"), two))
        assert second != first
        file.touch()
        await wait_until(lambda: file.read_text() == "refused" or not psutil.pid_exists(int(first)))
        assert not two.requests


async def test_with_own_sessions_clients_share_no_session() -> None:
    async with open_upstream(asking_config(), sessions="own") as upstream:
        pids = {
            scope: {
                result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, capabilities, scope=scope)))
                for _ in range(2)
            }
            for scope, capabilities in (("1", {}), ("2", {}), ("3", ELICITATION))
        }
        assert [len(found) for found in pids.values()] == [1, 1, 1]
        assert len(set.union(*pids.values())) == 3


async def test_clients_with_roots_share_no_session() -> None:
    async with interop_upstream("streamable_http", "2025-11-25") as upstream:
        for name in ("one", "two"):
            found = await call_tool(
                upstream, "list_roots", {}, make_caller(LEGACY, ALL_CAPABILITIES, scope=name), RecordingReturnPath(name)
            )
            assert f"file:///{name}" in result_text(found)
        assert upstream.state.sessions == 3


async def test_over_http_one_session_serves_all_callers_with_the_same_capabilities() -> None:
    async with interop_upstream("streamable_http", "2025-11-25") as upstream:
        calls = [
            call_tool(
                upstream,
                "ask_name",
                {},
                make_caller(LEGACY, ELICITATION, scope=str(number)),
                RecordingReturnPath(f"p{number}"),
            )
            for number in range(20)
        ]
        assert [result_text(found) for found in await asyncio.gather(*calls)] == [
            f"p{number} is 36" for number in range(20)
        ]
        assert upstream.state.sessions == 2


async def test_callers_wait_for_a_free_session_until_their_deadline() -> None:
    async with open_upstream(asking_config(), max_sessions=1, timeout_s=100) as upstream:
        await upstream.refresh()
        asked, answer = asyncio.Event(), asyncio.Event()
        one = RecordingReturnPath("one")

        async def hold() -> None:
            asked.set()
            await answer.wait()

        one.before_answer = hold
        first = asyncio.create_task(
            call_tool(upstream, "ask", {"say": "a"}, make_caller(LEGACY, ELICITATION, scope="1"), one)
        )
        await asked.wait()
        waiting = asyncio.create_task(call_tool(upstream, "pid", {}, make_caller(LEGACY, ELICITATION, scope="2")))
        await yield_to_loop()
        advance_clock(100)
        with pytest.raises(Overloaded, match="sessions with asker"):
            await waiting
        second = asyncio.create_task(call_tool(upstream, "pid", {}, make_caller(LEGACY, ELICITATION, scope="3")))
        answer.set()
        assert result_text(await first) == "a: one"
        assert result_text(await second)
        assert upstream.state.in_flight == 0


async def test_an_unused_session_is_closed() -> None:
    async with open_upstream(asking_config(), idle_s=600) as upstream:
        await call_tool(upstream, "pid", {}, make_caller(LEGACY, ELICITATION, scope="1"))
        assert upstream.state.sessions == 2
        advance_clock(600)
        await wait_until(lambda: upstream.state.sessions == 1)


async def test_log_messages_that_could_belong_to_several_callers_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with open_upstream(asking_config()) as upstream:
        one, two = RecordingReturnPath("one"), RecordingReturnPath("two")
        await call_tool(upstream, "log", {"say": "alone"}, make_caller(LEGACY, scope="1"), one)
        assert [item["data"] for item in one.notes_of("notifications/message")] == ["alone"]
        waiting = asyncio.create_task(
            call_tool(upstream, "wait", {"file": str(file)}, make_caller(LEGACY, scope="2"), two)
        )
        await wait_until(lambda: upstream.state.in_flight == 1)
        await call_tool(upstream, "log", {"say": "secret"}, make_caller(LEGACY, scope="1"), one)
        file.touch()
        await waiting
        assert not two.notes
        assert len(one.notes_of("notifications/message")) == 1


async def test_the_sole_client_needs_no_second_process() -> None:
    async with open_upstream(asking_config()) as upstream:
        back = RecordingReturnPath("only")
        who = make_caller(LEGACY, ALL_CAPABILITIES, scope="process")
        upstream.set_sole_caller(who)
        await upstream.refresh()
        assert result_text(await call_tool(upstream, "ask", {"say": "a"}, who, back)) == "a: only"
        assert upstream.state.sessions == 1
        stranger = RecordingReturnPath("stranger")
        assert (
            result_text(await call_tool(upstream, "ask", {"say": "b"}, make_caller(LEGACY, scope="other"), stranger))
            == "b: refused"
        )
        assert not stranger.requests
        assert upstream.state.sessions == 2


async def test_a_modern_caller_that_must_respond_blocks_no_slot_of_a_legacy_server() -> None:
    async with open_upstream(asking_config(), max_calls=1) as upstream:
        params: dict[str, Any] = {"name": "ask", "arguments": {"say": "a"}}
        who = make_caller(MODERN, ELICITATION)
        parked = await request_result(upstream, "tools/call", params, who)
        assert parked["resultType"] == "input_required"
        assert result_text(await call_tool(upstream, "pid", {}, make_caller(LEGACY, scope="1")))
        (key,) = parked["inputRequests"]
        params["requestState"] = parked["requestState"]
        params["inputResponses"] = {key: {"action": "accept", "content": {"name": "late"}}}
        assert result_text(await request_result(upstream, "tools/call", params, who)) == "a: late"


async def test_rounds_that_are_never_continued_free_their_sessions() -> None:
    who = make_caller(MODERN, ELICITATION)
    async with open_upstream(asking_config(), max_sessions=2) as upstream:
        first, second = [await call_tool(upstream, "ask", {"say": name}, who) for name in ("a", "b")]
        assert first["resultType"] == second["resultType"] == "input_required"
        advance_clock(bounds.UNANSWERED_INPUT_MAX_S)
        assert (await call_tool(upstream, "pid", {}, who))["resultType"] == "complete"
        answers = {"input_1": {"action": "accept", "content": {"name": "late"}}}

        async def retry(found: Any, say: str) -> Any:
            more = {"inputResponses": answers, "requestState": found["requestState"]}
            return await request_result(upstream, "tools/call", {"name": "ask", "arguments": {"say": say}, **more}, who)

        with pytest.raises(InvalidParams, match="start again"):
            await retry(first, "a")
        assert result_text(await retry(second, "b")) == "b: late"


async def test_a_client_request_is_not_sent_to_a_call_that_ends_first() -> None:
    session = UpstreamSession(SessionProfile(), lambda session: Client(asking_config()))
    who, slots = make_caller(LEGACY, ELICITATION, scope="1"), CallLimiter("calls", 2, 2)
    slow, asking = _SlowReader(), RecordingReturnPath("asking")
    params = {"name": "x", "arguments": {}}
    for back in (asking, slow):
        session.calls[ForwardedCall(make_call("tools/call", params, who, back), slots)] = None
    newest = list(session.calls)[-1]
    notifying = asyncio.create_task(newest.notify(Notification("notifications/progress", Raw(b"{}"))))
    raw = Raw(b'{"message": "who?"}')
    question = Call(
        id=Raw(b"1"), method="elicitation/create", raw=raw, params=raw, meta=NO_META, caller=who, back=session
    )
    answer = asyncio.create_task(session.request(question))
    await slow.is_notified.wait()
    session.remove(newest, is_answered=True)
    slow.goes_on.set()
    await asyncio.gather(notifying, answer)
    assert (len(asking.requests), len(slow.requests)) == (1, 0)


class _SlowReader(RecordingReturnPath):
    """A return path whose `notify` blocks until the test continues."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.is_notified, self.goes_on = asyncio.Event(), asyncio.Event()

    async def notify(self, note: Notification) -> None:
        self.is_notified.set()
        await self.goes_on.wait()


async def test_a_session_that_fails_to_start_after_its_caller_gave_up_is_not_reported_as_lost() -> None:
    link = FailingStartTransport()
    config = asking_config()
    nothing = asyncio.Event()

    async def started(session: UpstreamSession) -> None:
        nothing.set()

    async with assert_no_unretrieved_errors():
        pool = SessionPool(
            UpstreamOptions(),
            "asker",
            lambda session, capabilities: Client(config, link=lambda config: link),
            are_processes=True,
            make_room=lambda matches: False,
            on_start=started,
            on_end=lambda session: None,
        )
        who = make_caller(LEGACY, ELICITATION, scope="1")
        forwarded = ForwardedCall(
            make_call("tools/call", {"name": "x", "arguments": {}}, who), CallLimiter("calls", 1, 1)
        )
        deadline = asyncio.get_running_loop().time() + 60
        acquiring = asyncio.create_task(pool.acquire(forwarded, SessionProfile(b'{"elicitation":{}}'), None, deadline))
        await link.is_starting.wait()
        acquiring.cancel()
        link.may_fail.set()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        await wait_until(lambda pool=pool: not len(pool))  # type: ignore[misc]
        await pool.close()
        del pool, forwarded, acquiring
    assert not nothing.is_set()
