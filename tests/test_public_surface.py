"""What users rely on: the public names, the commands, the flags, the settings. Changing these lists is a decision."""

import ast
import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import hubbub
from hubbub.cli.group import COMMANDS
from hubbub.cli.serve import command as serve
from hubbub.settings import ServeSettings, known_variables
from hubbub.settings.fields import settings_of
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.servers import ServerSettings, ToolSettings

ROOT = Path(__file__).parents[1]

NAMES = [
    "Allow",
    "Annotations",
    "Ask",
    "Audio",
    "CacheHint",
    "Catalog",
    "Check",
    "Client",
    "Confirm",
    "Context",
    "ContinuationRefused",
    "Definition",
    "DefinitionError",
    "Deny",
    "Elicited",
    "EmbeddedResource",
    "ExecutorBuilder",
    "Fleet",
    "Health",
    "HubbubError",
    "Icon",
    "Image",
    "LoopOptions",
    "MissingCapability",
    "ModelError",
    "OpenAIChat",
    "Pack",
    "PromptMessage",
    "ProvidedResource",
    "Question",
    "ResourceContents",
    "ResourceDetails",
    "ResourceLink",
    "ResourceProvider",
    "SamplingMessage",
    "Secret",
    "Server",
    "ServerConfig",
    "SettingsError",
    "Snapshot",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolLoopRunner",
    "ToolRegistryBuilder",
    "ToolUseError",
    "ToolsBuilder",
    "View",
    "__version__",
    "run",
    "setting",
]

FLAGS = [
    "TARGET",
    "--transport",
    "--host",
    "--port",
    "--http-addr",
    "--pack",
    "--tool-profile",
    "--response",
    "--config",
    "--mcp-json",
    "--view",
    "--alone",
    "--insecure",
    "--allowed-host",
    "--allowed-origin",
    "--proxied-by",
    "--key-file",
    "--jwt-keys",
    "--jwt-issuer",
    "--jwt-audience",
    "--limit",
    "--max-sessions",
    "--session-idle-s",
    "--max-streams",
    "--drain-s",
    "--max-connections",
    "--max-head-bytes",
    "--head-s",
    "--body-s",
    "--slow-reader-s",
    "--max-queue-bytes",
    "--max-stored-events",
    "--max-stored-bytes",
    "--sealing-key-file",
    "--max-message-bytes",
    "--log-level",
    "--log-format",
    "--tool-names",
]

KEYS = [
    "target",
    "transport",
    "host",
    "port",
    "http_addr",
    "pack",
    "tool_profile",
    "response",
    "config",
    "mcp_json",
    "view",
    "alone",
    "insecure",
    "allowed_hosts",
    "allowed_origins",
    "proxied_by",
    "key_file",
    "jwt_keys",
    "jwt_issuer",
    "jwt_audience",
    "limits",
    "max_sessions",
    "session_idle_s",
    "max_streams",
    "drain_s",
    "max_connections",
    "max_head_bytes",
    "head_s",
    "body_s",
    "slow_reader_s",
    "max_queue_bytes",
    "max_stored_events",
    "max_stored_bytes",
    "sealing_key_file",
    "max_message_bytes",
    "log_level",
    "log_format",
    "tool_names",
]


SERVER_KEYS = [
    "url",
    "transport",
    "headers",
    "command",
    "args",
    "env",
    "pack",
    "target",
    "cwd",
    "timeout_s",
    "protocol_version",
    "allow_private_network",
    "max_response_bytes",
    "enabled",
    "max_calls",
    "sessions",
    "max_sessions",
    "prefix",
    "prefix_text",
    "include",
    "exclude",
    "read_only",
    "tools",
]

SHOWN_TOOL_KEYS = ["name", "description", "hidden"]

HUB_KEYS = [
    "search",
    "name_limit",
    "list_s",
    "breaker_failures",
    "result_bytes",
    "result_ttl_s",
    "result_total_bytes",
    "reload",
]

VIEW_KEYS = ["servers", "include", "exclude", "read_only", "search", "descriptions"]

SHARED_FLAGS = [
    "--json",
    "--timeout",
    "--header",
    "--header-env",
    "--env",
    "--mcp-json",
    "--config",
    "--protocol-version",
    "--allow-private-network",
    "-v",
]

