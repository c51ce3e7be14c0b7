"""A word that nobody may be told is put in every field of every event, and looked for in every output."""

import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.imports import SOURCE, imports_of
from tests.packs.activity.desks import Asker, at_a_desk, privacy_rules
from tests.packs.activity.odd_server import Odd, odd_server
from tests.packs.activity.watching import HOST, Watch, event
from tests.server.conversation import MODERN

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.tesseract import read_lines, version

CANARY = "zyzzyva"
OPEN = "harmless"
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
    ("aw.summary", {"period": "last_3h", "by": "category", "categories": {"Known": OPEN}}),
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


def plant(watch: Watch, canary: str) -> None:
    """Into every field that a watcher writes, one event for each; the newest ones too."""
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
            data: dict[str, Any] = dict.fromkeys(fields, OPEN)
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
        watch.insert(name, [event(now - timedelta(hours=2), 60, app=OPEN, title=OPEN, url="https://open.example/")])
    watch.insert("window", [event(now - timedelta(seconds=20), 19, app=OPEN, title=f"my {canary} here")])
    watch.insert("web", [event(now - timedelta(seconds=20), 19, url=f"https://{canary}.example", title=canary)])


async def outputs(asker: Asker) -> dict[str, str]:
    """What each call says, by what was called."""
    said = {f"{tool} {given}": json.dumps(await asker.client.call(tool, given)) for tool, given in CALLS}
    said["resource"] = json.dumps(await asker.client.result("resources/read", {"uri": "activity://now"}))
    for prompt in (await asker.client.result("prompts/list"))["prompts"]:
        # Of a whole day, so that it does not matter when the day began.
        period = {"period": "last_1d"} if prompt.get("arguments") else {}
        asked = {"name": prompt["name"], "arguments": period}
        said[prompt["name"]] = json.dumps(await asker.client.result("prompts/get", asked))
    return said


async def every_output(asker: Asker) -> str:
    return "\n".join((await outputs(asker)).values())


def screen(canary: str) -> Any:
    def answer(method: str, path: str) -> Odd:
        if method == "GET":
            probe = {"ok": True, "message": f"see {canary}", "window": {"title": canary}, f"a {canary}": 1}
            return Odd(body=json.dumps(probe).encode())
        contents = (f"my {canary}", OPEN, {"deep": [canary]}, [f"a {canary}"])
        elements = [{"type": "text", "content": content, "bbox": [0, 0, 1, 1]} for content in contents]
        body = {
            "ok": True,
            "parsed_content_list": [*elements, {f"a {canary}": 1, "type": canary, "content": OPEN}],
            "window": {"app": canary, "title": canary, f"a {canary}": 1},
            "latency_ms": canary,
        }
        return Odd(body=json.dumps(body).encode())

    return odd_server(answer)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("dialect", ["2025-11-25", MODERN])
