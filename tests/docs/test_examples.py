"""The examples, and the pack that the page on packs shows, served as their readers would."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import ROOT, blocks_of

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def ask(message: bytes, *arguments: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", "serve", *arguments, "--transport", "stdio"],
        input=message, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)["result"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_can_be_served(example: Path, tmp_path: Path) -> None:
    assert ask(LIST, str(example), folder=tmp_path)["tools"]


def test_the_pack_of_the_page_is_found_and_takes_its_settings(tmp_path: Path) -> None:
    blocks = {block.title: block.text for block in blocks_of(ROOT / "docs/packs.md") if block.title is not None}
    source = tmp_path / "src"
    (source / "tides").mkdir(parents=True)
    (source / "tides/pack.py").write_text(blocks["src/tides/pack.py"])
    (tmp_path / "hubbub.toml").write_text(blocks["hubbub.toml"])
    # What pip leaves of the page's pyproject.toml.
    (source / "tides-1.0.0.dist-info").mkdir()
    (source / "tides-1.0.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: tides\nVersion: 1.0.0\n")
    entry = blocks["pyproject.toml"].split('[project.entry-points."hubbub.packs"]\n')[1].replace('"', "")
    (source / "tides-1.0.0.dist-info/entry_points.txt").write_text(f"[hubbub.packs]\n{entry}")
    call = b'{"jsonrpc":"2.0","id":1,"method":"tide"}\n'
    assert ask(call, "--pack", "tides", folder=tmp_path) == "6 m at Dover"
    assert ask(call, "--pack", "tides", "--harbour", "Brest", folder=tmp_path) == "6 m at Brest"