CLIENT_FLAGS = {
    "agent": [
        "--model-url",
        "--model",
        "--key-env",
        "--server",
        "--allow",
        "--deny",
        "--system",
        "--max-turns",
        "--yes",
        "--no-stream",
    ],
    "call": ["--args", "--save-to"],
    "prompts": ["--save-to"],
    "read": ["--save-to"],
    "tools": [],
}


def test_the_public_names_are_these() -> None:
    assert hubbub.__all__ == sorted(NAMES)
    assert set(NAMES) <= set(dir(hubbub))


def test_every_public_name_is_there() -> None:
    for name in NAMES:
        assert getattr(hubbub, name).__class__ is not None
    assert not hasattr(hubbub, "Nonsense")


def test_type_checkers_see_the_names_where_they_are_loaded_from() -> None:
    tree = ast.parse((ROOT / "src/hubbub/__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        node.module: tuple(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert seen == hubbub._HOMES


def test_packs_can_keep_state_for_each_caller() -> None:
    """What a pack builds on besides the decorators: whose state, when it ends, who is told, what goes in `_meta`."""
    assert isinstance(hubbub.Context.scope, property)
    assert "result_meta" in inspect.getsource(hubbub.Context.__init__)
    assert list(inspect.signature(hubbub.Server.on_scope_end).parameters) == ["self", "listener"]
    assert list(inspect.signature(hubbub.Server.resource_updated).parameters) == ["self", "uri", "scope"]
    server = hubbub.Server("x")
    assert server.sealer.open("purpose", server.sealer.seal("purpose", {"a": 1}, lifetime_s=60)) == {"a": 1}
    options = inspect.signature(hubbub.Tool).parameters
    assert {"plain_code", "invalid_code", "fails_as_result", "checks_arguments"} <= set(options)


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, hubbub; print([name for name in sys.modules if name.startswith(('hubbub.', 'msgspec'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=30, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == hubbub.__version__


def test_the_commands_are_these() -> None:
    assert sorted(COMMANDS) == ["agent", "call", "doctor", "key", "plan", "prompts", "read", "serve", "tools"]


def test_the_flags_of_serve_are_these() -> None:
    assert [parameter.opts[0] for parameter in serve.params] == FLAGS


def test_the_settings_of_serve_are_these() -> None:
    assert [setting.key for setting in settings_of(ServeSettings)] == KEYS
    ours = {name for name in known_variables(ServeSettings) if name.startswith("HUBBUB_")}
    assert ours == {f"HUBBUB_{key.upper()}" for key in KEYS}
    assert known_variables(ServeSettings) - ours == {"VDON_MCP_MAX_MESSAGE_BYTES", "VDON_MCP_TOOL_PROFILE"}


def test_the_settings_of_a_server_that_we_connect_to_are_these() -> None:
    assert [setting.key for setting in settings_of(ServerSettings)] == SERVER_KEYS
    assert "HUBBUB_SERVERS__FILES__URL" in known_variables(ServerSettings, ("servers", "files"))


def test_the_settings_of_a_hub_are_these() -> None:
    assert [setting.key for setting in settings_of(HubSettings)] == HUB_KEYS
    assert [setting.key for setting in settings_of(ViewSettings)] == VIEW_KEYS
    assert [setting.key for setting in settings_of(ToolSettings)] == SHOWN_TOOL_KEYS
    assert "HUBBUB_HUB__SEARCH" in known_variables(HubSettings, ("hub",))


@pytest.mark.parametrize("kind", [ServerSettings, ToolSettings, HubSettings, ViewSettings])
def test_every_setting_that_only_a_file_has_says_what_it_means(kind: type[msgspec.Struct]) -> None:
    for setting in settings_of(kind):
        assert setting.description.endswith("."), setting.name
        assert setting.flag is None


@pytest.mark.parametrize("name", ["agent", "call", "prompts", "read", "tools"])
def test_the_flags_of_every_client_command_are_these(name: str) -> None:
    command = import_module(f"hubbub.cli.{name}").command
    flags = [parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("-")]
    assert flags == [*CLIENT_FLAGS[name], *SHARED_FLAGS]


def test_every_setting_says_what_it_means() -> None:
    for setting in settings_of(ServeSettings):
        assert setting.description.endswith("."), setting.name
        # A flag that is repeated is in the singular, its key in the plural where both read better so.
        option = f"--{setting.key.replace('_', '-')}"
        assert setting.flag in ("TARGET" if setting.key == "target" else option, option.removesuffix("s"))
