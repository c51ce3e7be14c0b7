"""Take screenshots and blacken their private parts. The only importer of mss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar import accessibility, windows
from hubbub.packs.activity.sidecar.accessibility import Node
from hubbub.packs.activity.sidecar.engine import ParseRequest, SidecarError
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.visibility import contains, visible_parts
from hubbub.packs.activity.sidecar.window_classifier import WindowClassifier
from hubbub.packs.activity.sidecar.windows import Window

NO_SCREEN_REASON: Final = "screen_missing"
"""Reason in probes when there is no screen."""
SCREEN_OK: Final = "ok"
"""Result of `screen_state` when there is a screen."""
INSTALL_ADVICE: Final = "install Hubbub with its extra 'activity' (in a clone: pip install -e '.[activity]')"
"""Advice when mss is missing."""

_UNDETECTED_NOTE: Final = "private browser windows can be detected here only by the text on the screen"


class VisibleWindow(msgspec.Struct):
    """A window that may be shown, and its visible parts."""

    window: Window
    parts: list[Box]
    nodes: list[Node]
    """Elements of the window that its program describes, as far as they are visible."""


class Screenshot:
    """A screenshot whose private parts are blackened."""

    def __init__(self, picture: Picture, hidden: list[Box], seen: list[VisibleWindow] | None, notes: list[str]) -> None:
        self.picture = picture
        self.hidden_boxes = hidden
        """The blackened parts."""
        self.visible_windows = seen
        """The visible windows, foremost first; None if their positions are unknown."""
        self.notes = notes

    def window_index_at(self, box: Box) -> int | None:
        """Return the index of the window that shows the middle of a box; None if there is none."""
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return next(
            (index for index, each in enumerate(self.visible_windows or []) if contains(each.parts, x, y)), None
        )


def combine_rules(request: ParseRequest, own: Privacy) -> list[Privacy]:
    """Return the sidecar's own rules and those of the request."""
    return [own] if request.rules is None else [own, Privacy(request.rules)]


def take_filtered_screenshot(rules: Sequence[Privacy], private_titles: tuple[str, ...] = ()) -> Screenshot:
    """Take a screenshot of all screens and blacken its private parts.

    If the positions of windows are unknown, the caller must pass the recognised text to `refuse_private`.

    Raises: SidecarError, also if the positions of windows are unknown and a rule depends on them.
    """
    if windows.list_windows() is None:
        image = take_screenshot()
        _refuse_unknown(rules, private_titles)
        hidden = [region for each in rules for region in each.hidden_regions()]
        image.blacken(hidden)
        return Screenshot(
            image, hidden, None, [_UNDETECTED_NOTE] if any(each.hides_private_windows for each in rules) else []
        )
    classifier = WindowClassifier(rules, private_titles, accessibility.read_tree())
    before, image, after = _list_windows(), take_screenshot(), _list_windows()
    for _ in range(limits.CAPTURE_ATTEMPTS - 1):
        if _layout(before) == _layout(after):
            break
        before, image, after = _list_windows(), take_screenshot(), _list_windows()
    return _make_screenshot(image, before, after, classifier, rules)


def _list_windows() -> list[Window]:
    found = windows.list_windows()
    if found is None:  # the display was open a moment ago
        raise SidecarError(503, "capture_unavailable", "the display was closed while it was read; try again")
    return found


def _refuse_unknown(rules: Sequence[Privacy], private_titles: tuple[str, ...]) -> None:
    if private_titles or any(each.has_window_rules for each in rules):
        message = (
            "the screen was not read, because the privacy rules hide windows whose positions only X11 reports; "
            "use X11, or remove the rules for apps, titles and addresses"
        )
        raise SidecarError(503, "windows_unknown", message)
    if any(each.hides_unconfirmed for each in rules):
        message = (
            "the screen was not read, because private browser windows can only be detected on X11. To read it anyway, "
            "set HUBBUB_ACTIVITY_PRIVACY__UNCONFIRMED_WINDOWS=show"
        )
        raise SidecarError(503, "windows_unknown", message)


