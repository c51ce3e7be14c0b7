"""A hidden word is inserted into every field of every event, and searched in every output."""

import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.imports import SOURCE, list_imports
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import ToolClient, connect_tool_client, privacy_rules
from tests.server.raw_client import MODERN

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.tesseract import read_lines, version

CANARY = "zyzzyva"
HARMLESS = "harmless"
RULES = {
    "dropped apps": {"drop_apps": (CANARY,), "drop_titles": (CANARY,), "drop_urls": (CANARY,), "drop_text": (CANARY,)},
    "masked apps": {"mask_apps": (CANARY,), "mask_titles": (CANARY,), "mask_urls": (CANARY,), "mask_text": (CANARY,)},
    "masked text": {"mask_text": (CANARY,)},
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("aw.get_state", {}),
    ("nowframe.build", {}),
    ("system.health", {}),
    ("aw.now", {}),
    ("aw.timeline", {"period": "last_3h", "min_seconds": 0}),
    ("screen.read", {}),
    *(("aw.summary", {"period": "last_3h", "by": by, "top": 500}) for by in ("app", "title", "domain")),
    *(
        ("aw.summary", {"period": "last_3h", "by": by, "per": "hour"})
        for by in ("title", "url", "project", "file")
    ),
    ("aw.summary", {"period": "last_3h", "by": "category", "categories": {"Known": HARMLESS}}),
    ("aw.categories", {"period": "last_3h"}),
    *(("aw.export", {"period": "last_3h", "what": what}) for what in ("windows", "pages", "files", "timeline")),
    ("aw.export", {"period": "last_3h", "what": "summary", "by": "title", "per": "hour", "format": "json"}),
    ("aw.query", {"query": 'RETURN = query_bucket("window");', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = split_url_events(query_bucket("web"));', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = merge_events_by_keys(query_bucket("window"), ["title"]);', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = query_bucket("editor");', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = query_bucket("other");', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = query_bucket("none");', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = find_bucket("none");', "period": "last_3h"}),
    ("aw.query", {"query": 'RETURN = [find_bucket("aw-watcher-web"), find_bucket("w")];', "period": "last_3h"}),
    ("aw.now", {"host": "none"}),
]  # fmt: skip


def insert_canary(watch: ActivityWatchServer, canary: str) -> None:
    """Insert one event for each field that a watcher writes, also among the newest."""
    now = datetime.now(UTC)
    kinds: dict[str, tuple[str, tuple[str, ...]]] = {
        "window": ("currentwindow", ("app", "title")),
        "afk": ("afkstatus", ("status",)),
        "web": ("web.tab.current", ("url", "title")),
        "editor": ("app.editor.activity", ("file", "project", "language")),
        "other": ("somebody.elses", ("anything", "nested")),
    }
    for name, (kind, fields) in kinds.items():
        watch.bucket(name, kind, host=HOST)
        events = []
        for number, field in enumerate((*fields, None)):
            data: dict[str, Any] = dict.fromkeys(fields, HARMLESS)
            if field == "nested":
                data[field] = {"deep": [{"deeper": canary}]}
            elif field is not None:
                data[field] = f"https://{canary}.example/{canary}" if field == "url" else f"my {canary} here"
            else:
                data[f"a {canary}"] = {f"the {canary}": 1, "app": [canary]}
            ago = (175 if name == "afk" else 60) - 5 * number
            events.append(event(now - timedelta(minutes=ago), 290, **data))
        watch.insert(name, events)
    watch.insert("afk", [event(now - timedelta(minutes=160), 160 * 60 - 1, status="not-afk")])
    for name, kind, host in (
        (f"aw-watcher-web-{canary}", "web.tab.current", "unknown"),
        (f"aw-watcher-window_{canary}-laptop", "currentwindow", f"{canary}-laptop"),
        (canary, "somebody.elses", HOST),
    ):
        watch.bucket(name, kind, host=host, client=f"of-{canary}")
        watch.insert(
            name, [event(now - timedelta(hours=2), 60, app=HARMLESS, title=HARMLESS, url="https://open.example/")]
        )
    watch.insert("window", [event(now - timedelta(seconds=20), 19, app=HARMLESS, title=f"my {canary} here")])
    watch.insert("web", [event(now - timedelta(seconds=20), 19, url=f"https://{canary}.example", title=canary)])


