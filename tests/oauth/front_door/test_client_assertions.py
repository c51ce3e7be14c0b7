"""Clients that publish their keys in a document, and authenticate with signed JWTs: `private_key_jwt`."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.oauth.front_door.client_publisher import Publisher, allow, make_app, publish
from tests.oauth.front_door.door_site import App, Door, open_door

from hubbub.net.egress_rules import NO_RULES
from hubbub.oauth.errors import ServerUnavailable
from hubbub.oauth.front_door.client_assertions import ClientAssertions
from hubbub.oauth.front_door.clients import Client
from hubbub.security.jose import JwtSigningKey, new_token_id

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class KeyedApp:
    """A client with a document that names its keys, as that of ChatGPT does."""

    def __init__(self, door: Door, publisher: Publisher) -> None:
        self.door = door
        self.publisher = publisher
        self.app: App = make_app(door, publisher)
        self.key = JwtSigningKey.generate()
        self.publish_key("first")
        publisher.document |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": publisher.keys_url}

    def publish_key(self, kid: str) -> None:
        """Publish a new key in place of the last one."""
        self.key, self.kid = JwtSigningKey.generate(), kid
        self.publisher.keys = {"keys": [{**self.key.public_jwk(), "kid": kid, "use": "sig"}]}

    def sign(self, *, key: JwtSigningKey | None = None, **changes: Any) -> dict[str, Any]:
        """Return the parameters of a request that the client authenticates."""
        now, url = int(self.door.clock()), self.publisher.url
        claims = {"iss": url, "sub": url, "aud": self.door.url, "iat": now, "exp": now + 60, "jti": new_token_id()}
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        signed = (key or self.key).sign(claims, header={"typ": "JWT", "kid": self.kid})
        return {"client_assertion_type": TYPE, "client_assertion": signed}

    async def code(self) -> str:
        return (await self.app.authorize()).query["code"]


@asynccontextmanager
async def open_keyed_app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KeyedApp]:
    async with publish(folder, monkeypatch) as publisher, open_door(folder, **allow(publisher)) as door:
        yield KeyedApp(door, publisher)


def error(page: Any) -> tuple[int, str]:
    return page.status, json.loads(page.text)["error"]


async def test_a_client_authenticates_with_a_key_that_it_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        metadata = json.loads((await client.door.send("/.well-known/oauth-authorization-server")).text)
        assert "private_key_jwt" in metadata["token_endpoint_auth_methods_supported"]
        assert "RS256" in metadata["token_endpoint_auth_signing_alg_values_supported"]
        # The client id may be left out: the assertion says who it is (RFC 7521).
        page = await client.app.redeem(await client.code(), changes=client.sign(), client_id=None)
        assert page.status == 200, page.text
        refreshed = await client.app.refresh(json.loads(page.text)["refresh_token"], **client.sign())
        assert refreshed.status == 200, refreshed.text
        form = {"token": json.loads(refreshed.text)["refresh_token"], "client_id": client.publisher.url}
        assert error(await client.door.send("/oauth/revoke", form)) == (401, "invalid_client")
        assert (await client.door.send("/oauth/revoke", form | client.sign())).status == 200
        assert client.publisher.key_requests == 1


async def test_a_token_endpoint_is_an_audience_and_keys_may_be_in_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        del client.publisher.document["jwks_uri"]
        client.publisher.document["jwks"] = client.publisher.keys
        signed = client.sign(aud=["https://other.example", f"{client.door.url}/oauth/token"])
        assert (await client.app.redeem(await client.code(), changes=signed)).status == 200
        assert client.publisher.key_requests == 0


async def test_without_an_assertion_a_client_is_refused_unless_it_may_be_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        assert error(await client.app.redeem(await client.code())) == (401, "invalid_client")
        client.publisher.document["token_endpoint_auth_methods_supported"] = ["none", "private_key_jwt"]
        client.door.clock.added_s += 601
        assert (await client.app.redeem(await client.code())).status == 200
        # An assertion that was sent must be right.
        wrong = client.sign(aud="https://other.example")
        assert error(await client.app.redeem(await client.code(), changes=wrong)) == (401, "invalid_client")


async def test_a_client_that_may_be_public_needs_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publish(tmp_path, monkeypatch) as publisher, open_door(tmp_path, **allow(publisher)) as door:
        publisher.document["token_endpoint_auth_method"] = "tls_client_auth"
        publisher.document["token_endpoint_auth_methods_supported"] = ["none", "tls_client_auth"]
        assert await make_app(door, publisher).tokens()


def _now(client: KeyedApp) -> int:
    return int(client.door.clock())


WRONG: dict[str, Callable[[KeyedApp], dict[str, Any]]] = {
    "issuer": lambda client: client.sign(iss="https://other.example/client.json"),
    "subject": lambda client: client.sign(sub="https://other.example/client.json"),
    "audience": lambda client: client.sign(aud="https://other.example"),
    "no audience": lambda client: client.sign(aud=None),
    "expired": lambda client: client.sign(exp=_now(client) - 31),
    "no end": lambda client: client.sign(exp=None),
    "valid too long": lambda client: client.sign(exp=_now(client) + 3700),
    "not valid yet": lambda client: client.sign(iat=_now(client) + 60),
    "another key": lambda client: client.sign(key=JwtSigningKey.generate()),
    "no JWT": lambda client: {"client_assertion_type": TYPE, "client_assertion": "a.b.c"},
    "too large": lambda client: client.sign(more="x" * 9000),
    "another type": lambda client: {**client.sign(), "client_assertion_type": "saml"},
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_assertion_is_refused_before_the_code_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        code = await client.code()
        page = await client.app.redeem(code, changes=WRONG[name](client))
        assert error(page) == (401, "invalid_client")
        assert (await client.app.redeem(code, changes=client.sign())).status == 200


async def test_an_assertion_with_a_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        code = await client.code()
        both = {**client.sign(), "client_secret": "x"}
        assert error(await client.app.redeem(code, changes=both)) == (400, "invalid_request")
        basic = {"Authorization": "Basic eDp4"}
        page = await client.app.redeem(code, changes=client.sign(), headers=basic)
        assert error(page) == (400, "invalid_request")


async def test_a_client_may_replace_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        assert (await client.app.redeem(await client.code(), changes=client.sign())).status == 200
        old = client.key
        client.publish_key("second")
        client.door.clock.added_s += 31
        code = await client.code()
        assert (await client.app.redeem(code, changes=client.sign())).status == 200
        page = await client.app.redeem(await client.code(), changes=client.sign(key=old))
        assert error(page) == (401, "invalid_client")


async def test_a_failed_fetch_of_keys_is_a_temporary_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        code = await client.code()
        client.publisher.is_down = True
        page = await client.app.redeem(code, changes=client.sign())
        assert error(page) == (503, "temporarily_unavailable")
        assert "localhost" not in page.text
        client.publisher.is_down = False
        client.door.clock.added_s += 31
        assert (await client.app.redeem(code, changes=client.sign())).status == 200


async def test_keys_at_an_address_that_clients_must_not_name_are_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_keyed_app(tmp_path, monkeypatch) as client:
        client.publisher.document["jwks_uri"] = client.publisher.keys_url.replace("localhost", "127.0.0.1")
        page = await client.app.redeem(await client.code(), changes=client.sign())
        assert error(page) == (503, "temporarily_unavailable")
        assert client.publisher.key_requests == 0


async def test_the_key_sets_fetched_for_one_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.oauth.front_door.limits.CLIENT_DOCUMENTS_PER_MINUTE", 1)
    assertions = ClientAssertions(frozenset(), lambda: NO_RULES, time.time)
    signed = JwtSigningKey.generate().sign({}, header={"typ": "JWT"})
    for number, message in enumerate(("cannot be fetched at the moment", "Too many client keys")):
        url = f"https://127.0.0.1/{number}"
        client = Client(client_id=url, name="x", redirect_uris=(), auth_method="private_key_jwt", jwks_uri=url)
        with pytest.raises(ServerUnavailable, match=message):
            await assertions.authenticate(client, signed, "192.0.2.1")
