"""Which settings of a file are used, depending on its location and on trust."""

import os
from pathlib import Path

import pytest

from hubbub import HubSettings, SettingsError, ToolSettings, ViewSettings
from hubbub.pack import data_folder
from hubbub.settings import ServeSettings, collect_sources, read_settings
from hubbub.settings.fields import list_settings
from hubbub.settings.file import SettingsFile
from hubbub.settings.file_keys import split_harmless
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import Sources
from hubbub.settings.trust import find_named_files, read_folder_file, trust, trust_record_path, trusted_folders

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, text: str) -> None:
    (folder / "hubbub.toml").write_text(text)


def write_user_file(text: str) -> Path:
    folder = Path(os.environ["XDG_CONFIG_HOME"], "hubbub")
    folder.mkdir(exist_ok=True)
    write(folder, text)
    return folder


def trust_folder() -> None:
    trust(read_folder_file("hubbub.toml", is_to_be_trusted=True))


def read_sources() -> Sources:
    return collect_sources({}, {}, ignore_untrusted=True)


def settings() -> ServeSettings:
    return read_settings(ServeSettings, read_sources())


# -- which settings need trust -------------------------------------------------------


def test_only_these_settings_are_harmless() -> None:
    """Before you add one: it must not start a program, open an address or file, reduce security or change a limit."""
    harmless = {
        kind.__name__: {setting.key for setting in list_settings(kind) if setting.is_harmless}
        for kind in (ServeSettings, HubSettings, ViewSettings, ServerSettings, ToolSettings)
    }
    assert harmless == {
        "ServeSettings": {"view", "tool_names"},
        "HubSettings": {"search", "name_limit"},
        "ViewSettings": {"servers", "include", "exclude", "read_only", "search", "descriptions"},
        "ServerSettings": set(),
        "ToolSettings": set(),
    }


def test_harmless_and_refused_keys_of_a_file_are_separated() -> None:
    tree = {
        "port": 1,
        "view": "v",
        "hub": {"search": "on", "reload": False, "new": 1},
        "views": {"v": {"read_only": True, "new": 1}, "empty": {}, "wrong": 3},
        "servers": {"x": {"command": "y", "read_only": True, "tools": {"t": {"hidden": True}}}, "wrong": 3},
        "packs": {"p": {"a": {"b": 1}, "c": 2}, "empty": {}},
        "new": {"x": 1},
    }
    assert split_harmless(tree) == (
        {"view": "v", "hub": {"search": "on"}, "views": {"v": {"read_only": True}, "empty": {}}},
        (
            ("port",),
            ("hub", "reload"),
            ("hub", "new"),
            ("views", "v", "new"),
            ("views", "wrong"),
            ("servers", "x", "command"),
            ("servers", "x", "read_only"),
            ("servers", "x", "tools", "t", "hidden"),
            ("servers", "wrong"),
            ("packs", "p", "a", "b"),
            ("packs", "p", "c"),
            ("packs", "empty"),
            ("new",),
        ),
    )


@pytest.mark.parametrize("text", ["servers = 3", "views = 3", "hub = 'x'", "packs = []", "[[views]]\nx = 1"])
def test_values_that_should_be_sections_are_refused(here: Path, text: str) -> None:
    write(here, text)
    assert len(read_sources().refused) == 1
    file = read_sources().file
    assert file is not None
    assert file.tree == {}


def test_reading_an_untrusted_file_is_an_error_unless_allowed(here: Path) -> None:
    write(here, "port = 1\ntool_names = 'safe'\n")
    with pytest.raises(SettingsError, match=r"is not trusted.* port; .*hubbub trust"):
        collect_sources({}, {})
    assert (settings().port, settings().tool_names) == (3000, "safe")
    trust_folder()
    assert read_settings(ServeSettings, collect_sources({}, {})).port == 1


def test_many_keys_and_odd_names_are_reported_in_one_line(here: Path) -> None:
    write(here, "\n".join(f"key{number} = 1" for number in range(50)) + '\n"a\\u001bb" = 1\n')
    assert read_sources().refusal.endswith("hubbub trust`, or name a file with --config (HUBBUB_CONFIG)")
    assert "key19 and 31 more" in read_sources().refusal
    write(here, '"a\\u001bb" = 1\n')
    assert "\x1b" not in read_sources().refusal


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = " + "[" * 5000, "nests deeper than 32 levels"),
        ("[" + ".".join("a" * 5000) + "]", "nests deeper than 32 levels"),
        ("#" * 2_000_000, "is larger than 1048576 bytes"),
        (None, "is not a regular file"),
    ],
    ids=["lists", "sections", "size", "pipe"],
)
def test_an_unreadable_file_is_refused_in_one_line(here: Path, text: str | None, problem: str) -> None:
    if text is None:
        os.mkfifo(here / "hubbub.toml")
    else:
        write(here, text)
    with pytest.raises(SettingsError, match=problem):
        read_sources()


# -- precedence ----------------------------------------------------------------------


