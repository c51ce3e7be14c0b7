"""Write the MCPB bundle, and the `server.json` that names it, into a folder.

    python scripts/bundle.py [FOLDER]     default: dist

The bundle is of the type `uv`: it holds the wheel of Hubbub and a project that depends on it, with the versions of
requirements/run.txt, and the client installs them with uv. So one bundle fits every operating system. The same sources
give the same bytes.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parents[1]
ENTRY_POINT = "main.py"
MAIN = """\
\"\"\"Serves Hubbub on stdio, for the client that installed this bundle.\"\"\"

import sys

from hubbub.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", "--transport", "stdio"]))
"""
# wrtc has no wheels for macOS.
DEPENDENCIES = (
    "hubbub[tabletop,keyring]=={version}",
    "hubbub[peers]=={version}; sys_platform != 'darwin'",
    "hubbub[peers-aiortc]=={version}; sys_platform == 'darwin'",
)
USER_CONFIG = {
    "config": {
        "type": "file",
        "title": "Settings file",
        "description": "A hubbub.toml, for example with servers that Hubbub puts behind one entry. "
        "Without one, Hubbub reads the hubbub.toml in your configuration folder.",
        "required": False,
        "default": "",
    },
    "packs": {
        "type": "string",
        "title": "Packs",
        "description": "Packs of tools to serve, separated by commas: demo, peers, activity, tabletop. "
        "Empty: every pack that can run.",
        "required": False,
        "default": "",
    },
    "join_token_secret": {
        "type": "string",
        "title": "Join token secret",
        "description": "The secret that all agents in your rooms share, for the pack peers.",
        "sensitive": True,
        "required": False,
        "default": "",
    },
}
# An empty variable counts as unset.
ENVIRONMENT = {
    "HUBBUB_CONFIG": "${user_config.config}",
    "HUBBUB_PACK": "${user_config.packs}",
    "VDON_MCP_JOIN_TOKEN_SECRET": "${user_config.join_token_secret}",
}


def read_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def supported_pythons(project: dict[str, Any]) -> str:
    """The versions that the classifiers name: uv fetches one of them if the newest installed Python is another."""
    found = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["classifiers"]))
    return f">=3.{min(map(int, found))},<3.{max(map(int, found)) + 1}"


def locked_versions() -> list[str]:
    """The requirements of run.txt without their hashes."""
    lines = (ROOT / "requirements/run.txt").read_text(encoding="utf-8").splitlines()
    return [line.rstrip("\\ ") for line in lines if line and line[0] not in "# -"]


def make_pyproject(project: dict[str, Any], version: str, wheel: str) -> str:
    def quote(items: list[str]) -> str:
        return "".join(f"    {json.dumps(item)},\n" for item in items)

    return f"""\
[project]
name = "hubbub-bundle"
version = "{version}"
requires-python = "{supported_pythons(project)}"
dependencies = [
{quote([each.format(version=version) for each in DEPENDENCIES])}]

[tool.uv]
package = false
constraint-dependencies = [
{quote(locked_versions())}]

[tool.uv.sources]
hubbub = {{ path = "{wheel}" }}
"""


def make_manifest(project: dict[str, Any], version: str) -> dict[str, Any]:
    urls = project["urls"]
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": "Hubbub",
        "version": version,
        "description": project["description"],
        "author": {"name": project["authors"][0]["name"]},
        "repository": {"type": "git", "url": urls["Repository"]},
        "documentation": urls["Documentation"],
        "support": urls["Issues"],
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--quiet", "--no-dev", "--project", "${__dirname}", f"${{__dirname}}/{ENTRY_POINT}"],
                "env": ENVIRONMENT,
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "win32", "linux"],
            "runtimes": {"python": supported_pythons(project)},
        },
        "user_config": USER_CONFIG,
    }


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    """Write the files in a fixed order and with a fixed time, so that the same files give the same bytes."""
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            info = ZipInfo(name)
            info.compress_type = ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)


def make_server_json(project: dict[str, Any], version: str, bundle: Path) -> dict[str, Any]:
    """Add to the `server.json` of the repository what the build yields, and what only pyproject.toml may name."""
    manifest: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    urls = project["urls"]
    manifest["repository"] = {"url": urls["Repository"], "source": "github"}
    manifest["websiteUrl"] = urls["Documentation"]
    manifest["packages"].append(
        {
            "registryType": "mcpb",
            "identifier": f"{urls['Repository']}/releases/download/v{version}/{bundle.name}",
            "version": version,
            "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
            "transport": {"type": "stdio"},
        }
    )
    return manifest


def main() -> None:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    project = read_project()
    with tempfile.TemporaryDirectory() as build:
        wheel = build_wheel(Path(build))
        version = wheel.name.split("-")[1]
        files = {
            wheel.name: wheel.read_bytes(),
            "manifest.json": json.dumps(make_manifest(project, version), indent=2).encode() + b"\n",
            "pyproject.toml": make_pyproject(project, version, wheel.name).encode(),
            ENTRY_POINT: MAIN.encode(),
            "LICENSE": (ROOT / "LICENSE").read_bytes(),
        }
    bundle = folder / f"hubbub-{version}.mcpb"
    write_zip(bundle, files)
    server_json = folder / "server.json"
    server_json.write_text(json.dumps(make_server_json(project, version, bundle), indent=2) + "\n", encoding="utf-8")
    print(f"{bundle} ({bundle.stat().st_size:,} bytes)\n{server_json}")


if __name__ == "__main__":
    main()
