"""`ServerConfig`: accepted and refused fields, and masked secrets."""

import copy
import pickle
from typing import Any

import pytest

from hubbub import DEFAULT_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS, Secret, ServerConfig, SettingsError

URL = "https://mcp.example.com/mcp"


def stdio(**fields: Any) -> ServerConfig:
    return ServerConfig(**{"id": "a", "command": "cat", **fields})


def remote(**fields: Any) -> ServerConfig:
    return ServerConfig(**{"id": "a", "transport": "streamable_http", "url": URL, **fields})


def test_the_supported_versions_are_those_of_the_contract() -> None:
    assert DEFAULT_PROTOCOL_VERSION == "2025-11-25"
    assert set(SUPPORTED_PROTOCOL_VERSIONS) == {
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    }


def test_defaults_and_normalisation() -> None:
    config = stdio(id=" a ", transport="", args=[1, "b"], env={"A": 1, "B": None, " ": "x"}, chdir="  ")
    assert (config.id, config.transport, config.args, config.chdir) == ("a", "stdio", ("1", "b"), None)
    assert config.env == {"A": Secret("1"), "B": None}
    assert config.timeout_s == 10.0
    assert config.protocol_version is None
    assert config.capabilities == {}


def test_headers_without_value_are_dropped() -> None:
    assert remote(headers={"A": 1, "B": None, "": "x"}).headers == {"A": Secret("1")}
    assert remote(timeout_s=3).timeout_s == 3.0


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("streamable-http", "streamable_http"),
        ("streamable_http", "streamable_http"),
        ("http", "streamable_http"),
        ("sse", "sse"),
    ],
)
def test_transports_have_several_spellings(written: str, meant: str) -> None:
    assert remote(transport=written).transport == meant


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": " "}, "needs an `id`"),
        ({"id": None}, "needs an `id`"),
        ({"command": "  "}, "needs a `command`"),
        ({"command": None}, "needs a `command`"),
        ({"transport": "smoke"}, "Unknown transport"),
        ({"url": URL}, "`url` cannot be used with"),
        ({"headers": {"A": "b"}}, "`headers` cannot be used with"),
        ({"headers_provider": dict}, "`headers_provider` cannot be used with"),
        ({"open_timeout_s": 1}, "`open_timeout_s` cannot be used with"),
        ({"read_timeout_s": 1}, "`read_timeout_s` cannot be used with"),
        ({"sse_max_reconnects": 1}, "`sse_max_reconnects` cannot be used with"),
        ({"max_response_bytes": 1}, "`max_response_bytes` cannot be used with"),
        ({"env": ["A"]}, "`env` must be a mapping"),
        ({"args": "a b"}, "`args` must be a list"),
        ({"timeout_s": 0}, "above 0"),
        ({"timeout_s": -1}, "above 0"),
        ({"timeout_s": True}, "above 0"),
        ({"timeout_s": "1"}, "above 0"),
        ({"timeout_s": float("nan")}, "above 0"),
        ({"capabilities": [1]}, "`capabilities` must be a mapping"),
        ({"client_info": "me"}, "`client_info` must be a mapping"),
        ({"env_provider": 1}, "`env_provider` must be a function"),
        ({"on_stderr_line": "x"}, "`on_stderr_line` must be a function"),
        ({"protocol_version": "2020-01-01"}, "is not supported"),
    ],
)
def test_invalid_stdio_configs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        stdio(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": ""}, "needs a `url`"),
        ({"command": "cat"}, "`command` cannot be used with"),
        ({"args": ["a"]}, "`args` cannot be used with"),
        ({"env": {"A": "b"}}, "`env` cannot be used with"),
        ({"env_provider": dict}, "`env_provider` cannot be used with"),
        ({"chdir": "/"}, "`chdir` cannot be used with"),
        ({"headers": "A: b"}, "`headers` must be a mapping"),
        ({"headers_provider": "x"}, "must be a function"),
        ({"open_timeout_s": 0}, "above 0"),
        ({"read_timeout_s": -1}, "above 0"),
        ({"sse_max_reconnects": 0}, "above 0"),
        ({"sse_max_reconnects": 1.5}, "above 0"),
        ({"max_response_bytes": 0}, "above 0"),
        ({"max_response_bytes": True}, "above 0"),
        ({"headers": {"Accept": "x"}}, "set by the transport"),
        ({"headers": {"mcp-session-id": "x"}}, "set by the transport"),
        ({"headers": {"Mcp-Param-X": "x"}}, "set by the transport"),
        ({"headers": {"A B": "x"}}, "not a valid header name"),
        ({"headers": {"A": "x\r\nB: y"}}, "one line"),
    ],
)
def test_invalid_http_configs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        remote(**fields)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "//example.com",
        "example.com/mcp",
        "https://",
        "https://:443/",
        "https://user:pass@example.com/",
        "https://user@example.com/",
        "https://example.com/#part",
        "https://example.com/ a",
        "https://example.com:99999/",
        "https://exa\nmple.com/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://[::1/",
        "https://[::ffff:7f00:1%eth0]/",
        "https://example.com\\@evil.example/",
        "file:///etc/passwd",
    ],
)
def test_an_unsafe_or_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="`url`"):
        remote(url=url)