def test_the_users_own_file_has_the_lowest_precedence_and_needs_no_trust(here: Path, tmp_path: Path) -> None:
    own = write_user_file("port = 1\nhost = 'own'\n[packs.p]\na = 1\nb = 1\n[hub]\nsearch = 'off'\n")
    assert (settings().port, settings().host) == (1, "own")
    write(here, "port = 2\n[packs.p]\nb = 2\n")
    trust_folder()
    assert (settings().port, settings().host) == (2, "own")
    file = read_sources().file
    assert file is not None
    assert file.tree["packs"] == {"p": {"a": 1, "b": 2}}
    assert file.locate(("port",)) == "hubbub.toml line 1: port"
    assert file.locate(("host",)) == f"{own / 'hubbub.toml'} line 2: host"
    assert file.paths == ("hubbub.toml", str(own / "hubbub.toml"))
    (tmp_path / "named.toml").write_text("port = 3\n")
    named = read_settings(ServeSettings, collect_sources({"--config": str(tmp_path / "named.toml")}, {}))
    assert (named.port, named.host) == (3, "own")
    assert read_settings(ServeSettings, collect_sources({}, {"HUBBUB_PORT": "4"})).port == 4
    by_code = collect_sources({}, {"HUBBUB_PORT": "4"}, arguments={"port": 5})
    assert read_settings(ServeSettings, by_code).port == 5


def test_the_users_own_file_precedes_an_untrusted_file(here: Path) -> None:
    write_user_file("tool_names = 'exact'\n[views.v]\nread_only = true\nexclude = ['x']\n[hub]\nsearch = 'off'\n")
    write(
        here, "tool_names = 'safe'\nview = 'v'\n[views.v]\nread_only = false\n[hub]\nsearch = 'on'\nname_limit = 32\n"
    )
    assert (settings().tool_names, settings().view) == ("exact", "v")
    file = read_sources().file
    assert file is not None
    assert file.tree["views"] == {"v": {"read_only": True, "exclude": ["x"]}}
    assert file.tree["hub"] == {"search": "off", "name_limit": 32}


def test_a_server_is_read_from_one_file_only() -> None:
    own = SettingsFile("own", "", {"servers": {"x": {"url": "https://a", "headers": {"K": "secret"}}, "y": {}}})
    file = SettingsFile("file", "", {"servers": {"x": {"url": "https://b"}}}).merged_over(own)
    assert file.tree == {"servers": {"x": {"url": "https://b"}, "y": {}}}


def test_relative_paths_of_the_users_own_file_are_relative_to_it(here: Path) -> None:
    text = """
key_file = "keys.toml"
jwt_keys = "https://example.com/jwks"
mcp_json = "~/mcp.json"
target = "tools.py:server"
[servers.a]
command = "./run"
cwd = "work"
args = ["x.py"]
[servers.b]
command = "npx"
[servers.c]
target = "shop.tools:server"
"""
    own = write_user_file(text)
    file = read_sources().file
    assert file is not None
    assert file.tree == {
        "key_file": str(own / "keys.toml"),
        "jwt_keys": "https://example.com/jwks",
        "mcp_json": str(Path.home() / "mcp.json"),
        "target": str(own / "tools.py:server"),
        "servers": {
            "a": {"command": str(own / "./run"), "cwd": str(own / "work"), "args": ["x.py"]},
            "b": {"command": "npx"},
            "c": {"target": "shop.tools:server"},
        },
    }


def test_the_users_own_folder_needs_no_trust_when_it_is_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_user_file("port = 1\n"))
    assert settings().port == 1
    assert read_sources().refused == ()


# -- trust records ----------------------------------------------------------------


def test_the_files_that_a_value_names_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "run.sh",
        "a b.py",
        "x.py",
        "pkg/mod.py",
        "pkg/__init__.py",
        "tool/__main__.py",
        "sub/y.py",
        "z.json",
        "node.js",
        "web/index.js",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("PLACE", str(tmp_path))

    def files(tree: object) -> set[str]:
        return {os.path.relpath(path, tmp_path) for path in find_named_files(tree, str(tmp_path))}

    assert files({"command": "./run.sh"}) == {"run.sh"}
    assert files({"args": ["a b.py", "--file=z.json", "sub", 3, True]}) == {"a b.py", "z.json"}
    assert files("bash -c 'python x.py; true'") == {"x.py"}
    assert files({"target": "x.py:server"}) == {"x.py"}
    assert files({"target": "pkg.mod:server"}) == {"pkg/mod.py"}
    assert files(["-m", "tool", "pkg"]) == {"tool/__main__.py", "pkg/__init__.py"}
    assert files(["./tool", "./x", "./node", "./web"]) == {"tool/__main__.py", "x.py", "node.js", "web/index.js"}
    assert files(["-r./node.js"]) == {"node.js"}
    assert files({"cwd": "sub", "args": ["y.py", "x.py"]}) == {"sub/y.py", "x.py"}
    assert files([str(tmp_path / "x.py"), "${PLACE}/run.sh", "${NONE:-sub}/y.py"]) == {"x.py", "run.sh", "sub/y.py"}
    assert files(["none.py", "\0", "", "~nobody/x"]) == set()


