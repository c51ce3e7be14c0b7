"""Commands of programs that run in another folder than the hub."""

from pathlib import Path

import pytest

from hubbub import ServerConfig
from hubbub.hub.forwarding.process_folder import add_process_folders


def test_only_paths_of_existing_files_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("server.py", "docs", "bin"):
        (tmp_path / name).mkdir()
    arguments = ["server.py", "./docs", ".", "docs", "none.py", "@scope/package", "--dir=./docs", "a\0b.py", "." * 5000]
    config, folder = add_process_folders(ServerConfig(id="a", command="bin/start", args=arguments))
    assert config.command == str(tmp_path / "bin/start")
    assert config.args == (
        str(tmp_path / "server.py"), str(tmp_path / "docs"), str(tmp_path),
        "docs", "none.py", "@scope/package", "--dir=./docs", "a\0b.py", "." * 5000,
    )  # fmt: skip
    assert config.chdir == str(Path(folder) / "work")
    named, _ = add_process_folders(ServerConfig(id="a", command="node", args=arguments, chdir="docs"))
    assert (named.command, list(named.args), named.chdir) == ("node", arguments, "docs")
