"""Registering in a client's file and removing it again: nothing else changes, whatever the file looks like."""

import errno
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.install.samples import SAMPLES, client_files

from hubbub import SettingsError, bounds
from hubbub.install.clients import CLIENTS, Client, find_client
from hubbub.install.documents import find_entry, parse, set_entry
from hubbub.install.entries import ServerEntry, container_path, format_entry, read_entries
from hubbub.install.files import BACKUP_SUFFIX
from hubbub.install.machine import Machine
from hubbub.install.registration import apply_install, apply_uninstall, plan_install, plan_uninstall
from hubbub.pack import data_folder

pytestmark = pytest.mark.usefixtures("own_folders")

STDIO = ServerEntry(name="hubbub", command=("/opt/my tools/python", "-m", "hubbub", "serve", "--transport", "stdio"))
NAMES = ("hubbub", "vdo-ninja-mcp", "a.b", "ä ö", 'quo"te')


def write(client: Client, machine: Machine, data: bytes) -> Path:
    path = client.path(machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def install(client: Client, machine: Machine, server: ServerEntry = STDIO) -> None:
    apply_install(plan_install(client, machine, server))


def uninstall(client: Client, machine: Machine, name: str = "hubbub") -> None:
    change = plan_uninstall(client, machine, name)
    assert change is not None
    apply_uninstall(change)


def entries(client: Client, path: Path) -> dict[str, Any]:
    values = parse(path.read_bytes().decode("utf-8-sig"), client.format)
    found: dict[str, Any] = find_entry(values, container_path(client, values)) or {}
    return found


@pytest.mark.parametrize(
    ("client", "data"), list(client_files()), ids=lambda value: value.name if isinstance(value, Client) else None
)
def test_install_then_uninstall_gives_the_same_bytes(client: Client, data: bytes, machine: Machine) -> None:
    path = write(client, machine, data)
    before = entries(client, path)
    install(client, machine)
    assert entries(client, path) == before | {"hubbub": format_entry(client, STDIO)}
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    install(client, machine, ServerEntry(name="hubbub", command=("/usr/bin/hubbub", "serve")))
    uninstall(client, machine)
    assert path.read_bytes() == data


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_other_bytes_stay_when_the_file_changes_in_between(
    client: Client, data: st.DataObject, machine: Machine
) -> None:
    """Several entries, removed in any order, so that no record has the digest of the file."""
    text = data.draw(st.sampled_from(SAMPLES[client.name]))
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    path = write(client, machine, text.encode())
    values = entries(client, path)
    for name in names:
        install(client, machine, ServerEntry(name=name, command=STDIO.command))
    for name in data.draw(st.permutations(names)):
        uninstall(client, machine, name)
        assert name not in entries(client, path)
    assert entries(client, path) == values
    if values:
        assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_file_and_folders_that_were_made_are_removed(client: Client, machine: Machine) -> None:
    install(client, machine)
    assert client.path(machine).stat().st_mode & 0o777 == 0o600
    install(client, machine, ServerEntry(name="hubbub", command=("/usr/bin/hubbub",)))
    uninstall(client, machine)
    assert list(machine.home.rglob("*")) == []


def test_a_file_with_other_entries_is_kept(machine: Machine) -> None:
    client = find_client("cursor")
    install(client, machine)
    install(client, machine, ServerEntry(name="other", command=("x",)))
    uninstall(client, machine)
    assert json.loads(client.path(machine).read_text()) == {"mcpServers": {"other": {"command": "x", "args": []}}}
    uninstall(client, machine, "other")
    assert list(machine.home.rglob("*")) == []


def test_a_second_install_changes_nothing(machine: Machine) -> None:
    for client in CLIENTS:
        install(client, machine)
        before = client.path(machine).stat()
        change = plan_install(client, machine, STDIO)
        assert not change.is_needed
        apply_install(change)
        after = client.path(machine).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_an_entry_written_by_hand_is_replaced_and_nothing_else(machine: Machine) -> None:
    client = find_client("vscode")
    text = '{\n  "servers": {\n    "hubbub": {"command": "old/hubbub"}, // mine\n    "b": {"command": "b"}\n  }\n}\n'
    path = write(client, machine, text.encode())
    install(client, machine)
    assert path.read_text().endswith(', // mine\n    "b": {"command": "b"}\n  }\n}\n')
    uninstall(client, machine)
    assert list(entries(client, path)) == ["b"]


@pytest.mark.parametrize("entry", [{"command": "/usr/bin/gh", "env": {"A": "b"}}, "text", {"url": "https://x.example"}])
def test_an_entry_of_another_server_is_neither_replaced_nor_removed(entry: object, machine: Machine) -> None:
    client = find_client("cursor")
    path = write(client, machine, json.dumps({"mcpServers": {"other": entry}}).encode())
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=r"mcp\.json: the entry 'other' there is not one of `hubbub install`"):
        plan_install(client, machine, ServerEntry(name="other", command=("hubbub",)))
    with pytest.raises(SettingsError, match="remove it by hand"):
        plan_uninstall(client, machine, "other")
    assert path.read_bytes() == before


