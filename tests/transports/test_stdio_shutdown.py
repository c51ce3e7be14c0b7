"""How a stdio server stops: at the end of its input and at signals, and what happens to running calls."""

import os
import pty
import signal
from collections.abc import Callable
from typing import Any

import pytest

Start = Callable[..., Any]
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def test_running_calls_finish_at_the_end_of_input(server: Any) -> None:
    server.send(server.call(1, "nap", seconds=0.4), server.call(2, "block", seconds=0.4), server.request(3, "ping"))
    server.end_input()
    answers = {server.receive()["id"] for _ in range(3)}
    assert answers == {1, 2, 3}
    assert server.rest() == b""
    assert server.wait() == 0


def test_the_end_of_input_right_after_many_requests_loses_none(server: Any) -> None:
    server.send(*(server.call(number, "echo", text="x") for number in range(1000)))
    server.end_input()
    assert {server.receive()["id"] for _ in range(1000)} == set(range(1000))
    assert server.wait() == 0


def test_a_last_line_without_a_line_end_is_served(server: Any) -> None:
    server.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    server.end_input()
    assert server.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert server.wait() == 0


def test_the_end_of_input_ends_an_open_listen_with_its_response(server: Any) -> None:
    server.send(server.modern("watch", "subscriptions/listen", notifications={"toolsListChanged": True}))
    assert server.receive()["method"] == "notifications/subscriptions/acknowledged"
    server.end_input()
    result = server.answer("watch")["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == "watch"
    assert server.wait() == 0


def test_a_server_request_fails_at_the_end_of_input(server: Any) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    server.ask(server.request("open", "initialize", **params))
    server.send(server.call(1, "ask_name"))
    assert server.receive()["method"] == "elicitation/create"
    server.end_input()
    failed = server.answer(1)["result"]
    assert failed["isError"] is True
    assert "The client disconnected" in failed["content"][0]["text"]
    assert server.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_an_idle_server_while_stdin_is_open(server: Any, number: signal.Signals) -> None:
    server.ask(server.request(1, "ping"))
    server.signal(number)
    assert server.wait() == 0
    assert server.rest() == b""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("tool", ["nap", "block"], ids=["async", "sync"])
def test_a_signal_stops_a_server_while_a_tool_runs(server: Any, number: signal.Signals, tool: str) -> None:
    server.send(server.call(1, tool, seconds=600), server.request(2, "ping"))
    assert server.receive()["id"] == 2
    server.signal(number)
    assert server.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_a_server_on_a_terminal(start: Start, number: signal.Signals) -> None:
    control, terminal = pty.openpty()
    server = start(stdin=terminal, stdout=terminal)
    os.close(terminal)
    os.write(control, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    while b"result" not in os.read(control, 1000):
        pass
    server.signal(number)
    assert server.wait() == 0
    os.close(control)


def test_a_signal_while_calls_drain_stops_at_once(server: Any) -> None:
    server.send(server.call(1, "nap", seconds=600), server.request(2, "ping"))
    assert server.receive()["id"] == 2
    server.end_input()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_tool_that_ignores_cancellation_does_not_delay_the_exit(server: Any) -> None:
    server.send(server.call(1, "stubborn", seconds=600), server.request(2, "ping"))
    assert server.receive()["id"] == 2
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_two_signals_have_the_effect_of_one(server: Any) -> None:
    server.ask(server.request(1, "ping"))
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
