"""`opencode.jsonc` of this repository, with which opencode offers the tabletop tools to contributors."""

import os
import subprocess
from pathlib import Path

from hubbub.install.clients import find_client
from hubbub.install.documents import parse
from hubbub.install.entries import read_entries

ROOT = Path(__file__).parents[2]
FILE = ROOT / "opencode.jsonc"


def test_it_has_comments_and_names_a_command_that_exists() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert "//" in text.replace("://", "")
    (entry,) = read_entries(find_client("opencode"), parse(text, "json"))
    assert (entry.name, entry.is_enabled) == ("hubbub-tabletop", True)
    (command,) = entry.command
    program = ROOT / command
    assert os.access(program, os.X_OK)
    subprocess.run(["bash", "-n", str(program)], timeout=60, check=True)


def test_it_is_a_file_that_opencode_reads_in_a_project() -> None:
    assert FILE.name in find_client("opencode").project
