"""`hubbub serve` with a server at which each user logs in: with a front door, and with keys and the command line."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.conftest import clean_environment
from tests.cli.pseudo_terminal import Terminal
from tests.http.keyring import Keyring
from tests.identity.hub_site import SECRET, oauth_section, provider_section
from tests.identity.protected_site import NOTES, ProtectedSite, serve
from tests.identity.provider_process import REDIRECT_URI, ProviderProcess
from tests.identity.scripted_browser import Page, ScriptedBrowser
from tests.ports import free_port

from hubbub import Client, MemoryCredentialStore, OAuth, ServerConfig
from hubbub.oauth.client.sql_store import SqlCredentialStore
from hubbub.security.sealer import Sealer, read_key

LINK = re.compile(r"http://\S+/oauth/connect/\S+")
AUTHORIZATION = re.compile(r"http://\S+response_type=code\S+")
TENANTS = '[[tenants]]\nname = "acme"\n[[tenants]]\nname = "globex"\n'


def notes_section(notes: ProtectedSite) -> str:
    return f"""
[servers.notes]
url = "{notes.url}"

[servers.notes.oauth]
scope = "mcp:tools notes:read"
per_user = true
"""


def home(folder: Path) -> dict[str, str]:
    """The variables of a home of its own, without a keyring."""
    folders = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE", "CONFIG")}
    return folders | {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


@contextmanager
def open_front_door(folder: Path, provider: ProviderProcess, notes: ProtectedSite) -> Iterator[ProtectedSite]:
    """A hub whose users log in at a provider."""
    port = free_port()
    client = provider.register(
        f"http://127.0.0.1:{port}/oauth/callback", application_type="web", grant_types=["authorization_code"]
    )
    sections = notes_section(notes) + TENANTS + oauth_section(port, folder) + provider_section(provider, client)
    with serve(folder, sections, port=port, environment=home(folder) | {SECRET: client["client_secret"]}) as site:
        yield site


def hub_login(provider: ProviderProcess, person: str) -> OAuth:
    """How a client of a person logs in at the hub."""
    browser = provider.new_browser()

    async def redirect(url: str) -> str:
        return (await asyncio.to_thread(browser.log_in, url, person, stop_at=REDIRECT_URI)).url

    return OAuth(redirect_handler=redirect, redirect_uri=REDIRECT_URI, store=MemoryCredentialStore())


def hub_client(hub: ProtectedSite, auth: OAuth, **options: Any) -> Client:
    config = ServerConfig(
        id="hub", transport="streamable_http", url=hub.url, auth=auth, capabilities={"elicitation": {"url": {}}}
    )
    return Client(config, **options)


async def test_the_hub_has_people_log_in_before_they_use_a_link(
    tmp_path: Path, oidc_provider: ProviderProcess, notes: ProtectedSite
) -> None:
    pages: list[Page] = []
    with open_front_door(tmp_path, oidc_provider, notes) as hub:
        refused: list[Page] = []

        async def answer(request: Any) -> dict[str, str]:
            refused.append(await asyncio.to_thread(ScriptedBrowser().log_in, request.url, "bob"))
            page = await asyncio.to_thread(ScriptedBrowser().log_in, request.url, "alice", on_page=pages.append)
            assert "You are logged in at notes" in page.text, page.text
            return {"action": "accept"}

        async with hub_client(hub, hub_login(oidc_provider, "alice"), elicitation=answer) as alice:
            connected = await alice.call_tool("hub.connect", {"server": "notes"})
            assert connected.structured_content == {"servers": [{"server": "notes", "connected": True}]}
            assert (await alice.call_tool("whoami")).structured_content["name"].endswith("alice")
        assert "another user" in refused[0].text
        assert any("alice (acme)" in page.text for page in pages)
        async with hub_client(
            hub, hub_login(oidc_provider, "bob"), elicitation=lambda request: {"action": "decline"}
        ) as bob:
            assert (await bob.call_tool("whoami")).is_error
        # In the database of `[oauth]`, because there is one.
        sealer = Sealer([read_key(tmp_path / "data" / "hubbub" / "sealing.key")])
        store = SqlCredentialStore(f"sqlite:///{tmp_path / 'oauth.db'}", sealer)
        (key,) = await store.list()
        assert key.principal == "acme/alice"
        found = await store.load(key)
        await store.close()
        assert found is not None
        journal = "".join(path.read_text() for path in (tmp_path / "audit").rglob("*.jsonl"))
        assert "credential.connect" in journal
        for text in (journal, hub.log):
            assert found.access_token not in text
            assert str(found.refresh_token) not in text


def run_command(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in clean_environment().items() if name not in ("DISPLAY", "BROWSER")}
    return subprocess.run(
        [sys.executable, "-m", "hubbub", *arguments],
        cwd=folder, env=kept | home(folder) | more, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def run_login(
    folder: Path, visit: Callable[[str], None], pattern: re.Pattern[str], *arguments: str, **more: str
) -> tuple[int, str, str]:
    """Run `hubbub login`, and be the person in front of it; return the exit code, and what it wrote."""
    kept = {name: value for name, value in clean_environment().items() if name not in ("DISPLAY", "BROWSER")}
    with subprocess.Popen(
        [sys.executable, "-m", "hubbub", "login", *arguments], cwd=folder, env=kept | home(folder) | more,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        shown = ""
        while (found := pattern.search(shown)) is None:
            line = process.stderr.readline()
            assert line, shown
            shown += line
        visit(found[0])
        written, errors = process.communicate(timeout=120)
    return process.returncode, written, shown + errors


def log_in_with_command(folder: Path, hub: ProtectedSite, key: Mapping[str, str], person: str) -> str:
    """Run `hubbub login HUB --upstream notes` as a person; return what it wrote."""

    def visit(url: str) -> None:
        browser = ScriptedBrowser()
        page = browser.submit(browser.visit(url), {"key": key["X-API-Key"]})
        page = browser.log_in(page.url, person)
        assert "You are logged in at notes" in page.text, page.text

    options = (hub.url, "--upstream", "notes", "--key-env", "HUB_KEY")
    code, written, errors = run_login(folder, visit, LINK, *options, HUB_KEY=key["X-API-Key"])
    assert code == 0, errors
    return written


def test_the_command_line_logs_in_and_out_at_a_server_behind_a_hub(tmp_path: Path, notes: ProtectedSite) -> None:
    ring, port, user_folder = Keyring(tmp_path / "keys.toml"), free_port(), tmp_path / "user"
    user_folder.mkdir()
    key, other = ring.add("laptop"), ring.add("desktop")
    sections = f"key_file = {json.dumps(os.fspath(ring.path))}\n{notes_section(notes)}"
    with serve(tmp_path, sections, port=port, environment=home(tmp_path)) as hub:
        written = log_in_with_command(user_folder, hub, key, "alice")
        assert written == f"Logged in at notes through {hub.url}.\n"

        def whoami(caller: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
            header = ("--header-env", "X-API-Key=HUB_KEY")
            return run_command(user_folder, "call", hub.url, "whoami", *header, HUB_KEY=caller["X-API-Key"])

        assert "alice" in whoami(key).stdout
        refused = whoami(other)
        assert refused.returncode == 1
        assert "/oauth/connect/" in refused.stderr
        unknown = run_command(
            user_folder, "login", hub.url, "--upstream", "nots", "--key-env", "HUB_KEY", HUB_KEY=key["X-API-Key"]
        )
        assert unknown.returncode == 1
        assert "did you mean 'notes'" in unknown.stderr
        ended = run_command(
            user_folder, "logout", hub.url, "--upstream", "notes", "--key-env", "HUB_KEY", HUB_KEY=key["X-API-Key"]
        )
        assert ended.returncode == 0, ended.stderr
        assert "/oauth/connect/" in whoami(key).stderr
        again = run_command(
            user_folder, "logout", hub.url, "--upstream", "notes", "--key-env", "HUB_KEY", HUB_KEY=key["X-API-Key"]
        )
        assert (again.returncode, again.stdout) == (1, "")
        assert "not logged in at notes" in again.stderr


def test_the_command_line_reports_a_login_that_the_person_declined(tmp_path: Path, notes: ProtectedSite) -> None:
    ring, port = Keyring(tmp_path / "keys.toml"), free_port()
    key = ring.add("laptop")["X-API-Key"]
    sections = f"key_file = {json.dumps(os.fspath(ring.path))}\n{notes_section(notes)}"

    def decline(url: str) -> None:
        browser = ScriptedBrowser()
        page = browser.submit(browser.visit(url), {"key": key})
        callback = f"http://127.0.0.1:{port}/oauth/upstream/callback"
        assert browser.visit(browser.refuse(page.url, "alice", stop_at=callback)).status == 502

    with serve(tmp_path, sections, port=port, environment=home(tmp_path)) as hub:
        options = (hub.url, "--upstream", "notes", "--key-env", "HUB_KEY")
        code, written, errors = run_login(tmp_path, decline, LINK, *options, HUB_KEY=key)
    assert (code, written) == (1, "")
    assert "the login at notes failed:" in errors
    assert "access_denied" in errors


def test_the_command_line_says_that_a_server_is_no_hub(tmp_path: Path) -> None:
    with serve(tmp_path, "", str(NOTES), port=free_port()) as site:
        for command in ("login", "logout"):
            done = run_command(tmp_path, command, site.url, "--upstream", "notes")
            assert done.returncode == 1
            assert f"{site.url} has no tool hub.connect: it is not a hub" in done.stderr


def test_a_page_of_another_origin_is_opened_only_if_the_person_agrees(tmp_path: Path, notes: ProtectedSite) -> None:
    ring, port = Keyring(tmp_path / "keys.toml"), free_port()
    key = ring.add("laptop")["X-API-Key"]
    oauth = '[oauth]\npublic_url = "http://localhost:1"\n'
    sections = f"key_file = {json.dumps(os.fspath(ring.path))}\n{notes_section(notes)}{oauth}"
    browser = tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o700)
    environment = home(tmp_path) | {"HUB_KEY": key, "BROWSER": os.fspath(browser)}
    with serve(tmp_path, sections, port=port, environment=home(tmp_path)) as hub:
        options = (hub.url, "--upstream", "notes", "--key-env", "HUB_KEY")
        with Terminal("login", *options, folder=tmp_path, **environment) as terminal:
            terminal.expect("http://localhost:1/oauth/connect/")
            terminal.expect("Open localhost:1 in the browser? [y/N]")
    assert not (tmp_path / "opened").exists()


def test_the_command_line_uses_the_login_at_the_hub(
    tmp_path: Path, oidc_provider: ProviderProcess, notes: ProtectedSite
) -> None:
    """Without --key-env: `hubbub login HUB`, then `hubbub login HUB --upstream notes` as the same person."""
    user_folder = tmp_path / "user"
    user_folder.mkdir()
    pages: list[Page] = []

    def log_in_at_hub(url: str) -> None:
        pages.append(oidc_provider.new_browser().log_in(url, "alice"))

    def log_in_at_notes(url: str) -> None:
        pages.append(ScriptedBrowser().log_in(url, "alice"))

    with open_front_door(tmp_path, oidc_provider, notes) as hub:
        code, _, errors = run_login(user_folder, log_in_at_hub, AUTHORIZATION, hub.url)
        assert code == 0, errors
        assert "Hubbub has received the login" in pages[-1].text
        before = run_command(user_folder, "logout", hub.url, "--upstream", "notes")
        assert before.returncode == 1
        assert "not logged in at notes" in before.stderr
        code, written, errors = run_login(user_folder, log_in_at_notes, LINK, hub.url, "--upstream", "notes")
        assert code == 0, errors
        assert "You are logged in at notes" in pages[-1].text
        assert written == f"Logged in at notes through {hub.url}.\n"
        assert "alice" in run_command(user_folder, "call", hub.url, "whoami").stdout
        ended = run_command(user_folder, "logout", hub.url, "--upstream", "notes")
        assert ended.returncode == 0, ended.stderr
        assert run_command(user_folder, "call", hub.url, "whoami").returncode == 1


def test_flags_that_the_hub_decides_are_refused(tmp_path: Path) -> None:
    done = run_command(tmp_path, "login", "http://127.0.0.1:1/mcp", "--upstream", "notes", "--client-id", "x")
    assert done.returncode == 2
    assert "--client-id cannot be used with --upstream" in done.stderr
    done = run_command(tmp_path, "login", "http://127.0.0.1:1/mcp", "--key-env", "HUB_KEY", HUB_KEY="x")
    assert done.returncode == 2
    assert "--key-env needs --upstream" in done.stderr
