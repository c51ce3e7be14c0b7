"""Reading settings: precedence of sources, refused values, secrets that are not shown."""

import pickle
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import Secret, SettingsError, bounds, setting
from hubbub.settings import ServeSettings, Sources, collect_sources, format_suggestion, known_variables, read_settings
from hubbub.settings.file import read_settings_file
from hubbub.settings.read import describe_unknown_variables, unknown_variables
from hubbub.settings.servers import ServerSettings


class Turn(msgspec.Struct, frozen=True):
    url: Annotated[str, setting("Where the relay is.")] = "turn:here"


class PeersSettings(msgspec.Struct, frozen=True):
    room: Annotated[str, setting("Which room.", flag="--room", env="PEERS_ROOM")]
    secret: Annotated[Secret | None, setting("Shared by all.", flag="--secret", env="PEERS_SECRET")] = None
    allow: Annotated[tuple[str, ...], setting("Who may come.", flag="--allow")] = ()
    strict: Annotated[bool, setting("Refuse others.", flag="--strict")] = False
    pace: Annotated[float, setting("How fast.")] = 1.0
    mood: Annotated[Literal["calm", "wild"], setting("How.")] = "calm"
    turn: Turn = Turn()


PEERS = ("packs", "peers")


def sources(
    flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, toml: Path | None = None
) -> Sources:
    return Sources(flags or {}, environ or {}, read_settings_file(str(toml)) if toml is not None else None)


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hubbub.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_safe() -> None:
    settings = read_settings(ServeSettings, sources())
    assert settings == ServeSettings()
    assert settings.address == ("127.0.0.1", 3000)
    assert settings.transport == "http"
    assert settings.insecure is False
    assert settings.max_message_bytes is None


def test_flags_precede_variables_and_variables_precede_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, 'port = 1\nhost = "file"\nresponse = "json"\n')
    environ = {"HUBBUB_PORT": "2", "HUBBUB_HOST": "variable"}
    settings = read_settings(ServeSettings, sources({"--port": "3"}, environ, path))
    assert (settings.port, settings.host, settings.response) == (3, "variable", "json")


def test_hubbub_variables_precede_those_of_a_contract() -> None:
    found = Sources(environ={"TIDES_BYTES": "2048"}, aliases={"TIDES_BYTES": "HUBBUB_MAX_MESSAGE_BYTES"})
    assert read_settings(ServeSettings, found).max_message_bytes == 2048
    found = msgspec.structs.replace(found, environ={**found.environ, "HUBBUB_MAX_MESSAGE_BYTES": "4096"})
    assert read_settings(ServeSettings, found).max_message_bytes == 4096


def test_an_empty_variable_is_not_set() -> None:
    for empty in ("", " ", "\n"):
        assert read_settings(ServeSettings, sources(environ={"HUBBUB_PORT": empty})).port == 3000


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        *(("HUBBUB_INSECURE", text, "insecure", True) for text in ("yes", "On", " TRUE ", "y", "1")),
        *(("HUBBUB_ALONE", text, "alone", False) for text in ("no", "OFF", "False", "n", "0")),
        ("HUBBUB_LOG_LEVEL", " Debug", "log_level", "debug"),
        ("HUBBUB_PORT", " 7 ", "port", 7),
        ("HUBBUB_TOOL_PROFILE", " Core ", "tool_profile", "core"),
        ("HUBBUB_KEY_FILE", " Keys ", "key_file", "Keys"),
    ],
)
def test_variables_are_read_leniently(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(read_settings(ServeSettings, sources(environ={variable: text})), name) == value


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--insecure", "yes"), ("--log-level", "Debug"), ("--log-level", " debug"), ("--max-message-bytes", "1023"),
     ("--max-message-bytes", "many")],
)  # fmt: skip
def test_flags_are_read_strictly(flag: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{flag} must be .*, not '{value}'$"):
        read_settings(ServeSettings, sources({flag: value}))


@pytest.mark.parametrize(
    ("variable", "text"), [("HUBBUB_INSECURE", "ture"), ("HUBBUB_LOG_LEVEL", "chatty"), ("HUBBUB_PORT", "many")]
)
def test_an_invalid_variable_is_refused(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} must be .*, not '{text}'$"):
        read_settings(ServeSettings, sources(environ={variable: text}))


def test_lists_are_read_from_repeated_flags_and_from_commas() -> None:
    assert read_settings(ServeSettings, sources({"--pack": ("demo", "peers")})).packs == ("demo", "peers")
    assert read_settings(ServeSettings, sources(environ={"HUBBUB_PACK": "demo, peers"})).packs == ("demo", "peers")


def test_http_addr_overrides_host_and_port() -> None:
    assert read_settings(ServeSettings, sources({"--http-addr": "[::1]:81", "--port": "3"})).address == ("::1", 81)
    assert read_settings(ServeSettings, sources({"--http-addr": ":81"})).address == ("127.0.0.1", 81)
    with pytest.raises(SettingsError, match="--http-addr must have a port of at most 65535, not 80000"):
        read_settings(ServeSettings, sources({"--http-addr": "localhost:80000"}))


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--port", "many", "--port must be a whole number, not 'many'"),
        ("--port", "70000", "--port must be <= 65535, not '70000'"),
        ("--transport", "pigeon", "--transport must be one of http, stdio, not 'pigeon'"),
        ("--insecure", "perhaps", "--insecure must be true or false, not 'perhaps'"),
        ("--http-addr", "here", "--http-addr must look like HOST:PORT, not 'here'"),
    ],
)
def test_an_invalid_value_is_reported_with_its_source(flag: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(ServeSettings, sources({flag: value}))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nprot = 1", "line 2: prot is not a setting; did you mean 'port'?"),
        ('port = "1"', "line 1: port must be a whole number, not '1'"),
        ("config = 'other.toml'", "line 1: config is not a setting"),
        ("[serve]\nport = 1", "line 1: serve is not a setting"),
        ("pack = 'demo'", "line 1: pack must be"),
    ],
)
def test_an_invalid_key_of_the_file_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(ServeSettings, sources(toml=toml(tmp_path, text)))
    assert f"hubbub.toml {message}" in caught.value.message


