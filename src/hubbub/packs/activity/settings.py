"""Settings of the activity pack: the addresses of both servers, and the privacy rules."""

import re
from typing import Annotated, Final, Literal

import msgspec

from hubbub import Secret, setting
from hubbub.packs.activity import limits

AW_URL: Final = "http://127.0.0.1:5600"
LANGUAGE: Final = re.compile(r"[A-Za-z_]{3,20}(?:\+[A-Za-z_]{3,20}){0,5}")
"""Tesseract's language names."""
REGION: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,6})\+([0-9]{1,6})\+([0-9]{1,6})")
_PATTERNS: Final = "PATTERN,…"
_PASSWORD_MANAGERS: Final = (
    r"1password|bitwarden|keepass|lastpass|dashlane|enpass|nordpass|proton ?pass|roboform|keeper ?password|passbolt",
    r"keychain|^passwords$|seahorse|gnome-keyring|gcr-prompter|kwallet|pinentry|ssh-askpass|credential ?manager",
    r"\b(?:qtpass|gopass|passmenu|rofi-pass|password-store)\b|authenticator|\bauthy\b|yubioath",
)


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which data is dropped, and which becomes `[private]`. Patterns are case-insensitive regular expressions."""

    drop_apps: Annotated[tuple[str, ...], setting("Apps of which nothing is told.", form=_PATTERNS)] = ()
    drop_titles: Annotated[
        tuple[str, ...], setting("Titles of windows and pages of the same kind.", form=_PATTERNS)
    ] = ()
    drop_urls: Annotated[tuple[str, ...], setting("Addresses of the same kind.", form=_PATTERNS)] = ()
    drop_text: Annotated[tuple[str, ...], setting("Lines on the screen that are left out.", form=_PATTERNS)] = ()
    mask_apps: Annotated[
        tuple[str, ...], setting("Apps of which only the time is told, not what they are or show.", form=_PATTERNS)
    ] = ()
    mask_titles: Annotated[tuple[str, ...], setting("Titles that are told as [private].", form=_PATTERNS)] = ()
    mask_urls: Annotated[
        tuple[str, ...], setting("Addresses of the same kind, with their titles.", form=_PATTERNS)
    ] = ()
    mask_text: Annotated[tuple[str, ...], setting("Parts of any text that are told as [private].", form=_PATTERNS)] = ()
    regions: Annotated[
        tuple[str, ...], setting("Parts of the screen that are blackened before it is read.", form="WxH+X+Y,…")
    ] = ()
    private_apps: Annotated[
        tuple[str, ...],
        setting(
            "Apps whose windows are hidden and whose titles are shown as [private]. Default: password managers.",
            form=_PATTERNS,
        ),
    ] = _PASSWORD_MANAGERS
    urls: Annotated[Literal["full", "domain"], setting("How much of an address is told.")] = "full"
    incognito: Annotated[bool, setting("Whether private windows of browsers are left out.")] = True
    unconfirmed_windows: Annotated[
        Literal["hide", "show"],
        setting("Whether to hide or show browser windows that may be private."),
    ] = "hide"
    secrets: Annotated[bool, setting("Whether what looks like a secret is told as [secret].")] = True

    def __post_init__(self) -> None:
        for name in msgspec.structs.asdict(self):
            if name.startswith(("drop_", "mask_", "private_")):
                _check_patterns(name, getattr(self, name))
        for region in self.regions:
            if REGION.fullmatch(region) is None:
                raise ValueError(f"regions must look like 300x200+10+20, not {region!r}")


class ActivitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from `[packs.activity]` and `HUBBUB_ACTIVITY_…`."""

    aw_url: Annotated[str, setting("Where ActivityWatch is.", form="URL")] = AW_URL
    sidecar_url: Annotated[
        str | None,
        setting("Address of the sidecar: http://… or unix:/path. Default: its socket in the data folder.", form="URL"),
    ] = None
    api_key: Annotated[Secret | None, setting("The API key of ActivityWatch, where it has one.")] = None
    sidecar_token: Annotated[
        Secret | None,
        setting("Shared secret with a sidecar on a TCP port. It is never sent. Default: a file in the data folder."),
    ] = None
    timeout_s: Annotated[float, setting("How long one question to either may take.", gt=0, le=60)] = limits.CALL_S
    time_zone: Annotated[
        str | None, setting("The person's time zone; otherwise that of this machine.", form="Europe/Berlin")
    ] = None
    host: Annotated[
        str | None, setting("Whose events, where ActivityWatch has those of several machines.", form="HOSTNAME")
    ] = None
    stale_s: Annotated[float, setting("How old what is told as now may be.", gt=0)] = 60.0
    poll_s: Annotated[
        float, setting("Seconds between checks for changes while a client subscribes to activity://now.", ge=0.1)
    ] = 2.0
    categories: Annotated[
        dict[str, str],
        setting("Categories by name, each with a pattern; otherwise ActivityWatch's own.", form="{NAME = PATTERN}"),
    ] = {}
    disclosure_log: Annotated[
        str | None,
        setting(
            "Where to log which caller asked for what; `off` turns it off. Default: a file in the data folder.",
            form="FILE|off",
        ),
    ] = None
    ocr_language: Annotated[
        str | None,
        setting("Tesseract's name of the language of the text on the screen. Default: English.", form="deu+eng"),
    ] = None
    protected_folder: Annotated[
        str | None,
        setting("Where `hubbub sidecar snapshot` keeps its two files; otherwise the data folder.", form="FOLDER"),
    ] = None
    privacy: PrivacySettings = msgspec.field(default_factory=PrivacySettings)

    def __post_init__(self) -> None:
        _check_patterns("categories", tuple(self.categories.values()))
        if self.ocr_language is not None and LANGUAGE.fullmatch(self.ocr_language) is None:
            raise ValueError(f"ocr_language must look like eng or deu+eng, not {self.ocr_language!r}")
        if self.time_zone is not None:
            _check_zone(self.time_zone)


def _check_patterns(name: str, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{name} must be regular expressions; {pattern!r} is none: {error}") from error


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"time_zone must be the name of a time zone such as Europe/Berlin, not {name!r}") from None
