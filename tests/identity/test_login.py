"""`hubbub login`, `logout` and `whoami` with a real authorization server, and commands that use the login."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import msgspec
import pytest
from tests.cli.conftest import clean_environment
from tests.cli.pseudo_terminal import Terminal
from tests.identity.protected_site import NOTES, ProtectedSite, serve
from tests.identity.provider_process import ProviderProcess
from tests.identity.scripted_browser import ScriptedBrowser
from tests.oauth.client.protected_server import protected_server
from tests.ports import free_port

from hubbub import CredentialKey, Credentials, FileCredentialStore

SCOPE = "mcp:tools notes:read"
URL = re.compile(r"http://\S+response_type=code\S+")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of its own for each test, without a keyring and a browser."""
    folders = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("DATA", "STATE", "CONFIG")}
    kept = {name: value for name, value in clean_environment().items() if name not in ("DISPLAY", "BROWSER")}
    return kept | folders | {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


@pytest.fixture
def store(tmp_path: Path) -> FileCredentialStore:
    """The credentials of that home."""
    return FileCredentialStore(tmp_path / "data" / "hubbub", environ={})


@pytest.fixture
def hubbub(tmp_path: Path, environ: dict[str, str]) -> Run:
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hubbub", *arguments],
            cwd=tmp_path, env=environ | more, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def log_in(
    tmp_path: Path, environ: dict[str, str], oidc_provider: ProviderProcess, site: ProtectedSite
) -> Callable[..., str]:
    """`log_in(*options, person="alice")`: what `hubbub login` wrote to stdout."""

    def run(*options: str, person: str = "alice", **more: str) -> str:
        command = [sys.executable, "-m", "hubbub", "login", site.url, *options]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environ | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            found, shown = None, ""
            while found is None:
                line = process.stderr.readline()
                assert line, shown
                shown += line
                found = URL.search(line)
            page = oidc_provider.new_browser().log_in(found[0], person)
            assert "Hubbub has received the login" in page.text
            written, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return written

    return run


async def only_login(store: FileCredentialStore) -> tuple[CredentialKey, Credentials]:
    (key,) = await store.list()
    found = await store.load(key)
    assert found is not None
    return key, found


async def expire(store: FileCredentialStore) -> str | None:
    """Let the access token expire; return the refresh token."""
    key, credentials = await only_login(store)
    await store.save(key, msgspec.structs.replace(credentials, expires_at=1.0))
    return credentials.refresh_token


def read_answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["structuredContent"]


async def test_a_login_is_used_by_other_commands_until_logout(
    log_in: Callable[..., str], hubbub: Run, site: ProtectedSite, store: FileCredentialStore
) -> None:
    before = hubbub("call", site.url, "whoami", "--json")
    assert before.returncode == 3
    assert f"run `hubbub login {site.url}`" in before.stderr
    written = log_in("--scope", f"openid offline_access {SCOPE}")
    assert written.startswith(f"Logged in.\n{site.url}\n  user      alice")
    assert "alice" in read_answer(hubbub("call", site.url, "whoami", "--json"))["name"]
    shown = hubbub("whoami", site.url, "--json")
    (login,) = json.loads(shown.stdout)["logins"]
    assert login["server"] == site.url
    assert "alice" in login["subject"]
    assert login["store"] == "file"
    assert login["state"] == "valid"
    _, credentials = await only_login(store)
    ended = hubbub("logout", site.url)
    assert ended.stderr == ""
    assert ended.stdout == f"Logged out of {site.url}: its tokens are revoked and deleted.\n"
    assert hubbub("call", site.url, "whoami").returncode == 3
    assert hubbub("whoami", site.url).returncode == 1
    assert hubbub("logout", site.url).returncode == 1
    for token in filter(None, (credentials.access_token, credentials.refresh_token, credentials.id_token)):
        for done in (before, shown, ended):
            assert token not in done.stdout + done.stderr + written


async def test_two_processes_refresh_once_and_lose_no_token(
    log_in: Callable[..., str],
    hubbub: Run,
    tmp_path: Path,
    environ: dict[str, str],
    site: ProtectedSite,
    store: FileCredentialStore,
) -> None:
    log_in("--scope", f"openid offline_access {SCOPE}")
    for _ in range(2):  # the provider ends the login when a refresh token is used twice
        before = await expire(store)
        assert before is not None
        command = [sys.executable, "-m", "hubbub", "call", site.url, "whoami", "--json"]
        running = [
            await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
            for _ in range(3)
        ]
        answers = [(await process.communicate())[0] for process in running]
        assert all("alice" in json.loads(answer)["structuredContent"]["name"] for answer in answers)
        _, after = await only_login(store)
        assert after.refresh_token != before
    assert (tmp_path / "data/hubbub/credentials.sealed").stat().st_mode & 0o777 == 0o600


async def test_a_registered_client_with_a_secret_is_refreshed_without_it(
    log_in: Callable[..., str], hubbub: Run, oidc_provider: ProviderProcess, site: ProtectedSite,
    store: FileCredentialStore,
) -> None:  # fmt: skip
    client = oidc_provider.register("http://127.0.0.1/callback")
    log_in(
        *("--issuer", oidc_provider.issuer, "--client-id", client["client_id"], "--client-secret-env", "SECRET"),
        *("--scope", f"openid offline_access {SCOPE}"),
        person="bob",
        SECRET=client["client_secret"],
    )
    await expire(store)
    assert "bob" in read_answer(hubbub("call", site.url, "whoami", "--json"))["name"]


def test_an_address_pasted_into_the_terminal_ends_the_login(
    tmp_path: Path, environ: dict[str, str], oidc_provider: ProviderProcess, site: ProtectedSite
) -> None:
    with Terminal("login", site.url, "--no-browser", "--scope", SCOPE, folder=tmp_path, **environ) as terminal:
        shown = terminal.expect("press Enter.")
        found = URL.search(shown)
        assert found is not None
        redirect_uri = parse_qs(urlsplit(found[0]).query)["redirect_uri"][0]
        page = oidc_provider.new_browser().log_in(found[0], "alice", stop_at=redirect_uri)
        terminal.type("http://127.0.0.1/callback?code=x&state=other\n")
        terminal.expect("not the address of the last page")
        terminal.type(f"{page.url}\n")
        terminal.expect("Logged in.")
        assert terminal.end()[0] == 0


async def test_a_login_whose_tokens_cannot_be_refreshed_any_more_is_renewed_by_a_person(
    log_in: Callable[..., str], hubbub: Run, site: ProtectedSite, store: FileCredentialStore
) -> None:
    log_in("--scope", SCOPE)
    key, credentials = await only_login(store)
    await store.save(
        key, msgspec.structs.replace(credentials, expires_at=1.0, refresh_token=None, access_token="revoked")
    )
    done = hubbub("call", site.url, "whoami")
    assert done.returncode == 3
    assert f"run `hubbub login {site.url}`" in done.stderr
    checks = json.loads(hubbub("doctor", "--json").stdout)["logins"]
    assert checks[0]["name"] == site.url
    assert not checks[0]["ok"]
    assert f"hubbub login {site.url}" in checks[0]["advice"]


def test_a_secret_is_sent_only_to_a_named_authorization_server(hubbub: Run, site: ProtectedSite) -> None:
    done = hubbub("login", site.url, "--client-id", "4711", "--client-secret-env", "SECRET", SECRET="s3cret")
    assert done.returncode == 2
    assert "--client-secret-env needs --issuer" in done.stderr


def test_a_server_without_a_login_is_named(hubbub: Run, tmp_path: Path) -> None:
    port = free_port()
    with serve(tmp_path, "", str(NOTES), port=port) as open_site:
        done = hubbub("login", open_site.url)
    assert done.returncode == 3
    assert f"{open_site.url} did not ask for a login: it answered a request without a token with status" in done.stderr


async def test_a_server_does_not_get_a_code_of_another_one(tmp_path: Path, environ: dict[str, str]) -> None:
    """The mix-up attack: another server has a client that was registered by hand, whose id many people know."""
    async with protected_server() as honest, protected_server() as evil:
        evil.metadata["authorization_response_iss_parameter_supported"] = None
        honest.redirect_changes = {"iss": None}
        login = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hubbub", "login", evil.url, "--no-browser"),
            cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert login.stderr is not None
            shown = ""
            while (found := URL.search(shown)) is None:
                shown = (await login.stderr.readline()).decode()
                assert shown
            # The authorization server of `evil` sends the browser on, with the client id and redirect URI of the other.
            asked = dict(parse_qsl(urlsplit(found[0]).query))
            port = urlsplit(asked["redirect_uri"]).port
            wanted = {**asked, "client_id": "known", "redirect_uri": f"http://127.0.0.1:{port}/callback"}
            redirect = await honest.log_in(f"{honest.metadata['authorization_endpoint']}?{urlencode(wanted)}")
            page = await asyncio.to_thread(ScriptedBrowser().visit, redirect)
            assert (page.status, "Unknown login" in page.text) == (404, True)
            assert not evil.token_requests
        finally:
            login.terminate()
            await login.communicate()