def test_a_section_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"line 1: packs must be a section"):
        read_settings(PeersSettings, sources(toml=toml(tmp_path, "packs = 1")), PEERS)


def test_a_missing_or_invalid_toml_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is not valid TOML: .*line 1"):
        read_settings_file(str(toml(tmp_path, "port = \n")))
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_settings_file(str(tmp_path / "none.toml"))


def test_the_file_is_named_by_flag_then_variable_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert collect_sources({}, {}).file is None
    for name in ("hubbub", "flag", "variable"):
        (tmp_path / f"{name}.toml").write_text("tool_names = 'safe'\n", encoding="utf-8")
    found = [collect_sources({}, {}), collect_sources({}, {"HUBBUB_CONFIG": "variable.toml"})]
    found.append(collect_sources({"--config": "flag.toml"}, {"HUBBUB_CONFIG": "variable.toml"}))
    assert [each.file.path for each in found if each.file] == ["hubbub.toml", "variable.toml", "flag.toml"]


def test_a_pack_reads_its_section_its_variables_and_its_flags(tmp_path: Path) -> None:
    path = toml(
        tmp_path, '[packs.peers]\nroom = "file"\npace = 2.5\nmood = "wild"\n[packs.peers.turn]\nurl = "turn:file"\n'
    )
    settings = read_settings(
        PeersSettings,
        sources({"--allow": ("a,b", "c")}, {"HUBBUB_PEERS_ROOM": "short", "HUBBUB_PACKS__PEERS__STRICT": "true"}, path),
        PEERS,
    )
    assert settings == PeersSettings("short", None, ("a", "b", "c"), True, 2.5, "wild", Turn("turn:file"))


def test_nested_sections_are_read_from_variables_with_two_underscores() -> None:
    for name in ("HUBBUB_PEERS_TURN__URL", "HUBBUB_PACKS__PEERS__TURN__URL"):
        settings = read_settings(PeersSettings, sources({"--room": "x"}, {name: "turn:there"}), PEERS)
        assert settings.turn.url == "turn:there"


def test_a_setting_without_a_default_must_be_given() -> None:
    with pytest.raises(SettingsError, match=r"packs\.peers\.room must be set .*--room or HUBBUB_PEERS_ROOM or"):
        read_settings(PeersSettings, sources(), PEERS)


def test_unknown_variables_are_reported_with_a_suggestion() -> None:
    known = known_variables(ServeSettings) | known_variables(PeersSettings, PEERS)
    fine = ["PATH", "HUBBUB_PORT", "HUBBUB_PEERS_ROOM", "HUBBUB_PEERS_SECRET_FILE"]
    found = unknown_variables(dict.fromkeys([*fine, "HUBBUB_TRANSPROT", "HUBBUB_PORT_FILE", "HUBBUB_QQQ"], "x"), known)
    assert found == ["HUBBUB_PORT_FILE", "HUBBUB_QQQ", "HUBBUB_TRANSPROT"]
    message_text = describe_unknown_variables(found, known)
    assert "HUBBUB_QQQ, HUBBUB_TRANSPROT (did you mean HUBBUB_TRANSPORT?)" in message_text
    many = [f"HUBBUB_QQQ{number}" for number in range(bounds.SHOWN_KEYS + 2)]
    assert describe_unknown_variables(many, known).endswith(" and 2 more")


ADDRESSES = st.ip_addresses().map(lambda address: f"[{address}]" if address.version == 6 else str(address))
NAMES = st.from_regex(r"HUBBUB(_[A-Z0-9]{1,5}){0,2}", fullmatch=True)


