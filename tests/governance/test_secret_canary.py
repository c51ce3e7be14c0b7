"""Canaries: secrets of every source, which servers repeat in everything they send, reach no sink of a hub."""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.governance.echo_upstream import run_echo_upstream
from tests.http.eras import modern_request
from tests.http.keyring import Keyring
from tests.http.server_process import ServerProcess

pytestmark = pytest.mark.requirement("K3")

CANARIES = {name: f"c4nary/{name}+Value=1&{name[::-1]}~" for name in ("env", "file", "command", "stdio", "url")}
ROTATED = "c4nary/rotated+Value=2&detator~"
LEAKING_SERVER = Path(__file__).with_name("leaking_server.py")
SOURCE = Path(__file__).parents[2] / "src"


GOVERNED = """
[[tenants]]
name = "acme"
allow_stdio = true

[approvals]
via = "queue"

[[policy.rules]]
effect = "confirm"
tools = ["repeat"]
reason = "It repeats secrets"

[[policy.rules]]
effect = "deny"
tools = ["canary://text"]
"""


def write_settings(folder: Path, there: str, broken: str, *, is_governed: bool = False) -> Path:
    (folder / "file").write_text(f"{CANARIES['file']}\n")
    (folder / "command").write_text(CANARIES["command"])
    env = {"SETTING": "${secret:stdio}", "PYTHONPATH": str(SOURCE)}
    headers = {"X-Key": "v=${secret:env}", "Authorization": "Bearer ${secret:file}", "X-Other": "${secret:command}"}
    path = folder / "hubbub.toml"
    scope = ', tenants = ["acme"], hub = true' if is_governed else ""
    governed = GOVERNED if is_governed else ""
    if is_governed:
        governed += f'[audit]\nfolder = "{folder}/audit"\n[pins]\nmode = "warn"\nfile = "{folder}/hubbub.lock"\n'
    path.write_text(
        f"""
[secrets]
env = {{env = "CANARY_ENV"{scope}}}
stdio = {{env = "CANARY_STDIO"{scope}}}
file = {{file = {json.dumps(str(folder / "file"))}{scope}}}
command = {{command = ["cat", {json.dumps(str(folder / "command"))}]{scope}}}
{governed}
[servers.there]
url = {json.dumps(there)}
headers = {to_toml(headers)}

[servers.broken]
url = {json.dumps(broken)}
headers = {to_toml(headers)}

[servers.here]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(LEAKING_SERVER))}]
env = {to_toml(env)}
"""
    )
    return path


def to_toml(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items()) + "}"


def forms_of(secret: str) -> Iterator[str]:
    """What must occur nowhere: the secret, and what every encoding of it contains."""
    yield secret
    yield quote(secret, safe="")
    for offset in range(3):
        encoded = base64.b64encode(b"x" * offset + secret.encode()).decode()
        yield encoded[4:-4]
        yield encoded[4:-4].replace("+", "-").replace("/", "_")


def assert_no_canary(where: str, text: str) -> None:
    for secret in (*CANARIES.values(), ROTATED):
        for form in forms_of(secret):
            assert form not in text, f"{where}: {text[max(0, text.index(form) - 200) :][:400]}"


@pytest.mark.requirement("K5")
@pytest.mark.usefixtures("own_folders")
async def test_secrets_that_servers_repeat_reach_no_sink_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_ENV", CANARIES["env"])
    monkeypatch.setenv("CANARY_STDIO", CANARIES["stdio"])
    keys = Keyring(tmp_path / "keys")
    key = keys.add("ada")
    answers: list[str] = []
    async with run_echo_upstream() as there, run_echo_upstream() as broken:
        broken.answers_with_status = 500
        url = f"{there.url}?api_key={quote(CANARIES['url'], safe='')}"
        path = write_settings(tmp_path, url, broken.url)
        with ServerProcess("--config", str(path), "--key-file", str(keys.path), "--log-level", "debug") as hub:

            async def send(method: str, **params: Any) -> str:
                body, headers = modern_request(method, params)
                answer = await hub.site.post(body, headers | {"Authorization": f"Bearer {key['X-API-Key']}"})
                answers.append(answer.body.decode())
                return answers[-1]

            listed = await send("tools/list")
            assert '"repeat"' in listed
            assert '"echo"' in listed
            repeated = await send("tools/call", name="repeat", arguments={})
            assert hashlib.sha256(CANARIES["stdio"].encode()).hexdigest() in repeated
            assert "***" in repeated
            for name in ("echo", "fail", "crash", "repeat", "hub.status"):
                await send("tools/call", name=name, arguments={})
            await send("tools/call", name="hub.search", arguments={"query": "c4nary"})
            await send("resources/list")
            await send("resources/read", uri="canary://text")
            await send("resources/read", uri="hub://status")
            await send("server/discover")
            replace_file(tmp_path / "file", ROTATED)
            await send("tools/call", name="echo", arguments={})
            answers.append((await hub.site.get("/metrics")).body.decode())
            state = [each.read_text(errors="replace") for each in state_files()]
            hub.signal()
            hub.wait()
            errors = "".join(hub.stderr_lines)
        # The servers really had the secrets, and the rotated one was used by the next request of the session.
        sent = [" ".join(headers.values()) for headers in there.requests]
        for name in ("env", "file", "command"):
            assert any(CANARIES[name] in values for values in sent)
        assert all(quote(CANARIES["url"], safe="") in headers[":path"] for headers in there.requests)
        assert ROTATED in sent[-1]
        assert "500" in errors
        # The key of the caller is for the hub, and no other server gets it.
        for headers in (*there.requests, *broken.requests):
            assert key["X-API-Key"] not in str(headers)
            assert headers["authorization"] in (f"Bearer {CANARIES['file']}", f"Bearer {ROTATED}")
    assert len(state) > 0
    for number, answer in enumerate(answers):
        assert_no_canary(f"answer {number}", answer)
        assert key["X-API-Key"] not in answer
    assert_no_canary("stderr", errors)
    for text in (*state, *(each.read_text(errors="replace") for each in state_files())):
        assert_no_canary("state", text)


