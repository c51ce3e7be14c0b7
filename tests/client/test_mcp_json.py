"""Reading `mcpServers` files."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hubbub import Secret, ServerConfig, SettingsError, read_mcp_json
from hubbub.client.mcp_json import parse_mcp_json


def parse_entry(entry: Any, **environ: str) -> ServerConfig:
    (config,) = parse_mcp_json(msgspec.json.encode({"mcpServers": {"s": entry}}), environ)
    return config


def test_a_command_has_arguments_and_environment_variables() -> None:
    entry = {"command": "npx", "args": ["-y", "${PKG:-files}"], "env": {"KEY": "${env:TOKEN}"}, "cwd": "${HOME}/x"}
    config = parse_entry(entry, TOKEN="t", HOME="/h")
    assert (config.command, config.args, config.chdir) == ("npx", ("-y", "files"), "/h/x")
    assert config.env == {"KEY": Secret("t")}


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_url_is_read_from_each_of_its_keys(key: str) -> None:
    config = parse_entry(
        {key: "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${T}"}}, HOST="x.example", T="t"
    )
    assert config.transport == "streamable_http"
    assert config.url == "https://x.example/mcp"
    assert config.headers == {"Authorization": Secret("Bearer t")}


@pytest.mark.parametrize(
    ("written", "transport"),
    [
        ("http", "streamable_http"),
        ("streamable-http", "streamable_http"),
        ("sse", "sse"),
        ("streamableHttp", "streamable_http"),
    ],
)
def test_the_type_selects_the_transport(written: str, transport: str) -> None:
    assert parse_entry({"type": written, "url": "https://x.example/"}).transport == transport


def test_a_websocket_is_recognised_by_its_url() -> None:
    assert parse_entry({"url": "wss://x.example/ws"}).transport == "websocket"


@pytest.mark.parametrize("tree", [{"servers": {}}, {"mcpServers": {}}, {"mcp": {"servers": {}}}])
def test_servers_are_read_from_several_keys(tree: dict[str, Any]) -> None:
    assert parse_mcp_json(msgspec.json.encode(tree)) == []


def test_a_protocol_version_is_pinned() -> None:
    assert parse_entry({"command": "x", "protocolVersion": "2025-06-18"}).protocol_version == "2025-06-18"
    assert parse_entry({"url": "https://x.example/", "protocolVersion": "2025-11-25"}).protocol_version == "2025-11-25"
    assert parse_entry({"command": "x"}).protocol_version is None


def test_disabled_servers_and_unknown_keys_are_ignored() -> None:
    text = b'{"mcpServers": {"a": {"command": "x", "alwaysAllow": []}, "b": {"disabled": true}}}'
    assert [config.id for config in parse_mcp_json(text)] == ["a"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"command": "x", "env": {"A": "${NOPE}"}}, r"'s': env.A needs the variable NOPE"),
        ({"command": "x", "args": ["${input:key}"]}, r"'s': args contains \$\{input:key\}"),
        ({}, "needs a `command`"),
        ("x", "must be an object"),
        ({"type": "pigeon", "url": "https://x.example/"}, "unknown type 'pigeon'"),
        ({"url": "nonsense"}, "must start with"),
        (
            {"command": "x", "protocolVersion": "2025-06-19"},
            "'s': `protocol_version` '2025-06-19' is not supported",
        ),
        ({"type": "stdio", "url": "https://x.example/"}, "`url` cannot be used"),
    ],
)
def test_errors_name_the_invalid_entry(entry: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_entry(entry)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"mcpServers": []}'])
def test_no_servers_at_all_is_an_error(text: bytes) -> None:
    with pytest.raises(SettingsError):
        parse_mcp_json(text)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    with pytest.raises(SettingsError, match=r"mcp\.json cannot be read"):
        read_mcp_json(path)
    path.write_text('{"mcpServers": {"s": {"command": "${NOPE_NOT_SET}"}}}')
    with pytest.raises(SettingsError, match=r"mcp\.json: server 's'"):
        read_mcp_json(path)
    path.write_text('{"mcpServers": {"s": {"command": "cat"}}}')
    assert read_mcp_json(path) == [ServerConfig(id="s", command="cat")]
