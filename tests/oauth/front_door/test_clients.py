"""Clients: those that register themselves, and those that publish a document about themselves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.in_process_server import wait_until
from tests.oauth.front_door.client_publisher import Publisher, allow, make_app, publish, publish_to_door
from tests.oauth.front_door.door_site import REDIRECT_URI, App, Clock, open_door

from hubbub import HubbubError, MetadataError
from hubbub.oauth.front_door.client_documents import ClientDocuments, check_client_url
from hubbub.oauth.front_door.clients import ClientMetadata, check_redirect_uri, display_name, parse_metadata
from hubbub.oauth.front_door.web import BadParameters, parse_parameters

# -- registration ----------------------------------------------------------------


async def test_a_client_registers_and_gets_what_was_registered(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        client = await door.register("https://a.example/cb", application_type="web", logo_uri="https://evil.example/x")
        assert client["redirect_uris"] == ["https://a.example/cb"]
        assert client["grant_types"] == ["authorization_code", "refresh_token"]
        assert client["token_endpoint_auth_method"] == "none"
        assert "client_secret" not in client
        assert "logo_uri" not in client
        secret = await door.register(token_endpoint_auth_method="client_secret_post")
        assert len(secret["client_secret"]) > 40
        assert secret["client_secret_expires_at"] == 0
        assert secret["client_secret"].encode() not in (tmp_path / "oauth.db").read_bytes()


WRONG: list[tuple[Any, str]] = [
    ({}, "invalid_client_metadata"),
    ({"redirect_uris": []}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://a.example/"] * 21}, "invalid_redirect_uri"),
    ({"redirect_uris": ["http://a.example/"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["data:text/html,x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["microsoft-edge:https://evil.example/"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["googlechromes://evil.example/"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://a.example/#x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://user@a.example/"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https:///x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://claude.ai%2eevil.example/x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://claude.ai%E3%80%82evil.example/x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["/relative"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://a.example/ x"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://a.example/"], "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
    ({"redirect_uris": ["https://a.example/"], "response_types": ["token"]}, "invalid_client_metadata"),
    (
        {"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "private_key_jwt"},
        "invalid_client_metadata",
    ),
    (b"not JSON", "invalid_client_metadata"),
    (b"[" * 10_000, "invalid_client_metadata"),
    ({"redirect_uris": ["https://a.example/"], "client_name": "x" * 20_000}, "invalid_client_metadata"),
]


@pytest.mark.parametrize(("content", "error"), WRONG)
async def test_wrong_registrations_are_refused(tmp_path: Path, content: Any, error: str) -> None:
    async with open_door(tmp_path) as door:
        page = await door.post_json("/oauth/register", content)
        assert (page.status, json.loads(page.text)["error"]) == (400, error)


async def test_an_app_with_a_scheme_of_its_own_can_register(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        app = await door.app(redirect_uri="com.example.app:/callback")
        page = await app.consent()
        assert "a program on this computer (<code>com.example.app:</code>)" in page.text
        assert "com.example.app:" in page.headers["Content-Security-Policy"]
        assert "code" in (await app.authorize()).query


async def test_registrations_are_limited_for_each_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.REGISTRATIONS_PER_HOUR", 3)
    async with open_door(tmp_path) as door:
        for _ in range(3):
            await door.register()
        page = await door.post_json("/oauth/register", {"redirect_uris": [REDIRECT_URI]})
        assert (page.status, page.headers["Retry-After"].isdigit()) == (429, True)
        door.clock.added_s += 3601
        await door.register()


async def test_registrations_of_all_addresses_together_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.REGISTRATIONS_PER_HOUR", 2)
    monkeypatch.setattr("hubbub.oauth.front_door.limits.ALL_REGISTRATIONS_PER_HOUR", 3)
    async with open_door(tmp_path, proxied_by=("127.0.0.1",)) as door:

        async def register(address: str) -> int:
            headers = {"X-Forwarded-For": address}
            return (await door.post_json("/oauth/register", {"redirect_uris": [REDIRECT_URI]}, headers)).status

        assert [await register("192.0.2.1") for _ in range(3)] == [201, 201, 429]
        assert [await register(f"192.0.2.{n}") for n in (2, 3)] == [201, 429]
        door.clock.added_s += 3601
        assert await register("192.0.2.3") == 201


async def test_unused_registrations_expire_and_make_room(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENTS", 3)
    async with open_door(tmp_path, database=database) as door:
        used = await door.app()
        await used.tokens()
        unused = [await door.app() for _ in range(2)]
        page = await door.post_json("/oauth/register", {"redirect_uris": [REDIRECT_URI]})
        assert (page.status, json.loads(page.text)["error"]) == (503, "temporarily_unavailable")
        door.clock.added_s += 1000
        newest = await door.app()
        known = [(await app.open()).status == 200 for app in (used, *unused, newest)]
        assert known in ([True, False, True, True], [True, True, False, True])
        door.clock.added_s += 90_000
        await door.front_door.sweep()
        assert [(await app.open()).status for app in (used, newest)] == [200, 400]


# -- documents -------------------------------------------------------------------


async def test_a_client_is_known_by_the_document_at_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        app = make_app(door, publisher)
        page = await app.consent()
        assert "<dd>published by <strong>localhost</strong>: Published app</dd>" in page.text
        assert "unverified" not in page.text
        assert await app.tokens()
        assert publisher.requests == 1
        assert (await app.open(redirect_uri="https://other.example/")).status == 400
        # The redirect is on the web, so no other program can use the consent; the next login skips the page.
        assert "code" in (await app.consent()).query
        publisher.document["redirect_uris"] = ["https://new.example/callback"]
        door.clock.added_s += 601
        assert (await app.open()).status == 400


async def test_a_loopback_redirect_of_a_document_is_asked_about_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program of the computer could use the id of the document and the port."""
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        publisher.document["redirect_uris"] = [REDIRECT_URI]
        app = App(door, publisher.url)
        for _ in range(2):
            await app.authorize()
            assert app.pages[-1].forms
            assert "Continue only if you started this login yourself" in " ".join(app.pages[-1].text.split())