async def test_what_the_rules_hide_is_in_no_output(
    rules: dict[str, Any], dialect: str, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:

    caplog.set_level(logging.DEBUG)
    plant(watch, CANARY)
    with screen(CANARY) as sidecar:
        async with at_a_desk(watch.url, sidecar.url, dialect=dialect, privacy=privacy_rules(**rules)) as asker:
            said = await every_output(asker)
    assert OPEN in said
    assert CANARY not in said.lower()
    assert CANARY not in caplog.text.lower()


async def drawn(watch: Watch, by: str, **rules: Any) -> tuple[bytes, str]:
    """A chart, and what can be read on it and beside it."""

    async with at_a_desk(watch.url, privacy=privacy_rules(**rules)) as asker:
        image, beside = (await asker.client.call("aw.chart", {"period": "last_3h", "by": by}))["content"]
    picture = base64.b64decode(image["data"])
    read = [line.text for line in read_lines(*Picture.read(picture).for_reading())]
    return picture, " ".join([*read, beside["text"]]).lower()


@pytest.mark.skipif(version() is None, reason="no tesseract here: scripts/system-packages installs it")
@pytest.mark.parametrize("by", ["app", "title", "domain"])
async def test_what_the_rules_hide_is_on_no_picture(by: str, watch: Watch) -> None:
    plant(watch, CANARY)
    _, without_rules = await drawn(watch, by)
    assert CANARY in without_rules, "or else the search below would find nothing whatever happened"
    for rules in RULES.values():
        picture, text = await drawn(watch, by, **rules)
        assert "active" in text
        assert CANARY not in text
        assert CANARY.encode() not in picture


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
async def test_what_the_rules_hide_is_not_told_by_the_doctor(rules: dict[str, Any]) -> None:
    from hubbub.packs.activity.settings import ActivitySettings

    now = json.dumps([event(datetime.now(UTC), 1, app=CANARY)]).encode()
    kinds = ("currentwindow", "afkstatus")
    buckets = {f"{kind} {CANARY}": {"type": kind, "hostname": f"{CANARY}-desk"} for kind in kinds}
    about = {"hostname": f"{CANARY}-desk", "version": f"v1-{CANARY}", "mode": CANARY, "reason": CANARY}

    def answer(method: str, path: str) -> Odd:
        body = json.dumps(buckets if path.endswith("/buckets/") else about).encode()
        return Odd(body=now if "/events" in path else body)

    with odd_server(answer) as watch:
        settings = ActivitySettings(aw_url=watch.url, sidecar_url=watch.url, privacy=privacy_rules(**rules))
        looks = (diagnosis.activitywatch, diagnosis.watchers, diagnosis.sidecar)
        checks = [await look(settings) for look in looks]
        open_settings = ActivitySettings(aw_url=watch.url, sidecar_url=watch.url)
        open_checks = [await look(open_settings) for look in looks]
    assert all(CANARY in check.detail for check in open_checks), open_checks
    assert CANARY not in str(checks)


async def test_without_rules_the_same_outputs_tell_it(watch: Watch) -> None:
    """Each of them, or else the search above would find nothing whatever happened."""
    plant(watch, CANARY)
    with screen(CANARY) as sidecar:
        async with at_a_desk(watch.url, sidecar.url) as asker:
            said = await outputs(asker)
    silent = [name for name, text in said.items() if CANARY not in text.lower()]
    # Of categories only names are told; a standup has what was done today, which may have begun just now.
    assert [name for name in silent if "category" not in name and name != "standup"] == []


async def test_what_looks_like_a_secret_is_in_no_output_by_itself(watch: Watch) -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    plant(watch, secret)
    with screen(secret) as sidecar:
        async with at_a_desk(watch.url, sidecar.url) as asker:
            said = await every_output(asker)
    assert secret not in said
    assert "[secret]" in said


async def test_a_private_tab_is_in_no_output_by_itself(watch: Watch) -> None:
    now = datetime.now(UTC)
    watch.bucket("web", "web.tab.current", host="unknown")
    watch.bucket("window", "currentwindow")
    watch.bucket("editor", "app.editor.activity")
    watch.bucket("other", "somebody.elses")
    start = now - timedelta(minutes=5)
    tab = event(start, 299, url=f"https://{CANARY}.example/", title=f"All about {CANARY}", incognito=True)
    watch.insert("web", [tab, event(now - timedelta(minutes=9), 60, url="https://open.example/", title=OPEN)])
    watch.insert("window", [event(start, 299, app="Firefox", title=f"All about {CANARY} — Mozilla Firefox")])
    async with at_a_desk(watch.url) as asker:
        said = await every_output(asker)
        now_told = await asker.call("aw.now")
    assert CANARY not in said
    assert (now_told["window"], now_told["tab"], now_told["private"]) == (None, None, ["window", "tab"])


async def test_errors_quote_nothing_that_the_rules_hide() -> None:

    with odd_server(Odd(400, json.dumps({"message": f"no bucket named {CANARY}"}).encode())) as watch:
        for kind in ("mask_text", "mask_apps", "mask_titles", "drop_urls", "drop_text", "drop_apps"):
            async with at_a_desk(watch.url, privacy=privacy_rules(**{kind: (CANARY,)})) as asker:
                for tool, arguments in CALLS:
                    assert CANARY not in json.dumps(await asker.client.call(tool, arguments))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
async def test_what_servers_say_of_themselves_and_their_buckets_follows_the_rules(rules: dict[str, Any]) -> None:

    about = {"hostname": OPEN, "version": CANARY, f"a {CANARY}": {f"the {CANARY}": [CANARY]}}
    bucket = {"type": CANARY, "client": OPEN, f"a {CANARY}": 1, "data": {f"a {CANARY}": CANARY}, "created": CANARY}

    def answer(method: str, path: str) -> Odd:
        return Odd(body=json.dumps({"open": bucket} if "/buckets" in path else about).encode())

    with odd_server(answer) as watch:
        async with at_a_desk(watch.url, watch.url, privacy=privacy_rules(**rules)) as asker:
            said = [await asker.call(tool) for tool in ("aw.get_state", "nowframe.build", "system.health")]
    assert OPEN in str(said)
    assert CANARY not in str(said)


async def test_the_names_of_categories_follow_the_rules(watch: Watch) -> None:
    from tests.packs.activity.gates import newer_watch

    now = datetime.now(UTC)
    watch.insert(watch.bucket("w", "currentwindow"), [event(now - timedelta(minutes=1), 59, app=OPEN, title=OPEN)])
    classes = [{"name": ["Life", f"My {CANARY}"], "rule": {"type": "regex", "regex": OPEN}}]
    with newer_watch(watch, classes) as newer:
        for rule in ("drop_titles", "mask_titles", "mask_text"):
            async with at_a_desk(newer.url, privacy=privacy_rules(**{rule: (CANARY,)})) as asker:
                said = await every_output(asker)
            assert "Life > " in said
            assert CANARY not in said


def test_only_the_sources_hold_the_two_servers() -> None:
    """Everything else gets what has passed the rules."""
    allowed = {"sources.py", "watch_server.py", "sidecar_client.py", "omniparser.py"}
    for path in (SOURCE / "hubbub/packs/activity").rglob("*.py"):
        servers = {
            name for name in imports_of(path) if name.endswith((".WatchServer", ".SidecarClient", ".JsonServer"))
        }
        assert not servers or path.name in allowed, f"{path.name} goes around the rules"
