"""The stdio server in a real process: framing, dialects, batches, order, invalid input."""

import json
from threading import Thread
from typing import Any

import pytest

from hubbub import bounds

INVALID_REQUEST = -32600


def text(answer: dict[str, Any]) -> str:
    (block,) = answer["result"]["content"]
    return str(block["text"])


# -- framings ------------------------------------------------------------------


def test_lines_are_answered_with_lines(server: Any) -> None:
    assert text(server.ask(server.call(1, "echo", text="hi"))) == "hi"


def test_frames_are_answered_with_frames(server: Any) -> None:
    server.send_framed(server.request(1, "ping"), server.call(2, "echo", text="ünïcode"))
    assert server.receive_framed() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert text(server.receive_framed()) == "ünïcode"


def test_output_is_framed_from_the_first_framed_input_on(server: Any) -> None:
    assert server.ask(server.request(1, "ping"))["id"] == 1
    server.send_framed(server.request(2, "ping"))
    assert server.receive_framed()["id"] == 2
    server.send(server.request(3, "ping"))  # a line again, but the client has shown that it reads frames
    assert server.receive_framed()["id"] == 3


def test_a_frame_may_arrive_byte_by_byte_with_other_headers(server: Any) -> None:
    body = json.dumps(server.request(1, "ping")).encode()
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
    for byte in head + body:
        server.write(bytes([byte]))
    assert server.receive_framed()["id"] == 1


