"""Disclosure by upstreams: callers see that a server is down, only the log has the reason, and secrets are masked."""

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from tests.client.harness import stdio_config
from tests.hub.local_hubs import open_client
from tests.hub.upstream_callers import LEGACY, RecordingReturnPath, call_tool, make_caller, request_result
from tests.hub.upstreams import open_upstream

from hubbub import ServerConfig, UpstreamConfig, UpstreamUnavailable
from hubbub.client.known_secrets import KnownSecrets
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway

TOKEN = "s3cr/t+Value&0123"
PASSWORD = "Tr0ub4dor-and-3"
CODE = "0a1b2c3d4e5f6a7b"
FORMS = ("plain", "quoted", "base64", "basic", "argument", "password")


def leaky_config() -> ServerConfig:
    env = {"API_TOKEN": TOKEN, "DATABASE": f"postgresql://app:{PASSWORD}@db/x"}
    program = str(Path(__file__).with_name("secret_leaking_server.py"))
    return stdio_config(program, "--access-code-token", CODE, id="leaky", env=env)


@pytest.mark.parametrize("form", FORMS)
async def test_a_secret_that_a_server_repeats_reaches_no_caller(form: str) -> None:
    async with open_upstream(leaky_config()) as upstream:
        back = RecordingReturnPath()
        params = {"name": "repeat", "arguments": {"form": form}, "_meta": {"progressToken": 1}}
        found = await request_result(
            upstream, "tools/call", params, make_caller(LEGACY, scope="1", level="debug"), back
        )
        assert found["structuredContent"]["said"].startswith("before ")
        assert found["structuredContent"]["count"] == "12345"
        output = str(found) + str(back.notes) + str(upstream.snapshot)
        assert back.notes_of("notifications/progress")
        assert back.notes_of("notifications/message")
        for secret in (TOKEN, PASSWORD, CODE, "czNjci90K1ZhbHVlJjAx", "s3cr%2Ft"):
            assert secret not in output
        if form == "basic":
            assert "***" in found["structuredContent"]["said"]


async def test_callers_see_that_a_server_is_down_and_only_the_log_has_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_upstream(leaky_config(), breaker_failures=1) as upstream:
        with caplog.at_level(logging.WARNING), pytest.raises(UpstreamUnavailable) as failed:
            await call_tool(upstream, "crash")
        with pytest.raises(UpstreamUnavailable) as refused:
            await call_tool(upstream, "crash")
        for error in (failed.value, refused.value):
            output = f"{error.message} {error.data} {upstream.state}"
            assert "the program has ended with status 7" in output
            assert "db.internal" not in output
            assert "Traceback" not in output
        assert refused.value.data["since"].endswith("Z")
        logged = " ".join(f"{record.getMessage()} {record.__dict__.get('reason', '')}" for record in caplog.records)
        assert "db.internal" in logged
        assert TOKEN not in logged


async def test_status_and_errors_of_a_hub_do_not_quote_the_output_of_a_failed_server() -> None:
    broken = ServerConfig(id="broken", command="/bin/sh", args=["-c", "echo host db.internal >&2; exit 1"])
    async with open_client(Gateway(HubConfig(upstreams=(UpstreamConfig(id="broken", remote=broken),)))) as client:
        await client.result("tools/list")
        status = await client.result("tools/call", {"name": "hub.status", "arguments": {}})
        assert "the program has ended with status 1" in str(status)
        missing = await client.ask("tools/call", {"name": "nothing", "arguments": {}})
        assert "broken" in str(missing)
        assert "db.internal" not in str(status) + str(missing)


def hide(learn: Any, raw: bytes) -> bytes:
    secrets = KnownSecrets()
    learn(secrets)
    return bytes(secrets.hide(Raw(raw)))


def test_parts_of_a_url_that_look_like_tokens_are_secrets() -> None:
    def learn(secrets: KnownSecrets) -> None:
        secrets.learn_url("https://example.com/s/3fa85f64b2c94a01/mcp?key=Q9x-77-abcd-efgh-ij&mode=fast")

    assert hide(learn, b'["3fa85f64b2c94a01","Q9x-77-abcd-efgh-ij","mcp","fast"]') == b'["***","***","mcp","fast"]'


def test_masking_a_numeric_secret_leaves_valid_json() -> None:
    masked = hide(lambda secrets: secrets.learn({"pin_token": "1234567890123456"}), b'{"a":1234567890123456,"b":"x"}')
    assert masked == b'{"a":1234567890123456,"b":"x"}'


def test_common_values_are_not_masked() -> None:
    def learn(secrets: KnownSecrets) -> None:
        secrets.learn({"Accept": "application/json", "X-Token-Type": "production-tokens", "api_key": "frontend"})

    raw = b'["application/json","production-tokens","frontend"]'
    assert hide(learn, raw) == raw


def test_the_two_halves_of_basic_credentials_are_secrets() -> None:
    masked = hide(lambda secrets: secrets.learn({"Authorization": "Basic YWRhOkh1bnRlcjItYW5k"}), b'["Hunter2-and"]')
    assert masked == b'["***"]'
