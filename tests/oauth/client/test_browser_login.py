"""The listener and the terminal that receive the redirect of a login."""

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import yield_to_loop
from tests.identity.scripted_browser import Page, ScriptedBrowser

from hubbub import AuthorizationFailed, BrowserLogin, SettingsError

PAGE = "https://login.example/authorize?response_type=code&state=s3cret-state"


async def visit(url: str) -> Page:
    return await asyncio.to_thread(ScriptedBrowser().visit, url)


async def test_the_redirect_of_the_login_arrives_once() -> None:
    shown: list[str] = []
    async with BrowserLogin(shown.append, opens_browser=False).open() as receiver:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", receiver.redirect_uri)
        waiting = asyncio.create_task(receiver.authorize(PAGE))
        await asyncio.sleep(0)
        assert PAGE in "".join(shown)
        for query in ("code=c&state=wrong", "code=c", "", "state=", "&" * 100):
            page = await visit(f"{receiver.redirect_uri}?{query}")
            assert page.status == 400
        other = await visit(receiver.redirect_uri.replace("callback", "other?state=s3cret-state"))
        assert other.status == 404
        assert not waiting.done()
        query = urlencode({"code": "c", "state": "s3cret-state", "iss": "https://login.example"})
        page = await visit(f"{receiver.redirect_uri}?{query}")
        assert page.status == 200
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Cache-Control"] == "no-store"
        assert "s3cret" not in page.text
        assert await waiting == f"{receiver.redirect_uri}?{query}"
        again = await visit(f"{receiver.redirect_uri}?{query}")
        assert again.status == 400
    with pytest.raises(OSError, match="refused"):
        await visit(receiver.redirect_uri)


@pytest.mark.parametrize(
    ("error", "said"),
    [("invalid_scope", "The authorization server refused the login"), ("access_denied", "You cancelled the login")],
)
async def test_a_refusal_is_a_redirect_too(error: str, said: str) -> None:
    async with BrowserLogin(lambda line: None, opens_browser=False).open() as receiver:
        waiting = asyncio.create_task(receiver.authorize(PAGE))
        await asyncio.sleep(0)
        page = await visit(f"{receiver.redirect_uri}?error={error}&state=s3cret-state")
        assert said in page.text
        assert 'name="viewport"' in page.text
        assert "color-scheme:light dark" in page.text
        assert f"error={error}" in await waiting


async def test_the_browser_of_the_person_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "browser.py"
    program.write_text("import pathlib, sys\npathlib.Path(sys.argv[1]).write_text(sys.argv[2])\n")
    found = tmp_path / "url"
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} {found} %s")
    async with BrowserLogin(lambda line: None).open() as receiver:
        waiting = asyncio.create_task(receiver.authorize(PAGE))
        while not found.exists() or not found.read_text():
            await asyncio.sleep(0)
        assert found.read_text() == PAGE
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


def typed(*lines: str | None) -> Callable[[], "asyncio.Future[str | None]"]:
    """A person who types these lines, and then nothing."""
    rest = iter(lines)

    def read() -> "asyncio.Future[str | None]":
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        with suppress(StopIteration):
            future.set_result(next(rest))
        return future

    return read


@pytest.mark.parametrize(
    "line",
    [
        "http://127.0.0.1:1/callback?code=c&state=s3cret-state",
        "  code=c&state=s3cret-state ",
        "?code=c&state=s3cret-state",
        "'http://127.0.0.1:1/callback?code=c&state=s3cret-state'",
        ' "http://127.0.0.1:1/callback?code=c&state=s3cret-state" ',
        "<http://127.0.0.1:1/callback?code=c&state=s3cret-state>",
    ],
)
async def test_an_address_can_be_pasted(line: str) -> None:
    shown: list[str] = []
    lines = typed("", "http://[bad", "the-code-alone", "http://127.0.0.1:1/callback?code=c&state=other", line)
    async with BrowserLogin(shown.append, opens_browser=False, read_line=lines).open() as receiver:
        assert await receiver.authorize(PAGE) == line.strip(" '\"<>")
    assert sum("copy the whole address" in each for each in shown) == 3


async def test_an_end_of_input_leaves_the_browser() -> None:
    lines, shown = typed(None), list[str]()
    async with BrowserLogin(shown.append, opens_browser=False, read_line=lines).open() as receiver:
        waiting = asyncio.create_task(receiver.authorize(PAGE))
        await yield_to_loop()
        assert "can still be completed in a browser" in shown[-1]
        await visit(f"{receiver.redirect_uri}?code=c&state=s3cret-state")
        assert "code=c" in await waiting


async def test_a_redirect_uri_elsewhere_needs_a_terminal() -> None:
    uri = "https://tools.example/callback"
    with pytest.raises(SettingsError, match="needs a terminal"):
        BrowserLogin(lambda line: None, redirect_uri=uri)
    async with BrowserLogin(
        lambda line: None, redirect_uri=uri, opens_browser=False, read_line=typed(f"{uri}?state=s3cret-state&code=c")
    ).open() as receiver:
        assert receiver.redirect_uri == uri
        assert await receiver.authorize(PAGE) == f"{uri}?state=s3cret-state&code=c"
    async with BrowserLogin(
        lambda line: None, redirect_uri=uri, opens_browser=False, read_line=typed(None)
    ).open() as receiver:
        with pytest.raises(AuthorizationFailed, match="No redirect was pasted"):
            await receiver.authorize(PAGE)


async def test_a_port_can_be_fixed_and_must_be_free() -> None:
    async with BrowserLogin(lambda line: None, opens_browser=False).open() as first:
        uri = first.redirect_uri.replace("127.0.0.1", "localhost").replace("callback", "done")
        with pytest.raises(AuthorizationFailed, match=r"cannot be received: .*try another redirect URI"):
            async with BrowserLogin(lambda line: None, redirect_uri=uri).open():
                pass
    async with BrowserLogin(lambda line: None, redirect_uri=uri).open() as second:
        assert second.redirect_uri == uri


async def test_the_port_of_an_earlier_registration_is_used_if_it_is_free() -> None:
    async with BrowserLogin(lambda line: None, opens_browser=False).open() as first:
        login = BrowserLogin(lambda line: None, opens_browser=False)
        login.registered_uris = [first.redirect_uri.replace("callback", "other"), first.redirect_uri]
        async with login.open() as second:
            assert second.redirect_uri != first.redirect_uri
    async with login.open() as third:
        assert third.redirect_uri == first.redirect_uri


@given(st.text(max_size=80))
def test_no_other_line_ends_a_login(line: str) -> None:
    async def wait() -> None:
        login = BrowserLogin(
            lambda line: None,
            redirect_uri="https://tools.example/callback",
            opens_browser=False,
            read_line=typed(line, None),
        )
        async with login.open() as receiver:
            with pytest.raises(AuthorizationFailed):
                await receiver.authorize(PAGE)

    asyncio.run(wait())
