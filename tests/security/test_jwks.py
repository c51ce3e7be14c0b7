import asyncio

import pytest

from hubbub import ConnectionClosed, bounds
from hubbub.security.jwks import FetchedKeys, KeysUnavailable, VerifyingKey, select_key


def make_key(kid: str | None, *algorithms: str) -> VerifyingKey:
    return VerifyingKey(kid, frozenset(algorithms or ("ES256",)), object())


class Issuer:
    """A JWKS URL with a clock; counts the fetches."""

    def __init__(self, *kids: str) -> None:
        self.kids = kids
        self.now = 0.0
        self.fetches = 0
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.keys = FetchedKeys("https://issuer.example/jwks", self.fetch, self.read, monotonic=lambda: self.now)

    async def fetch(self, url: str) -> bytes:
        assert url == "https://issuer.example/jwks"
        self.fetches += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return ",".join(self.kids).encode()

    def read(self, body: bytes) -> list[VerifyingKey]:
        if not body:
            raise ValueError("no keys")
        return [make_key(kid) for kid in body.decode().split(",")]

    async def find(self, kid: str | None) -> str | None:
        found = await self.keys.find(kid, "ES256")
        return None if found is None else found.kid


def test_keys_are_fetched_at_first_use_and_cached() -> None:
    async def main() -> None:
        issuer = Issuer("a", "b")
        assert issuer.fetches == 0
        for _ in range(100):
            assert await issuer.find("a") == "a"
            assert await issuer.find("b") == "b"
        assert issuer.fetches == 1

    asyncio.run(main())


def test_an_unknown_key_is_fetched_at_a_limited_rate() -> None:
    async def main() -> None:
        issuer = Issuer("a")
        await issuer.find("a")
        issuer.kids = ("a", "new")
        assert await issuer.find("new") is None
        issuer.now += bounds.PUBLIC_KEY_FETCH_INTERVAL_S
        assert await issuer.find("new") == "new"
        for _ in range(1000):
            assert await issuer.find("unknown") is None
        assert issuer.fetches == 2

    asyncio.run(main())


def test_a_revoked_key_is_dropped_within_an_hour() -> None:
    async def main() -> None:
        issuer = Issuer("a", "b")
        assert await issuer.find("b") == "b"
        issuer.kids = ("a",)
        issuer.now += bounds.PUBLIC_KEY_FRESH_S + 1
        assert await issuer.find("b") is None

    asyncio.run(main())


@pytest.mark.parametrize("error", [OSError("no route"), ConnectionClosed("gone"), ValueError("bad"), TimeoutError()])
def test_the_last_good_keys_are_used_for_a_day(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        issuer = Issuer("a")
        await issuer.find("a")
        issuer.error = error
        issuer.now = bounds.PUBLIC_KEY_STALE_S - 1
        assert await issuer.find("a") == "a"
        assert issuer.fetches == 2
        issuer.now = bounds.PUBLIC_KEY_STALE_S + 1
        with pytest.raises(KeysUnavailable):
            await issuer.find("a")

    asyncio.run(main())
    assert "jwks_not_fetched" in caplog.text


def test_without_any_keys_callers_are_refused_and_the_issuer_is_not_asked_again_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        issuer = Issuer()
        for _ in range(10):
            with pytest.raises(KeysUnavailable):
                await issuer.find("a")
        assert issuer.fetches == 1
        issuer.kids = ("a",)
        issuer.now += bounds.PUBLIC_KEY_FETCH_INTERVAL_S
        assert await issuer.find("a") == "a"

    asyncio.run(main())


def test_concurrent_callers_share_one_fetch() -> None:
    async def main() -> None:
        issuer = Issuer("a")
        issuer.gate = asyncio.Event()
        waiting = [asyncio.create_task(issuer.find("a")) for _ in range(50)]
        await asyncio.sleep(0)
        issuer.gate.set()
        async with asyncio.timeout(60):
            assert await asyncio.gather(*waiting) == ["a"] * 50
        assert issuer.fetches == 1

    asyncio.run(main())


def test_cancelling_a_caller_does_not_cancel_the_fetch() -> None:
    async def main() -> None:
        issuer = Issuer("a")
        issuer.gate = asyncio.Event()
        leaving, staying = (asyncio.create_task(issuer.find("a")) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
        issuer.gate.set()
        async with asyncio.timeout(60):
            assert await staying == "a"
        assert leaving.cancelled()

    asyncio.run(main())


def test_callers_with_known_keys_do_not_wait_for_a_refresh() -> None:
    async def main() -> None:
        issuer = Issuer("a")
        await issuer.find("a")
        issuer.now += bounds.PUBLIC_KEY_FRESH_S + 1
        issuer.gate = asyncio.Event()
        refreshing = asyncio.create_task(issuer.find("a"))
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert await issuer.find("a") == "a"
        assert not refreshing.done()
        issuer.gate.set()
        async with asyncio.timeout(60):
            assert await refreshing == "a"

    asyncio.run(main())


def test_a_fetch_from_a_silent_issuer_times_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounds, "PUBLIC_KEY_FETCH_TIMEOUT_S", 0.01)

    async def main() -> None:
        issuer = Issuer("a")
        issuer.gate = asyncio.Event()
        async with asyncio.timeout(60):
            with pytest.raises(KeysUnavailable):
                await issuer.find("a")

    asyncio.run(main())


# -- key selection ------------------------------------------------------------------


def test_a_key_is_found_by_its_id_and_algorithm() -> None:
    a, b = make_key("a"), make_key("b", "RS256")
    assert select_key([a, b], "a", "ES256") is a
    assert select_key([a, b], "a", "RS256") is None
    assert select_key([a, b], "c", "ES256") is None


def test_a_single_key_without_an_id_verifies_every_key_id() -> None:
    bare, named = make_key(None), make_key("a")
    assert select_key([bare], "anything", "ES256") is bare
    assert select_key([bare], None, "ES256") is bare
    assert select_key([bare, named], "anything", "ES256") is None


def test_two_keys_that_match_are_ambiguous_and_none_is_used() -> None:
    assert select_key([make_key("a"), make_key("a")], "a", "ES256") is None
    assert select_key([make_key("a"), make_key("b")], None, "ES256") is None