@pytest.mark.usefixtures("own_folders")
async def test_secrets_reach_no_journal_approval_pin_or_result_of_administration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_ENV", CANARIES["env"])
    monkeypatch.setenv("CANARY_STDIO", CANARIES["stdio"])
    keys = Keyring(tmp_path / "keys")
    ada = keys.add("ada", tenant="acme", user="ada")
    root = keys.add("root", user="root", scopes=("hub:admin",))
    answers: list[str] = []
    async with run_echo_upstream() as there, run_echo_upstream() as broken:
        broken.answers_with_status = 500
        path = write_settings(tmp_path, there.url, broken.url, is_governed=True)
        with ServerProcess("--config", str(path), "--key-file", str(keys.path), "--log-level", "debug") as hub:

            async def send(key: dict[str, str], method: str, path: str = "/mcp", **params: Any) -> Any:
                body, headers = modern_request(method, params)
                answer = await hub.site.post(body, headers | {"Accept": "application/json"} | key, path=path)
                answers.append(answer.body.decode())
                return answer.json

            async def administer(tool: str, **arguments: Any) -> Any:
                answer = await send(root, "tools/call", "/mcp/admin", name=tool, arguments=arguments)
                return answer["result"]["structuredContent"]

            await send(ada, "tools/list")
            repeated: dict[str, Any] = {
                "name": "repeat",
                "arguments": {"secrets": [CANARIES[name] for name in ("env", "file", "command", "stdio")]},
            }
            assert (await send(ada, "tools/call", **repeated))["result"]["isError"]
            (pending,) = (await administer("hub.approvals.list"))["approvals"]
            assert "***" in pending["arguments"]
            await administer("hub.approvals.approve", id=pending["id"])
            await send(ada, "tools/call", **repeated)
            for name in ("echo", "fail", "crash", "hub.status"):
                await send(ada, "tools/call", name=name, arguments={})
            await send(ada, "resources/read", uri="canary://text")
            await send(ada, "resources/read", uri=f"canary://text?token={quote(CANARIES['env'], safe='')}")
            await send(ada, "resources/read", uri=f"canary://{CANARIES['stdio']}")
            answers.pop()  # Its URI is the caller's own.
            answers.pop()
            for name in ("hub.status", "hub.sessions.list", "hub.pins.list", "hub.audit.tail"):
                await administer(name)
            for entry in (await administer("hub.pins.list"))["pins"]:
                await administer("hub.pins.approve", server=entry["server"])
            assert len((await administer("hub.audit.search", limit=1000))["records"]) > 20
            hub.signal()
            hub.wait()
            errors = "".join(hub.stderr_lines)
    journal = "".join(each.read_text() for each in (tmp_path / "audit").glob("*"))
    for event in ("decision", "approval.requested", "approval.used", "secret.read", "session.open", "tools.listed"):
        assert f'"event":"{event}"' in journal
    assert '"tool":"canary://text?token=***' in journal
    assert '"tool":"canary://***' in journal
    for number, answer in enumerate(answers):
        assert_no_canary(f"answer {number}", answer)
    assert_no_canary("journal", journal)
    lock = (tmp_path / "hubbub.lock").read_text()
    assert "repeat" in lock
    assert_no_canary("lock", lock)
    assert_no_canary("stderr", errors)
    for each in state_files():
        assert_no_canary("state", each.read_text(errors="replace"))


def state_files() -> list[Path]:
    folders = [Path(os.environ[f"XDG_{kind}_HOME"]) for kind in ("CONFIG", "DATA", "STATE")]
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def replace_file(path: Path, text: str) -> None:
    draft = path.with_name("draft")
    draft.write_text(text)
    draft.replace(path)


def test_the_forms_that_are_searched_for_are_found_in_what_servers_send() -> None:
    secret = CANARIES["env"]
    encoded = [base64.b64encode(b"abc"[:offset] + secret.encode()).decode() for offset in range(3)]
    for text in (secret, quote(secret, safe=""), *encoded):
        with pytest.raises(AssertionError):
            assert_no_canary("test", f"before {text} after")