def _layout(listed: list[Window]) -> list[tuple[Any, ...]]:
    return [(each.identifier, each.box, each.solid) for each in listed if each.is_shown]


def _make_screenshot(
    image: Picture, before: list[Window], after: list[Window], classifier: WindowClassifier, rules: Sequence[Privacy]
) -> Screenshot:
    hidden = [region for each in rules for region in each.hidden_regions()]
    forbidden: set[int] = set()
    unknown: set[str] = set()
    is_steady = _layout(before) == _layout(after)
    for listed in (before, after):
        verdicts = classifier.verdicts(listed)
        forbidden |= {identifier for identifier, verdict in verdicts.items() if verdict != "seen"}
        unknown |= {each.app for each in listed if each.is_shown and verdicts[each.identifier] == "unknown"}
    for listed in (before, after):
        stack = [each for each in listed if each.is_shown]
        # While windows move, a private one is blackened wherever it may be, covered or not.
        parts_by_window = visible_parts(stack, lambda each: each.box, lambda each: each.solid if is_steady else ())
        for window, parts in zip(stack, parts_by_window, strict=True):
            hidden += parts if window.identifier in forbidden else []
    image.blacken(hidden)
    seen = _find_visible_windows([each for each in after if each.is_shown], forbidden)
    if is_steady:
        matches = classifier.match(after)
        for each in seen:
            each.nodes = classifier.visible_nodes(matches[each.window.identifier], each.parts)
    return Screenshot(image, hidden, seen, _unknown_window_notes(unknown))


def _find_visible_windows(stack: list[Window], forbidden: set[int]) -> list[VisibleWindow]:
    parts = visible_parts(stack, lambda each: each.box, lambda each: (each.box,))
    found = [
        VisibleWindow(window, own, [])
        for window, own in zip(stack, parts, strict=True)
        if own and window.identifier not in forbidden and (window.app or window.title)
    ]
    return found[::-1]


def _unknown_window_notes(unknown: set[str]) -> list[str]:
    if not unknown:
        return []
    names = ", ".join(sorted(unknown))
    return [
        f"windows of {names} are hidden, because it is unknown whether they are private. Either "
        f"{accessibility.ADVICE}, or set HUBBUB_ACTIVITY_PRIVACY__UNCONFIRMED_WINDOWS=show"
    ]


def refuse_private(elements: Iterable[dict[str, Any]], rules: Sequence[Privacy]) -> None:
    """Detect a private browser window by the recognised text, if the positions of windows are unknown.

    Raises: SidecarError, if there seems to be one, because its extent is unknown.
    """
    texts = (element.get("content") for element in elements)
    if any(isinstance(text, str) and each.mentions_private_window(text) for text in texts for each in rules):
        message = (
            "the screen was not read, because it seems to show a private browser window, whose position is "
            "unknown here; close that window and try again"
        )
        raise SidecarError(503, "private_window", message)


def take_screenshot() -> Picture:
    """Take a screenshot of all screens.

    Raises: SidecarError, if there is no readable screen.
    """
    try:
        import mss

        with mss.MSS() as screen:
            shot = screen.grab(screen.monitors[0])
            return Picture.from_screen((shot.width, shot.height), bytes(shot.bgra))
    except ImportError as error:
        raise SidecarError(503, "capture_unavailable", f"mss is not installed: {INSTALL_ADVICE}") from error
    except Exception as error:  # Each system has its own errors for a missing screen.
        message = (
            f"the screen cannot be captured ({type(error).__name__}); start the sidecar in a desktop session on X11: "
            "Wayland does not allow such screenshots"
        )
        raise SidecarError(503, "capture_unavailable", message) from error


def screen_state() -> str:
    """Return whether there is a screen, without taking a screenshot."""
    try:
        import mss

        with mss.MSS() as screen:
            return SCREEN_OK if screen.monitors else "no screen"
    except ImportError:
        return "mss is not installed"
    except Exception as error:  # as above
        return f"no screen: {type(error).__name__}"
