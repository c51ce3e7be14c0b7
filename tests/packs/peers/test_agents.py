"""Agents as MCP clients start them: `hubbub serve --pack peers --transport stdio` in a process each."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.interop.python_client import DEPRECATED, ERAS, connect_sdk_client
from tests.packs.peers.processes import HUBBUB_COMMAND, WAIT_S, LineProcess, SignalServerProcess, started

SERVE = (str(HUBBUB_COMMAND), "serve", "--pack", "peers", "--transport", "stdio")


class StdioAgent(LineProcess):
    """A server on stdio, and a client that calls its tools one by one."""

    def __init__(self, *flags: str, **environ: str) -> None:
        changed = [f"{name}={value}" for name, value in environ.items()]
        super().__init__(["env", *changed, *SERVE, *flags])
        self._last = 0
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.request("initialize", info)

    def begin(self, method: str, params: dict[str, Any]) -> int:
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return self._last

    def answer(self, id: int) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while (message := json.loads(self.line(deadline))).get("id") != id:
            pass
        result: dict[str, Any] = message["result"]
        return result

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.answer(self.begin(method, params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        content: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == content
        return content

    def connect(self, host: str, name: str, **arguments: Any) -> str:
        content = self.call("vdo_connect", room="hall", stream_id=name, host=host, **arguments)
        assert content["ok"], content
        session_id: str = content["session_id"]
        return session_id

    def until(self, session_id: str, type: str) -> dict[str, Any]:
        """The next event of that type."""
        for _ in range(2):
            content = self.call("vdo_receive", session_id=session_id, wait_ms=20_000, types=[type], max_events=1)
            if content["events"]:
                event: dict[str, Any] = content["events"][0]
                return event
        raise AssertionError(f"no {type}")


@pytest.mark.parametrize("engines", [("wrtc", "wrtc"), ("aiortc", "wrtc"), ("aiortc", "aiortc")], ids="-".join)
def test_two_servers_exchange_messages_state_and_a_file(
    exit_stack: ExitStack, engines: tuple[str, str], tmp_path: Path
) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    environ = {"HUBBUB_PEERS_HOST": signal_server.host, "HUBBUB_PEERS_FILES": str(tmp_path)}
    ann, bob = (started(exit_stack, StdioAgent(VDON_MCP_ENGINE=engine, **environ)) for engine in engines)
    here, there = (
        ann.connect(signal_server.host, "ann"),
        bob.call("vdo_connect", room="hall", stream_id="bob")["session_id"],
    )
    ann.until(here, "sync_peer_updated")
    bob.until(there, "sync_peer_updated")
    assert ann.call("vdo_send", session_id=here, data={"hello": "bob"})["ok"]
    assert bob.until(there, "data_received")["data"] == {"hello": "bob"}
    bob.call("vdo_state_set", session_id=there, key="k", value=1)
    assert ann.until(here, "state_updated")["actor"] == "bob"
    (tmp_path / "out.bin").write_bytes(os.urandom(300_000))
    sent = ann.call("vdo_file_send_path", session_id=here, file_path=str(tmp_path / "out.bin"))
    assert sent["ok"], sent
    transfer_id = bob.until(there, "file_received")["transfer_id"]
    saved = bob.call("vdo_file_save", session_id=there, transfer_id=transfer_id, output_path=str(tmp_path / "in.bin"))
    assert saved["ok"], saved
    assert (tmp_path / "in.bin").read_bytes() == (tmp_path / "out.bin").read_bytes()
    bob.call("vdo_disconnect", session_id=there)
    assert ann.until(here, "peer_disconnected")["detail"]["streamID"] == "bob"


def test_a_long_poll_does_not_block_other_calls(exit_stack: ExitStack) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    ann = started(exit_stack, StdioAgent())
    session = ann.connect(signal_server.host, "ann")
    arguments = {"session_id": session, "wait_ms": 20_000, "types": ["send_rejected"]}
    poll = ann.begin("tools/call", {"name": "vdo_receive", "arguments": arguments})
    waiting = {"room": "hall", "stream_id": "b", "host": signal_server.host, "target_stream_id": "nobody"}
    ann.begin("tools/call", {"name": "vdo_connect", "arguments": waiting})
    assert len(ann.call("vdo_list_sessions")["sessions"]) == 1
    ann.begin("tools/call", {"name": "vdo_send", "arguments": {"session_id": session, "data": 1}})
    assert ann.answer(poll)["structuredContent"]["event_count"] == 1


def test_a_server_sends_bye_to_peers_when_stdin_closes(exit_stack: ExitStack) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    ann, bob = started(exit_stack, StdioAgent()), started(exit_stack, StdioAgent())
    here, _ = ann.connect(signal_server.host, "ann"), bob.connect(signal_server.host, "bob")
    ann.until(here, "peer_connected")
    bob.process.stdin.close()
    assert bob.process.wait() == 0
    assert ann.until(here, "peer_disconnected")["detail"]["reason"] == "bye"


@pytest.mark.parametrize("profile", ["core", "file", "state", "full"])
def test_the_tool_profile_is_set_by_flag_or_by_variable(exit_stack: ExitStack, profile: str) -> None:
    ann = started(exit_stack, StdioAgent("--tool-profile", profile))
    bob = started(exit_stack, StdioAgent(VDON_MCP_TOOL_PROFILE=profile))
    both = [[tool["name"] for tool in agent.request("tools/list", {})["tools"]] for agent in (ann, bob)]
    assert both[0] == both[1] == ann.call("vdo_capabilities")["tool_profile"]["tools"]
    assert bob.call("vdo_capabilities")["tool_profile"]["name"] == profile


def test_security_flags_are_the_minimum_for_sessions(exit_stack: ExitStack) -> None:
    signal_server = started(exit_stack, SignalServerProcess())
    flags = ("--join-token-secret", "sek", "--enforce-join-token", "true", "--require-session-mac", "true",
             "--allow-peer-stream-ids", "bob,carol-1", "--max-message-bytes", "2000000")  # fmt: skip
    ann = started(exit_stack, StdioAgent(*flags))
    config = ann.call("vdo_connect", room="hall", host=signal_server.host)["effective_config"]
    assert (config["enforce_join_token"], config["require_session_mac"]) == (True, True)
    assert config["allow_peer_stream_ids"] == ["bob", "carol_1"]
    tighter = ann.call("vdo_connect", room="hall", host=signal_server.host, allow_peer_stream_ids=["bob"])[
        "effective_config"
    ]
    assert tighter["allow_peer_stream_ids"] == ["bob"]
    choices: list[dict[str, Any]]
    choices = [{"enforce_join_token": False}, {"require_session_mac": "off"}, {"allow_peer_stream_ids": []}]
    for looser in choices:
        given = {"room": "hall", "host": signal_server.host, **looser}
        refused = ann.request("tools/call", {"name": "vdo_connect", "arguments": given})
        assert "leave the argument out" in refused["structuredContent"]["error"]["message"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--enforce-join-token", "true"), "--enforce-join-token needs a secret to verify tokens with"),
        (("--tool-profile", "cor"), "unknown profile 'cor'; did you mean 'core'?"),
    ],
)
def test_a_server_with_invalid_flags_exits_with_code_2(flags: tuple[str, ...], message: str) -> None:
    done = subprocess.run([*SERVE, *flags], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.filterwarnings(DEPRECATED)
@pytest.mark.parametrize("mode", ERAS)
async def test_the_official_sdk_client_calls_the_tools(mode: str) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        signal_server = await loop.run_in_executor(None, lambda: started(stack, SignalServerProcess()))
        async with connect_sdk_client(list(SERVE), mode) as (ann, _), connect_sdk_client(list(SERVE), mode) as (bob, _):
            tools = {tool.name for tool in (await ann.list_tools()).tools}
            assert len(tools) == 20

            async def use(client: Any, tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result
                return result.structured_content

            here, there = [
                (await use(client, "vdo_connect", room="hall", stream_id=name, host=signal_server.host))["session_id"]
                for client, name in ((ann, "ann"), (bob, "bob"))
            ]
            await use(ann, "vdo_receive", session_id=here, wait_ms=20_000, types=["sync_peer_updated"])
            assert (await use(ann, "vdo_send", session_id=here, data=[1, {"two": None}]))["ok"]
            content = await use(bob, "vdo_receive", session_id=there, wait_ms=20_000, types=["data_received"])
            assert content["events"][0]["data"] == [1, {"two": None}]
            failed = await ann.call_tool("vdo_status", {"session_id": "x"})
            assert failed.is_error
            assert failed.structured_content["error"]["type"] == "validation_error"
