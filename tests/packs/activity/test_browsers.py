"""Browser windows: private, public, and unconfirmed ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity import browsers
from hubbub.packs.activity.browsers import UNCONFIRMED, ConfirmedPages
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.privacy import PRIVATE, Privacy
from hubbub.packs.activity.settings import PrivacySettings
from hubbub.packs.activity.sidecar.accessibility import AccessibilityTree, Frame, Node
from hubbub.packs.activity.sidecar.window_classifier import WindowClassifier
from hubbub.packs.activity.sidecar.windows import Window

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
BOX = (10.0, 10.0, 610.0, 410.0)
OTHER_BOX = (700.0, 10.0, 1200.0, 410.0)


def window(title: str, box: Any = BOX, identifier: int = 1, **more: Any) -> Window:
    return Window("Chromium", title, box, is_active=False, identifier=identifier, **{"pid": 7, **more})


def verdicts(listed: list[Window], *frames: Frame, **rules: Any) -> list[str]:
    classifier = WindowClassifier([Privacy(PrivacySettings(**rules))], (), AccessibilityTree(list(frames)))
    return list(classifier.verdicts(listed).values())


def frame(name: str, box: Any = BOX, pid: int = 7) -> Frame:
    return Frame("Chromium", pid, name, box)


# -- titles ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "title",
    [
        "Page — Mozilla Firefox Private Browsing",
        "Seite — Mozilla Firefox Privater Modus",
        "Page — Navigation privée de Mozilla Firefox",
        "Sivu — Mozilla Firefox (yksityinen selaus)",
        "Strona — Mozilla Firefox (tryb prywatny)",
        "Mozilla Firefox — Mozilla Firefox privatno pregledavanje",
        "evil — Mozilla Firefox — Mozilla Firefox yksityinen",
    ],
)
def test_private_firefox_windows_are_detected_in_any_language(title: str) -> None:
    """The part after the page title is more than the name of the browser."""
    assert browsers.is_marked_private("firefox-esr", title)


@pytest.mark.parametrize(
    ("app", "title"),
    [
        ("firefox", "Page — Mozilla Firefox"),
        ("firefox", "Mozilla Firefox"),
        ("Firefox", "Page"),
        ("firefox", "Firefox vs Chrome, a comparison — Firefox Developer Edition"),
        ("LibreWolf", "Page — LibreWolf"),
        ("zen", "Page — Zen Browser"),
        ("Code", "firefox.py - Visual Studio Code"),
        ("Chromium", "Firefox is fast - Chromium"),
    ],
)
def test_other_windows_do_not_count_as_private(app: str, title: str) -> None:
    assert not browsers.is_marked_private(app, title)


# -- windows on the screen ----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Page - Chromium (Incognito)", "Page - Chromium (Tundmatu)", "Page - Chromium（无痕）"]
)
def test_a_window_is_private_if_its_accessible_name_says_so(name: str) -> None:
    assert verdicts([window("Page - Chromium")], frame(name)) == ["private"]


def test_a_private_window_whose_title_ends_with_a_bracket_is_detected() -> None:
    assert verdicts([window("Mail (3)")], frame("Mail (3) (Tundmatu)")) == ["private"]
    assert verdicts([window("Mail (3)")], frame("Mail (3)")) == ["seen"]


def test_a_window_is_public_if_its_accessible_name_says_so() -> None:
    assert verdicts([window("Page - Chromium")], frame("Page - Chromium")) == ["seen"]
    assert verdicts([window("Page - Chromium")], frame("Page - Chromium - Ann")) == ["seen"]
    assert verdicts([window("New - Chromium")], frame("Old - Chromium")) == ["seen"]  # the page changed meanwhile


@pytest.mark.parametrize("frames", [(), (frame("Other - Chromium", pid=8),), (frame("Other - Chromium", OTHER_BOX),)])
def test_a_window_without_an_accessible_name_is_unconfirmed(frames: tuple[Frame, ...]) -> None:
    assert verdicts([window("Page - Chromium")], *frames) == ["unknown"]
    assert verdicts([window("Page - Chromium")], *frames, unconfirmed_windows="show") == ["seen"]
    assert verdicts([window("Page - Chromium")], *frames, incognito=False) == ["seen"]


def test_windows_with_the_same_title_are_told_apart_by_position() -> None:
    listed = [window("Page - Chromium", BOX, 1), window("Page - Chromium", OTHER_BOX, 2)]
    frames = [frame("Page - Chromium", BOX), frame("Page - Chromium (Incognito)", OTHER_BOX)]
    assert verdicts(listed, *frames) == ["seen", "private"]
    assert verdicts(listed, *frames[:1]) == ["seen", "unknown"]


def test_windows_with_the_same_title_and_position_are_hidden() -> None:
    """One of them may have been opened after the tree was read."""
    listed = [window("Page - Chromium", identifier=1), window("Page - Chromium", identifier=2)]
    assert verdicts(listed, frame("Page - Chromium")) == ["unknown", "unknown"]
    assert verdicts(listed, frame("Page - Chromium"), frame("Page - Chromium (Incognito)")) == ["private", "private"]


def test_a_window_opened_after_the_tree_was_read_is_not_confused_with_another() -> None:
    listed = [window("Page - Chromium", identifier=1), window("Hidden - Chromium", identifier=2)]
    assert verdicts(listed, frame("Page - Chromium")) == ["seen", "unknown"]


def test_a_menu_is_as_private_as_the_windows_of_its_program() -> None:
    menu = window("", (0.0, 0.0, 50.0, 50.0), 2, is_popup=True)
    assert verdicts([window("Page - Chromium"), menu], frame("Page - Chromium (Incognito)")) == ["private"] * 2
    assert verdicts([window("Page - Chromium"), menu], frame("Page - Chromium")) == ["seen"] * 2
    assert verdicts([window("Page - Chromium"), menu]) == ["unknown"] * 2


def test_elements_outside_the_visible_part_of_their_window_are_ignored() -> None:
    """Elements outside of their window, or covered by another, are omitted."""
    boxes = [(20, 20, 60, 40), (590, 20, 630, 40), (700, 20, 740, 40), (-1e9, -1e9, 1e9, 1e9), (60, 60, 20, 20)]
    nodes = [Node("label", str(number), 0, box, False) for number, box in enumerate(boxes)]
    classifier = WindowClassifier(
        [Privacy(PrivacySettings())], (), AccessibilityTree([frame("Page - Chromium")], nodes)
    )
    match = classifier.match([window("Page - Chromium")])[1]
    assert [node.name for node in classifier.visible_nodes(match, [BOX])] == ["0"]
    assert classifier.visible_nodes(match, [(50.0, 10.0, 610.0, 410.0)]) == []
    assert classifier.visible_nodes(match, []) == []
    twins = classifier.match([window("Page - Chromium", identifier=1), window("Page - Chromium", identifier=2)])
    assert classifier.visible_nodes(twins[1], [BOX]) == []


@pytest.mark.parametrize(
    ("arguments", "is_private"),
    [
        (["/usr/lib/chromium/chromium", "--incognito", "x"], True),
        (["msedge", "--inprivate"], True),
        (["epiphany", "--incognito-mode"], True),
        (["chromium", "https://example.org/--incognito"], False),
        (["brave", "--tor"], True),
        (["chromium", "--torrent"], False),
    ],
)
def test_private_mode_is_detected_from_the_command_line(arguments: list[str], is_private: bool) -> None:
    assert browsers.is_started_private(arguments) is is_private


# -- recorded windows ----------------------------------------------------------------


def is_title_disclosed(title: str, minutes: float = 0, app: str = "Chromium", **data: Any) -> bool:
    """Whether a window title is disclosed; a page named Page was shown at noon for ten minutes."""
    pages = ConfirmedPages([Event(NOON, 600, {"title": "Page", "url": "u", "incognito": False})])
    seen = Event(NOON + timedelta(minutes=minutes), 60, {"app": app, "title": title, **data})
    (disclosed,) = Privacy(PrivacySettings()).filter_events([seen], pages=pages)
    assert disclosed.text("title") in (title, UNCONFIRMED)
    return disclosed.text("title") == title


def test_a_window_title_is_disclosed_if_its_page_was_recorded_at_that_time() -> None:
    assert is_title_disclosed("Page - Chromium")
    assert is_title_disclosed("Page - Chromium", minutes=11)
    assert is_title_disclosed("Page - Google Chrome - Ann", app="Google-chrome")
    assert is_title_disclosed("Page and 3 more pages - Personal - Microsoft Edge", app="msedge.exe")
    assert is_title_disclosed("Other - Chromium", incognito=False)
    assert is_title_disclosed("Other", app="Code")
    assert not is_title_disclosed("Page - Chromium", minutes=30)
    assert not is_title_disclosed("Page - Chromium", minutes=-30)
    assert not is_title_disclosed("Other - Chromium")
    assert not is_title_disclosed("Page two - Chromium")
    assert not is_title_disclosed("Page - two - Chromium")
    assert not is_title_disclosed("Page - Chromium - two - Chromium")


def test_a_private_page_confirms_nothing() -> None:
    pages = ConfirmedPages([Event(NOON, 60, {"title": "Page", "incognito": flag}) for flag in (True, None, "no")])
    assert not pages.confirms(Event(NOON, 60, {"app": "Chromium", "title": "Page - Chromium"}))


@pytest.mark.parametrize("app", ["Iridium-browser", "slimjet.exe", "Orion", "Avast Secure Browser", "Nyxt"])
def test_windows_of_lesser_known_browsers_need_confirmation(app: str) -> None:
    assert not is_title_disclosed("Other", app=app)


def test_firefox_forks_mark_private_windows_in_every_language() -> None:
    assert browsers.is_marked_private("zen", "Seite — Zen Browser Privater Modus")
    assert browsers.is_marked_private("zen-beta", "Pagina — Zen Browser Navigare privată")


@pytest.mark.parametrize("data", [{"app": ["Chromium"], "title": "Page"}, {"app": "Chromium", "title": ["Page"]}])
def test_malformed_window_titles_are_unconfirmed(data: dict[str, Any]) -> None:
    (disclosed,) = Privacy(PrivacySettings()).filter_events([Event(NOON, 60, data)], pages=ConfirmedPages(()))
    assert disclosed.data["title"] == UNCONFIRMED


async def test_every_tool_notes_windows_that_may_be_private(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    start = now - timedelta(seconds=50)
    bucket = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    watch.insert(bucket, [event(start, 40, app="Chromium", title="Secret gifts - Chromium")])
    watch.insert(watch.bucket(f"aw-watcher-afk_{HOST}", "afkstatus"), [event(start, 40, status="not-afk")])
    query = f'RETURN = query_bucket("{bucket}");'
    async with connect_tool_client(watch.url) as tool_client:
        found = [
            await tool_client.call("aw.now"),
            await tool_client.call("aw.summary", period="last_1h", by="title"),
            await tool_client.call("aw.timeline", period="last_1h", min_seconds=1),
            await tool_client.call("aw.query", period="last_1h", query=query),
        ]
    assert all(UNCONFIRMED in str(each) for each in found)
    assert all("Secret gifts" not in str(each) for each in found)
    assert all("it is unknown whether those windows are private" in str(each["notes"]) for each in found)
    async with connect_tool_client(watch.url, privacy=PrivacySettings(unconfirmed_windows="show")) as tool_client:
        assert (await tool_client.call("aw.now"))["window"]["title"] == "Secret gifts - Chromium"
    tab = event(start, 40, title="Secret gifts", url="https://shop.example/", incognito=False)
    watch.insert(watch.bucket("aw-watcher-web-chrome", "web.tab.current", host="unknown"), [tab])
    async with connect_tool_client(watch.url) as tool_client:
        shown = await tool_client.call("aw.now")
        rows = (await tool_client.call("aw.summary", period="last_1h", by="title"))["rows"]
    assert (shown["window"]["title"], shown["notes"]) == ("Secret gifts - Chromium", [])
    assert [row["name"] for row in rows] == ["Secret gifts - Chromium"]


# -- password managers ---------------------------------------------------------------


@pytest.mark.parametrize(
    "app",
    ["1Password", "Bitwarden", "KeePassXC", "keepass2", "Seahorse", "Keychain Access", "Passwords", "Pinentry-gtk-2"],
)
def test_windows_of_password_managers_are_private(app: str) -> None:
    privacy = Privacy(PrivacySettings())
    data = {"app": app, "title": "ann at bank.example"}
    assert privacy.filter_data(data) == {"app": app, "title": PRIVATE}
    assert privacy.hides_window(app, "x")
    assert Privacy(PrivacySettings(private_apps=())).filter_data(data) == data


@pytest.mark.parametrize("app", ["Compass", "Code", "org.gnome.Nautilus", "Passport", "Passenger"])
def test_windows_of_other_apps_are_not_private(app: str) -> None:
    assert not Privacy(PrivacySettings()).hides_window(app, "x")