def test_trust_covers_the_programs_of_an_mcp_json(here: Path) -> None:
    write(here, 'mcp_json = "clients/mcp.json"\n')
    (here / "clients").mkdir()
    (here / "clients/mcp.json").write_text('{"mcpServers": {"a": {"command": "python", "args": ["a.py"]}}}')
    (here / "a.py").touch()
    trust_folder()
    assert read_sources().refused == ()
    for name in ("a.py", "clients/mcp.json"):
        before = (here / name).read_text()
        (here / name).write_text(before + " ")
        assert f"because {name} changed" in read_sources().problem
        (here / name).write_text(before)
    assert read_sources().refused == ()


def test_the_settings_file_is_named_before_the_files_that_it_newly_refers_to(here: Path) -> None:
    for name in ("a.json", "b.json"):
        (here / name).touch()
    write(here, 'mcp_json = "b.json"\n')
    trust_folder()
    write(here, 'mcp_json = "a.json"\n')
    assert "because hubbub.toml, a.json, b.json changed" in read_sources().problem


@pytest.mark.parametrize("change", ["written", "gone", "new", "link"])
def test_adding_removing_or_replacing_a_referenced_file_is_a_change(here: Path, change: str) -> None:
    write(here, '[servers.a]\ncommand = "sh"\nargs = ["a.sh", "b.sh"]\n')
    (here / "a.sh").write_text("true")
    (here / "other.sh").write_text("false")
    trust_folder()
    assert read_sources().refused == ()
    match change:
        case "written":
            (here / "a.sh").write_text("eval")
        case "gone":
            (here / "a.sh").unlink()
        case "new":
            (here / "b.sh").write_text("true")
        case "link":
            (here / "a.sh").unlink()
            (here / "a.sh").symlink_to("other.sh")
    assert "b.sh" in read_sources().problem if change == "new" else "a.sh" in read_sources().problem


def test_a_linked_settings_file_is_identified_by_its_content(here: Path, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("port = 1\n")
    (tmp_path / "two.toml").write_text("port = 2\n")
    (here / "hubbub.toml").symlink_to(tmp_path / "one.toml")
    trust_folder()
    assert settings().port == 1
    (here / "hubbub.toml").unlink()
    (here / "hubbub.toml").symlink_to(tmp_path / "two.toml")
    assert settings().port == 3000


def test_trust_of_a_folder_does_not_depend_on_the_path_to_it(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "port = 1\n")
    trust_folder()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(tmp_path / "link")
    assert settings().port == 1
    (tmp_path / "copy").mkdir()
    write(tmp_path / "copy", "port = 1\n")
    monkeypatch.chdir(tmp_path / "copy")
    assert settings().port == 3000


def test_the_stored_digest_is_that_of_the_reviewed_content(here: Path) -> None:
    write(here, "port = 1\n")
    shown = read_folder_file("hubbub.toml", is_to_be_trusted=True)
    write(here, "port = 2\n")
    trust(shown)
    assert settings().port == 3000


@pytest.mark.skipif(os.name != "posix", reason="files have no modes there")
@pytest.mark.parametrize("place", ["record", "folder", "data"])
def test_records_that_others_can_write_are_ignored(here: Path, place: str) -> None:
    write(here, "port = 1\n")
    trust_folder()
    assert settings().port == 1
    record = trust_record_path(str(here))
    path = {"record": record, "folder": record.parent, "data": data_folder()}[place]
    path.chmod(path.stat().st_mode | 0o020)
    assert settings().port == 3000
    if place != "record":
        with pytest.raises(SettingsError, match="chmod"):
            trust_folder()


def test_a_damaged_record_is_ignored(here: Path) -> None:
    write(here, "port = 1\n")
    trust_folder()
    trust_record_path(str(here)).write_bytes(b"\xff{")
    assert settings().port == 3000
    assert trusted_folders() == []
    assert oct(trust_record_path(str(here)).stat().st_mode)[-3:] == "600"


def test_a_file_that_refers_to_too_many_files_cannot_be_trusted(here: Path) -> None:
    for number in range(300):
        (here / f"f{number}").touch()
    write(here, f"pack = {[f'f{number}' for number in range(300)]!r}\n")
    assert read_sources().refused == (("pack",),)
    with pytest.raises(SettingsError, match="more than 256 files"):
        trust_folder()


def test_renewed_certificates_stay_trusted_but_not_a_new_client_ca(here: Path) -> None:
    write(here, 'tls_cert_file = "a.pem"\ntls_key_file = "a.key"\ntls_client_ca_file = "ca.pem"\n')
    for name in ("a.pem", "a.key", "ca.pem"):
        (here / name).write_text("old")
    trust_folder()
    (here / "a.pem").write_text("new")
    (here / "a.key").write_text("new")
    assert settings().tls_cert_file == "a.pem"
    (here / "ca.pem").write_text("new")
    assert settings().tls_cert_file is None
