import concurrent.futures
import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub import Server, SettingsError
from hubbub.security.sealer import Sealer, load_or_create_key, read_key


def test_a_key_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "sealing.key"
    key = load_or_create_key(path)
    assert load_or_create_key(path) == key == read_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_start_at_the_same_time_get_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "sealing.key"
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(load_or_create_key, [path] * 64))) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_temporary_key_is_used_if_none_can_be_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "hubbub.security"):
        assert load_or_create_key(tmp_path / "file" / "key") != load_or_create_key(tmp_path / "file" / "key")
    assert {record.message for record in caplog.records} == {"sealing_key_not_saved"}


@pytest.mark.parametrize("text", ["", "ab", "x" * 64, "ab" * 33, "ä"])
def test_a_file_without_a_valid_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(SettingsError, match="64 hex digits"):
        Server("x").asgi(sealing_key_file=str(tmp_path / "key"))


def test_a_missing_file_of_the_settings_is_reported_with_the_command_that_creates_it(tmp_path: Path) -> None:
    path = tmp_path / "my keys"
    with pytest.raises(SettingsError) as caught:
        Server("x").asgi(sealing_key_file=str(path))
    prefix, _, command = caught.value.message.partition("; create it with: ")
    assert prefix == f"sealing_key_file: {path} cannot be read: No such file or directory"
    subprocess.run(command, shell=True, check=True)
    Server("x").asgi(sealing_key_file=str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_key_of_the_data_folder_is_reported_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sealing.key"
    with pytest.raises(SettingsError) as caught:
        read_key(path)
    assert caught.value.message == f"{path} cannot be read: No such file or directory"


def test_a_configured_key_opens_records_that_another_process_sealed_with_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0b" * 32 + "\n")
    one, other = Server("x"), Server("x")
    for server in (one, other):
        server.asgi(sealing_key_file=str(tmp_path / "key"))
    assert one.sealer.open("cursor", other.sealer.seal("cursor", [1])) == [1]


def test_a_server_made_with_a_sealer_keeps_it() -> None:
    own, other = Sealer(), Sealer()
    given, plain = Server("x", sealer=own), Server("x")
    given.offer_sealer(other)
    plain.offer_sealer(other)
    assert given.sealer is own
    assert plain.sealer is other


def test_the_key_is_read_only_when_something_is_sealed() -> None:
    def load() -> bytes:
        loads.append(1)
        return b"k" * 32

    loads: list[int] = []
    sealer = Sealer(load=load)
    assert not loads
    assert sealer.open("a", sealer.seal("a", 1)) == 1
    assert loads == [1]


def test_the_data_folder_is_resolved_only_when_something_is_sealed(tmp_path: Path) -> None:
    code = (
        "import sys; from hubbub import Server; server = Server('x'); server.asgi();"
        "assert 'platformdirs' not in sys.modules; server.sealer.seal('a', 1)"
    )
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    assert len(list(tmp_path.rglob("sealing.key"))) == 1