def test_an_entry_that_the_user_wrote_in_place_of_ours_is_not_removed(machine: Machine) -> None:
    client = find_client("cursor")
    install(client, machine)
    write(client, machine, b'{"mcpServers": {"hubbub": {"command": "mine"}}}')
    with pytest.raises(SettingsError, match="is not one of"):
        plan_uninstall(client, machine, "hubbub")


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("cline", {"autoApprove": ["a"], "disabled": True}),
        ("codex", {"startup_timeout_sec": 99, "tools": {"a": {"approval_mode": "auto"}}}),
        ("goose", {"enabled": False, "timeout": 7, "bundled": None}),
    ],
)
def test_what_the_user_added_to_the_entry_stays_when_it_is_updated(
    name: str, changed: dict[str, Any], machine: Machine
) -> None:
    client = find_client(name)
    install(client, machine)
    path = client.path(machine)
    edited = set_entry(path.read_text(), client.format, (*client.key, "hubbub"), format_entry(client, STDIO) | changed)
    path.write_text(edited)
    assert not plan_install(client, machine, STDIO).is_needed
    other = ServerEntry(name="hubbub", command=("/usr/bin/hubbub", "serve"))
    install(client, machine, other)
    assert entries(client, path)["hubbub"] == format_entry(client, other) | changed


def test_a_server_may_have_the_name_of_the_nested_key(machine: Machine) -> None:
    client = find_client("opencode")
    mine = {"servers": {"type": "local", "command": ["x"]}}
    path = write(client, machine, json.dumps({"mcp": mine}).encode())
    install(client, machine)
    assert json.loads(path.read_text())["mcp"] == mine | {"hubbub": format_entry(client, STDIO)}


def test_a_file_that_was_made_is_kept_if_the_user_commented_it(machine: Machine) -> None:
    client = find_client("cursor")
    install(client, machine)
    path = client.path(machine)
    path.write_text("// mine\n" + path.read_text())
    uninstall(client, machine)
    assert path.read_text().startswith("// mine\n{")


def test_without_a_record_nothing_is_written(machine: Machine) -> None:
    folder = data_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("not a folder")
    with pytest.raises(SettingsError, match=r"--uninstall needs it, so .*mcp\.json is unchanged"):
        install(find_client("cursor"), machine)
    assert list(machine.home.rglob("*")) == []