@given(
    NAMES, ADDRESSES, st.integers(1, 65535), st.sampled_from(["tcp", "udp", "sctp"]), st.sampled_from(["HTTP", "A_1"])
)
def test_variables_that_kubernetes_injects_are_ignored(
    service: str, host: str, port: int, protocol: str, port_name: str
) -> None:
    link = f"{service}_PORT_{port}_{protocol.upper()}"
    url = f"{protocol}://{host}:{port}"
    environ = {
        f"{service}_SERVICE_HOST": host.strip("[]"),
        f"{service}_SERVICE_PORT": str(port),
        f"{service}_SERVICE_PORT_{port_name}": str(port),
        f"{service}_PORT": url,
        link: url,
        f"{link}_PROTO": protocol,
        f"{link}_PORT": str(port),
        f"{link}_ADDR": host.strip("[]"),
    }
    assert unknown_variables(environ, known_variables(ServeSettings)) == []
    assert read_settings(ServeSettings, sources(environ=environ)) == ServeSettings()


@pytest.mark.parametrize("text", ["abc", "tcp://", "tcp://10.0.0.1", "http://10.0.0.1:3000", "tcp://10.0.0.1:3000/x"])
def test_an_invalid_port_variable_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="HUBBUB_PORT must be a whole number"):
        read_settings(ServeSettings, sources(environ={"HUBBUB_PORT": text}))


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("quiet\n", encoding="utf-8")
    for name in ("HUBBUB_PEERS_SECRET_FILE", "PEERS_SECRET_FILE"):
        settings = read_settings(PeersSettings, sources({"--room": "x"}, {name: str(path)}), PEERS)
        assert settings.secret == Secret("quiet")
    with pytest.raises(SettingsError, match="PEERS_SECRET_FILE: the file"):
        read_settings(PeersSettings, sources({"--room": "x"}, {"PEERS_SECRET_FILE": str(tmp_path / "none")}), PEERS)


@pytest.mark.requirement("K2")
def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    secret = Secret("hush-hush")
    settings = PeersSettings("x", secret)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", repr(settings)]
    assert not any("hush" in text for text in shown)
    assert secret.reveal() == "hush-hush"
    assert secret != Secret("other")
    for leak in (msgspec.json.encode, pickle.dumps):
        with pytest.raises(TypeError):
            leak(secret)
    with pytest.raises(SettingsError) as caught:
        read_settings(PeersSettings, sources(toml=toml(tmp_path, "[packs.peers]\nroom = 'x'\nsecret = 4711\n")), PEERS)
    assert "4711" not in caught.value.message
    assert "packs.peers.secret must be text" in caught.value.message


def test_without_a_similar_name_all_names_are_suggested() -> None:
    assert format_suggestion("zzz", ["port", "host"]) == "; known: host, port"
    assert format_suggestion("zzz", []) == "; none are defined"


@given(st.dictionaries(st.sampled_from(sorted(known_variables(ServeSettings))), st.text()))
def test_any_environment_gives_settings_or_a_settings_error(environ: dict[str, str]) -> None:
    try:
        settings = read_settings(ServeSettings, sources(environ=environ))
    except SettingsError:
        return
    assert 0 <= settings.address[1] <= 65535
    assert settings.transport in ("http", "stdio")


@given(
    st.integers(0, 65535), st.sampled_from(["json", "sse", "auto"]), st.lists(st.from_regex(r"[a-z]+", fullmatch=True))
)
def test_values_of_the_environment_are_read_unchanged(port: int, response: str, packs: list[str]) -> None:
    environ = {"HUBBUB_PORT": str(port), "HUBBUB_RESPONSE": response, "HUBBUB_PACK": ",".join(packs)}
    settings = read_settings(ServeSettings, sources(environ=environ))
    assert (settings.port, settings.response, settings.packs) == (port, response, tuple(packs))


def test_mapping_settings_are_tables_or_json(tmp_path: Path) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("[servers.x]\nurl = 'http://a/mcp'\nheaders = {A = 'from the file'}\n")

    def headers(**environ: str) -> dict[str, Secret]:
        sources = collect_sources({"--config": str(path)}, environ)
        return read_settings(ServerSettings, sources, ("servers", "x")).headers

    assert headers() == {"A": Secret("from the file")}
    assert headers(HUBBUB_SERVERS__X__HEADERS='{"B": "from a variable"}') == {"B": Secret("from a variable")}
    for wrong in ("hunter2", '["hunter2"]', '{"A": 2222}', '{"A": "hunter2"'):
        with pytest.raises(SettingsError, match="HUBBUB_SERVERS__X__HEADERS must look like") as caught:
            headers(HUBBUB_SERVERS__X__HEADERS=wrong)
        assert not re.search("hunter2|2222", caught.value.message)
