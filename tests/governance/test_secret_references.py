"""References to secrets in configs of servers are resolved when they are needed, for the tenant of the caller."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import pytest
from tests.client.harness import stdio_config
from tests.governance.echo_upstream import LEGACY, run_echo_upstream
from tests.hub.upstream_callers import call_tool, make_caller, result_text
from tests.hub.upstreams import open_upstream

from hubbub import Caller, OAuth, Principal, Secret, ServerConfig, SettingsError, UpstreamUnavailable
from hubbub.assembly.hub_config import hub_config
from hubbub.client.mcp_json import parse_mcp_json
from hubbub.governance.secret_provider import SecretProvider
from hubbub.hub.config import HubConfig
from hubbub.hub.config_description import describe_config
from hubbub.settings import ServeSettings, collect_sources
from hubbub.settings.governance import SecretSettings, SecretSource
from hubbub.settings.secret import SecretTemplate

ENVIRON = {"KEY": "the-hubs-own-key", "KEY_OF_A": "the-key-of-tenant-a", "KEY_OF_B": "the-key-of-tenant-b"}
PROGRAM = """
import os
from hubbub import Server, run

server = Server("keys", version="1")

@server.tool
async def length() -> str:
    return f"{os.getpid()} {len(os.environ['KEY'])}"

run(server)
"""


def config_of(entry: dict[str, Any], *names: str, **environ: str) -> ServerConfig:
    (config,) = parse_mcp_json(msgspec.json.encode({"mcpServers": {"s": entry}}), environ, names)
    return config


def remote(value: str) -> dict[str, Any]:
    return {"url": "https://example.com/mcp", "headers": {"X-Key": value}}


def caller_of(tenant: str, user: str = "ada") -> Caller:
    return msgspec.structs.replace(make_caller(), principal=Principal(f"{tenant}/{user}#1", tenant=tenant, user=user))


def load(path: Path, text: str, mcp_json: str | None = None) -> HubConfig:
    path.write_text(text)
    return hub_config(ServeSettings(mcp_json=mcp_json), collect_sources({"--config": str(path)}, {}))


# -- references --------------------------------------------------------------------------


def test_a_reference_stays_a_reference_in_the_config() -> None:
    config = config_of(remote("Bearer ${secret:git-hub} ${WHO}"), "git-hub", WHO="${secret:other}")
    value = config.headers["X-Key"]
    assert isinstance(value, SecretTemplate)
    assert value.names == ("git-hub",)
    assert value.fill({"git-hub": "abc"}) == "Bearer abc ${secret:other}"
    assert value.reveal() == "Bearer ${secret:git-hub} ${secret:other}"
    assert "git-hub" not in repr(value) + str(value) + f"{value}"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (remote("${secret:missing}"), "headers.X-Key refers to the secret 'missing', which is not configured"),
        (remote("${secret:a b}"), "cannot fill in; use ${NAME} for a variable, or ${secret:NAME} for a secret"),
        ({"url": "https://example.com/${secret:key}"}, "url refers to a secret; secrets can be used only in headers"),
        ({"command": "x", "args": ["--key", "${secret:key}"]}, "args refers to a secret"),
        ({"command": "${secret:key}"}, "command refers to a secret"),
    ],
)
def test_other_references_are_refused(entry: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        config_of(entry, "key")
    assert expected in raised.value.message


def test_a_config_for_another_tenant_differs_only_in_the_tenant() -> None:
    config = config_of(remote("${secret:key}"), "key")
    assert config.for_tenant("a") == msgspec.structs.replace(config, tenant="a")
    assert config.for_tenant(None) is config


# -- over HTTP ---------------------------------------------------------------------------


def http_config(url: str, secrets: SecretProvider) -> ServerConfig:
    config = config_of({"url": url, "headers": {"X-Key": "v=${secret:key}"}}, "key")
    return msgspec.structs.replace(config, secrets=secrets, protocol_version=LEGACY)


async def test_each_tenants_requests_carry_its_own_secret_and_lists_that_of_the_hub() -> None:
    overrides = {"a": SecretSource(env="KEY_OF_A"), "b": SecretSource(env="KEY_OF_B")}
    secrets = SecretProvider({"key": SecretSettings(env="KEY", tenant=overrides)}, environ=ENVIRON)
    async with run_echo_upstream() as echo, open_upstream(http_config(echo.url, secrets)) as upstream:
        await upstream.refresh()
        assert set(echo.values) == {"v=the-hubs-own-key"}
        for tenant in ("a", "b"):
            echo.requests.clear()
            await call_tool(upstream, "echo", {}, caller_of(tenant))
            assert set(echo.values) == {f"v=the-key-of-tenant-{tenant}"}
            assert len(echo.values) >= 3  # also those of the handshake


async def test_a_tenant_without_access_gets_an_error_and_others_are_served() -> None:
    denied: list[str] = []
    settings = SecretSettings(env="KEY", tenants=("a",), hub=True)

    def record(event: str, fields: Mapping[str, str]) -> None:
        denied.append(f"{event} {fields['tenant']}")

    secrets = SecretProvider({"key": settings}, record, environ=ENVIRON)
    async with (
        run_echo_upstream() as echo,
        open_upstream(http_config(echo.url, secrets), breaker_failures=1) as upstream,
    ):
        await upstream.refresh()
        echo.requests.clear()
        with pytest.raises(UpstreamUnavailable, match="may not be used for this tenant; ask the operator") as raised:
            await call_tool(upstream, "echo", {}, caller_of("b"))
        assert "key" not in str(raised.value.data)
        assert not echo.requests
        assert denied == ["secret.read ", "secret.denied b"]
        await call_tool(upstream, "echo", {}, caller_of("a"))
        assert echo.requests


@pytest.mark.requirement("L3", "K6")
async def test_a_rotated_secret_is_sent_with_the_next_request_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first-rotated-key")
    secrets = SecretProvider({"key": SecretSettings(file=str(path))})
    async with run_echo_upstream() as echo, open_upstream(http_config(echo.url, secrets)) as upstream:
        await call_tool(upstream, "echo", {}, caller_of("a"))
        (tmp_path / "new").write_text("second-rotated-key")
        (tmp_path / "new").replace(path)
        echo.requests.clear()
        found = await call_tool(upstream, "echo", {}, caller_of("a"))
        assert echo.values == ["v=second-rotated-key"]  # one request: the session was not opened again
        assert "rotated-key" not in str(found)


async def test_a_secret_that_breaks_a_header_is_not_sent_or_quoted() -> None:
    secrets = SecretProvider({"key": SecretSettings(env="KEY")}, environ={"KEY": "two-lines\r\nX-Evil: 1"})
    async with run_echo_upstream() as echo, open_upstream(http_config(echo.url, secrets)) as upstream:
        await upstream.refresh()
        assert upstream.state.phase == "down"
        assert not echo.requests
        assert "two-lines" not in str(upstream.state)


# -- on stdio ----------------------------------------------------------------------------


async def test_a_process_gets_the_secret_of_its_tenant_and_a_new_one_the_rotated_secret(tmp_path: Path) -> None:
    program, path = tmp_path / "keys.py", tmp_path / "key"
    program.write_text(PROGRAM)
    path.write_text(token_hex(10))
    settings = SecretSettings(env="KEY", tenant={"a": SecretSource(file=str(path))})
    template = SecretTemplate(("", ""), ("key",))
    config = stdio_config(str(program), env={"KEY": template})
    config = msgspec.structs.replace(config, secrets=SecretProvider({"key": settings}, environ=ENVIRON))
    async with open_upstream(config) as upstream:
        pid_of_a, length_of_a = result_text(await call_tool(upstream, "length", {}, caller_of("a"))).split()
        pid_of_b, length_of_b = result_text(await call_tool(upstream, "length", {}, caller_of("b"))).split()
        assert (length_of_a, length_of_b) == ("20", str(len(ENVIRON["KEY"])))
        path.write_text(token_hex(15))
        pid, length = result_text(await call_tool(upstream, "length", {}, caller_of("a"))).split()
        assert (pid, length) == (pid_of_a, "20")  # the process keeps what it was started with
        pid, length = result_text(await call_tool(upstream, "length", {}, caller_of("a", "eve"))).split()
        assert pid not in (pid_of_a, pid_of_b)
        assert length == "30"


# -- settings ----------------------------------------------------------------------------

SERVER = """
[secrets.key]
file = "key.txt"