def test_a_failed_write_leaves_no_record(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    client = find_client("cursor")
    change = plan_install(client, machine, STDIO)
    write(client, machine, b"{}")
    with pytest.raises(SettingsError, match="changed by another program"):
        apply_install(change)
    assert [path for path in data_folder().rglob("*") if path.is_file()] == []


def test_the_last_version_is_kept_as_a_backup(machine: Machine) -> None:
    client = find_client("codex")
    path = write(client, machine, b'model = "x"\n')
    path.chmod(0o640)
    install(client, machine)
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    assert backup.read_bytes() == b'model = "x"\n'
    assert {each.stat().st_mode & 0o777 for each in (path, backup)} == {0o640}
    assert sorted(each.name for each in path.parent.iterdir()) == ["config.toml", f"config.toml{BACKUP_SUFFIX}"]


def test_the_backup_is_of_the_version_before_the_first_entry(machine: Machine) -> None:
    client = find_client("cursor")
    path = write(client, machine, b'{"a": 1}')
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    install(client, machine)
    install(client, machine, ServerEntry(name="hubbub", command=("/usr/bin/hubbub", "serve")))
    install(client, machine, ServerEntry(name="second", command=STDIO.command))
    uninstall(client, machine)
    uninstall(client, machine, "second")
    assert backup.read_bytes() == b'{"a": 1}'
    path.write_bytes(b'{"a": 2}')
    install(client, machine)
    assert backup.read_bytes() == b'{"a": 2}'


def test_a_backup_from_before_an_entry_that_the_user_removed_is_replaced(machine: Machine) -> None:
    client = find_client("cursor")
    path = write(client, machine, b'{"a": 1}')
    install(client, machine)
    path.write_bytes(b'{"a": 2}')
    install(client, machine)
    assert path.with_name(path.name + BACKUP_SUFFIX).read_bytes() == b'{"a": 2}'


def test_temporary_files_of_a_killed_write_are_removed_by_the_next(machine: Machine) -> None:
    client = find_client("cursor")
    path = write(client, machine, b"{}")
    names = [".mcp.json.0123abcd.tmp", f"mcp.json{BACKUP_SUFFIX}.0123abcd.tmp"]
    others = [".mcp.json.tmp", ".other.json.0123abcd.tmp", ".mcp.json.0123abcd", "mcp.json.0123abcd.tmp"]
    for name in (*names, *others):
        (path.parent / name).write_text("x")
    install(client, machine)
    left = {each.name for each in path.parent.iterdir()}
    assert left == {*others, path.name, path.name + BACKUP_SUFFIX}


def test_a_symbolic_link_stays_one(machine: Machine, tmp_path: Path) -> None:
    client = find_client("zed")
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "zed.json").write_text("{}")
    link = client.path(machine)
    link.parent.mkdir(parents=True)
    link.symlink_to(dotfiles / "zed.json")
    install(client, machine)
    assert link.is_symlink()
    assert "hubbub" in (dotfiles / "zed.json").read_text()
    uninstall(client, machine)
    assert link.is_symlink()
    assert (dotfiles / "zed.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("target", "reason"),
    [("mcp.json", "cannot be read: (Symlink loop|Too many levels)"), (".", "is not a file")],
)
def test_a_link_that_leads_to_no_file_is_refused(target: str, reason: str, machine: Machine) -> None:
    client = find_client("cursor")
    link = client.path(machine)
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(SettingsError, match=reason):
        plan_install(client, machine, STDIO)
    assert link.is_symlink()


def test_a_file_in_place_of_the_folder_is_reported(machine: Machine) -> None:
    client = find_client("cursor")
    machine.home.mkdir(parents=True, exist_ok=True)
    (machine.home / ".cursor").write_text("")
    with pytest.raises(SettingsError, match=r"mcp\.json cannot be read: Not a directory"):
        plan_install(client, machine, STDIO)


