"""Mistakes in a settings file: the message names the file, the line of the key and what to write instead."""

from pathlib import Path

import pytest

from hubbub import SettingsError
from hubbub.assembly.serve_settings import read_serve_settings
from hubbub.settings import Sources
from hubbub.settings.file import read_settings_file

TENANT = '[[tenants]]\nname = "acme"\n'
RULE = TENANT + "[[policy.rules]]\n"
OAUTH = '[oauth]\npublic_url = "https://hub.example.com"\n'
PROVIDER = OAUTH + '[oauth.provider]\nissuer = "https://id.example.com"\nclient_id = "a"\n'


def check(folder: Path, text: str) -> None:
    path = folder / "hubbub.toml"
    path.write_text(text)
    sources = Sources(file=read_settings_file(str(path)))
    read_serve_settings(sources, lambda line: None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RULE + 'effect = "denny"\n',
            "line 4: policy.rules[0].effect must be one of allow, deny, confirm, not 'denny'; did you mean 'deny'?",
        ),
        (
            RULE + 'effect = "deny"\nactions = ["write"]\n',
            "line 5: policy.rules[0].actions[0] must be one of list, call",
        ),
        (
            RULE + 'effect = "deny"\nannotations = [\n"readonly"]\n',
            "line 5: policy.rules[0].annotations[0] must be one of read_only, ",
        ),
        (RULE + 'effect = "deny"\ntools = "x"\n', 'line 5: policy.rules[0].tools must be a list, such as ["x"]'),
        (RULE + 'tools = ["x"]\n', "line 3: policy.rules[0] needs 'effect': What happens to a matching request."),
        (
            RULE + 'effect = "deny"\ntool = ["x"]\n',
            "line 5: policy.rules[0].tool is not a setting; did you mean 'tools'?",
        ),
        (
            '[[tenants]]\nname = "Acme Corp"\n',
            "line 2: tenants[0].name must be 1 to 63 characters of a-z, 0-9 and `-`, the first not `-`, not 'Acme",
        ),
        (TENANT + 'max_calls = "many"\n', "line 3: tenants[0].max_calls must be a whole number, not 'many'"),
        (TENANT + "max_calls = 0\n", "line 3: tenants[0].max_calls must be at least 1, not '0'"),
        (
            '[[quotas]]\nlimit = "1/minute"\nper = ["users"]\n',
            "line 3: quotas[0].per[0] must be one of tenant, user, server, tool, not 'users'; did you mean 'user'?",
        ),
        (OAUTH + 'scopes = "a b"\n', 'line 3: oauth.scopes must be a list, such as ["a", "b"]'),
        ('[egress]\nallow = "x"\n', 'line 2: egress.allow must be a list, such as ["x"]'),
        (
            OAUTH + 'front_door = true\n[[oauth.clients]]\nclient_id = "r"\nredirect_uris = ["https://a.example"]\n',
            "line 4: oauth.clients[0] needs 'name': The name on the consent page.",
        ),
        (
            OAUTH + 'front_door = true\n[[oauth.clients]]\nclient_id = "r"\nname = "R"\nredirect_uris = []\n',
            "line 7: oauth.clients[0].redirect_uris must not be empty",
        ),
        (
            PROVIDER + 'scope_claims = ["groups"]\n[oauth.provider.scope_map]\nadmins = "hub:admin"\n',
            'line 8: oauth.provider.scope_map.admins must be a list, such as ["hub:admin"]',
        ),
        (
            PROVIDER + '[oauth.provider.scope_map]\nadmins = ["hub:admin"]\n',
            "line 6: oauth.provider.scope_map can grant nothing without `scope_claims`",
        ),
        (
            '[oauth]\nfront_door = true\npublic_url = "http://localhost:3300/mcp/"\n',
            "line 3: oauth.public_url must not end with /mcp, ",
        ),
        (
            PROVIDER + 'client_secret = "hunter2hunter2"\n',
            'line 6: oauth.provider.client_secret must say where the secret is, such as { env = "NAME" }',
        ),
        ("[audit]\nretention_days = -1\n", "line 2: audit.retention_days must be at least 1, not '-1'"),
        ("unix_socket_mode = '888'\n", "line 1: unix_socket_mode must be an octal number from 000 to 777, such as 660"),
        ("[secrets.a]\n", "line 1: secrets.a: set one of env, file, keyring and command"),
        (
            '[servers.x]\nurl = "https://a.example"\nport = 3300\n',
            "line 3: servers.x.port is not a setting; 'port' belongs to the top level: put it before the first",
        ),
        (
            RULE + 'effect = "deny"\ntenants = ["acme", "acmee"]\n',
            "line 5: policy.rules[0].tenants[1]: unknown tenant 'acmee'; did you mean 'acme'?",
        ),
        (
            '[[policy.rules]]\neffect = "deny"\ntenants = ["acme"]\n',
            "line 3: policy.rules[0].tenants[0]: unknown tenant 'acme'; none are defined",
        ),
        (
            TENANT + '[[quotas]]\nlimit = "1/minute"\ntenants = ["acmee"]\n',
            "line 5: quotas[0].tenants[0]: unknown tenant 'acmee'; did you mean 'acme'?",
        ),
        (
            TENANT + '[secrets.a]\nenv = "A"\ntenants = ["acmee"]\n',
            "line 5: secrets.a.tenants: unknown tenant 'acmee'; did you mean 'acme'?",
        ),
        (
            TENANT + '[secrets.a.tenant.acmee]\nenv = "A"\n',
            "line 3: secrets.a.tenant.acmee: unknown tenant 'acmee'; did you mean 'acme'?",
        ),
        (
            '[egress]\nallow = ["a.example",\n"https://x.example/"]\n',
            "line 2: egress.allow[1]: 'https://x.example/' is not a host",
        ),
        ('[egress]\nproxy = "x"\n', "line 2: egress.proxy: must look like http://HOST:PORT"),
        (
            OAUTH + 'database = "mysql://root:hunter2@x/y"\n',
            "line 3: oauth.database: invalid database URL; write sqlite:",
        ),
        ('[audit]\ndatabase = "mysql://root:hunter2@x/y"\n', "line 2: audit.database: invalid database URL"),
        (
            OAUTH + 'front_door = true\n[[oauth.clients]]\nclient_id = "r"\nname = "R"\n'
            'redirect_uris = ["https://a.example", "http://a.example"]\n',
            "line 7: oauth.clients[0].redirect_uris[1]: 'http://a.example' must use https, or http on a loopback",
        ),
        ('limits = ["mcp=600"]\n', "line 1: limits: 'mcp=600' is not a rate limit; write it as mcp=100/minute"),
        (
            '[servers.x]\nprefix_text = "a b"\nurl = "https://a.example"\n',
            "line 2: servers.x.prefix_text must be text of",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_to_write(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check(tmp_path, text)
    assert f"hubbub.toml {message}" in caught.value.message
    assert "hunter2" not in caught.value.message


def test_patterns_of_tenants_need_not_match_a_tenant(tmp_path: Path) -> None:
    check(tmp_path, RULE + 'effect = "deny"\ntenants = ["team-*", "[xy]", "acme"]\n')