@pytest.mark.parametrize(
    "url",
    [URL, "http://localhost:3000/mcp", "http://127.0.0.1:1/", "http://[::1]:8080/x?y=z", "https://bücher.example/"],
)
def test_a_valid_url_is_accepted(url: str) -> None:
    assert remote(url=url).url == url


def test_a_websocket_has_its_own_schemes() -> None:
    assert remote(transport="websocket", url="wss://example.com/ws").url == "wss://example.com/ws"
    with pytest.raises(SettingsError, match="wss"):
        remote(transport="websocket")
    with pytest.raises(SettingsError, match="https"):
        remote(url="wss://example.com/ws")


def test_coerce_returns_the_same_config_or_creates_one() -> None:
    config = stdio()
    assert ServerConfig.coerce(config) is config
    assert ServerConfig.coerce({"id": "a", "command": "cat"}) == config
    for wrong in ("cat", 1, None, ["a"]):
        with pytest.raises(SettingsError, match="not"):
            ServerConfig.coerce(wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="did you mean 'command'"):
        ServerConfig.coerce({"id": "a", "comand": "cat"})
    with pytest.raises(SettingsError, match="Unknown field"):
        ServerConfig.coerce({1: "a"})  # type: ignore[dict-item]
    with pytest.raises(SettingsError, match="needs an `id`"):
        ServerConfig.coerce({"command": "cat"})


def test_configs_are_compared_by_value() -> None:
    assert stdio(args=["x"]) == stdio(args=("x",))
    assert stdio() != stdio(timeout_s=1)
    with pytest.raises(AttributeError):
        stdio().id = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        stdio(env={"A": "b"}).env["A"] = "c"  # type: ignore[index]


def test_secrets_are_not_in_the_repr() -> None:
    canary = "canary-5f2d"
    configs = [
        stdio(env={"TOKEN": canary}, args=["--token", canary]),
        remote(headers={"Authorization": f"Bearer {canary}"}, url=f"{URL}?key={canary}"),
    ]
    for config in configs:
        assert canary not in repr(config)
        assert canary not in str(config)
        assert canary not in f"{config}"
        with pytest.raises(TypeError):
            pickle.dumps(config)
        with pytest.raises(TypeError):
            copy.deepcopy(config)
    with pytest.raises(SettingsError) as refused:
        remote(headers={"X": f"{canary}\n"})
    assert canary not in str(refused.value)
    with pytest.raises(SettingsError) as refused:
        remote(url=f"https://me:{canary}@example.com/")
    assert canary not in str(refused.value)
