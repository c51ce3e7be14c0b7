"""A sidecar on a TCP port: both ends prove that they know the token, and a relay between them learns nothing."""

import asyncio
import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clock import advance_clock
from tests.packs.activity.activitywatch_server import ActivityWatchServer
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.test_sidecar import needs_tesseract, picture_of
from tests.packs.activity.tool_clients import UNUSED_URL, connect_tool_client

from hubbub import Secret, SettingsError
from hubbub.packs.activity import limits
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings
from hubbub.packs.activity.sidecar_proof import Challenges, Exchange, make_nonce
from hubbub.packs.activity.sidecar_token import load_token, load_token_for

TOKEN = "the-token-of-the-test"
RULES = PrivacySettings(drop_titles=("canary-rule",))


class Relay:
    """Forwards everything to the real sidecar, and records it."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent: list[bytes] = []
        """Data from the pack, one item for each connection."""
        self.answered: list[bytes] = []

    def serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target, 10)
            for one, other, chunks in ((near, far, self.sent), (far, near, self.answered)):
                threading.Thread(target=self._forward, args=(one, other, chunks), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket, chunks: list[bytes]) -> None:
        try:
            while data := one.recv(65536):
                chunks.append(data)
                other.sendall(data)
        except OSError:
            pass
        finally:
            for each in (one, other):
                each.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def relay(port: int) -> Iterator[Relay]:
    made = Relay(port)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()


@needs_tesseract
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {TOKEN}"},  # sent in clear text, a relay could read it
        {"X-Hubbub-Nonce": "x" * 32, "X-Hubbub-Challenge": "x" * 64},
        {"X-Hubbub-Nonce": ""},
        {"X-Hubbub-Nonce": "\xe9" * 40},
    ],
)
def test_requests_without_a_proof_of_the_token_are_refused(headers: dict[str, str]) -> None:
    with run_sidecar("local", token=TOKEN) as asked:
        status, response = asked.request("POST", "/parse", {"capture": True}, **headers)
        own, _ = asked.request("POST", "/parse", {"base64_image": picture_of("Hello")})
        probed, probe = asked.request("GET", "/probe", **headers)
    assert (status, response["error"] in ("token_required", "proof_required")) == (401, True)
    assert (own, probed) == (200, 200)
    assert TOKEN not in json.dumps(probe)


@needs_tesseract
async def test_requests_with_a_proof_of_the_token_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with run_sidecar("local", token=TOKEN) as asked:
        async with connect_tool_client(sidecar_url=asked.url, sidecar_token=Secret(TOKEN)) as tool_client:
            error = await tool_client.failure("screen.read")
        async with connect_tool_client(sidecar_url=asked.url, sidecar_token=Secret("another")) as tool_client:
            unknown = await tool_client.failure("screen.read")
        async with connect_tool_client(sidecar_url=asked.url) as tool_client:
            without = await tool_client.failure("screen.read")
    assert (error["code"], error["data"]["status"]) == ("http_error", 503)
    assert "the screen cannot be captured" in error["message"]
    assert unknown["code"] == "token_mismatch"
    assert without["code"] == "unauthorized"
    assert "HUBBUB_ACTIVITY_SIDECAR_TOKEN" in without["message"]


@pytest.mark.parametrize(
    ("rules", "is_recorded", "is_noted"),
    [
        ({"drop_urls": ("bank",)}, False, True),
        ({"mask_urls": ("bank",)}, False, True),
        ({"drop_urls": ("bank",)}, True, False),
        ({"drop_titles": ("bank",)}, False, False),
    ],
)
async def test_screen_read_notes_when_url_rules_cannot_be_applied(
    rules: dict[str, Any], is_recorded: bool, is_noted: bool, watch: ActivityWatchServer
) -> None:
    """Windows do not show the URLs of their pages, so URL rules need the browser's watcher."""
    privacy = PrivacySettings(**rules)
    if is_recorded:
        watch.bucket("aw-watcher-web-firefox", "web.tab.current", host="unknown")
    with run_sidecar(token=TOKEN) as asked:
        for url in (watch.url, *(() if is_recorded else (UNUSED_URL,))):
            async with connect_tool_client(url, asked.url, sidecar_token=Secret(TOKEN), privacy=privacy) as tool_client:
                notes = (await tool_client.call("screen.read"))["notes"]
            assert any("aw-watcher-web" in note for note in notes) == is_noted


