"""Many buckets, long lists and deep nesting are limited, and do not block other calls."""

import asyncio
import gc
import json
import time
from typing import Any

import pytest
from tests.clock import measure_cpu_s
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import connect_tool_client
from tests.server.raw_client import PLAIN

from hubbub.packs.activity import limits
from hubbub.packs.activity.bucket_index import BucketIndex
from hubbub.packs.activity.filtered_sources import FilteredSources
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings


async def test_screen_elements_beyond_the_limit_are_omitted() -> None:
    body = {"parsed_content_list": [{"content": f"{number}"} for number in range(3000)], "latency_ms": 1.4}
    with run_scripted_server(
        lambda method, path: ScriptedResponse(body=json.dumps(body).encode() if method == "POST" else b"{}")
    ) as sidecar:
        async with connect_tool_client(sidecar_url=sidecar.url) as tool_client:
            screen = await tool_client.call("screen.read")
    assert (len(screen["elements"]), screen["latency_ms"]) == (limits.SCREEN_ELEMENTS, 1)


async def test_server_info_over_the_size_limit_is_refused() -> None:
    body = json.dumps({f"key {number}": number for number in range(20_000)}).encode()
    with run_scripted_server(ScriptedResponse(body=body)) as watch:
        async with connect_tool_client(watch.url, watch.url, dialect=PLAIN) as tool_client:
            causes = (await tool_client.client.result("system.health"))["causes"]
    assert (causes["activitywatch"]["kind"], causes["sidecar"]["kind"]) == ("too_large", "too_large")


async def test_too_many_buckets_are_refused_without_failing_the_rest_of_the_frame() -> None:
    body = json.dumps({f"b{number}": {} for number in range(limits.BUCKETS + 1)}).encode()
    with run_scripted_server(
        lambda method, path: ScriptedResponse(body=body if "/buckets" in path else b"{}")
    ) as watch:
        async with connect_tool_client(watch.url, dialect=PLAIN) as tool_client:
            error = await tool_client.client.error("aw.get_state")
            frame = await tool_client.client.result("nowframe.build")
    assert error["data"]["kind"] == "too_large"
    assert (frame["aw_info"], frame["aw_buckets"]) == ({}, None)


async def test_filtering_many_buckets_does_not_block_the_event_loop(request: pytest.FixtureRequest) -> None:
    many = {f"{number}": {"data": {f"a {number}": f"{'words ' * 100}{number}"}} for number in range(4000)}
    body = json.dumps(many).encode()
    with run_scripted_server(
        lambda method, path: ScriptedResponse(body=body if "/buckets" in path else b"{}")
    ) as watch:
        sources = FilteredSources(ActivitySettings(aw_url=watch.url))
        gc.disable()  # it would collect garbage of other tests
        request.addfinalizer(gc.enable)
        asking = asyncio.create_task(sources.bucket_index())
        started = last = time.thread_time()  # CPU time of the loop's thread, independent of other load
        longest_s = 0.0
        while not asking.done():
            await asyncio.sleep(0.001)
            longest_s, last = max(longest_s, time.thread_time() - last), time.thread_time()
        await sources.close()
    assert len(asking.result().metadata) == 4000
    assert longest_s < (last - started) / 2


def test_many_buckets_with_the_same_masked_name_get_distinct_names() -> None:
    def catalogue(count: int) -> BucketIndex:
        found: dict[str, Any] = {f"b{number}": {} for number in range(count)}
        return BucketIndex({**found, "[private] 3": {}}, Privacy(PrivacySettings(mask_text=(r"b\d+",))))

    shown = catalogue(limits.BUCKETS).metadata
    assert len(shown) == limits.BUCKETS + 1
    assert list(shown)[:3] == ["[private]", "[private] 2", "[private] 3"]
    assert measure_cpu_s(lambda: catalogue(limits.BUCKETS)) < 30 * measure_cpu_s(
        lambda: catalogue(limits.BUCKETS // 10)
    )


@pytest.mark.parametrize(
    "deep", [b'{"a":' * 900 + b"1" + b"}" * 900, b'{"app": "x", "a": ' + b"[" * 900 + b"]" * 900 + b"}"]
)
async def test_deeply_nested_data_is_truncated(deep: bytes) -> None:
    event = b'{"timestamp": "2026-11-15T10:00:00Z", "duration": 60, "data": %b}' % deep

    def answer(method: str, path: str) -> ScriptedResponse:
        bucket = b'{"w": {"type": "currentwindow", "hostname": "h", "data": %b}}' % deep
        return ScriptedResponse(body=b"[%b]" % event if "/events" in path else bucket if "/buckets" in path else deep)

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(
            watch.url, watch.url, dialect=PLAIN, privacy=PrivacySettings(drop_titles=("y",))
        ) as tool_client:
            frame = await tool_client.client.result("nowframe.build")
            assert (await tool_client.client.result("system.health"))["aw_ok"] is True
            assert await tool_client.client.result("aw.now")
            query = {"period": "2026-11-15", "query": 'RETURN = query_bucket("w");'}
            found = await tool_client.client.result("aw.query", query)
    for disclosed in (
        frame["aw_info"],
        frame["aw_buckets"]["w"]["data"],
        frame["omni_probe"],
        found["result"][0]["data"],
    ):
        assert "[too deep]" in str(disclosed)
