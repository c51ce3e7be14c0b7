"""`[servers.NAME.oauth]`: commands and a hub obtain tokens for the servers in the settings."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey
from tests.cli.conftest import clean_environment
from tests.identity.protected_site import ProtectedSite, protect_notes
from tests.identity.provider_process import REDIRECT_URI, ProviderProcess

from hubbub import Client, CredentialKey, FileCredentialStore, OAuth, ServerConfig
from hubbub.oauth.client.machine_grants import TOKEN_EXCHANGE

SCOPE = "mcp:tools notes:read"


def write_settings(folder: Path, site: ProtectedSite, *lines: str) -> Path:
    file = folder / "servers.toml"
    file.write_text("\n".join([f'[servers.notes]\nurl = "{site.url}"', *lines]))
    return file


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    folders = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CONFIG")}
    return subprocess.run(
        [sys.executable, "-m", "hubbub", *arguments],
        cwd=folder, env=clean_environment() | folders | environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def hub_command(file: Path) -> list[str]:
    """A command after `--` that starts a hub on stdio with these settings."""
    return [
        *("--env", "SECRET", "--env", "XDG_DATA_HOME", "--", sys.executable, "-m", "hubbub", "serve"),
        *("--config", str(file), "--transport", "stdio"),
    ]


@pytest.mark.parametrize("reference", ["${SECRET}", "${secret:notes}"])
def test_a_program_uses_its_secret(
    reference: str, tmp_path: Path, oidc_provider: ProviderProcess, site: ProtectedSite
) -> None:
    client = oidc_provider.register()
    file = write_settings(
        tmp_path, site,
        "[servers.notes.oauth]", 'grant = "client_credentials"', f'issuer = "{oidc_provider.issuer}"',
        f'client_id = "{client["client_id"]}"', f'client_secret = "{reference}"', f'scope = "{SCOPE}"',
        '[secrets.notes]\nenv = "SECRET"' if "secret:" in reference else "",
    )  # fmt: skip
    direct = run(tmp_path, "call", "notes", "whoami", "--json", "--config", str(file), SECRET=client["client_secret"])
    assert direct.returncode == 0, direct.stderr
    assert json.loads(direct.stdout)["structuredContent"]["scopes"] == SCOPE.split()
    through_hub = run(tmp_path, "call", "whoami", "--json", *hub_command(file), SECRET=client["client_secret"])
    assert through_hub.returncode == 0, through_hub.stderr
    assert json.loads(through_hub.stdout)["structuredContent"]["scopes"] == SCOPE.split()
    assert client["client_secret"] not in direct.stdout + direct.stderr + through_hub.stdout + through_hub.stderr
    refused = run(tmp_path, "login", "notes", "--config", str(file), SECRET=client["client_secret"])
    assert refused.returncode == 2
    assert "'notes' uses the grant client_credentials, which gets its tokens without a login" in refused.stderr


def test_a_program_signs_with_the_key_in_a_file(
    tmp_path: Path, oidc_provider: ProviderProcess, site: ProtectedSite
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = ECKey.import_key(pem).as_dict(private=False, kid="ours", use="sig", alg="ES256")
    client = oidc_provider.register(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [public]})
    (tmp_path / "key.pem").write_bytes(pem)
    file = write_settings(
        tmp_path, site,
        "[servers.notes.oauth]", 'grant = "client_credentials"', f'issuer = "{oidc_provider.issuer}"',
        f'client_id = "{client["client_id"]}"', 'private_key_file = "key.pem"', 'private_key_id = "ours"',
        f'scope = "{SCOPE}"',
    )  # fmt: skip
    done = run(tmp_path, "call", "notes", "whoami", "--json", "--config", str(file))
    assert done.returncode == 0, done.stderr


def test_a_token_for_another_server_is_exchanged_in_the_name_of_the_same_person(
    tmp_path: Path, authlib_provider: ProviderProcess
) -> None:
    with protect_notes(tmp_path, authlib_provider) as site:
        client = authlib_provider.register(grant_types=[TOKEN_EXCHANGE])
        token = authlib_provider.user_token("alice", "https://another.example.com", SCOPE)["access_token"]
        (tmp_path / "token").write_text(token)
        file = write_settings(
            tmp_path, site,
            "[servers.notes.oauth]", 'grant = "token_exchange"', f'issuer = "{authlib_provider.issuer}"',
            f'client_id = "{client["client_id"]}"', 'client_secret = "${SECRET}"', f'scope = "{SCOPE}"',
            'subject_token_file = "token"',
        )  # fmt: skip
        secret = client["client_secret"]
        done = run(tmp_path, "call", "notes", "whoami", "--json", "--config", str(file), SECRET=secret)
        assert done.returncode == 0, done.stderr
        known = json.loads(done.stdout)["structuredContent"]
        assert "alice" in known["name"]
        assert known["scopes"] == SCOPE.split()
        through_hub = run(tmp_path, "call", "whoami", "--json", *hub_command(file), SECRET=secret)
        assert through_hub.returncode == 0, through_hub.stderr
        assert "alice" in json.loads(through_hub.stdout)["structuredContent"]["name"]
        (tmp_path / "token").write_text("not-a-token-of-the-provider")
        refused = run(tmp_path, "call", "notes", "whoami", "--config", str(file), SECRET=secret)
        assert refused.returncode != 0
        assert "'subject_token' is invalid" in refused.stderr
        assert "not-a-token-of-the-provider" not in refused.stdout + refused.stderr


async def test_a_hub_uses_and_refreshes_the_login_of_its_user(
    tmp_path: Path, oidc_provider: ProviderProcess, site: ProtectedSite
) -> None:
    file = write_settings(tmp_path, site, "[servers.notes.oauth]")
    store = FileCredentialStore(tmp_path / "data" / "hubbub", environ={"HUBBUB_CREDENTIALS": "file"})
    browser = oidc_provider.new_browser()

    async def log_in(url: str) -> str:
        return browser.log_in(url, "alice", stop_at=REDIRECT_URI).url

    oauth = OAuth(
        scope=f"openid offline_access {SCOPE}", store=store, redirect_handler=log_in, redirect_uri=REDIRECT_URI
    )  # fmt: skip
    async with Client(ServerConfig(id="notes", transport="streamable_http", url=site.url, auth=oauth)):
        pass
    key = CredentialKey(oidc_provider.issuer, site.url)
    before = await store.load(key)
    assert before is not None
    await store.save(key, msgspec.structs.replace(before, expires_at=1.0))
    done = run(tmp_path, "call", "whoami", "--json", *hub_command(file), SECRET="unused")
    assert done.returncode == 0, done.stderr
    assert "alice" in json.loads(done.stdout)["structuredContent"]["name"]
    after = await store.load(key)
    assert after is not None
    assert after.refresh_token != before.refresh_token


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('grant = "password"', "must be one of authorization_code, client_credentials, jwt_bearer, token_exchange"),
        ('grant = "client_credentials"', "needs client_secret or private_key_file"),
        ('client_id = "c"\nclient_secret = "s"', "needs client_id and issuer"),
        ('grant = "jwt_bearer"', "needs assertion_file and issuer"),
        (
            'grant = "jwt_bearer"\nissuer = "https://i"\nassertion_file = "f"\nper_user = true',
            "per_user needs the grant",
        ),
        ('grant = "token_exchange"\nissuer = "https://i"', "needs subject_token_file, client_id and issuer"),
        (
            'grant = "enterprise_managed"\nissuer = "https://i"\nclient_id = "c"',
            "needs identity_provider, client_id and issuer",
        ),
        (
            'grant = "enterprise_managed"\nissuer = "https://i"\nclient_id = "c"\n'
            '[servers.notes.oauth.identity_provider]\nissuer = "https://p"\nclient_id = "c"',
            "id_token_file",
        ),
        ('clientid = "c"', "is not a setting; did you mean 'client_id'?"),
        ('issuer = "http://login.example"', "`issuer` must be an https URL"),
        (
            'issuer = "https://i"\nclient_id = "c"\nclient_secret = "${MISSING}"',
            "oauth.client_secret needs the variable MISSING, which is not set",
        ),
        (
            'issuer = "https://i"\nclient_id = "c"\nclient_secret = "${secret:x}"',
            "refers to the secret 'x', which is not configured",
        ),
        (
            'issuer = "https://i"\nclient_id = "c"\nprivate_key_file = "missing.pem"',
            "missing.pem cannot be read: No such file",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_section_is_named(lines: str, problem: str, tmp_path: Path, site: ProtectedSite) -> None:
    file = write_settings(tmp_path, site, "[servers.notes.oauth]", lines)
    done = run(tmp_path, "tools", "notes", "--config", str(file))
    assert done.returncode == 2
    assert problem in done.stderr


def test_the_section_needs_a_url_and_no_other_credentials(tmp_path: Path, site: ProtectedSite) -> None:
    file = tmp_path / "servers.toml"
    file.write_text('[servers.notes]\ncommand = "x"\n[servers.notes.oauth]\n')
    assert (
        "the section oauth needs a server with a url" in run(tmp_path, "tools", "notes", "--config", str(file)).stderr
    )
    file.write_text(
        f'[servers.notes]\nurl = "{site.url}"\nheaders = {{ Authorization = "x" }}\n[servers.notes.oauth]\n'
    )
    assert "remove one of them" in run(tmp_path, "tools", "notes", "--config", str(file)).stderr