def test_a_file_that_another_program_changes_is_not_written(machine: Machine) -> None:
    client = find_client("claude-code")
    path = write(client, machine, b'{"a": 1}')
    change = plan_install(client, machine, STDIO)
    path.write_bytes(b'{"a": 2}')
    with pytest.raises(SettingsError, match="was changed by another program; nothing was written"):
        apply_install(change)
    assert path.read_bytes() == b'{"a": 2}'
    assert [each.name for each in path.parent.iterdir()] == [".claude.json"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("function", ["os.fsync", "os.replace"])
def test_an_interrupted_write_changes_nothing(
    failure: BaseException, function: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    for name, data in (("gemini", b"{}"), ("cursor", None)):
        client = find_client(name)
        if data is not None:
            write(client, machine, data)
        before = {path: path.read_bytes() for path in machine.home.rglob("*") if path.is_file()}
        change = plan_install(client, machine, STDIO)
        with monkeypatch.context() as patch:
            patch.setattr(function, fail)
            with pytest.raises((KeyboardInterrupt, SettingsError)):
                apply_install(change)
        assert {path: path.read_bytes() for path in machine.home.rglob("*") if path.is_file()} == before
    assert not (machine.home / ".cursor").exists()


def test_a_stale_record_says_nothing_about_a_new_file(machine: Machine) -> None:
    client = find_client("cursor")
    install(client, machine)
    path = write(client, machine, b"// mine\n{}")
    install(client, machine)
    uninstall(client, machine)
    assert path.read_bytes() == b"// mine\n{}"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("cursor", b'{"mcpServers": {', r"line 1, column 17: the file ends in the middle"),
        ("cursor", b'{\n  "mcpServers": []\n}', r'line 2, column 17: "mcpServers" is not an object'),
        ("cursor", b'{\n  "a": 1\n  "b": 2\n}', r"line 3, column 3: a comma or } is missing"),
        ("cursor", b'{"a": \xff}', r"line 1, column 7: not UTF-8"),
        ("cursor", b'{"a": ' + b"1" * 5000 + b"}", r"line 1, column 7: a number of 5000 digits is too long"),
        ("goose", b"a: &a [*a]\n", r"in a form that cannot be edited safely"),
        ("cursor", b"[" * 100_000, r"column 202: nested deeper than 200"),
        ("codex", b"a = 1\nb = = 2\n", r"line 2, column 5: Invalid value"),
        ("codex", b'mcp_servers = { a = { command = "b" } }\n', r"cannot be edited safely"),
        ("goose", b"a: 1\nb: [\n", r"line 3, column 1: "),
        ("goose", b"extensions:\n- a\n", r"line 2, column 1: 'extensions' is not a mapping"),
        ("goose", b"extensions: text\n", r"line 1, column 13: 'extensions' is not a mapping"),
    ],
)
def test_what_cannot_be_parsed_is_refused_with_its_place(
    name: str, data: bytes, problem: str, machine: Machine
) -> None:
    client = find_client(name)
    path = write(client, machine, data)
    with pytest.raises(SettingsError, match=problem) as caught:
        plan_install(client, machine, STDIO)
    assert str(path) in caught.value.message
    assert path.read_bytes() == data


def test_files_that_must_not_be_written_are_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    client = find_client("gemini")
    path = write(client, machine, b"{}")
    path.chmod(0o444)
    with pytest.raises(SettingsError, match="is read-only"):
        plan_install(client, machine, STDIO)
    path.chmod(0o600)
    monkeypatch.setattr("hubbub.bounds.CLIENT_FILE_BYTES", 1)
    with pytest.raises(SettingsError, match="is larger than 1 bytes"):
        plan_install(client, machine, STDIO)
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match="is not a file"):
        plan_install(client, machine, STDIO)


def test_a_table_of_codex_is_what_codex_reads(machine: Machine) -> None:
    client = find_client("codex")
    server = ServerEntry(name="a.b c", command=("/p", "\x7f\"'\n"), env={"A B": "c"}, variables=("KEY",))
    install(client, machine, server)
    assert tomllib.loads(client.path(machine).read_text())["mcp_servers"]["a.b c"] == {
        "command": "/p",
        "args": ["\x7f\"'\n"],
        "env": {"A B": "c"},
        "env_vars": ["KEY"],
        "startup_timeout_sec": 30,
    }


def test_what_was_written_can_be_read_back() -> None:
    server = ServerEntry(name="n", command=("/p", "a"), variables=("KEY",))
    remote = ServerEntry(name="n", url="https://example.com/mcp", key_variable="KEY")
    for client in CLIENTS:
        for each in (server, remote):
            if each.is_remote and (client.remote is None or not (client.reference or client.names_variables)):
                with pytest.raises(
                    SettingsError, match=f"{client.title} (does not support remote servers|cannot refer)"
                ):
                    format_entry(client, each)
                continue
            (read,) = read_entries(client, _nested(client, format_entry(client, each)))
            assert (read.command, read.url) == (each.command, each.url)
            used = {*read.variables, *read.env.values(), *read.headers.values(), read.key_variable}
            expected = {"KEY"} if client.names_variables else {"${KEY}", "Bearer ${KEY}"}
            assert used & expected or (not each.is_remote and client.reference is None)


def _nested(client: Client, entry: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"n": entry}
    for key in reversed(client.key):
        values = {key: values}
    return values


def test_a_yaml_file_that_would_take_long_to_parse_is_refused(machine: Machine) -> None:
    client = find_client("goose")
    write(client, machine, b"# " + b"x" * bounds.CLIENT_YAML_CHARACTERS)
    with pytest.raises(SettingsError, match="has more than 524288 characters; edit it by hand"):
        plan_install(client, machine, STDIO)
