"""The login suite: what a complete login costs the front door, compared with `oidc-provider` on Node.js.

A person who was never there before logs in and consents, in a browser without cookies, and the app redeems the code.
The front door asks for an API key, `oidc-provider` for a name and any password, which it does not check. The front door
keeps authorizations in SQLite, on the disk, `oidc-provider` in its memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.identity.scripted_browser import PASSWORD, Page, ScriptedBrowser

from bench.http_generator import free_port
from bench.process import ROOT, BenchError, ServerProcess
from bench.suite import Measure, Pace, Round, Suite, Values
from hubbub.security.api_keys import append_record, generate_key

_REDIRECT_URI = "http://127.0.0.1/callback"
_LOGINS_PER_S = 25
_START_S = 60.0
_NODE = ".node/bin/node"


class _Target(NamedTuple):
    """A running authorization server and the credentials of its people: the name and value of the field of each."""

    server: ServerProcess
    issuer: str
    people: list[dict[str, str]]


def _measure(pace: Pace) -> list[Round]:
    rounds = []
    count = int(_LOGINS_PER_S * pace.phase_s)
    for number in range(pace.rounds):
        print(f"login: round {number + 1} of {pace.rounds}", file=sys.stderr)
        rounds.append({name: _measure_target(start, count) for name, start in _TARGETS.items()})
    return rounds


def _measure_target(start: Callable[[Path, int], Any], count: int) -> Values:
    with tempfile.TemporaryDirectory() as name, start(Path(name), count + 1) as target:
        metadata = _fetch_metadata(target)
        client_id = _register(metadata)
        _log_in(metadata, client_id, target.people[0])  # the first one loads what others find loaded
        started_s, times_s = target.server.cpu_s(), []
        for number, person in enumerate(target.people[1:]):
            # The front door limits the logins from one address.
            address = f"127.0.1.{number % 250 + 1}"
            began_s = time.perf_counter()
            _log_in(metadata, client_id, person, address)
            times_s.append(time.perf_counter() - began_s)
        cpu_s = target.server.cpu_s() - started_s
        return {"cpu_ms": cpu_s / count * 1e3, "p50_ms": median(times_s) * 1e3}


@contextmanager
def _start_front_door(folder: Path, people: int) -> Iterator[_Target]:
    port, keys = free_port(), folder / "keys.toml"
    keys.touch(mode=0o600)
    credentials = []
    for number in range(people):
        key, record = generate_key(f"person-{number}")
        append_record(keys, record)
        credentials.append({"key": key})
    issuer = f"http://127.0.0.1:{port}"
    settings = folder / "hubbub.toml"
    settings.write_text(
        f"key_file = {json.dumps(str(keys))}\n[oauth]\npublic_url = {json.dumps(issuer)}\nfront_door = true\n"
        f'scopes = ["notes:read"]\ndatabase = "sqlite:///{folder / "oauth.db"}"\n'
    )
    command = [".venv/bin/hubbub", "serve", "examples/echo.py", "--config", str(settings), "--port", str(port)]
    with ServerProcess(command) as server:
        try:
            yield _Target(server, issuer, credentials)
        finally:
            server.terminate()


@contextmanager
def _start_oidc_provider(folder: Path, people: int) -> Iterator[_Target]:
    judges = ROOT / "tests" / "judges" / "node_modules"
    if not (ROOT / _NODE).exists() or not (judges / "oidc-provider").is_dir():
        raise BenchError("no Node.js with oidc-provider here; `make setup` installs them")
    names = [f"person-{number}" for number in range(people)]
    person = {"email": "", "name": "", "tenant": "", "groups": []}
    options: dict[str, Any] = {"people": dict.fromkeys(names, person), "tls": None, "clients": [], "registration": True}
    # `env` becomes the program, so that its CPU time is that of this process.
    command = ["env", f"JUDGES={judges}", _NODE, "tests/identity/oidc_provider.mjs", json.dumps(options)]
    with ServerProcess(command) as server:
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(server.output, 4096)
            if not read:
                raise server.make_error("it ended")
            line += read
        yield _Target(server, json.loads(line)["issuer"], [{"login": name, "password": PASSWORD} for name in names])


_TARGETS = {"front door": _start_front_door, "oidc-provider": _start_oidc_provider}


def _fetch_metadata(target: _Target) -> dict[str, Any]:
    """Fetch the metadata as soon as the server listens."""
    ends_at = time.monotonic() + _START_S
    while time.monotonic() < ends_at and not target.server.has_ended():
        for kind in ("oauth-authorization-server", "openid-configuration"):
            try:
                page = ScriptedBrowser().send(f"{target.issuer}/.well-known/{kind}")
            except OSError:
                time.sleep(0.02)
                continue
            if page.status == 200:
                found: dict[str, Any] = json.loads(page.text)
                return found
    raise target.server.make_error("it does not publish its metadata")


def _register(metadata: dict[str, Any]) -> str:
    client = {
        "client_name": "Bench",
        "application_type": "native",
        "redirect_uris": [_REDIRECT_URI],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    headers = {"Content-Type": "application/json"}
    page = ScriptedBrowser().send_body(metadata["registration_endpoint"], json.dumps(client).encode(), headers)
    return str(_read(page, 201)["client_id"])


def _log_in(metadata: dict[str, Any], client_id: str, person: dict[str, str], address: str = "") -> None:
    verifier, browser = secrets.token_urlsafe(48), ScriptedBrowser(address=address)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    resource = f"{metadata['issuer']}/mcp"
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": _REDIRECT_URI,
        "scope": "notes:read",
        "state": secrets.token_urlsafe(),
        "resource": resource,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    page = browser.visit(f"{metadata['authorization_endpoint']}?{urlencode(query)}")
    page = browser.submit(page, person)
    page = browser.submit(page, {}, button=page.forms[0].buttons[0], stop_at=_REDIRECT_URI)
    form = {
        "grant_type": "authorization_code",
        "code": page.query["code"],
        "redirect_uri": _REDIRECT_URI,
        "client_id": client_id,
        "code_verifier": verifier,
        "resource": resource,
    }
    _read(browser.send(metadata["token_endpoint"], form), 200)["access_token"]


def _read(page: Page, status: int) -> Any:
    if page.status != status:
        raise BenchError(f"{page.url} answered with status {page.status}: {page.text[:200]}")
    return json.loads(page.text)


SUITE = Suite(
    name="login",
    ours="front door",
    peer="oidc-provider",
    targets={
        "front door": "the authorization server of `hubbub serve`, with logins by API key",
        "oidc-provider": "oidc-provider on Node.js, with its development pages and in-memory storage",
    },
    measures=[
        Measure("cpu_ms", "a login with consent and a token, CPU", "ms"),
        Measure("p50_ms", "a login with consent and a token, p50", "ms"),
    ],
    measure=_measure,
)