def test_a_line_over_the_limit_is_skipped_and_the_next_message_is_served(server: Any) -> None:
    server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"')
    for _ in range(bounds.MESSAGE_BYTES // 65536 + 1):
        server.write(b"x" * 65536)
    server.write(b'"}}\n')
    server.send(server.request(2, "ping"))
    refused = server.receive()
    assert refused["id"] == 1
    assert refused["error"]["code"] == INVALID_REQUEST
    assert refused["error"]["data"] == {"limit": bounds.MESSAGE_BYTES}
    assert server.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("is_id_last", [False, True])
@pytest.mark.parametrize("is_framed", [False, True])
def test_a_message_over_the_limit_is_answered_with_its_id(server: Any, is_id_last: bool, is_framed: bool) -> None:
    message = server.call("big one", "echo", text="x" * (bounds.MESSAGE_BYTES + 1000))
    if is_id_last:
        message["id"] = message.pop("id")
    (server.send_framed if is_framed else server.send)(message)
    refused = server.receive_framed() if is_framed else server.receive()
    assert (refused["id"], refused["error"]["data"]) == ("big one", {"limit": bounds.MESSAGE_BYTES})


def test_a_frame_over_the_limit_is_skipped_and_the_next_message_is_served(server: Any) -> None:
    # The body is full of line breaks and headers, none of which may be parsed as messages.
    line = json.dumps(server.request("inside", "ping")).encode() + b"\nContent-Length: 2\r\n\r\n{}\n"
    server.write(server.frame(line * (bounds.MESSAGE_BYTES // len(line) + 1)))
    server.send_framed(server.request(2, "ping"))
    assert server.receive_framed()["error"]["data"] == {"limit": bounds.MESSAGE_BYTES}
    assert server.receive_framed()["id"] == 2
    server.end_input()
    assert server.rest() == b""


@pytest.mark.parametrize("framed", [False, True], ids=["lines", "frames"])
def test_a_message_of_megabytes_is_echoed_completely(server: Any, framed: bool) -> None:
    long_text = "ü\n\r" * 300_000
    message = server.call(1, "echo", text=long_text)
    if framed:
        server.send_framed(message)
        assert text(server.receive_framed()) == long_text
    else:
        server.send(message)
        assert text(server.receive()) == long_text


# -- dialects ------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_client_gets_the_revision_it_asks_for(server: Any, version: str) -> None:
    opened = server.initialize(version)
    assert opened["protocolVersion"] == version
    assert opened["serverInfo"]["name"] == "interop"


@pytest.mark.parametrize("version", ["1999-01-01", "2099-01-01", "nonsense"])
def test_an_unknown_revision_is_answered_with_the_newest(server: Any, version: str) -> None:
    assert server.initialize(version)["protocolVersion"] == "2025-11-25"


def test_the_first_revision_gets_only_its_own_fields(server: Any) -> None:
    opened = server.initialize("2024-11-05")
    assert "completions" not in opened["capabilities"]
    listed = server.ask(server.request(1, "tools/list"))["result"]["tools"]
    assert all(set(tool) <= {"name", "description", "inputSchema"} for tool in listed)
    added = server.ask(server.call(2, "add", a=1, b=2))["result"]
    assert added == {"content": [{"type": "text", "text": '{"total":3,"terms":[1,2]}'}]}
    kinds = [block["type"] for block in server.ask(server.call(3, "gallery"))["result"]["content"]]
    assert set(kinds) <= {"text", "image", "resource"}
    server.send(server.call_with_progress(4, "slow", steps=1))
    progress = server.receive()
    assert progress["params"] == {"progressToken": 4, "progress": 1, "total": 1}


def test_modern_requests_are_served_at_any_time(server: Any) -> None:
    assert server.ask(server.modern(1, "server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
    server.initialize("2025-06-18")
    modern = server.ask(server.modern(2, "tools/call", name="count", arguments={}))["result"]
    assert (modern["resultType"], modern["structuredContent"]) == ("complete", 42)
    legacy = server.ask(server.call(3, "count"))["result"]
    assert "resultType" not in legacy
    assert legacy["structuredContent"] == {"result": 42}


def test_plain_requests_need_no_handshake(server: Any) -> None:
    assert server.ask(server.request(1, "echo", text="hi"))["result"] == "hi"
    assert server.ask(server.call(2, "missing"))["error"]["code"] == -32000
    assert server.ask(server.call(3, "failing"))["error"]["code"] == -32002


# -- batches -------------------------------------------------------------------


def test_a_batch_of_2025_03_26_is_answered_with_one_array(server: Any) -> None:
    server.initialize("2025-03-26")
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    server.send([server.call(1, "nap", seconds=0.05), note, server.request(2, "ping"), server.call(3, "missing")])
    answers = server.receive()
    assert {answer["id"]: "error" in answer for answer in answers} == {1: False, 2: False, 3: True}


def test_a_batch_of_notifications_is_not_answered(server: Any) -> None:
    server.initialize("2025-03-26")
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    server.send([note, note])
    server.send(server.request(1, "ping"))
    assert server.receive()["id"] == 1


def test_a_plain_batch_is_answered_with_one_array(server: Any) -> None:
    server.send([server.request(1, "echo", text="a"), 7, server.request(2, "echo", text="b")])
    answers = {answer["id"]: answer for answer in server.receive()}
    assert (answers[1]["result"], answers[2]["result"]) == ("a", "b")
    assert answers[None]["error"]["code"] == INVALID_REQUEST


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_later_revisions_refuse_batches(server: Any, version: str) -> None:
    server.initialize(version)
    server.send([server.request(1, "ping"), server.request(2, "ping")])
    refused = server.receive()
    assert (refused["id"], refused["error"]["code"]) == (None, INVALID_REQUEST)
    assert server.ask(server.request(3, "ping"))["result"] == {}


# -- order, concurrency, cancellation ------------------------------------------


def test_progress_is_on_the_wire_in_order_and_before_the_result(server: Any) -> None:
    server.initialize()
    server.send(server.call_with_progress("call", "slow", steps=3))
    messages = [server.receive() for _ in range(7)]
    assert [message.get("method", "result") for message in messages] == [
        *("notifications/progress", "notifications/message") * 3,
        "result",
    ]
    progress = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    assert progress == [
        {"progressToken": "call", "progress": step, "total": 3, "message": f"step {step}"} for step in (1, 2, 3)
    ]


def test_a_slow_call_does_not_delay_the_next(server: Any) -> None:
    server.send(server.call(1, "nap", seconds=600), server.call(2, "block", seconds=600), server.request(3, "ping"))
    assert server.receive()["id"] == 3


def test_a_cancelled_call_is_not_answered(server: Any) -> None:
    server.initialize()
    server.send(server.call_with_progress(1, "wait_forever"))
    assert server.receive()["method"] == "notifications/progress"
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    counts = server.ask(server.call(2, "counts", cancelled=1))["result"]["structuredContent"]
    assert counts == {"started": 1, "cancelled": 1, "finished": 0}
    server.end_input()
    assert server.rest() == b""


def test_list_changed_has_the_name_of_the_added_tool(server: Any) -> None:
    server.initialize()
    server.send(server.call(1, "register_tool", name="hello"))
    note = server.receive()
    assert note["method"] == "notifications/tools/list_changed"
    assert (note["params"]["type"], note["params"]["toolName"]) == ("tool_added", "hello")
    assert isinstance(note["params"]["timestamp"], int)
    assert server.receive()["id"] == 1


def test_thousands_of_requests_in_one_write_are_each_answered_once(server: Any) -> None:
    count = 5000
    lines = [json.dumps(server.call(number, "echo", text=str(number))).encode() for number in range(count)]
    # The pipe holds less than this, so the server continues to write while we read.
    writer = Thread(target=server.write, args=(b"\n".join(lines) + b"\n",))
    writer.start()
    answers = [server.receive() for _ in range(count)]
    writer.join()
    assert sorted((answer["id"], text(answer)) for answer in answers) == [(n, str(n)) for n in range(count)]
    server.end_input()
    assert server.rest() == b""


# -- invalid input -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xed\xa0\x80"}}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", INVALID_REQUEST),
        (b"7", INVALID_REQUEST),
        (b'"text"', INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing/like/it"}', -32601),
        (b"Content-Length: x\r\n\r\n", INVALID_REQUEST),
    ],
)
def test_invalid_input_is_answered_and_the_server_continues(server: Any, line: bytes, code: int) -> None:
    server.write(line + b"\n")
    framed = line.startswith(b"Content-Length")
    refused = server.receive_framed() if framed else server.receive()
    assert refused["error"]["code"] == code
    server.send(server.request("next", "ping"))
    assert (server.receive_framed() if framed else server.receive())["id"] == "next"


def test_blank_lines_and_unexpected_responses_are_ignored(server: Any) -> None:
    server.write(b"\n\r\n  \n")
    server.send({"jsonrpc": "2.0", "id": 77, "result": {}}, {"jsonrpc": "2.0", "method": "notifications/unknown"})
    server.send(server.request(1, "ping"))
    assert server.receive()["id"] == 1
