"""Names of servers in the settings that no server has."""

from pathlib import Path

import pytest

from hubbub import SettingsError
from hubbub.assembly.hub_reload import load_hub

TENANT = '[[tenants]]\nname = "acme"\n'


def load(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "hubbub.toml"
    path.write_text('[servers.weather]\nurl = "https://weather.example/mcp"\n' + text)
    return load_hub({"--config": str(path)}, {}).warnings


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[[policy.rules]]\neffect = "deny"\nservers = ["weather", "wether"]\n', "line 5: policy.rules[0].servers[1]"),
        ('[[policy.rules]]\neffect = "deny"\ntools = [\n"wether/get_*"]\n', "line 5: policy.rules[0].tools[0]"),
        ('[[quotas]]\nlimit = "1/minute"\nservers = ["wether"]\n', "line 5: quotas[0].servers[0]"),
    ],
)
def test_a_pattern_that_names_an_unknown_server_causes_a_warning(tmp_path: Path, text: str, place: str) -> None:
    [warning] = load(tmp_path, text)
    assert f"hubbub.toml {place}: unknown server 'wether'; did you mean 'weather'?" in warning


def test_wildcards_the_hub_uris_and_disabled_servers_cause_no_warning(tmp_path: Path) -> None:
    text = '[servers.off]\nurl = "https://off.example/mcp"\nenabled = false\n[[policy.rules]]\neffect = "deny"\n'
    assert load(tmp_path, text + 'servers = ["hub", "off", "we*"]\ntools = ["file:///x", "book", "*/book"]\n') == ()


def test_a_tenant_with_an_unknown_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, TENANT + 'servers = ["weather", "wether"]\n')
    expected = "hubbub.toml line 5: tenants[0].servers[1]: unknown server 'wether'; did you mean 'weather'?"
    assert expected in caught.value.message
