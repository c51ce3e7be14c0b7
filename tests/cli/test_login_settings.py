"""`hubbub login` and `logout`, and `[servers.NAME.oauth]`, with an authorization server that a test changes."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.cli.conftest import clean_environment
from tests.identity.scripted_browser import ScriptedBrowser
from tests.oauth.client.protected_server import ProtectedServer, protected_server

from hubbub import FileCredentialStore
from hubbub.oauth.client.machine_grants import ID_JAG_TYPE, ID_TOKEN_TYPE, JWT_BEARER, TOKEN_EXCHANGE

URL = re.compile(r"http://\S+response_type=code\S+")
NEEDS_LOGIN = 3


class Shell:
    """Runs commands with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folders = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CONFIG")}
        kept = {name: value for name, value in clean_environment().items() if name not in ("DISPLAY", "BROWSER")}
        self.environ = kept | folders | {"HUBBUB_CREDENTIALS": "file"}
        self.store = FileCredentialStore(folder / "data" / "hubbub", environ=self.environ)

    def write(self, server: ProtectedServer, *lines: str) -> Path:
        file = self.folder / "servers.toml"
        file.write_text("\n".join((f'[servers.notes]\nurl = "{server.url}"\n[servers.notes.oauth]', *lines)))
        return file

    @asynccontextmanager
    async def start(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hubbub", *arguments,
            cwd=self.folder, env=self.environ,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, stdout and stderr."""
        async with self.start(*arguments) as process:
            out, err = await process.communicate()
            return process.returncode or 0, out.decode(), err.decode()

    async def log_in(self, server: ProtectedServer, *arguments: str) -> dict[str, list[str]]:
        """Log in, and return the parameters of the authorization request."""
        async with self.start("login", *arguments, "--no-browser") as process:
            assert process.stderr is not None
            shown, found = "", None
            while found is None:
                line = (await process.stderr.readline()).decode()
                assert line, shown
                shown += line
                found = URL.search(line)
            redirect = await server.log_in(found[0])
            page = await asyncio.to_thread(ScriptedBrowser().visit, redirect)
            assert page.status == 200, page.text
            out, err = await process.communicate()
            assert process.returncode == 0, err
            assert b"Logged in" in out
        return parse_qs(urlsplit(found[0]).query)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


async def test_the_quirks_of_a_server_are_those_of_its_section(shell: Shell) -> None:
    async with protected_server() as server:
        del server.metadata["code_challenge_methods_supported"]
        quirks = ("omit_resource = true", 'prompt = "select_account"')
        code, _, error = await shell.run(
            "login", "notes", "--config", str(shell.write(server, *quirks)), "--no-browser"
        )
        assert (code, "set `assume_pkce`" in error) == (NEEDS_LOGIN, True)
        file = shell.write(server, *quirks, "assume_pkce = true")
        sent = await shell.log_in(server, "notes", "--config", str(file))
        assert (sent["prompt"], "resource" in sent) == (["select_account"], False)
        assert all("resource" not in form for form in server.token_requests)


async def test_a_client_metadata_document_is_used_instead_of_a_registration(shell: Shell) -> None:
    document = "https://client.example.com/hubbub.json"
    async with protected_server() as server:
        server.metadata["client_id_metadata_document_supported"] = True
        sent = await shell.log_in(server, server.url, "--client-metadata-url", document)
        assert sent["client_id"] == [document]
        assert server.registrations == []


async def test_a_workload_presents_the_assertion_in_its_file(shell: Shell) -> None:
    async with protected_server() as server:
        (shell.folder / "token.jwt").write_text("a-platform-token\n")
        lines = ('grant = "jwt_bearer"', f'issuer = "{server.origin}"', 'assertion_file = "token.jwt"')
        file = shell.write(server, *lines)
        code, _, error = await shell.run("tools", "notes", "--config", str(file))
        assert code == 0, error
        assert [(form["grant_type"], form["assertion"]) for form in server.token_requests] == [
            (JWT_BEARER, "a-platform-token")
        ]
        (shell.folder / "token.jwt").unlink()
        code, out, error = await shell.run("tools", "notes", "--config", str(file))
        assert code != 0
        assert "token.jwt cannot be read" in error
        assert "a-platform-token" not in out + error


@pytest.mark.parametrize(
    ("lines", "token_type"), [((), "access_token"), (('subject_token_type = "id_token"',), "id_token")]
)
async def test_a_token_in_a_file_is_exchanged(shell: Shell, lines: tuple[str, ...], token_type: str) -> None:
    async with protected_server() as server:
        (shell.folder / "token").write_text("a-token-of-ada\n")
        given = ('grant = "token_exchange"', f'issuer = "{server.origin}"', 'client_id = "hub"')
        file = shell.write(server, *given, 'subject_token_file = "token"', *lines)
        code, out, error = await shell.run("tools", "notes", "--config", str(file))
        assert code == 0, error
        (form,) = server.token_requests
        assert (form["grant_type"], form["subject_token"]) == (TOKEN_EXCHANGE, "a-token-of-ada")
        assert form["subject_token_type"] == f"urn:ietf:params:oauth:token-type:{token_type}"
        assert (form["client_id"], form["resource"]) == ("hub", server.url)
        assert "a-token-of-ada" not in out + error


async def test_an_id_token_in_a_file_is_exchanged_at_the_provider_of_the_company(shell: Shell) -> None:
    async with protected_server() as server, protected_server() as company:
        company.token_fields = {"access_token": "an-assertion", "token_type": "N_A", "issued_token_type": ID_JAG_TYPE}
        (shell.folder / "id_token").write_text("the-id-token-of-ada")
        file = shell.write(
            server,
            *('grant = "enterprise_managed"', f'issuer = "{server.origin}"', 'client_id = "hub"'),
            *(
                "[servers.notes.oauth.identity_provider]",
                f'issuer = "{company.origin}"',
                'client_id = "at-the-company"',
            ),
            'id_token_file = "id_token"',
        )
        code, out, error = await shell.run("tools", "notes", "--config", str(file))
        assert code == 0, error
        (exchanged,) = company.token_requests
        assert (exchanged["subject_token"], exchanged["subject_token_type"]) == ("the-id-token-of-ada", ID_TOKEN_TYPE)
        assert (exchanged["client_id"], exchanged["audience"]) == ("at-the-company", server.origin)
        (form,) = server.token_requests
        assert (form["grant_type"], form["assertion"], form["client_id"]) == (JWT_BEARER, "an-assertion", "hub")
        assert "the-id-token-of-ada" not in out + error
        company.token_fields = {"access_token": "x", "issued_token_type": ID_TOKEN_TYPE}
        code, _, error = await shell.run("tools", "notes", "--config", str(file))
        assert code != 0
        assert "enable enterprise-managed authorization there" in error


async def test_every_login_ends_also_if_its_tokens_cannot_be_revoked(shell: Shell) -> None:
    async def fail(request: Any) -> None:
        await request.reply(503)

    async with protected_server() as one, protected_server() as other:
        for server in (one, other):
            await shell.log_in(server, server.url)
        one.handle["/revoke"] = fail
        code, out, error = await shell.run("logout", "--all")
        assert code == 0
        assert f"Logged out of {one.url}: its tokens are deleted, but not revoked." in out
        assert f"Logged out of {other.url}: its tokens are revoked and deleted." in out
        assert f"the tokens for {one.url} could not be revoked" in error
        assert await shell.store.list() == []
        for token in one.valid_tokens:
            assert token not in out + error
        assert (await shell.run("logout", "--all"))[0] == 0


async def test_a_new_login_uses_the_same_client_and_ends_the_previous_grant(shell: Shell) -> None:
    async with protected_server() as server:
        first = await shell.log_in(server, server.url)
        (key,) = await shell.store.list()
        replaced = await shell.store.load(key)
        assert replaced is not None
        second = await shell.log_in(server, server.url)
        assert len(server.registrations) == 1
        assert first["client_id"] == second["client_id"]
        revoked = [form["token"] for form in server.token_requests if "token" in form]
        assert revoked == [replaced.refresh_token, replaced.access_token]
        code, _, error = await shell.run("tools", server.url)
        assert code == 0, error


async def test_a_new_login_that_ends_with_the_previous_grant_is_repeated(shell: Shell) -> None:
    async def revoke_all(request: Any) -> None:
        server.revoke_tokens()
        server.handle["/token"] = refuse_once
        await request.reply(200)

    async def refuse_once(request: Any) -> None:
        del server.handle["/token"]
        await request.reply(400, {"error": "invalid_grant"})

    async with protected_server() as server:
        await shell.log_in(server, server.url)
        server.handle["/revoke"] = revoke_all
        async with shell.start("login", server.url, "--no-browser") as process:
            assert process.stderr is not None
            logins, shown = 0, ""
            while logins < 2:
                line = (await process.stderr.readline()).decode()
                assert line, shown
                shown += line
                if found := URL.search(line):
                    logins += 1
                    await asyncio.to_thread(ScriptedBrowser().visit, await server.log_in(found[0]))
            out, _ = await process.communicate()
        assert "together with the previous one: log in again" in " ".join(shown.split())
        assert b"Logged in" in out
        code, _, error = await shell.run("tools", server.url)
        assert code == 0, error


async def test_a_client_without_the_requested_scope_is_registered_again(shell: Shell) -> None:
    async with protected_server() as server:
        server.resource["scopes_supported"] = ["read"]
        await shell.log_in(server, server.url)
        await shell.log_in(server, server.url, "--scope", "write")
        assert [each["scope"] for each in server.registrations] == ["read", "write read"]


async def test_scopes_that_were_not_granted_are_shown(shell: Shell) -> None:
    async with protected_server() as server:
        server.token_fields = {"expires_in": 600, "scope": ""}
        await shell.log_in(server, server.url, "--scope", "hub:admin")
        _, out, _ = await shell.run("whoami", server.url)
        assert "scopes    none (requested: hub:admin)" in out
        assert "expires   refreshed automatically; this token: 20" in out
        server.token_fields = {"expires_in": 600, "scope": "a"}
        await shell.log_in(server, server.url, "--scope", "a b")
        _, out, _ = await shell.run("whoami", server.url)
        assert "scopes    a (not granted: b)" in out


async def test_a_login_that_the_authorization_server_has_ended_is_shown_as_ended(shell: Shell) -> None:
    async def refuse(request: Any) -> None:
        await request.reply(400, {"error": "invalid_grant"})

    async with protected_server() as server:
        await shell.log_in(server, server.url)
        server.revoke_tokens()
        server.handle["/token"] = refuse
        assert (await shell.run("tools", server.url))[0] == NEEDS_LOGIN
        _, out, _ = await shell.run("whoami", server.url)
        assert f"expires   ended by the authorization server; run `hubbub login {server.url}`" in out
        _, out, _ = await shell.run("doctor", "--json")
        (check,) = json.loads(out)["logins"]
        assert not check["ok"]
        assert check["detail"].endswith(", ended")


async def test_an_unusable_keyring_is_found_before_the_login(shell: Shell) -> None:
    shell.environ |= {"HUBBUB_CREDENTIALS": "keyring", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    async with protected_server() as server:
        code, _, error = await shell.run("login", server.url)
        assert code == 2
        assert "set HUBBUB_CREDENTIALS=file" in error
        assert server.registrations == []


async def test_a_name_that_is_not_in_the_settings_cannot_log_in(shell: Shell) -> None:
    for command in ("login", "whoami", "logout"):
        code, _, error = await shell.run(command, "demmo")
        assert code == 2
        assert "unknown server 'demmo' (give the URL of a server, or the name of [servers.NAME]" in error
        assert "did you mean" not in error


async def test_consent_pages_name_the_command_line(shell: Shell) -> None:
    async with protected_server() as server:
        await shell.log_in(server, server.url)
        assert server.registrations[0]["client_name"] == "Hubbub command line"


async def test_a_refused_api_key_is_explained_by_the_server(shell: Shell) -> None:
    async def refuse(request: Any) -> None:
        text = f"This API key is unknown: {request.headers['x-api-key']}"
        await request.reply(401, {"error": text}, www_authenticate=server.challenge)

    async with protected_server() as server:
        server.handle["/mcp"] = refuse
        code, _, error = await shell.run("tools", server.url, "--header", "X-API-Key=4b1d-expired")
        assert code == NEEDS_LOGIN
        assert "status 401" in error
        assert "This API key is unknown: ***" in error
        assert f"run `hubbub login {server.url}`" in error
        assert "4b1d-expired" not in error


async def test_a_server_of_the_settings_needs_a_login_by_its_name(shell: Shell) -> None:
    async with protected_server() as server:
        file = shell.write(server)
        code, _, error = await shell.run("tools", "notes", "--config", str(file))
        assert code == NEEDS_LOGIN
        assert f"{server.url} needs a login: run `hubbub login notes`" in error
        assert "redirect_handler" not in error


@pytest.mark.parametrize("arguments", [("read", "hub://x"), ("prompts",)])
async def test_every_command_uses_the_login(shell: Shell, arguments: tuple[str, ...]) -> None:
    async with protected_server() as server:
        command, *rest = arguments
        code, _, error = await shell.run(command, server.url, *rest)
        assert code == NEEDS_LOGIN
        assert f"run `hubbub login {server.url}`" in error
        assert "redirect_handler" not in error
        await shell.log_in(server, server.url)
        _, _, error = await shell.run(command, server.url, *rest)
        assert "needs a login" not in error
        assert server.calls("initialize")
