"""`server.json`, with which the MCP registry lists Hubbub."""

import json
import re
import subprocess
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.cli.conftest import clean_environment
from tests.install.server_json_schema import SERVER_JSON

from hubbub import __version__
from hubbub.packs.peers.pack import pack
from hubbub.packs.peers.settings import PeersSettings
from hubbub.settings import ServeSettings
from hubbub.settings.read import known_variables

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manifest() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    return read


def test_it_has_the_form_of_the_registry(manifest: dict[str, Any]) -> None:
    jsonschema_rs.validate(SERVER_JSON, manifest)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "hubbub"},
        {"name": "io.github.a/b/c"},
        {"description": ""},
        {"description": "x" * 101},
        {"version": "^1.0.0"},
        {"packages": [{"registryType": "pypi", "identifier": "hubbub"}]},
        {"packages": [{"registryType": "pypi", "identifier": "hubbub", "transport": {"type": "http"}}]},
        {"packages": [{"registryType": "mcpb", "identifier": "https://example.com/x", "transport": {"type": "stdio"}}]},
        {"repository": {"url": "https://example.com"}},
    ],
    ids=str,
)
def test_the_check_refuses_other_forms(manifest: dict[str, Any], change: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(SERVER_JSON, {**manifest, **change})


def test_the_check_refuses_variables_without_a_name_or_with_a_default_that_is_not_text(
    manifest: dict[str, Any],
) -> None:
    for broken in ({"description": "no name"}, {"name": "X", "default": 1}, {"name": "X", "format": "integer"}):
        changed = deepcopy(manifest)
        changed["packages"][0]["environmentVariables"].append(broken)
        assert not jsonschema_rs.is_valid(SERVER_JSON, changed)


def test_versions_and_names_are_those_of_the_package(manifest: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (package,) = manifest["packages"]
    assert manifest["version"] == package["version"] == __version__
    assert (package["registryType"], package["identifier"]) == ("pypi", project["name"])


def test_the_readme_proves_the_ownership_of_the_name(manifest: dict[str, Any]) -> None:
    """The registry looks for this line in the description of the package, which is the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"<!-- mcp-name: (\S+) -->", readme) == [manifest["name"]]


def test_the_namespace_is_the_owner_of_the_repository(manifest: dict[str, Any]) -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    owner = urls["Repository"].split("/")[3]
    assert manifest["name"].split("/")[0] == f"io.github.{owner}"


def test_every_variable_is_one_that_a_server_reads(manifest: dict[str, Any]) -> None:
    known = known_variables(ServeSettings) | known_variables(PeersSettings, ("packs", "peers"))
    variables = manifest["packages"][0]["environmentVariables"]
    assert {variable["name"] for variable in variables} <= known | pack.variable_aliases.keys()
    assert [each["name"] for each in variables if each.get("isSecret")] == ["VDON_MCP_JOIN_TOKEN_SECRET"]


def test_its_arguments_and_defaults_start_a_server(manifest: dict[str, Any], tmp_path: Path) -> None:
    (package,) = manifest["packages"]
    arguments = [
        part for each in package["packageArguments"] for part in filter(None, (each.get("name"), each["value"]))
    ]
    defaults = {each["name"]: each["default"] for each in package["environmentVariables"] if "default" in each}
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", *arguments],
        input='{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n', cwd=tmp_path,
        env=clean_environment() | defaults | {"HUBBUB_PACK": "peers"},
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "vdo_state_set" in done.stdout