[servers.there]
url = "https://example.com/mcp"
headers = {Authorization = "Bearer ${secret:key}"}
"""
TENANTS = '[[tenants]]\nname = "a"\n'


def test_a_server_gets_the_secrets_that_it_refers_to(tmp_path: Path) -> None:
    (config,) = load(tmp_path / "hubbub.toml", SERVER + "[secrets.other]\nenv = 'X'\n").upstreams
    assert config.remote is not None
    assert config.remote.secrets == SecretProvider({"key": SecretSettings(file="key.txt")})


def test_reading_the_file_again_reconnects_only_servers_whose_secrets_changed(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    (first,) = load(path, SERVER).upstreams
    (same,) = load(path, SERVER + "[secrets.other]\nenv = 'X'\n").upstreams
    (changed,) = load(path, SERVER.replace("key.txt", "new.txt")).upstreams
    assert first.is_reached_like(same)
    assert not first.is_reached_like(changed)


def test_the_description_of_a_hub_has_neither_secrets_nor_objects(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    one, two = (describe_config(load(path, SERVER), b"k") for _ in range(2))
    assert one == two
    assert "secrets" not in one.servers["there"]
    assert one.servers["there"]["headers.Authorization"].shown is None


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('headers = {Authorization = "Bearer abcdefgh12345"}', "servers.there.headers.Authorization"),
        ('headers = {X-Api-Key = "something"}', "servers.there.headers.X-Api-Key"),
        ('headers = {X-Other = "ghp_abcdefghijklmnop0123"}', "servers.there.headers.X-Other"),
    ],
)
def test_with_tenants_a_literal_secret_is_refused(tmp_path: Path, line: str, place: str) -> None:
    section = f'[servers.there]\nurl = "https://example.com/mcp"\n{line}\n'
    path = tmp_path / "hubbub.toml"
    assert load(path, section).upstreams
    with pytest.raises(SettingsError) as raised:
        load(path, TENANTS + section)
    assert f"{place} contains a secret" in raised.value.message
    assert "abcdefgh" not in raised.value.message
    assert "${secret:NAME}" in raised.value.message


ENTERPRISE = """
[servers.there]
url = "https://example.com/mcp"
[servers.there.oauth]
grant = "enterprise_managed"
issuer = "https://login.example.com"
client_id = "hub"
[servers.there.oauth.identity_provider]
issuer = "https://idp.example.com"
client_id = "hub"
id_token_file = "id_token"
client_secret = "VALUE"
"""


@pytest.mark.parametrize("tenants", ["", TENANTS])
def test_the_secret_at_an_identity_provider_can_be_a_reference(tmp_path: Path, tenants: str) -> None:
    text = tenants + ENTERPRISE.replace("VALUE", "${secret:idp}") + "[secrets.idp]\nenv = 'IDP_SECRET'\n"
    (upstream,) = load(tmp_path / "hubbub.toml", text).upstreams
    assert upstream.remote is not None
    assert upstream.remote.secrets is not None
    assert isinstance(upstream.remote.auth, OAuth)
    provider = upstream.remote.auth.identity_provider
    assert provider is not None
    assert isinstance(provider.client_secret, SecretTemplate)
    assert provider.client_secret.names == ("idp",)


def test_the_secret_at_an_identity_provider_can_be_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDP_SECRET", "the-secret-at-the-provider")
    (upstream,) = load(tmp_path / "hubbub.toml", ENTERPRISE.replace("VALUE", "${IDP_SECRET}")).upstreams
    assert upstream.remote is not None
    assert isinstance(upstream.remote.auth, OAuth)
    provider = upstream.remote.auth.identity_provider
    assert provider is not None
    assert isinstance(provider.client_secret, Secret)
    assert provider.client_secret.reveal() == "the-secret-at-the-provider"


def test_with_tenants_a_literal_secret_at_an_identity_provider_is_refused(tmp_path: Path) -> None:
    assert load(tmp_path / "hubbub.toml", ENTERPRISE).upstreams
    with pytest.raises(SettingsError, match=r"there.oauth.identity_provider.client_secret contains a secret"):
        load(tmp_path / "hubbub.toml", TENANTS + ENTERPRISE)


def test_with_tenants_literal_secrets_of_variables_urls_and_mcp_json_are_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "hubbub.toml", tmp_path / "mcp.json"
    with pytest.raises(SettingsError, match=r"servers.x.env.API_TOKEN contains a secret"):
        load(path, f'{TENANTS}[servers.x]\ncommand = "cat"\nenv = {{API_TOKEN = "something"}}\n')
    with pytest.raises(SettingsError, match=r"servers.x.url contains a secret"):
        load(path, f'{TENANTS}[servers.x]\nurl = "https://example.com/mcp?key=something"\n')
    other.write_bytes(msgspec.json.encode({"mcpServers": {"x": {"command": "cat", "env": {"API_TOKEN": "s"}}}}))
    with pytest.raises(SettingsError, match=r"x: env.API_TOKEN contains a secret"):
        load(path, TENANTS, str(other))
    other.write_bytes(
        msgspec.json.encode({"mcpServers": {"x": {"command": "cat", "env": {"API_TOKEN": "${secret:key}"}}}})
    )
    (config,) = load(path, f"{TENANTS}[secrets.key]\nenv = 'X'\n", str(other)).upstreams
    assert config.remote is not None
    assert config.remote.secrets is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[secrets.key]\n", "set one of env, file, keyring and command"),
        ('[secrets.key]\nenv = "A"\nfile = "b"\n', "set only one of"),
        ('[secrets."a b"]\nenv = "A"\n', "not a valid name"),
        ('[secrets.key]\nenv = "A"\ntenants = ["b"]\n', "unknown tenant 'b'"),
        ('[secrets.key]\nenv = "A"\n[secrets.key.tenant.b]\nenv = "B"\n', "unknown tenant 'b'"),
        ('[secrets.key]\nenv = "A"\nvalue = "x"\n', "secrets.key.value is not a setting"),
    ],
)
def test_wrong_settings_are_refused_with_their_place(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path / "hubbub.toml", text + TENANTS)
    assert expected in raised.value.message
    assert "secrets." in raised.value.message


def test_a_config_without_references_loads_no_governance() -> None:
    code = "import sys, hubbub.assembly.hub_config; print('hubbub.governance' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


@pytest.mark.requirement("K2")
def test_a_secret_stays_hidden_when_it_is_printed_or_copied() -> None:
    secret = Secret("hidden-value")
    assert "hidden-value" not in f"{secret!r} {secret} {[secret]}"
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