async def test_a_hanging_activitywatch_delays_screen_read_by_one_timeout() -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        if "/buckets" not in path or "/events" in path:
            return ScriptedResponse(hangs="/events" in path)
        loop.call_soon_threadsafe(advance_clock, 45)
        return ScriptedResponse(body=b'{"aw-watcher-web-firefox": {"type": "web.tab.current"}}')

    loop = asyncio.get_running_loop()
    with run_scripted_server(answer) as slow, run_sidecar(token=TOKEN) as asked:
        async with connect_tool_client(slow.url, asked.url, sidecar_token=Secret(TOKEN), timeout_s=60) as tool_client:
            reading = asyncio.create_task(tool_client.call("screen.read"))
            await slow.wait_until_hanging()
            advance_clock(15)
            assert (await reading)["text"]


@pytest.mark.parametrize(
    "probe",
    [
        {"message": "something else"},
        {"ok": True, "mode": "local"},
        {"ok": True, "mode": "local", "challenge": "x" * 64, "proof": "0" * 64},
        {"ok": True, "mode": "local", "challenge": "x" * 64, "proof": "\u00e9"},
        {"ok": True, "mode": "local", "challenge": "\r\nX-Evil: 1", "proof": None},
        {"ok": True, "mode": "local", "challenge": 7, "proof": 7},
    ],
)
async def test_a_foreign_server_on_the_port_receives_only_the_probe(probe: dict[str, object]) -> None:
    with run_scripted_server(ScriptedResponse(body=json.dumps(probe).encode())) as foreign_server:
        async with connect_tool_client(
            sidecar_url=foreign_server.url, sidecar_token=Secret(TOKEN), privacy=RULES
        ) as tool_client:
            error = await tool_client.failure("screen.read")
    assert error["code"] == "token_mismatch"
    assert "check which program it is" in error["message"]
    assert [method for method, _, _ in foreign_server.requests] == ["GET"]
    assert TOKEN not in str(foreign_server.requests)


async def test_a_relay_to_the_real_sidecar_learns_nothing() -> None:
    with run_sidecar(token=TOKEN) as true, relay(true.port) as foreign_server:
        async with connect_tool_client(
            sidecar_url=foreign_server.url, sidecar_token=Secret(TOKEN), privacy=RULES
        ) as tool_client:
            screen = await tool_client.call("screen.read")
    assert screen["text"] == "mock text\nmock icon"
    chunks = b"".join(foreign_server.sent + foreign_server.answered)
    assert b"POST /parse" in chunks
    assert not [word for word in (TOKEN.encode(), b"canary-rule", b"capture", b"mock text") if word in chunks]


async def test_a_replayed_request_is_refused() -> None:
    with run_sidecar(token=TOKEN) as true, relay(true.port) as foreign_server:
        async with connect_tool_client(sidecar_url=foreign_server.url, sidecar_token=Secret(TOKEN)) as tool_client:
            await tool_client.call("screen.read")
        kept = b"".join(foreign_server.sent)
        with socket.create_connection(("127.0.0.1", true.port), 10) as again:
            again.sendall(kept[kept.index(b"POST /parse") :])
            answer = http.client.HTTPResponse(again)
            answer.begin()
            response = json.loads(answer.read())
    assert (answer.status, response["error"]) == (401, "proof_required")


