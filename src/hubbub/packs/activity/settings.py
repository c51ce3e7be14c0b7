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

    drop_apps: Annotated[tuple[str, ...], setting("Apps to leave out completely.", form=_PATTERNS)] = ()
    drop_titles: Annotated[
        tuple[str, ...], setting("Titles of windows and pages to leave out completely.", form=_PATTERNS)
    ] = ()
    drop_urls: Annotated[tuple[str, ...], setting("Addresses of pages to leave out completely.", form=_PATTERNS)] = ()
    drop_text: Annotated[tuple[str, ...], setting("Lines on the screen to leave out.", form=_PATTERNS)] = ()
    mask_apps: Annotated[
        tuple[str, ...], setting("Apps of which only the time is disclosed, not the name or titles.", form=_PATTERNS)
    ] = ()
    mask_titles: Annotated[tuple[str, ...], setting("Titles to replace by [private].", form=_PATTERNS)] = ()
    mask_urls: Annotated[
        tuple[str, ...], setting("Addresses to replace by [private], with their titles.", form=_PATTERNS)
    ] = ()
    mask_text: Annotated[tuple[str, ...], setting("Parts of any text to replace by [private].", form=_PATTERNS)] = ()
    regions: Annotated[
        tuple[str, ...], setting("Parts of the screen to blacken before it is read.", form="WxH+X+Y,…")
    ] = ()
    private_apps: Annotated[
        tuple[str, ...],
        setting(
            "Apps whose windows are hidden and whose titles become [private]. Default: password managers.",
            form=_PATTERNS,
        ),
    ] = _PASSWORD_MANAGERS
    urls: Annotated[Literal["full", "domain"], setting("How much of each address is disclosed.")] = "full"
    incognito: Annotated[bool, setting("Whether to hide private browser windows.")] = True
    unconfirmed_windows: Annotated[
        Literal["hide", "show"],
        setting("Whether to hide or show browser windows that may be private."),
    ] = "hide"
    secrets: Annotated[bool, setting("Whether to replace text that looks like a secret by [secret].")] = True

    def __post_init__(self) -> None:
        for name in msgspec.structs.asdict(self):
            if name.startswith(("drop_", "mask_", "private_")):
                _check_patterns(name, getattr(self, name))
        for region in self.regions:
            if REGION.fullmatch(region) is None:
                raise ValueError(f"regions must look like 300x200+10+20, not {region!r}")


class ActivitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from `[packs.activity]` and `HUBBUB_ACTIVITY_…`."""

    aw_url: Annotated[str, setting("Address of ActivityWatch.", form="URL")] = AW_URL
    sidecar_url: Annotated[
        str | None,
        setting("Address of the sidecar: http://… or unix:/path. Default: its socket in the data folder.", form="URL"),
    ] = None
    api_key: Annotated[Secret | None, setting("API key of ActivityWatch, if it requires one.")] = None
    sidecar_token: Annotated[
        Secret | None,
        setting("Shared secret with a sidecar on a TCP port. It is never sent. Default: a file in the data folder."),
    ] = None
    timeout_s: Annotated[float, setting("Timeout of one request to ActivityWatch or the sidecar.", gt=0, le=60)] = (
        limits.REQUEST_TIMEOUT_S
    )
    time_zone: Annotated[
        str | None, setting("The user's time zone. Default: the zone of this machine.", form="Europe/Berlin")
    ] = None
    host: Annotated[
        str | None, setting("Machine to report on, if ActivityWatch has data of several.", form="HOSTNAME")
    ] = None
    stale_s: Annotated[float, setting("Seconds after which a record no longer counts as current.", gt=0)] = 60.0
    poll_s: Annotated[
        float, setting("Seconds between checks for changes while a client subscribes to activity://now.", ge=0.1)
    ] = 2.0
    categories: Annotated[
        dict[str, str],
        setting("Categories by name, each with a pattern. Default: those of ActivityWatch.", form="{NAME = PATTERN}"),
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
        setting("Language of the text on the screen, by tesseract's name. Default: English.", form="deu+eng"),
    ] = None
    protected_folder: Annotated[
        str | None,
        setting("Folder for the two files of `hubbub sidecar snapshot`. Default: the data folder.", form="FOLDER"),
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
            raise ValueError(f"{name} must be regular expressions, and {pattern!r} is not valid: {error}") from error


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"time_zone must be the name of a time zone such as Europe/Berlin, not {name!r}") from None
