"""Tokens that exist: refreshed before and after they expire, by one request for all that wait."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.clock import advance_and_settle, advance_clock, wait_until, yield_to_loop
from tests.oauth.client.protected_server import ProtectedServer, protected_server

from hubbub import CredentialKey, Credentials, HttpError, MemoryCredentialStore, OAuth, OAuthError, StoreFailed
from hubbub.oauth import limits
from hubbub.oauth.client.authorizer import OAuthAuthorizer
from hubbub.oauth.client.oauth_client import OAuthClient


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def authorizer_of(server: ProtectedServer, clock: Clock, **fields: Any) -> OAuthAuthorizer:
    return OAuthAuthorizer(OAuthClient(server.url, server.oauth(**fields), clock=clock))


async def test_a_token_is_refreshed_before_it_expires() -> None:
    clock = Clock()
    async with protected_server() as server, server.client(authorizer_of(server, clock)) as client:
        clock.now += 3600 - 31
        await client.tools()
        assert len(server.token_requests) == 1
        clock.now += 2
        await client.tools()
        refreshed = server.token_requests[1]
        assert refreshed["grant_type"] == "refresh_token"
        assert refreshed["resource"] == server.url
        assert len(server.authorizations) == 1


async def test_a_token_that_the_server_refuses_is_refreshed_whatever_our_clock_says() -> None:
    async with protected_server() as server, server.client() as client:
        server.revoke_tokens()
        await client.call_tool("echo", {})
        assert [form["grant_type"] for form in server.token_requests] == ["authorization_code", "refresh_token"]
        assert len(server.authorizations) == 1


async def test_later_calls_send_the_new_token_without_asking_for_it() -> None:
    class CountingAuthorizer(OAuthAuthorizer):
        asked = 0

        async def headers(self, method: str, url: str) -> Mapping[str, str]:
            self.asked += 1
            return await super().headers(method, url)

    async with protected_server() as server:
        authorizer = CountingAuthorizer(OAuthClient(server.url, server.oauth()))
        async with server.client(authorizer) as client:
            await client.call_tool("echo", {})
            server.revoke_tokens()
            await client.call_tool("echo", {})
            asked, refused = authorizer.asked, len(server.calls("tools/call"))
            for _ in range(5):
                await client.call_tool("echo", {})
            assert authorizer.asked == asked
            assert len(server.calls("tools/call")) == refused + 5


async def test_callers_share_one_refresh() -> None:
    async with protected_server() as server, server.client() as client:
        server.revoke_tokens()
        await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(10)))
        assert len(server.token_requests) == 2


async def test_clients_with_the_same_settings_share_one_refresh() -> None:
    async with protected_server() as server:
        auth = server.oauth()
        async with server.client(auth) as first, server.client(auth) as second:
            assert len(server.authorizations) == 1
            server.revoke_tokens()
            await asyncio.gather(first.tools(), second.tools())
            assert len(server.token_requests) == 2


async def test_the_rotated_refresh_token_is_used_next_and_an_omitted_one_stays() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server, server.client(server.oauth(store=store)) as client:
        used = []
        server.token_fields = {"expires_in": 3600, "refresh_token": "r2"}
        for _ in range(2):
            server.revoke_tokens()
            await client.tools()
            used.append(server.token_requests[-1]["refresh_token"])
            server.token_fields = {"expires_in": 3600, "refresh_token": None}
        server.revoke_tokens()
        await client.tools()
        assert used[1] == server.token_requests[-1]["refresh_token"] == "r2"


async def test_tokens_that_another_process_has_refreshed_are_used() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server, server.client(server.oauth(store=store)) as client:
        (key,) = await store.list()
        ours = await store.load(key)
        assert ours is not None
        server.revoke_tokens()
        theirs = server.issue()["access_token"]
        await store.save(key, msgspec.structs.replace(ours, access_token=theirs, obtained_at=ours.obtained_at + 1))
        await client.tools()
        assert len(server.token_requests) == 1


@pytest.mark.parametrize("is_expired", [False, True])
async def test_a_logout_in_another_process_ends_the_use_of_the_tokens(is_expired: bool) -> None:
    clock, store = Clock(), MemoryCredentialStore()
    async with protected_server() as server:
        server.metadata["revocation_endpoint"] = None
        authorizer = authorizer_of(server, clock, store=store)
        async with server.client(authorizer) as client:
            await client.tools()
            (key,) = await store.list()
            await store.delete(key)
            clock.now += 3600 if is_expired else limits.CREDENTIAL_CHECK_S
            assert await authorizer.headers("POST", server.url) == {}
            assert [form["grant_type"] for form in server.token_requests] == ["authorization_code"]
            assert await store.list() == []


async def test_a_refused_token_is_not_refreshed_after_a_logout_in_another_process() -> None:
    clock, store = Clock(), MemoryCredentialStore()
    async with protected_server() as server:
        async with server.client(authorizer_of(server, clock, store=store)) as client:
            (key,) = await store.list()
            await store.delete(key)
            server.revoke_tokens()
            await client.tools()
        assert [form["grant_type"] for form in server.token_requests] == ["authorization_code"] * 2
        assert len(server.authorizations) == 2


async def test_a_store_that_fails_at_the_moment_ends_no_login() -> None:
    class FailingStore(MemoryCredentialStore):
        fails = False

        async def load(self, key: CredentialKey) -> Credentials | None:
            if self.fails:
                raise StoreFailed("the disk is gone")
            return await super().load(key)

    clock, store = Clock(), FailingStore()
    async with protected_server() as server:
        async with server.client(authorizer_of(server, clock, store=store)) as client:
            store.fails = True
            clock.now += limits.CREDENTIAL_CHECK_S
            await client.tools()
        assert len(server.authorizations) == 1


async def test_a_caller_that_gives_up_does_not_stop_the_refresh_of_the_others() -> None:
    async with protected_server() as server, server.client() as client:
        may_answer = asyncio.Event()

        async def answer_late(request: Any) -> None:
            await may_answer.wait()
            await server.answer_token_request(request)

        server.handle["/token"] = answer_late
        server.revoke_tokens()
        first = asyncio.create_task(client.call_tool("echo", {}))
        await wait_until(lambda: server.paths().count("/token") == 2)
        second = asyncio.create_task(client.call_tool("echo", {}))
        first.cancel()
        may_answer.set()
        await second
        assert server.paths().count("/token") == 2


async def test_a_token_endpoint_that_hangs_is_given_up() -> None:
    async with protected_server() as server, server.client() as client:

        async def hang(request: Any) -> None:
            await asyncio.get_running_loop().create_future()

        server.handle["/token"] = hang
        server.revoke_tokens()
        calling = asyncio.create_task(client.call_tool("echo", {}))
        await wait_until(lambda: server.calls("tools/call") and server.paths().count("/token") == 2)
        await yield_to_loop()
        advance_clock(30)  # more than the timeout of a request, which is paused
        with pytest.raises(OAuthError, match=r"/token did not answer within 30 s; try again"):
            await calling


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_failing_token_endpoint_costs_no_login(status: int) -> None:
    async with protected_server() as server, server.client() as client:

        async def fail(request: Any) -> None:
            await request.reply(status, b"<html>")

        server.handle["/token"] = fail
        server.revoke_tokens()
        with pytest.raises(OAuthError, match=f"status {status}; try again later"):
            await client.call_tool("echo", {})
        assert len(server.authorizations) == 1


async def test_a_token_that_expires_soon_is_used_while_the_authorization_server_is_down() -> None:
    clock = Clock()
    async with protected_server() as server, server.client(authorizer_of(server, clock)) as client:

        async def fail(request: Any) -> None:
            await request.reply(503)

        server.handle["/token"] = fail
        clock.now += 3600 - 5
        await client.tools()
        clock.now += 10
        with pytest.raises(OAuthError, match="status 503"):
            await client.tools()


async def test_a_call_that_was_executed_is_not_repeated() -> None:
    async with protected_server() as server, server.client() as client:

        async def fail(request: Any) -> None:
            await request.reply(500)

        server.handle["/mcp"] = fail
        with pytest.raises(HttpError, match="500"):
            await client.call_tool("echo", {})
        assert len(server.calls("tools/call")) == 1


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_secret_that_the_token_endpoint_repeats_is_not_shown(method: Any) -> None:
    async with protected_server() as server:

        async def repeat(request: Any) -> None:
            text = f"{request.body.decode()} {request.headers.get('authorization')} hunter2hunter2"
            await request.reply(400, {"error": "invalid_client", "error_description": text})

        server.handle["/token"] = repeat
        auth = server.oauth(
            client_id="c", client_secret="hunter2hunter2", issuer=server.origin, token_endpoint_auth_method=method
        )
        client = server.client(auth)
        with pytest.raises(OAuthError, match="invalid_client") as caught:
            await client.start()
        await client.close()
        encoded = base64.b64encode(b"c:hunter2hunter2").decode()
        assert not [secret for secret in ("hunter2", encoded, *server.codes) if secret in str(caught.value)]


@pytest.mark.parametrize("answer", [{"access_token": "a\r\nX: y"}, {"access_token": ""}, {}, {"access_token": 1}, []])
async def test_answers_without_a_usable_token_are_refused(answer: Any) -> None:
    async with protected_server() as server:

        async def reply(request: Any) -> None:
            await request.reply(200, json.dumps(answer).encode())

        server.handle["/token"] = reply
        client = server.client()
        with pytest.raises(OAuthError, match=r"invalid token|cannot be read"):
            await client.start()
        await client.close()


@pytest.mark.parametrize(
    ("fields", "expires_in"),
    [({"expires_in": "60"}, 60), ({"expires_in": 60.5}, 60.5), ({"expires_in": -1}, None), ({"expires_in": "x"}, None)],
)
async def test_lifetimes_are_read_leniently(fields: dict[str, Any], expires_in: float | None) -> None:
    clock, store = Clock(), MemoryCredentialStore()
    async with protected_server() as server:
        server.token_fields = fields
        async with server.client(authorizer_of(server, clock, store=store)):
            pass
        (key,) = await store.list()
        credentials = await store.load(key)
    assert credentials is not None
    assert credentials.expires_at == (None if expires_in is None else clock.now + expires_in)


async def test_revoking_sends_both_tokens() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        auth = server.oauth(store=store)
        async with server.client(auth):
            pass
        (key,) = await store.list()
        credentials = await store.load(key)
        assert credentials is not None
        assert await OAuthClient(server.url, auth).revoke(credentials)
        kinds = [form["token_type_hint"] for form in server.token_requests[1:]]
    assert kinds == ["refresh_token", "access_token"]


async def test_secrets_are_in_no_message_and_no_representation() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        auth = server.oauth(client_id="known", client_secret="the-client-secret", store=store)
        async with server.client(auth) as client:
            (key,) = await store.list()
            credentials = await store.load(key)
            assert credentials is not None

            async def echo(request: Any) -> None:
                await request.reply(400, {"error": "invalid_grant", "error_description": request.body.decode()})

            async def forget(url: str) -> str:
                raise OAuthError("no browser")

            server.handle["/token"] = echo
            secrets = [credentials.access_token, str(credentials.refresh_token), "the-client-secret"]
            with pytest.raises(OAuthError) as caught:
                await OAuthClient(server.url, auth).refresh(credentials)
            _, pending = await OAuthClient(server.url, auth).begin_login("http://127.0.0.1/callback")
            secrets += [pending.state, pending.code_verifier]
            texts = [str(caught.value), repr(credentials), repr(auth), repr(pending), repr(server.config(auth))]
            assert client is not None
    assert not [secret for secret in secrets for text in texts if secret in text]


async def test_a_memory_store_lists_by_resource_and_principal() -> None:
    store = MemoryCredentialStore()
    async with protected_server() as server:
        for principal in ("ada", "bob"):
            async with server.client(server.oauth(store=store, principal=principal)):
                pass
        ada = CredentialKey(server.origin, server.url, "ada")
        assert await store.list(principal="ada") == [ada]
        assert len(await store.list(resource=server.url)) == 2
        assert await store.list(resource="https://other.example") == []
        assert await store.delete(ada)
        assert not await store.delete(ada)
        assert await store.load(ada) is None


async def test_a_login_may_take_longer_than_a_request_and_closing_the_client_stops_it() -> None:
    async with protected_server() as server:
        is_open = asyncio.Event()

        async def never(url: str) -> str:
            is_open.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

        client = server.client(OAuth(redirect_handler=never, redirect_uri="http://127.0.0.1:1/callback"))
        starting = asyncio.create_task(client.start())
        await is_open.wait()
        await advance_and_settle(120)  # the timeout of the request is paused
        await client.close()
        with pytest.raises(Exception, match="closed"):
            await starting