async def collect_outputs(tool_client: ToolClient) -> dict[str, str]:
    """Call everything, and return the outputs by name."""
    texts = {f"{tool} {given}": json.dumps(await tool_client.client.call(tool, given)) for tool, given in CALLS}
    texts["resource"] = json.dumps(await tool_client.client.result("resources/read", {"uri": "activity://now"}))
    for prompt in (await tool_client.client.result("prompts/list"))["prompts"]:
        # A period of 24 hours, so that the time of day does not matter.
        period = {"period": "last_1d"} if prompt.get("arguments") else {}
        asked = {"name": prompt["name"], "arguments": period}
        texts[prompt["name"]] = json.dumps(await tool_client.client.result("prompts/get", asked))
    return texts


async def every_output(tool_client: ToolClient) -> str:
    return "\n".join((await collect_outputs(tool_client)).values())


def screen(canary: str) -> Any:
    def answer(method: str, path: str) -> ScriptedResponse:
        if method == "GET":
            probe = {"ok": True, "message": f"see {canary}", "window": {"title": canary}, f"a {canary}": 1}
            return ScriptedResponse(body=json.dumps(probe).encode())
        contents = (f"my {canary}", HARMLESS, {"deep": [canary]}, [f"a {canary}"])
        elements = [{"type": "text", "content": content, "bbox": [0, 0, 1, 1]} for content in contents]
        body = {
            "ok": True,
            "parsed_content_list": [*elements, {f"a {canary}": 1, "type": canary, "content": HARMLESS}],
            "window": {"app": canary, "title": canary, f"a {canary}": 1},
            "latency_ms": canary,
        }
        return ScriptedResponse(body=json.dumps(body).encode())

    return run_scripted_server(answer)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_hidden_text_is_in_no_output(
    rules: dict[str, Any], dialect: str, watch: ActivityWatchServer, caplog: pytest.LogCaptureFixture
) -> None:

    caplog.set_level(logging.DEBUG)
    insert_canary(watch, CANARY)
    with screen(CANARY) as sidecar:
        async with connect_tool_client(
            watch.url, sidecar.url, dialect=dialect, privacy=privacy_rules(**rules)
        ) as tool_client:
            texts = await every_output(tool_client)
    assert HARMLESS in texts
    assert CANARY not in texts.lower()
    assert CANARY not in caplog.text.lower()


async def draw_chart(watch: ActivityWatchServer, by: str, **rules: Any) -> tuple[bytes, str]:
    """Draw a chart, and return the text recognised in it and its text alternative."""

    async with connect_tool_client(watch.url, privacy=privacy_rules(**rules)) as tool_client:
        image, caption = (await tool_client.client.call("aw.chart", {"period": "last_3h", "by": by}))["content"]
    picture = base64.b64decode(image["data"])
    read = [line.text for line in read_lines(*Picture.decode(picture).for_ocr())]
    return picture, " ".join([*read, caption["text"]]).lower()


@pytest.mark.skipif(version() is None, reason="no tesseract here: scripts/system-packages installs it")
@pytest.mark.parametrize("by", ["app", "title", "domain"])
async def test_hidden_text_is_in_no_chart(by: str, watch: ActivityWatchServer) -> None:
    insert_canary(watch, CANARY)
    _, without_rules = await draw_chart(watch, by)
    assert CANARY in without_rules, "or else the search below would find nothing whatever happened"
    for rules in RULES.values():
        picture, text = await draw_chart(watch, by, **rules)
        assert "active" in text
        assert CANARY not in text
        assert CANARY.encode() not in picture


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
async def test_hidden_text_is_not_in_doctor_output(rules: dict[str, Any]) -> None:
    from hubbub.packs.activity.settings import ActivitySettings

    now = json.dumps([event(datetime.now(UTC), 1, app=CANARY)]).encode()
    kinds = ("currentwindow", "afkstatus")
    buckets = {f"{kind} {CANARY}": {"type": kind, "hostname": f"{CANARY}-desk"} for kind in kinds}
    about = {"hostname": f"{CANARY}-desk", "version": f"v1-{CANARY}", "mode": CANARY, "reason": CANARY}

    def answer(method: str, path: str) -> ScriptedResponse:
        body = json.dumps(buckets if path.endswith("/buckets/") else about).encode()
        return ScriptedResponse(body=now if "/events" in path else body)

    with run_scripted_server(answer) as watch:
        settings = ActivitySettings(aw_url=watch.url, sidecar_url=watch.url, privacy=privacy_rules(**rules))
        looks = (diagnosis.activitywatch, diagnosis.watchers, diagnosis.sidecar)
        checks = [await look(settings) for look in looks]
        open_settings = ActivitySettings(aw_url=watch.url, sidecar_url=watch.url)
        open_checks = [await look(open_settings) for look in looks]
    assert all(CANARY in check.detail for check in open_checks), open_checks
    assert CANARY not in str(checks)