async def test_a_response_not_from_the_sidecar_is_refused() -> None:
    with run_sidecar(token=TOKEN) as true:

        def answer(method: str, path: str) -> ScriptedResponse:
            if method == "POST":
                return ScriptedResponse(
                    body=b'{"ok": true, "parsed_content_list": [{"type": "text", "content": "a lie"}]}'
                )
            nonce = foreign_server.requests[-1][2]["X-Hubbub-Nonce"]
            return ScriptedResponse(body=json.dumps(true.request("GET", path, **{"X-Hubbub-Nonce": nonce})[1]).encode())

        with run_scripted_server(answer) as foreign_server:
            async with connect_tool_client(sidecar_url=foreign_server.url, sidecar_token=Secret(TOKEN)) as tool_client:
                error = await tool_client.failure("screen.read")
    assert error["code"] == "token_mismatch"
    assert "a lie" not in json.dumps(error)


def test_a_challenge_is_valid_once_for_a_limited_time_and_for_its_issuer() -> None:
    now = [1000.0]
    challenges = Challenges(lambda: now[0])
    first, second, third = (challenges.issue() for _ in range(3))
    assert challenges.consume(first)
    assert not challenges.consume(first)
    assert not Challenges(lambda: now[0]).consume(second)
    assert not challenges.consume(second[:-1] + ("A" if second[-1] != "A" else "B"))
    assert [challenges.consume(text) for text in ("", "x", "\u00e9" * 64, "=" * 64)] == [False] * 4
    now[0] += limits.SIDECAR_CHALLENGE_MAX_S - 1
    assert challenges.consume(second)
    now[0] += 1
    assert not challenges.consume(third)
    assert not challenges.consume(first)


def test_each_message_has_its_own_key() -> None:
    token, nonce, challenge = Secret(TOKEN), make_nonce(), make_nonce()
    one = Exchange(token, nonce, challenge)
    sealed = one.seal("request", b"hello")
    assert one.open("request", sealed) == b"hello"
    others = [
        (one, "answer"),
        (Exchange(token, make_nonce(), challenge), "request"),
        (Exchange(token, nonce, make_nonce()), "request"),
        (Exchange(Secret("other"), nonce, challenge), "request"),
    ]
    for other, part in others:
        with pytest.raises(ValueError, match="token"):
            other.open(part, sealed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="token"):
        one.open("request", b"")


@pytest.mark.parametrize("probe", [b'{"message": "something else"}', b'{"ok": true, "mode": "local"}'])
async def test_a_sidecar_without_a_token_receives_no_privacy_rules(probe: bytes, own_folders: None) -> None:
    with run_scripted_server(ScriptedResponse(body=probe)) as asked:
        async with connect_tool_client(sidecar_url=asked.url, privacy=RULES) as tool_client:
            await tool_client.call("screen.read")
    ((_, path, headers),) = asked.requests
    assert (path, int(headers["Content-Length"])) == ("/parse", len(b'{"capture":true}'))


def test_a_token_is_created_once_and_readable_only_by_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = ActivitySettings()
    assert load_token(settings) is None
    made = load_token(settings, create=True)
    assert made is not None
    assert len(made.reveal()) > 30
    found = [load_token(settings), load_token(settings, create=True)]
    assert [each.reveal() for each in found if each is not None] == [made.reveal()] * 2
    path = tmp_path / "hubbub" / "activity" / "sidecar_token"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.write_text("")
    with pytest.raises(SettingsError, match="empty"):
        load_token(settings, create=True)


def test_a_token_from_the_file_is_used_only_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    load_token(ActivitySettings(), create=True)
    urls = ("http://127.0.0.1:8000", "http://localhost:8000", "http://192.168.7.7:8000", "http://screen.example")
    assert [load_token_for(ActivitySettings(), url) is not None for url in urls] == [True, True, False, False]
    given = ActivitySettings(sidecar_token=Secret(TOKEN))
    assert [load_token_for(given, url) == Secret(TOKEN) for url in urls] == [True] * 4
    shutil.rmtree(tmp_path / "hubbub")
    assert load_token_for(ActivitySettings(), urls[0]) is None
