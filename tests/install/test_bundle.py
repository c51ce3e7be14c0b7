"""The bundle that `make bundle` writes: valid for mcpb, and it runs where only uv and Python are installed."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import jsonschema_rs
import pytest
from tests.install.client_programs import provide_program
from tests.install.server_json_schema import SERVER_JSON

from hubbub import Client, ServerConfig, __version__

ROOT = Path(__file__).parents[2]
INSTALL_TIMEOUT_S = 240
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


class Bundle(NamedTuple):
    path: Path
    unpacked: Path
    manifest: dict[str, Any]
    server_json: dict[str, Any]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("bundle")
    subprocess.run(
        [sys.executable, str(ROOT / "scripts/bundle.py"), str(folder)],
        capture_output=True, timeout=INSTALL_TIMEOUT_S, check=True,
    )  # fmt: skip
    path = folder / f"hubbub-{__version__}.mcpb"
    unpacked = folder / "unpacked with a space"
    with ZipFile(path) as archive:
        archive.extractall(unpacked)
    manifest = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
    return Bundle(path, unpacked, manifest, json.loads((folder / "server.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a uv in a new environment, in which nothing else is installed."""
    folder = tmp_path_factory.mktemp("uv")
    venv.create(folder)
    pinned = re.search(r"UV_VERSION=(\S+)", (ROOT / "scripts/lock").read_text(encoding="utf-8"))
    assert pinned is not None
    done = subprocess.run(
        [*PIP, "--python", str(folder / "bin/python"), "install", "--quiet", f"uv=={pinned[1]}"],
        capture_output=True, encoding="utf-8", timeout=INSTALL_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"uv cannot be installed here: {done.stderr.strip()[-300:]}")
    return folder / "bin"


def read_pip_option(name: str) -> str:
    done = subprocess.run(
        [*PIP, "config", "get", f"global.{name}"], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    return done.stdout.strip()


def clean_environment(uv: Path, home: Path) -> dict[str, str]:
    """Variables of a new user, whose uv finds packages where pip finds them."""
    indexes = {
        "UV_DEFAULT_INDEX": read_pip_option("index-url"),
        "UV_INDEX": read_pip_option("extra-index-url"),
        "UV_FIND_LINKS": read_pip_option("find-links"),
    }
    return {
        "PATH": os.pathsep.join([str(uv), os.environ["PATH"]]),
        "HOME": str(home),
        "UV_CACHE_DIR": str(home / "uv-cache"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "true",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        **{name: value for name, value in indexes.items() if value},
    }


def fill_in(text: str, bundle: Bundle, user_config: dict[str, str]) -> str:
    """Replace the placeholders as a client does, with the user's values or the defaults."""
    values = {key: field["default"] for key, field in bundle.manifest["user_config"].items()} | user_config
    text = text.replace("${__dirname}", str(bundle.unpacked))
    return re.sub(r"\$\{user_config\.(\w+)\}", lambda found: str(values[found[1]]), text)


def test_mcpb_accepts_and_unpacks_it(bundle: Bundle, tmp_path: Path) -> None:
    mcpb = provide_program("mcpb", tmp_path)
    checked = mcpb.run("validate", str(bundle.unpacked / "manifest.json"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = mcpb.run("unpack", str(bundle.path), str(tmp_path / "unpacked"))
    assert done.returncode == 0, done.stdout + done.stderr
    names = {path.name for path in (tmp_path / "unpacked").iterdir()}
    assert names == {path.name for path in bundle.unpacked.iterdir()}


def test_the_manifest_says_what_pyproject_says(bundle: Bundle) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert bundle.manifest["version"] == __version__
    assert bundle.manifest["description"] == project["description"]
    assert (bundle.unpacked / bundle.manifest["server"]["entry_point"]).is_file()
    assert bundle.manifest["user_config"]["join_token_secret"]["sensitive"] is True


def test_the_published_server_json_names_the_repository_and_the_bundle(bundle: Bundle) -> None:
    jsonschema_rs.validate(SERVER_JSON, bundle.server_json)
    committed = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    assert bundle.server_json.items() > {**committed, "packages": bundle.server_json["packages"]}.items()
    own, added = bundle.server_json["packages"]
    assert [own] == committed["packages"]
    assert added["fileSha256"] == hashlib.sha256(bundle.path.read_bytes()).hexdigest()
    assert added["identifier"].startswith(bundle.server_json["repository"]["url"])
    assert added["identifier"].endswith(bundle.path.name)


def test_the_same_sources_give_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "scripts/bundle.py"), str(tmp_path)],
        capture_output=True, timeout=INSTALL_TIMEOUT_S, check=True,
    )  # fmt: skip
    assert (tmp_path / bundle.path.name).read_bytes() == bundle.path.read_bytes()


async def test_it_installs_and_runs_in_a_clean_environment(bundle: Bundle, uv: Path, tmp_path: Path) -> None:
    config = bundle.manifest["server"]["mcp_config"]
    env = {name: fill_in(value, bundle, {"packs": "demo,tabletop"}) for name, value in config["env"].items()}
    server = ServerConfig(
        id="bundle",
        command=str(uv / config["command"]),  # found on the PATH of a client
        args=[fill_in(argument, bundle, {}) for argument in config["args"]],
        env={**clean_environment(uv, tmp_path), **env},
        timeout_s=INSTALL_TIMEOUT_S,
    )
    async with Client(server) as client:
        result = await client.call_tool("echo", {"text": "from a bundle"})
        assert result.structured_content == {"echo": "from a bundle"}
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "health" in names
    assert len(names) > 3, "the tabletop pack, whose libraries the bundle installs, is missing"
    script = bundle.unpacked / ".venv/bin/vdo-mcp-server"
    done = subprocess.run(
        [script, "--tool-profile", "core"], input='{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        env={"HOME": str(tmp_path)}, capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "vdo_connect" in done.stdout
