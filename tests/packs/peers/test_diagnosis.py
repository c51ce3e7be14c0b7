"""The checks of `hubbub doctor` for peers, and invalid settings."""

import pytest
from tests.packs.peers.room_agents import signalling

from hubbub import Secret, SettingsError
from hubbub.packs.peers import diagnosis
from hubbub.packs.peers.pack import pack
from hubbub.packs.peers.settings import PeersSettings
from hubbub.server.pack import load_object
from hubbub.settings import collect_sources, read_settings


async def test_the_engine_check_names_the_engine() -> None:
    assert (await diagnosis.engine(PeersSettings())).detail == "wrtc; also installed: aiortc"
    assert (await diagnosis.engine(PeersSettings(engine="aiortc"))).detail.startswith("aiortc")


async def test_the_addresses_check_finds_an_address() -> None:
    check = await diagnosis.addresses(PeersSettings())
    assert check.ok
    assert "found" in check.detail


async def test_the_signalling_check_reports_whether_a_server_answers() -> None:
    async with signalling() as host:
        assert "answers" in (await diagnosis.signalling(PeersSettings(host=host))).detail
    nowhere = await diagnosis.signalling(PeersSettings(host="ws://127.0.0.1:9"))
    assert (nowhere.ok, "hubbub signal" in nowhere.advice) == (True, True)


async def test_the_pack_registers_all_checks() -> None:
    checks = [load_object(check) for check in pack.checks if isinstance(check, str)]
    assert [(await check(PeersSettings())).name for check in checks] == ["engine", "addresses", "signalling"]


def settings(monkeypatch: pytest.MonkeyPatch, **environ: str) -> PeersSettings:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return read_settings(PeersSettings, collect_sources({}), ("packs", "peers"))


def test_the_variables_of_the_contract_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = settings(
        monkeypatch,
        HUBBUB_PEERS_HOST="wss://signal.example",
        VDON_MCP_JOIN_TOKEN_SECRET="sek",
        VDON_MCP_ENFORCE_JOIN_TOKEN="true",
        VDON_MCP_ALLOW_PEER_STREAM_IDS="a, b",
        VDON_MCP_REQUIRE_SESSION_MAC="1",
    )
    assert (read.host, read.join_token_secret) == ("wss://signal.example", Secret("sek"))
    assert (read.enforce_join_token, read.require_session_mac) == (True, True)
    assert read.allow_peer_stream_ids == ("a", "b")


def test_the_join_token_secret_can_be_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    path = tmp_path / "secret"  # type: ignore[operator]
    path.write_text("sek\n")
    assert settings(monkeypatch, VDON_MCP_JOIN_TOKEN_SECRET_FILE=str(path)).join_token_secret == Secret("sek")


def test_the_default_host_is_loopback_without_ice_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUBBUB_PEERS_HOST", raising=False)
    assert settings(monkeypatch).host == "ws://127.0.0.1:8765"
    assert settings(monkeypatch).ice_servers == ()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"VDON_MCP_ENFORCE_JOIN_TOKEN": "true"}, "needs a secret"),
        ({"HUBBUB_PEERS_HOST": "https://signal.example"}, "HUBBUB_PEERS_HOST"),
        ({"HUBBUB_PEERS_ENGINE": "pion"}, "wrtc"),
        ({"HUBBUB_PEERS_ICE_SERVERS": "stun.example.com"}, "HUBBUB_PEERS_ICE_SERVERS"),
    ],
)
def test_invalid_settings_raise_a_settings_error(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(monkeypatch, **environ)
