"""Privacy rules: what is dropped, masked, or unchanged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.privacy import PRIVATE, Privacy
from hubbub.packs.activity.secret_patterns import SECRET_MASK, mask_secrets
from hubbub.packs.activity.settings import PrivacySettings

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def shown(data: dict[str, Any], **rules: Any) -> dict[str, Any] | None:
    return Privacy(PrivacySettings(**rules)).filter_data(data)


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
        "AKIAIOSFODNN7EXAMPLE",
        "password: hunter2",
        "Your API key = 1234-abcd",
        "https://me:hunter2@example.org/",
        "https://example.org/reset?token=hunter2&x=1",
        "https://example.org/cb#access_token=hunter2",
        "card 4111 1111 1111 1111 ok",
        "DE89 3704 0044 0532 0130 00",
        "mail from ann@example.org",
        "a0B1c2D3e4F5g6H7i8J9k0L1m2",
        "-----BEGIN RSA PRIVATE KEY----- MIIE",
        'export SECRET_TOKEN="hunter2"',
    ],
)
def test_text_that_looks_like_a_secret_is_masked(text: str) -> None:
    disclosed = mask_secrets(f"before {text} after")
    assert SECRET_MASK in disclosed
    assert disclosed.startswith("before ")
    for word in ("hunter2", "1234-abcd", "4111", "ann@", "0123456789", "IOSFODNN7"):
        assert word not in disclosed


@pytest.mark.parametrize(
    "text",
    [
        "main.py - hubbub - Visual Studio Code",
        "Inbox (3) - Thunderbird",
        "How to choose a password manager",
        "Python 3.11.7 documentation",
        "https://example.org/a/b?page=2&sort=name#top",
        "550e8400-e29b-41d4-a716-446655440000",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "aw-watcher-window_DESKTOP-4K2J9A1",
        "2026-11-15T12:00:00.000000+00:00",
        "/home/ann/projects/hubbub/src/hubbub/packs/activity/privacy.py",
        "Order 12345678901234 shipped",
        "Visual Basic programming for beginners",
        "The bearer certificates of 1920",
        "Authorization of users - Handbook",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert mask_secrets(text) == text


@given(st.text(max_size=300))
def test_masking_is_idempotent(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


def test_masking_of_secrets_can_be_disabled() -> None:
    assert shown({"title": "password: hunter2"}, secrets=False) == {"title": "password: hunter2"}


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ({"app": "KeePassXC", "title": "x"}, {"drop_apps": ("keepass",)}),
        ({"app": "Code", "title": "diary.txt"}, {"drop_titles": (r"diary\.txt$",)}),
        ({"url": "https://bank.example/x", "title": "x"}, {"drop_urls": ("^https://bank",)}),
        ({"url": "https://x.example", "title": "x", "incognito": True}, {}),
        ({"app": "firefox", "title": "Page — Mozilla Firefox Private Browsing"}, {}),
        ({"app": "msedge.exe", "title": "Page - [InPrivate] - Edge"}, {}),
    ],
)
def test_dropped_events_are_not_disclosed(data: dict[str, Any], rules: dict[str, Any]) -> None:
    assert shown(data, **rules) is None


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ({"url": f"https://sso.example/?{'a' * 2000}&to=bank", "title": "x"}, {"drop_urls": ("bank",)}),
        ({"app": "firefox", "title": f"{'a' * 2000} — Mozilla Firefox Private Browsing"}, {}),
    ],
)
def test_rules_match_beyond_the_truncation_limit(data: dict[str, Any], rules: dict[str, Any]) -> None:
    assert shown(data, **rules) is None


@pytest.mark.parametrize("secret", ["4111 1111 1111 1111", "ann.someone@example.org", "ghp_0123456789abcdefghijklmnop"])
@pytest.mark.parametrize("place", range(975, 1000, 6))
def test_truncation_does_not_disclose_part_of_a_secret(secret: str, place: int) -> None:
    disclosed = shown({"title": f"{'a ' * 600}"[:place] + f" {secret} and more"})
    assert disclosed is not None
    assert len(disclosed["title"]) <= limits.TEXT_CHARACTERS
    assert not set(disclosed["title"][place:]) & set("0123456789@")


def test_a_masked_app_hides_all_texts_of_its_event() -> None:
    data = {"app": "KeePassXC", "title": "mine", "url": "x", "pid": 7, "more": {"a": "b"}, "list": ["c"]}
    assert shown(data, mask_apps=("keepass",)) == {
        "app": PRIVATE, "title": PRIVATE, "url": PRIVATE, "pid": 7, "more": PRIVATE, "list": PRIVATE,
    }  # fmt: skip


def test_a_masked_title_does_not_hide_the_app() -> None:
    assert shown({"app": "Code", "title": "diary.txt"}, mask_titles=("diary",)) == {"app": "Code", "title": PRIVATE}


def test_a_masked_url_also_masks_its_title() -> None:
    data = {"url": "https://bank.example/1", "title": "Account", "audible": False}
    assert shown(data, mask_urls=("bank",)) == {"url": PRIVATE, "title": PRIVATE, "audible": False}


def test_urls_can_be_reduced_to_their_host() -> None:
    assert shown({"url": "https://www.example.org/a?b"}, urls="domain") == {"url": "www.example.org"}


def test_dropping_incognito_tabs_can_be_disabled() -> None:
    data = {"url": "https://x.example/", "incognito": True}
    assert shown(data, incognito=False) == data


def test_secrets_are_masked_at_any_depth() -> None:
    data = {"a": [{"b": {"c": "password: hunter2"}}], "password: hunter3": 1}
    assert "hunter" not in str(Privacy(PrivacySettings()).filter_value(data))


def test_the_window_of_a_private_tab_is_dropped_with_it() -> None:
    privacy = Privacy(PrivacySettings())
    tabs = [
        Event(NOON, 60, {"title": "Secret gifts", "url": "u", "incognito": True}),
        Event(NOON, 60, {"title": "News"}),
    ]
    hidden = privacy.hidden_titles(tabs, are_pages=True)
    windows = [
        Event(NOON, 60, {"app": "Firefox", "title": "Secret gifts — Mozilla Firefox"}),
        Event(NOON, 60, {"app": "Firefox", "title": "News — Mozilla Firefox"}),
    ]
    assert [event.text("title") for event in privacy.filter_events(windows, hidden)] == ["News — Mozilla Firefox"]


def test_every_rule_applies_to_screen_text() -> None:
    rules = PrivacySettings(drop_text=("salary",), drop_titles=("diary",), mask_urls=("bank",), mask_text=("Ann",))
    elements = [
        {"content": text, "type": "text"} for text in ("Salary 100", "my diary", "https://bank.x", "Hi Ann!", "ok")
    ]
    disclosed = Privacy(rules).filter_elements([*elements, {"type": "icon"}, "odd", {"content": 7}])
    assert [element["content"] for element in disclosed] == [PRIVATE, f"Hi {PRIVATE}!", "ok", None, 7]


def test_hidden_regions_are_parsed() -> None:
    assert Privacy(PrivacySettings(regions=("300x200+10+20",))).hidden_regions() == [(10, 20, 310, 220)]


@pytest.mark.parametrize("rules", [{"regions": ("300x200",)}, {"drop_apps": ("(",)}, {"mask_text": ("[a",)}])
def test_invalid_rules_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        PrivacySettings(**rules)


def test_a_pattern_can_have_inline_flags() -> None:
    assert shown({"app": "Code", "title": "x"}, drop_apps=("(?x) nothing", "code")) is None


@pytest.mark.parametrize("app", [["KeePassXC"], {"name": "KeePassXC"}, {"a": ["x", {"b": "keepass"}]}])
def test_app_rules_match_apps_of_any_json_type(app: Any) -> None:
    assert shown({"app": app, "title": "x"}, drop_apps=("keepass",)) is None
    assert "eepass" not in str(shown({"app": app, "title": "x"}, mask_apps=("keepass",)))


@pytest.mark.parametrize("rule", ["drop_titles", "mask_titles", "mask_text", "mask_urls"])
def test_rules_apply_to_keys(rule: str) -> None:
    disclosed = shown({"app": "x", "diary": 1, "more": {"diary": 2}}, **{rule: ("diary",)})
    assert "diary" not in str(disclosed)


@pytest.mark.parametrize(
    ("data", "disclosed"),
    [
        ({"url": "http://[", "title": "x"}, {"url": "", "title": "x"}),
        ({"title": "See https://bank.example/account?id=7 now"}, {"title": "See bank.example now"}),
        ({"href": "https://u:p@site.example:81/a/b"}, {"href": "site.example"}),
        ({"url": "file:///home/ann/letter.txt"}, {"url": ""}),
    ],
)
def test_urls_anywhere_in_an_event_are_reduced_to_their_host(data: dict[str, Any], disclosed: dict[str, Any]) -> None:
    assert shown(data, urls="domain") == disclosed


def test_text_rules_apply_to_host_names() -> None:
    assert shown({"url": "https://bank.example/x"}, urls="domain", mask_text=("bank",)) == {"url": f"{PRIVATE}.example"}


@pytest.mark.parametrize(
    "title",
    [
        "Seite – Mozilla Firefox (Privater Modus)",
        "Page - Google Chrome (Inkognito)",
        "Page — Navigation privée de Mozilla Firefox",
        "Página - Navegación privada",
        "ページ — Mozilla Firefox プライベートブラウジング",
        "Страница - Google Chrome (Инкогнито)",
    ],
)
def test_private_windows_are_detected_in_other_languages(title: str) -> None:
    assert shown({"app": "browser", "title": title}) is None


@pytest.mark.parametrize(
    ("name", "rules", "disclosed"),
    [
        ("aw-watcher-window_desk", {"drop_apps": ("watch", "window")}, "aw-watcher-window_desk"),
        ("aw-watcher-window_desk", {"drop_titles": ("desk",)}, f"aw-watcher-window_{PRIVATE}"),
        ("aw-watcher-vscode_desk", {"mask_apps": ("code",)}, f"aw-watcher-{PRIVATE}"),
        ("anns-laptop", {"mask_text": ("ann",)}, f"{PRIVATE}s-laptop"),
        ("anns-laptop", {"drop_text": ("ann",)}, PRIVATE),
        ("aw-watcher-window", {"drop_apps": (".*",)}, "aw-watcher-window"),
    ],
)
def test_rules_apply_to_names_of_buckets_and_machines(name: str, rules: dict[str, Any], disclosed: str) -> None:
    assert Privacy(PrivacySettings(**rules)).mask_name(name) == disclosed


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abc.def-123",
        "sent with bearer tok1234567 today",
        "curl -H 'authorization: Basic dXNlcjpwYXNz'",
        "Your verification code is 482913",
        "security code: 482913",
    ],
)
def test_bearer_tokens_and_verification_codes_are_masked(text: str) -> None:
    disclosed = mask_secrets(text)
    assert SECRET_MASK in disclosed
    assert not [word for word in ("abc.def", "tok1234567", "dXNlcjpw", "482913") if word in disclosed]