async def test_without_rules_the_same_outputs_contain_the_text(watch: ActivityWatchServer) -> None:
    """Verifies the search: every output contains the word if no rule hides it."""
    insert_canary(watch, CANARY)
    with screen(CANARY) as sidecar:
        async with connect_tool_client(watch.url, sidecar.url) as tool_client:
            texts = await collect_outputs(tool_client)
    silent = [name for name, text in texts.items() if CANARY not in text.lower()]
    # Categories disclose only names; a standup covers today, which may have just started.
    assert [name for name in silent if "category" not in name and name != "standup"] == []


async def test_secrets_are_masked_in_every_output_by_default(watch: ActivityWatchServer) -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    insert_canary(watch, secret)
    with screen(secret) as sidecar:
        async with connect_tool_client(watch.url, sidecar.url) as tool_client:
            texts = await every_output(tool_client)
    assert secret not in texts
    assert "[secret]" in texts


async def test_private_tabs_are_in_no_output_by_default(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    watch.bucket("web", "web.tab.current", host="unknown")
    watch.bucket("window", "currentwindow")
    watch.bucket("editor", "app.editor.activity")
    watch.bucket("other", "somebody.elses")
    start = now - timedelta(minutes=5)
    tab = event(start, 299, url=f"https://{CANARY}.example/", title=f"All about {CANARY}", incognito=True)
    watch.insert("web", [tab, event(now - timedelta(minutes=9), 60, url="https://open.example/", title=HARMLESS)])
    watch.insert("window", [event(start, 299, app="Firefox", title=f"All about {CANARY} — Mozilla Firefox")])
    async with connect_tool_client(watch.url) as tool_client:
        texts = await every_output(tool_client)
        current = await tool_client.call("aw.now")
    assert CANARY not in texts
    assert (current["window"], current["tab"], current["private"]) == (None, None, ["window", "tab"])


async def test_errors_do_not_quote_hidden_text() -> None:

    with run_scripted_server(
        ScriptedResponse(400, json.dumps({"message": f"no bucket named {CANARY}"}).encode())
    ) as watch:
        for kind in ("mask_text", "mask_apps", "mask_titles", "drop_urls", "drop_text", "drop_apps"):
            async with connect_tool_client(watch.url, privacy=privacy_rules(**{kind: (CANARY,)})) as tool_client:
                for tool, arguments in CALLS:
                    assert CANARY not in json.dumps(await tool_client.client.call(tool, arguments))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
async def test_rules_apply_to_server_info_and_bucket_metadata(rules: dict[str, Any]) -> None:

    about = {"hostname": HARMLESS, "version": CANARY, f"a {CANARY}": {f"the {CANARY}": [CANARY]}}
    bucket = {"type": CANARY, "client": HARMLESS, f"a {CANARY}": 1, "data": {f"a {CANARY}": CANARY}, "created": CANARY}

    def answer(method: str, path: str) -> ScriptedResponse:
        return ScriptedResponse(body=json.dumps({"open": bucket} if "/buckets" in path else about).encode())

    with run_scripted_server(answer) as watch:
        async with connect_tool_client(watch.url, watch.url, privacy=privacy_rules(**rules)) as tool_client:
            texts = [await tool_client.call(tool) for tool in ("aw.get_state", "nowframe.build", "system.health")]
    assert HARMLESS in str(texts)
    assert CANARY not in str(texts)


async def test_rules_apply_to_category_names(watch: ActivityWatchServer) -> None:
    from tests.packs.activity.activitywatch_proxies import run_proxy_with_categories

    now = datetime.now(UTC)
    watch.insert(
        watch.bucket("w", "currentwindow"), [event(now - timedelta(minutes=1), 59, app=HARMLESS, title=HARMLESS)]
    )
    classes = [{"name": ["Life", f"My {CANARY}"], "rule": {"type": "regex", "regex": HARMLESS}}]
    with run_proxy_with_categories(watch, classes) as newer:
        for rule in ("drop_titles", "mask_titles", "mask_text"):
            async with connect_tool_client(newer.url, privacy=privacy_rules(**{rule: (CANARY,)})) as tool_client:
                texts = await every_output(tool_client)
            assert "Life > " in texts
            assert CANARY not in texts


def test_only_filtered_sources_uses_the_two_clients() -> None:
    """All other modules get filtered data."""
    allowed = {"filtered_sources.py", "activitywatch_client.py", "sidecar_client.py", "omniparser.py"}
    for path in (SOURCE / "hubbub/packs/activity").rglob("*.py"):
        servers = {
            name
            for name in list_imports(path)
            if name.endswith((".ActivityWatchClient", ".SidecarClient", ".JsonClient"))
        }
        assert not servers or path.name in allowed, f"{path.name} goes around the rules"
