"""The public API: names, commands, flags and settings. A change of these lists is a change for users."""

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_overloads

import msgspec
import pytest
from tests.docs.blocks import PAGES, page_name, read_blocks
from tests.public_types import ERRORS, mentions, names_for_type_checkers

import hubbub
import hubbub.pack
import hubbub.testing
from hubbub import HubSettings, Tool, ToolSettings, ViewSettings
from hubbub.cli.group import COMMANDS
from hubbub.cli.serve import command as serve
from hubbub.server.prompts import Prompt
from hubbub.server.resources import ResourceFunction
from hubbub.settings import ServeSettings, known_variables
from hubbub.settings.fields import list_settings
from hubbub.settings.servers import ServerSettings

ROOT = Path(__file__).parents[1]

FLAGS = [
    "TARGET",
    "--transport",
    "--host",
    "--port",
    "--http-addr",
    "--unix-socket",
    "--unix-socket-mode",
    "--reuse-port",
    "--tls-cert-file",
    "--tls-key-file",
    "--tls-client-ca-file",
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
    "--jwt-tenant-claim",
    "--jwt-user-claim",
    "--jwt-scope-claim",
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
    "--idle-s",
    "--max-pipelined-requests",
    "--max-unfinished-bytes",
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
    "unix_socket",
    "unix_socket_mode",
    "reuse_port",
    "tls_cert_file",
    "tls_key_file",
    "tls_client_ca_file",
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
    "jwt_tenant_claim",
    "jwt_user_claim",
    "jwt_scope_claims",
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
    "idle_s",
    "max_pipelined_requests",
    "max_unfinished_bytes",
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
    "oauth",
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
    "output_schemas",
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
        "--images",
        "--yes",
        "--no-stream",
    ],
    "call": ["--args", "--save-to"],
    "prompts": ["--save-to"],
    "read": ["--save-to"],
    "tools": [],
}


PUBLIC_MODULES = {
    "hubbub",
    "hubbub.pack",
    "hubbub.pack.charts",
    "hubbub.pack.http",
    "hubbub.pack.store",
    "hubbub.ports",
    "hubbub.testing",
}
"""Modules that users import from. `hubbub.ports` has the protocols that a transport or a middleware implements."""

ENGINE = {
    "ListenStream.__init__",  # returned by `Client.listen`
    "ServerConfig.egress",  # set from `[egress]` of the settings file
    "View.shows",  # accepts any object with a name and annotations
}
"""Public names that users do not call."""


def test_every_public_name_is_what_type_checkers_see() -> None:
    source_modules = names_for_type_checkers(hubbub)
    assert sorted([*source_modules, "__version__"]) == sorted(hubbub.__all__)
    for name, source_module in source_modules.items():
        assert getattr(hubbub, name) is getattr(import_module(source_module), name)
    assert set(hubbub.__all__) <= set(dir(hubbub))
    with pytest.raises(AttributeError, match="Nonsense"):
        hubbub.Nonsense  # noqa: B018


def test_every_type_and_error_that_a_public_name_mentions_is_public() -> None:
    modules = [hubbub, hubbub.pack, hubbub.testing]
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    missing = {
        f"{where} mentions {source_module}.{name}"
        for one, value in public.items()
        for where, source_module, name in mentions(one, value)
        if where not in ENGINE and source_module not in PUBLIC_MODULES and name not in public
    }
    assert missing == set()


def test_mentions_are_found_in_signatures_fields_bases_and_docstrings() -> None:
    def found(value: Any) -> set[str]:
        return {name for _, _, name in mentions("x", value)}

    assert "SettingsError" in found(hubbub.ServerConfig)  # in the docstring of a class
    assert "ConnectionClosed" in found(hubbub.Client)  # in the docstring of a method
    assert {"ToolResult", "ElicitationRequest", "ProgressParams", "ClientTransport"} <= found(
        hubbub.Client
    )  # behind aliases
    assert "RequestError" in found(hubbub.InvalidParams)  # a base
    assert "Completion" in found(hubbub.CompletionResult)  # a field of a base
    assert "Server" in found(hubbub.run)  # of a function


def test_pages_and_examples_import_only_what_is_public() -> None:
    sources = {page_name(page): read_blocks(page) for page in PAGES}
    code = [(name, block.text) for name, blocks in sources.items() for block in blocks if block.language == "python"]
    code += [(path.name, path.read_text(encoding="utf-8")) for path in (ROOT / "examples").glob("*.py")]
    imported = {
        (name, node.module, alias.name)
        for name, text in code
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hubbub"
        for alias in node.names
    }
    assert len(imported) > 50
    assert {entry for entry in imported if entry[1] not in PUBLIC_MODULES} == set()