CHANGES: list[dict[str, Any]] = [
    {"client_id": "https://other.example/client.json"},
    {"client_id": None},
    {"redirect_uris": ["http://other.example/"]},
    {"token_endpoint_auth_method": "client_secret_post"},
    {"token_endpoint_auth_method": "client_secret_post", "token_endpoint_auth_methods_supported": ["private_key_jwt"]},
    {"token_endpoint_auth_method": "private_key_jwt"},
    {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": []}},
    {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://app.example/keys"},
    {"client_uri": "x" * 40_000},
]


@pytest.mark.parametrize("changes", CHANGES)
async def test_a_wrong_document_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        publisher.document |= changes
        assert (await make_app(door, publisher).open()).status == 400


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("404 Not Found", 400),
        ("302 Found\r\nLocation: https://localhost/x", 400),
        ("500 Internal Server Error", 503),
        ("429 Too Many Requests", 503),
    ],
)
async def test_a_document_that_is_not_there_or_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, status: int
) -> None:
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        publisher.head = head
        assert (await make_app(door, publisher).open()).status == status


FAULTS: dict[str, Callable[[Publisher], None]] = {
    "down": lambda publisher: setattr(publisher, "is_down", True),
    "hangs": lambda publisher: setattr(publisher, "hangs", True),
    "server error": lambda publisher: setattr(publisher, "head", "502 Bad Gateway"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_client_refreshes_while_its_document_cannot_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENT_DOCUMENT_TIMEOUT_S", 0.5)
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        app = make_app(door, publisher)
        tokens = await app.tokens()
        FAULTS[fault](publisher)
        door.clock.added_s += 601
        for _ in range(3):  # the document is not fetched each time
            tokens = json.loads((await app.refresh(tokens["refresh_token"])).text)
            assert tokens["access_token"]
        assert publisher.requests == 2
        door.clock.added_s += 86_400
        page = await app.refresh(tokens["refresh_token"])
        assert (page.status, json.loads(page.text)["error"]) == (503, "temporarily_unavailable")
        assert page.headers["Retry-After"] == "30"
        assert (await app.open()).status == 503
        publisher.is_down, publisher.hangs, publisher.head = False, False, "200 OK"
        assert (await app.refresh(tokens["refresh_token"])).status == 200


async def test_a_client_whose_document_was_removed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        app = make_app(door, publisher)
        tokens = await app.tokens()
        publisher.head = "404 Not Found"
        door.clock.added_s += 601
        page = await app.refresh(tokens["refresh_token"])
        assert (page.status, json.loads(page.text)["error"]) == (401, "invalid_client")
        publisher.is_down = True  # the old document is not used again
        assert (await app.refresh(tokens["refresh_token"])).status == 503


async def test_requests_for_too_many_documents_can_be_repeated_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENT_DOCUMENTS_PER_MINUTE", 1)
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        app = make_app(door, publisher)
        tokens = await app.tokens()
        form = {"grant_type": "refresh_token", "refresh_token": "x.y", "client_id": publisher.url + "/other"}
        page = await door.send("/oauth/token", form)
        assert (page.status, json.loads(page.text)["error"]) == (503, "temporarily_unavailable")
        assert 0 < int(page.headers["Retry-After"]) <= 60
        assert (await app.refresh(tokens["refresh_token"])).status == 200


async def test_a_caller_over_its_limit_does_not_postpone_the_fetch_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENT_DOCUMENTS_PER_MINUTE", 1)
    async with publish_to_door(tmp_path, monkeypatch) as (publisher, door):
        app = make_app(door, publisher)
        tokens = await app.tokens()
        form = {"grant_type": "refresh_token", "refresh_token": "x.y"}
        door.clock.added_s += 601
        await door.send("/oauth/token", {**form, "client_id": publisher.url + "/other"})
        door.clock.added_s += 40
        assert (await door.send("/oauth/token", {**form, "client_id": publisher.url})).status == 400
        assert publisher.requests == 2  # the known document was used
        door.clock.added_s += 25
        assert (await app.refresh(tokens["refresh_token"])).status == 200
        assert publisher.requests == 3


@asynccontextmanager
async def fetch_slowly(documents: ClientDocuments, publisher: Publisher) -> AsyncIterator[None]:
    """Use the whole share of one address with documents that do not arrive."""
    publisher.hangs, before = True, publisher.requests
    tasks = [asyncio.create_task(documents.find(f"{publisher.url}?{number}", "192.0.2.1")) for number in range(16)]
    await wait_until(lambda: publisher.requests >= before + 14)
    publisher.hangs = False
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_too_many_fetches_at_once_do_not_postpone_that_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publish(tmp_path, monkeypatch) as publisher:
        clock = Clock()
        documents = ClientDocuments(clock=clock, **allow(publisher))
        await documents.find(publisher.url, "192.0.2.1")
        clock.added_s += 601
        async with fetch_slowly(documents, publisher):
            before = publisher.requests
            assert (await documents.find(publisher.url, "192.0.2.1")).name == "Published app"
            assert publisher.requests == before  # the known document was used
        clock.added_s += 60
        await documents.find(publisher.url, "192.0.2.1")
        assert publisher.requests == before + 1


async def test_documents_that_do_not_arrive_do_not_keep_others_from_being_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publish(tmp_path, monkeypatch) as publisher:
        documents = ClientDocuments(clock=Clock(), **allow(publisher))
        async with fetch_slowly(documents, publisher):
            assert (await documents.find(publisher.url, "192.0.2.2")).name == "Published app"


async def test_a_document_on_this_machine_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publish(tmp_path, monkeypatch) as publisher, open_door(tmp_path) as door:
        for url in (publisher.url, publisher.url.replace("localhost", "127.0.0.1")):
            page = await App(door, url, redirect_uri="https://app.example/callback").open()
            assert (page.status, "Location" in page.headers) == (503, False)
        assert publisher.requests == 0


@pytest.mark.parametrize(
    "url",
    ["https://10.0.0.1/c.json", "https://169.254.169.254/latest/", "https://[::1]/c", "https://[::ffff:10.0.0.1]/c"],
)
async def test_a_document_at_a_private_address_is_never_fetched(tmp_path: Path, url: str) -> None:
    async with open_door(tmp_path) as door:
        page = await App(door, url, redirect_uri="https://app.example/callback").open()
        unknown = await App(door, "https://app.invalid/c.json", redirect_uri="https://app.example/callback").open()
        assert page.status == unknown.status == 503
        assert "could not identify the app" in page.text
        assert page.text == unknown.text


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
async def test_endpoints_do_not_say_why_a_document_cannot_be_fetched(tmp_path: Path, path: str) -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "x.y", "token": "x"}
    async with open_door(tmp_path) as door:
        hosts = ("app.invalid", "localhost", "10.0.0.1")
        pages = [await door.send(path, {**form, "client_id": f"https://{host}/c.json"}) for host in hosts]
        assert {(page.status, page.headers["Retry-After"]) for page in pages} == {(503, "30")}
        assert len({page.text for page in pages}) == 1


NOT_URLS = (
    "https://a.example",
    "https://a.example/",
    "https://a.example/x#y",
    "https://user@a.example/x",
    "https://a.example/../x",
    "https://a.example/%2e%2e/x",
    "https://a.example:port/x",
    "https://a.example/ x",
    "https:///x",
    "https://a.example/" + "x" * 600,
    "http://a.example/x",
)


@pytest.mark.parametrize("url", NOT_URLS)
def test_only_urls_with_a_path_can_be_client_ids(url: str) -> None:
    with pytest.raises(MetadataError):
        check_client_url(url)


@pytest.mark.parametrize("name", ["\u3164", "\u2800\u2800", "\u115f\uffa0", " \u200b", "--", ""])
def test_a_name_without_a_visible_letter_is_not_shown(name: str) -> None:
    assert display_name(ClientMetadata(redirect_uris=("https://a.example/",), client_name=name), "id") == "id"
    assert display_name(ClientMetadata(redirect_uris=("https://a.example/",), client_name=name + "é"), "id") != "id"


@given(st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
def test_metadata_are_parsed_or_refused(body: bytes) -> None:
    try:
        assert isinstance(parse_metadata(body), ClientMetadata)
    except HubbubError:
        pass


@given(st.text(max_size=200) | st.from_regex(r"[a-z]{1,8}:(//)?[a-z@:/?#.\[\]\\]{0,30}"))
def test_redirect_uris_are_accepted_or_refused(uri: str) -> None:
    try:
        check_redirect_uri(uri)
    except MetadataError:
        return
    assert uri.isascii()
    assert uri.isprintable()
    assert not {" ", "#", "\\"} & set(uri)


@given(st.text(max_size=300))
def test_parameters_are_parsed_or_refused(text: str) -> None:
    try:
        found = parse_parameters(text)
    except BadParameters:
        return
    assert all(len(values) == 1 for name, values in found.items() if name != "resource")
