"""The user's folders: their paths and permissions."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs import user_config_path

from hubbub.pack import make_private_folder
from hubbub.settings.folders import user_settings_path


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="asks platformdirs itself there")
def test_the_users_file_is_in_the_folder_of_platformdirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in (str(tmp_path), "", "   "):
        monkeypatch.setenv("XDG_CONFIG_HOME", folder)
        assert user_settings_path() == str(user_config_path("hubbub", appauthor=False) / "hubbub.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert user_settings_path() == str(user_config_path("hubbub", appauthor=False) / "hubbub.toml")


def test_a_relative_xdg_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", ".config")
    assert user_settings_path() == str(tmp_path / ".config" / "hubbub" / "hubbub.toml")


def folder_modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in sorted(folder.rglob("*"))
        if path.is_dir()
    }


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes there")
def test_created_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private_folder(tmp_path / "share" / "hubbub" / "trusted")
    finally:
        os.umask(before)
    assert folder_modes(tmp_path) == {"share": "0o700", "share/hubbub": "0o700", "share/hubbub/trusted": "0o700"}


def test_the_mode_of_an_existing_folder_is_not_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            make_private_folder(path)


@pytest.mark.skipif(os.name != "posix", reason="folders have no modes there")
def test_a_server_with_umask_0_creates_private_folders(tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text('[servers.table]\npack = "tabletop"\n')
    folders = {f"XDG_{kind}_HOME": str(tmp_path / "home" / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
    list_campaigns = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_campaigns"}}\n'
    commands = (["trust", "--yes"], ["serve", "--transport", "stdio"])
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "hubbub", *command], input=list_campaigns, cwd=tmp_path, umask=0,
            env=os.environ | folders, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
    found = folder_modes(tmp_path / "home")
    assert {"data/hubbub/trusted", "state/hubbub/hubs"} <= found.keys()
    assert set(found.values()) == {"0o700"}
