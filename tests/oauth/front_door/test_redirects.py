"""Authorization requests that must not lead anywhere, or only back to the client with an error."""

import re
from html import unescape
from pathlib import Path

import pytest
from tests.oauth.front_door.door_site import REDIRECT_URI, WEB_REDIRECT_URI, App, open_door

VARIANTS = (
    "https://app.example/callback/more",
    "https://app.example/callback?next=1",
    "https://app.example/callback#x",
    "https://app.example/Callback",
    "https://app.example/call%62ack",
    "https://app.example:444/callback",
    "https://app.example.evil.example/callback",
    "https://app.example@evil.example/callback",
    "https://evil.example\\@app.example/callback",
    "https://evil.example/?u=https://app.example/callback",
    "http://app.example/callback",
    "https://APP.example/callback",
    "//app.example/callback",
    "javascript:alert(1)//app.example/callback",
    "https://app.example/callback\r\nSet-Cookie: a=b",
    '"><script>',
    "",
)


@pytest.mark.parametrize("redirect_uri", VARIANTS)
async def test_only_the_exact_redirect_uri_is_redirected_to(tmp_path: Path, redirect_uri: str) -> None:
    async with open_door(tmp_path) as door:
        client = await door.register(WEB_REDIRECT_URI)
        page = await App(door, client["client_id"], redirect_uri=WEB_REDIRECT_URI).open(redirect_uri=redirect_uri)
        assert (page.status, "Location" in page.headers) == (400, False)
        assert "<script" not in page.text


LOOPBACK_VARIANTS = (
    "http://127.0.0.1:1/callback/more",
    "http://127.0.0.1:1@evil.example/callback",
    "http://127.0.0.1:evil.example/callback",
    "http://127.0.0.1.evil.example:1/callback",
    "http://localhost:1/callback",
    "http://127.0.0.2:1/callback",
    "https://127.0.0.1:1/callback",
    "http://127.0.0.1:99999/callback",
    "http://127.0.0.1:1/callback?x=1",
)


@pytest.mark.parametrize("redirect_uri", LOOPBACK_VARIANTS)
async def test_a_loopback_redirect_may_differ_in_its_port_only(tmp_path: Path, redirect_uri: str) -> None:
    async with open_door(tmp_path) as door:
        client = await door.register(REDIRECT_URI)
        assert (await App(door, client["client_id"]).open(redirect_uri=redirect_uri)).status == 400


@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:49152/callback", "http://127.0.0.1/callback"])
async def test_a_native_app_chooses_the_port_of_its_loopback_redirect(tmp_path: Path, redirect_uri: str) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app(redirect_uri=redirect_uri, registered_uri=REDIRECT_URI)
        page = await app.authorize()
        assert (await app.redeem(page.query["code"], redirect_uri="http://127.0.0.1:1/callback")).status == 400
        page = await app.authorize()
        assert (await app.redeem(page.query["code"])).status == 200


ERRORS: list[tuple[dict[str, str | None], str]] = [
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": None}, "unsupported_response_type"),
    ({"response_type": '"token"'}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ({"resource": "HUB/mcp?x=1"}, "invalid_target"),
    ({"resource": "HUB/oauth/token"}, "invalid_target"),
    ({"scope": 'a"b'}, "invalid_scope"),
    ({"scope": " ".join(f"s{number}" for number in range(65))}, "invalid_scope"),
]


@pytest.mark.parametrize(("changes", "error"), ERRORS)
async def test_wrong_requests_are_answered_at_the_redirect_uri(
    tmp_path: Path, changes: dict[str, str | None], error: str
) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        changes = {name: value and value.replace("HUB", door.url) for name, value in changes.items()}
        page = await app.open(**changes)
        assert page.url.startswith(f"{REDIRECT_URI}?"), page.text
        assert (page.query["error"], page.query["state"], page.query["iss"]) == (error, app.state, door.url)


@pytest.mark.parametrize(("changes", "error"), ERRORS)
async def test_wrong_requests_redirect_to_no_other_site(
    tmp_path: Path, changes: dict[str, str | None], error: str
) -> None:
    """Anyone can register a client, so a redirect with the error could lead to any site."""
    async with open_door(tmp_path) as door:
        app = await door.app(redirect_uri=WEB_REDIRECT_URI)
        changes = {name: value and value.replace("HUB", door.url) for name, value in changes.items()}
        page = await app.open(**changes)
        assert (page.status, "Location" in page.headers) == (400, False)
        assert "Test client" in page.text
        [link] = re.findall(r'href="(https://[^"]+)"', page.text)
        assert f"{WEB_REDIRECT_URI}?error={error}&" in unescape(link)


@pytest.mark.parametrize("resource", ["HUB", "HUB/", "HUB/mcp", "HUB/mcp/", "HUB/mcp/view", "HUB/sse", None])
async def test_every_endpoint_of_this_server_can_be_named(tmp_path: Path, resource: str | None) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        assert await app.tokens(resource=resource and resource.replace("HUB", door.url))


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "code_challenge"])
async def test_a_repeated_parameter_is_refused(tmp_path: Path, name: str) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app()
        page = await app.send(app.url(scope="notes:read") + f"&{name}=other")
        assert (page.status, "Location" in page.headers) == (400, False)
