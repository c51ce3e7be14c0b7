"""Categories with their time, and time without a category."""

from typing import Any

from tests.packs.activity.activitywatch_proxies import run_proxy_with_categories
from tests.packs.activity.activitywatch_server import ActivityWatchServer, insert_morning
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity import limits
from hubbub.packs.activity.settings import PrivacySettings

STORED_CATEGORIES: list[Any] = [
    {"id": 0, "name": ["Work"], "rule": {"type": "none"}},
    {"id": 1, "name": ["Work", "Code"], "rule": {"type": "regex", "regex": "Code", "ignore_case": False}},
    {"id": 2, "name": ["Work", "Code", "Tests"], "rule": {"type": "regex", "regex": "TEST", "ignore_case": True}},
    {"id": 3, "name": ["Broken"], "rule": {"type": "regex", "regex": "(", "ignore_case": True}},
    {"id": 4, "name": [], "rule": {"type": "regex", "regex": "Firefox"}},
    {"id": 5, "name": ["deep"] * 10_000, "rule": {"type": "regex", "regex": "Thunderbird"}},
    "not a category",
]


def rule(pattern: str, *, ignore_case: bool = True, is_valid: bool = True) -> dict[str, Any]:
    return {"pattern": pattern, "ignore_case": ignore_case, "is_valid": is_valid}


async def test_categories_of_activitywatch_are_listed_with_rules_and_time(
    watch: ActivityWatchServer,
) -> None:
    insert_morning(watch)
    with run_proxy_with_categories(watch, STORED_CATEGORIES) as proxy:
        async with connect_tool_client(proxy.url) as tool_client:
            found = await tool_client.call("aw.categories", period="yesterday")
            summary = await tool_client.call("aw.summary", period="yesterday", by="category")
    rows = {row["name"]: row for row in found["categories"]}
    assert found["source"] == "activitywatch"
    assert list(rows)[:4] == ["Work", "Work > Code", "Work > Code > Tests", "Broken"]
    assert [(rows[name]["seconds"], rows[name]["total_s"]) for name in list(rows)[:3]] == [
        (0, 3600),
        (1800, 3600),
        (1800, 1800),
    ]
    assert (rows["Work"]["share"], rows["Work"]["duration"]) == (0.6667, "1h 00m")
    assert rows["Work"]["rules"] == []
    assert rows["Work > Code"]["rules"] == [rule("Code", ignore_case=False)]
    assert rows["Work > Code > Tests"]["rules"] == [rule("TEST")]
    assert rows["Broken"]["rules"] == [rule("(", ignore_case=False, is_valid=False)]
    assert "not valid regular expressions" in found["notes"][0]
    spent = {row["name"]: row["seconds"] for row in found["categories"] if row["seconds"]}
    listed = {row["name"]: row["seconds"] for row in summary["rows"]}
    assert {**spent, "Uncategorized": found["uncategorized_s"]} == listed
    assert sum(listed.values()) == found["active_s"]


async def test_apps_and_titles_without_a_category_are_listed(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url, categories={"Work > Code": "code"}) as tool_client:
        found = await tool_client.call("aw.categories", period="yesterday")
        one = await tool_client.call("aw.categories", period="yesterday", top=1)
        tried = await tool_client.call("aw.categories", period="yesterday", categories={"Mail": "thunderbird|inbox"})
    assert (found["source"], found["uncategorized_s"], found["uncategorized_share"]) == ("settings", 1800, 0.3333)
    assert [(row["name"], row["seconds"]) for row in found["uncategorized_apps"]] == [
        ("Firefox", 900),
        ("Thunderbird", 900),
    ]
    assert found["uncategorized_titles"] == [
        {"app": "Firefox", "title": "MCP - Mozilla Firefox", "seconds": 900, "duration": "15m"},
        {"app": "Thunderbird", "title": "Inbox", "seconds": 900, "duration": "15m"},
    ]
    assert (len(one["uncategorized_apps"]), len(one["uncategorized_titles"])) == (1, 1)
    assert (tried["source"], tried["uncategorized_s"]) == ("call", 4500)


async def test_without_categories_everything_is_uncategorized(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        found = await tool_client.call("aw.categories", period="yesterday")
    assert (found["source"], found["categories"], found["uncategorized_s"]) == ("none", [], 5400)
    assert "no categories" in found["notes"][0]


async def test_private_text_in_patterns_is_masked(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    recorded = [{"name": ["Secrets of Acme"], "rule": {"type": "regex", "regex": "KeePass|Acme|Code"}}]
    rules = PrivacySettings(drop_apps=("keepass",), mask_titles=("acme",))
    with run_proxy_with_categories(watch, recorded) as proxy:
        async with connect_tool_client(proxy.url, privacy=rules) as tool_client:
            found = await tool_client.call("aw.categories", period="yesterday")
    (row,) = found["categories"]
    assert (row["name"], row["seconds"]) == ("[private]", 3600)
    assert row["rules"] == [rule("[private]|[private]|Code", ignore_case=False)]


async def test_too_many_categories_are_truncated_with_a_note(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    many = [{"name": [f"c{number}"], "rule": {"type": "none"}} for number in range(30_000)]
    with run_proxy_with_categories(
        watch, [{"name": ["Work"], "rule": {"type": "regex", "regex": "Code"}}, *many]
    ) as proxy:
        async with connect_tool_client(proxy.url) as tool_client:
            found = await tool_client.call("aw.categories", period="yesterday")
    assert len(found["categories"]) == limits.CATEGORIES
    assert found["categories"][0]["seconds"] == 3600
    assert found["notes"] == [
        "only the first 500 of 2000 categories are listed",
        "only the first 2000 categories of ActivityWatch are used",
    ]
