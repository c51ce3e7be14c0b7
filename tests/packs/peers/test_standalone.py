"""Behaviour that the contract requires of a server with this pack alone, and not next to other packs."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from tests.packs.peers.room_agents import signalling
from tests.packs.peers.test_agents import SERVE
from tests.server.raw_client import ERAS, RawClient, connect_raw_client

from hubbub import Server, bounds
from hubbub.assembly.assemble import assemble
from hubbub.packs.peers import limits
from hubbub.settings import ServeSettings, Sources

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def served(*packs: str, profile: str | None = None) -> Server:
    return assemble(ServeSettings(packs=packs, tool_profile=profile), Sources())


async def failure(client: RawClient, params: dict[str, Any]) -> dict[str, Any]:
    """Call a tool that must fail; return the error of the contract."""
    answer = await client.response_to(client.send_request("tools/call", params))
    assert "error" not in answer, answer
    result = answer["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["structuredContent"].keys() == {"ok", "error"}
    assert result["structuredContent"]["ok"] is False
    error: dict[str, Any] = result["structuredContent"]["error"]
    assert error.keys() <= {"type", "message", "tool"}
    return error


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_standalone_failed_calls_have_the_error_shape_of_the_contract(dialect: str) -> None:
    server = served("peers", profile="core")
    async with server.running(), connect_raw_client(server, dialect) as client:
        assert await failure(client, {"name": "vdo_x", "arguments": {}}) == {
            "type": "validation_error",
            "message": "unknown tool: vdo_x",
            "tool": "vdo_x",
        }
        nameless_calls: list[dict[str, Any]] = [{}, {"arguments": {}}, {"name": 7}, {"name": None}]
        for nameless in nameless_calls:
            error = await failure(client, nameless)
            assert (set(error), error["type"]) == ({"type", "message"}, "validation_error")
            assert "name" in error["message"]
        error = await failure(client, {"name": "vdo_status", "arguments": [1]})
        assert (set(error), error["type"]) == ({"type", "message", "tool"}, "validation_error")
        error = await failure(client, {"name": "vdo_state_get", "arguments": {}})
        assert (error["type"], error["tool"]) == ("validation_error", "vdo_state_get")
        assert "disabled" in error["message"]
        assert len((await failure(client, {"name": "x" * 100_000}))["message"]) < 300


@pytest.mark.parametrize("dialect", ERAS.values(), ids=ERAS)
async def test_with_another_pack_an_unknown_tool_is_a_protocol_error(dialect: str) -> None:
    server = served("peers", "demo")
    async with server.running(), connect_raw_client(server, dialect) as client:
        unknown = await client.response_to(client.send_request("tools/call", {"name": "vdo_x"}))
        assert unknown["error"]["code"] == (-32000 if dialect == "plain" else -32602)
        nameless = await client.response_to(client.send_request("tools/call", {"arguments": {}}))
        assert nameless["error"]["code"] == -32602
        assert (await client.response_to(client.send_request("shutdown")))["error"]["code"] == -32601
    assert (server.message_bytes, server.exit_notification) == (bounds.MESSAGE_BYTES, None)


async def test_with_another_pack_a_disabled_tool_is_an_error_result_in_the_plain_dialect() -> None:
    server = served("peers", "demo", profile="core")
    async with server.running(), connect_raw_client(server, "plain") as client:
        assert (await failure(client, {"name": "vdo_state_get"}))["type"] == "validation_error"


@pytest.mark.parametrize("dialect", ["plain", "2025-11-25"])
async def test_shutdown_ends_all_sessions_of_the_caller(dialect: str) -> None:
    server = served("peers")
    async with signalling() as host, server.running(), connect_raw_client(server, dialect) as client:
        for name in ("ann", "bob"):
            await client.ask("tools/call", {"name": "vdo_connect", "arguments": {"room": name, "host": host}})
        assert (await client.response_to(client.send_request("shutdown")))["result"] == {}
        listed = await client.response_to(client.send_request("tools/call", {"name": "vdo_list_sessions"}))
        assert json.loads(listed["result"]["content"][0]["text"])["sessions"] == []
        assert (await client.response_to(client.send_request("shutdown")))["result"] == {}


async def test_modern_clients_have_no_shutdown() -> None:
    server = served("peers")
    async with server.running(), connect_raw_client(server, ERAS["modern"]) as client:
        assert (await client.response_to(client.send_request("shutdown")))["error"]["code"] == -32601


def run(
    messages: list[Any], *flags: str, environ: dict[str, str] | None = None
) -> tuple[int, list[dict[str, Any]], str]:
    """Send these messages to a server; return its exit code, its responses and its stderr."""
    lines = "".join(f"{message if isinstance(message, str) else json.dumps(message)}\n" for message in messages)
    done = subprocess.run(
        [*SERVE, *flags], input=lines, capture_output=True, text=True, timeout=60, env={**os.environ, **(environ or {})}
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def request(id: int, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def ping(size: int) -> str:
    head = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"'
    return head + "x" * (size - len(head) - 3) + '"}}'


def test_exit_ends_the_process_after_earlier_requests() -> None:
    process = subprocess.Popen(list(SERVE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    after = request(2, "ping")
    for message in (INITIALIZE, request(1, "shutdown"), {"jsonrpc": "2.0", "method": "exit"}, after):
        process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()  # and stays open
    answers = {json.loads(line)["id"] for line in process.stdout}
    assert (process.wait(), answers) == (0, {0, 1})
    process.stdout.close()
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass


def test_the_standalone_message_limit_is_that_of_the_contract() -> None:
    limit = limits.PEERS_MESSAGE_BYTES
    _, answers, _ = run([ping(limit), ping(limit + 1)])
    assert sorted(list(answer)[-1] for answer in answers) == ["error", "result"]
    _, answers, _ = run([ping(limit + 1)], "--max-message-bytes", "2000000")
    assert answers[0]["result"] == {}
    _, answers, _ = run([ping(limit + 1)], "--pack", "demo")
    assert answers[0]["result"] == {}


def test_variables_are_read_leniently() -> None:
    environ = {
        "VDON_MCP_TOOL_PROFILE": " Core ",
        "VDON_MCP_ENFORCE_JOIN_TOKEN": "yes",
        "VDON_MCP_REQUIRE_SESSION_MAC": "On",
        "VDON_MCP_JOIN_TOKEN_SECRET": "sek",
        "VDON_MCP_MAX_MESSAGE_BYTES": " 2048 ",
    }
    code, answers, _ = run([INITIALIZE, request(2, "tools/list"), ping(3000)], environ=environ)
    assert (code, len(answers)) == (0, 3)
    answers.sort(key=lambda answer: int(answer["id"]))
    tools = {tool["name"]: tool for tool in answers[2]["result"]["tools"]}
    assert len(tools) == 9
    fields = tools["vdo_connect"]["inputSchema"]["properties"]
    assert fields["enforce_join_token"]["default"] is fields["require_session_mac"]["default"] is True
    assert "error" in answers[1]


def test_an_unknown_profile_in_the_environment_is_ignored_with_a_warning() -> None:
    code, answers, stderr = run([INITIALIZE, request(1, "tools/list")], environ={"VDON_MCP_TOOL_PROFILE": "cores"})
    (listed,) = [answer for answer in answers if answer["id"] == 1]
    assert (code, len(listed["result"]["tools"])) == (0, 20)
    assert "VDON_MCP_TOOL_PROFILE: unknown profile 'cores'; did you mean 'core'?; it is ignored" in stderr


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        (("--tool-profile", "Core"), {}, "unknown profile 'Core'"),
        (("--enforce-join-token", "yes"), {}, "--enforce-join-token must be true or false, not 'yes'"),
        (("--join-token-secret", " "), {"VDON_MCP_JOIN_TOKEN_SECRET": "sek"}, "--join-token-secret is empty"),
        (("--allow-peer-stream-ids", ""), {}, "--allow-peer-stream-ids is empty; give a value, or leave it out"),
        ((), {"VDON_MCP_ALLOW_PEER_STREAM_IDS": " , "}, "VDON_MCP_ALLOW_PEER_STREAM_IDS is empty"),
        ((), {"VDON_MCP_ENFORCE_JOIN_TOKEN": "ture"}, "VDON_MCP_ENFORCE_JOIN_TOKEN must be true or false, not 'ture'"),
    ],
)
def test_flags_and_security_variables_are_parsed_strictly(
    flags: tuple[str, ...], environ: dict[str, str], expected: str
) -> None:
    code, _, stderr = run([], *flags, environ=environ)
    assert code == 2
    assert expected in stderr