def test_every_error_that_the_docs_name_can_be_imported_from_the_package() -> None:
    words = {word for page in PAGES for word in re.findall(r"\b[A-Z]\w+", page.read_text(encoding="utf-8"))}
    named = words & ERRORS
    assert {"DeadlineExceeded", "RemoteError", "SessionLost", "TransportError", "UpstreamUnavailable"} <= named
    assert named <= set(hubbub.__all__)


def test_the_defaults_of_the_client_are_public() -> None:
    config = hubbub.ServerConfig(id="here", command="server")
    assert config.timeout_s == hubbub.DEFAULT_TIMEOUT_S
    assert hubbub.DEFAULT_PROTOCOL_VERSION == "2025-11-25"


@pytest.mark.parametrize(
    ("decorator", "made", "only_made"),
    [
        (hubbub.Server.tool, Tool, {"checks_arguments"}),
        (hubbub.Server.resource, ResourceFunction, set()),
        (hubbub.Server.prompt, Prompt, set()),
    ],
)
def test_decorators_accept_every_option_of_their_class(decorator: Any, made: type, only_made: set[str]) -> None:
    offered = _options(decorator)
    assert offered == {name: item for name, item in _options(made).items() if name not in only_made}
    assert not any(item.kind is item.VAR_KEYWORD for item in offered.values())
    for overload in get_overloads(decorator)[1:]:
        assert _options(overload) == offered


def _options(function: Any) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: item for name, item in parameters.items() if name not in ("self", "function")}


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, hubbub; print([name for name in sys.modules if name.startswith(('hubbub.', 'msgspec'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_that_of_the_distribution() -> None:
    assert version("hubbub") == hubbub.__version__, "run `make setup` after a change of the version"


def test_the_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    newest, date = headings[1]
    assert newest == hubbub.__version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)


def test_the_commands_are_these() -> None:
    assert sorted(COMMANDS) == [
        "agent",
        "approvals",
        "audit",
        "call",
        "doctor",
        "import",
        "install",
        "key",
        "keys",
        "login",
        "logout",
        "pins",
        "plan",
        "policy",
        "prompts",
        "read",
        "serve",
        "sessions",
        "tools",
        "trust",
        "whoami",
    ]


def test_the_flags_of_serve_are_these() -> None:
    assert [parameter.opts[0] for parameter in serve.params] == FLAGS


def test_the_settings_of_serve_are_these() -> None:
    assert [setting.key for setting in list_settings(ServeSettings)] == KEYS
    assert known_variables(ServeSettings) == {f"HUBBUB_{key.upper()}" for key in KEYS}


def test_the_settings_of_a_server_that_we_connect_to_are_these() -> None:
    assert [setting.key for setting in list_settings(ServerSettings)] == SERVER_KEYS
    assert "HUBBUB_SERVERS__FILES__URL" in known_variables(ServerSettings, ("servers", "files"))


def test_the_settings_of_a_hub_are_these() -> None:
    assert [setting.key for setting in list_settings(HubSettings)] == HUB_KEYS
    assert [setting.key for setting in list_settings(ViewSettings)] == VIEW_KEYS
    assert [setting.key for setting in list_settings(ToolSettings)] == SHOWN_TOOL_KEYS
    assert "HUBBUB_HUB__SEARCH" in known_variables(HubSettings, ("hub",))


@pytest.mark.parametrize("kind", [ServerSettings, ToolSettings, HubSettings, ViewSettings])
def test_every_file_only_setting_has_a_description(kind: type[msgspec.Struct]) -> None:
    for setting in list_settings(kind):
        assert setting.description.endswith("."), setting.name
        assert setting.flag is None


@pytest.mark.parametrize("name", ["agent", "call", "prompts", "read", "tools"])
def test_the_flags_of_every_client_command_are_these(name: str) -> None:
    command = import_module(f"hubbub.cli.{name}").command
    flags = [parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("-")]
    assert flags == [*CLIENT_FLAGS[name], *SHARED_FLAGS]


def test_every_setting_has_a_description() -> None:
    for setting in list_settings(ServeSettings):
        assert setting.description.endswith("."), setting.name
        # A flag that is repeated is in the singular, its key in the plural where both read better so.
        option = f"--{setting.key.replace('_', '-')}"
        assert setting.flag in ("TARGET" if setting.key == "target" else option, option.removesuffix("s"))
