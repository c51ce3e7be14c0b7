"""`OpenAIChat` with a scripted endpoint over real HTTP: requests, answers, errors."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from tests.agent.chat_endpoint import answer, delta, error_answer, run_endpoint, stream_answer

from hubbub import ModelError, ModelRequest, ModelToolCall, OpenAIChat, Secret, SettingsError

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object"}}}]
KEY = "sk-verysecretkey"


async def complete_once(endpoint: Any, *, on_text: Any = None, tools: Any = (), **options: Any) -> Any:
    request = ModelRequest(messages=HI, tools=list(tools), tool_choice="auto")
    async with OpenAIChat(endpoint.url, model="m", **options) as chat:
        return await chat.complete(request, on_text=on_text)


async def test_a_response_without_streaming_is_read() -> None:
    async with run_endpoint(answer("hello", usage={"total_tokens": 3})) as endpoint:
        found = await complete_once(
            endpoint, tools=TOOLS, options={"temperature": 0}, api_key=Secret(KEY), headers={"X-Org": "o"}
        )
    assert (found.text, found.calls, found.finish_reason, found.usage) == ("hello", (), "stop", {"total_tokens": 3})
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.bodies == [
        {"temperature": 0, "model": "m", "messages": HI, "tools": TOOLS, "tool_choice": "auto"},
    ]
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert endpoint.headers[0]["X-Org"] == "o"


async def test_without_tools_the_request_has_no_tool_fields() -> None:
    async with run_endpoint(answer("x")) as endpoint:
        await complete_once(endpoint)
    assert endpoint.bodies == [{"model": "m", "messages": HI}]
    assert "Authorization" not in endpoint.headers[0]


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/chat/completions?api-version=1", "/v1/chat/completions?api-version=1"),
    ],
)
async def test_the_url_may_be_the_base_or_the_full_endpoint(suffix: str, path: str) -> None:
    async with run_endpoint(answer("x")) as endpoint:
        endpoint.url += suffix
        await complete_once(endpoint)
    assert endpoint.paths == [path]


async def test_calls_are_read_in_order() -> None:
    async with run_endpoint(answer(None, ("a", "now", '{"x": 1}'), ("b", "now", {"x": 2}))) as endpoint:
        found = await complete_once(endpoint, tools=TOOLS)
    assert found.calls == (ModelToolCall("a", "now", '{"x": 1}'), ModelToolCall("b", "now", {"x": 2}))
    assert found.text == ""


async def test_a_stream_is_reported_by_chunk_and_assembled() -> None:
    texts: list[str] = []
    pieces = stream_answer(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        b": keep-alive\n\n",
        delta(content="lo é"),
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "now", "arguments": ""}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "now", "arguments": '{"y"'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"x": 1}'}}]),
        delta(tool_calls=[{"index": 1, "function": {"arguments": ": 2}"}}]),
        delta("tool_calls"),
        {"choices": [], "usage": {"total_tokens": 9}},
    )
    async with run_endpoint(pieces) as endpoint:
        found = await complete_once(endpoint, tools=TOOLS, on_text=texts.append)
    assert texts == ["Hel", "lo é"]
    assert (found.text, found.finish_reason, found.usage) == ("Hello é", "tool_calls", {"total_tokens": 9})
    assert found.calls == (ModelToolCall("a", "now", '{"x": 1}'), ModelToolCall("b", "now", '{"y": 2}'))
    assert endpoint.bodies[0]["stream"] is True
    assert endpoint.bodies[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(("given", "sent"), [(None, "absent"), ({"include_usage": False}, {"include_usage": False})])
async def test_the_stream_options_can_be_changed_or_omitted(given: Any, sent: Any) -> None:
    async with (
        run_endpoint(stream_answer(delta(content="a"), delta("stop"))) as endpoint,
        OpenAIChat(endpoint.url, model="m", options={"stream_options": given}) as chat,
    ):
        await chat.complete(ModelRequest(messages=[]), on_text=lambda text: None)
    assert endpoint.bodies[0].get("stream_options", "absent") == sent


async def test_an_async_listener_is_awaited() -> None:
    texts: list[str] = []

    async def listener(text: str) -> None:
        await asyncio.sleep(0)
        texts.append(text)

    async with run_endpoint(stream_answer(delta(content="a"), delta("stop"))) as endpoint:
        await complete_once(endpoint, on_text=listener)
    assert texts == ["a"]


async def test_an_endpoint_without_streaming_is_reported_in_one_chunk() -> None:
    texts: list[str] = []
    async with run_endpoint(answer("whole")) as endpoint:
        found = await complete_once(endpoint, on_text=texts.append)
    assert (texts, found.text) == (["whole"], "whole")


async def test_a_finished_stream_without_an_end_marker_is_accepted() -> None:
    async with run_endpoint(stream_answer(delta(content="a"), delta("stop"), done=False)) as endpoint:
        assert (await complete_once(endpoint, on_text=print)).text == "a"


@pytest.mark.parametrize(
    "chunks",
    [
        [delta(content="a")],
        [],
        [b"data: {oops\n\n"],
        [b"data: [1]\n\n"],
    ],
)
async def test_a_truncated_or_invalid_stream_is_an_error(chunks: list[Any]) -> None:
    async with run_endpoint(stream_answer(*chunks, done=False)) as endpoint:
        with pytest.raises(ModelError) as caught:
            await complete_once(endpoint, on_text=lambda text: None)
    assert caught.value.code == "MODEL_INVALID_RESPONSE"


async def test_the_message_of_an_error_in_a_stream_does_not_contain_the_key() -> None:
    async with run_endpoint(stream_answer({"error": {"message": f"overloaded {KEY}"}})) as endpoint:
        with pytest.raises(ModelError, match=r"overloaded \*\*\*") as caught:
            await complete_once(endpoint, on_text=lambda text: None, api_key=KEY)
    assert caught.value.code == "MODEL_ERROR"


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (401, False), (404, False), (429, True), (500, True), (503, True)]
)
async def test_the_message_of_an_error_status_does_not_contain_the_key(status: int, retryable: bool) -> None:
    body = f"bad key {KEY}\x1b[31m " + "x" * 5000
    async with run_endpoint(error_answer(status, body, Retry_After="7")) as endpoint:
        with pytest.raises(ModelError) as caught:
            await complete_once(endpoint, api_key=KEY)
    error = caught.value
    assert (error.code, error.status, error.retryable, error.retry_after_s) == (
        "MODEL_HTTP_ERROR",
        status,
        retryable,
        7.0,
    )
    assert KEY not in str(error)
    assert "bad key ***" in error.message
    assert len(error.message) < 600
    assert error.message.isprintable()


async def test_redirects_are_not_followed() -> None:
    async with run_endpoint(error_answer(307, Location="/elsewhere")) as endpoint:
        with pytest.raises(ModelError) as caught:
            await complete_once(endpoint)
    assert (caught.value.status, endpoint.paths) == (307, ["/v1/chat/completions"])


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, [], "text", {"choices": [{"message": "x"}]}])
async def test_an_invalid_response_is_an_error(body: Any) -> None:
    async with run_endpoint(body) as endpoint:
        with pytest.raises(ModelError) as caught:
            await complete_once(endpoint)
    assert caught.value.code == "MODEL_INVALID_RESPONSE"


async def never_answer(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(600)
    raise AssertionError("the client did not time out")


async def endless_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    while True:
        await response.write(b": still there\n\n")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("respond", [never_answer, endless_stream])
async def test_a_response_that_never_ends_times_out(respond: Any) -> None:
    async with run_endpoint(respond) as endpoint:
        with pytest.raises(ModelError, match=r"0\.2 s") as caught:
            await complete_once(endpoint, on_text=lambda text: None, timeout_s=0.2)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_TIMEOUT", True)


@pytest.mark.parametrize("respond", [answer("x" * 5000), stream_answer(*[delta(content="x" * 100)] * 50)])
@pytest.mark.parametrize("on_text", [None, len])
async def test_reading_stops_at_the_size_limit(respond: Any, on_text: Any) -> None:
    async with run_endpoint(respond) as endpoint:
        with pytest.raises(ModelError) as caught:
            await complete_once(endpoint, on_text=on_text, max_response_bytes=2000)
    assert caught.value.code == "MODEL_RESPONSE_TOO_LARGE"


async def test_an_unreachable_endpoint_is_an_error() -> None:
    async with run_endpoint() as endpoint:
        pass
    with pytest.raises(ModelError) as caught:
        await complete_once(endpoint)
    assert (caught.value.code, caught.value.retryable) == ("MODEL_UNREACHABLE", True)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("ftp://host/v1", {}),
        ("http://user:pass@host/v1", {}),
        ("http://host/v1", {"options": {"messages": []}}),
        ("http://host/v1", {"headers": {"Content-Type": "text/plain"}}),
        ("http://host/v1", {"headers": {"X": "a\r\nb"}}),
        ("http://host/v1", {"timeout_s": 0}),
    ],
)
def test_invalid_settings_are_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        OpenAIChat(url, model="m", **options)


def test_the_key_is_not_in_the_repr() -> None:
    chat = OpenAIChat("https://host/v1?key=hidden", model="m", api_key=KEY, headers={"X-Key": KEY})
    assert repr(chat) == "OpenAIChat('https://host/v1', model='m')"
    assert KEY not in repr(vars(chat))
