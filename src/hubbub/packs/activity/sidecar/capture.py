"""Take screenshots and blacken their private parts. The only importer of mss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar import accessibility, windows
from hubbub.packs.activity.sidecar.accessibility import Node
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.private_windows import WindowClassifier
from hubbub.packs.activity.sidecar.visible import contains, visible_parts
from hubbub.packs.activity.sidecar.windows import Window

NO_SCREEN: Final = "screen_missing"
"""Reason in probes when there is no screen."""
SEEN: Final = "ok"
"""Result of `state` when there is a screen."""
INSTALL: Final = "install Hubbub with its extra 'activity' (in a clone: pip install -e '.[activity]')"
"""Advice when mss is missing."""

_UNKNOWN: Final = "it cannot be known here which windows are private: only those whose text says so are left out"


class Visible(msgspec.Struct):
    """A window that may be shown, and its visible parts."""

    window: Window
    parts: list[Box]
    nodes: list[Node]
    """Elements of the window that its program describes, as far as they are visible."""


class View:
    """A screenshot whose private parts are blackened."""

    def __init__(self, picture: Picture, hidden: list[Box], seen: list[Visible] | None, notes: list[str]) -> None:
        self.picture = picture
        self.hidden = hidden
        """The blackened parts."""
        self.seen = seen
        """The visible windows, foremost first; None if their positions are unknown."""
        self.notes = notes

    def owner(self, box: Box) -> int | None:
        """Return the index of the window that shows the middle of a box; None if there is none."""
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return next((index for index, each in enumerate(self.seen or []) if contains(each.parts, x, y)), None)


def rules_for(request: ParseRequest, own: Privacy) -> list[Privacy]:
    """Return the sidecar's own rules and those of the request."""
    return [own] if request.rules is None else [own, Privacy(request.rules)]


def take_allowed(rules: Sequence[Privacy], private_titles: tuple[str, ...] = ()) -> View:
    """Take a screenshot of all screens and blacken its private parts.

    If the positions of windows are unknown, the caller must pass the recognised text to `refuse_private`.

    Raises: Refusal, also if the positions of windows are unknown and a rule depends on them.
    """
    if windows.all_windows() is None:
        shown = take()
        _refuse_unknown(rules, private_titles)
        hidden = [region for each in rules for region in each.regions()]
        shown.blacken(hidden)
        return View(shown, hidden, None, [_UNKNOWN] if any(each.hides_private_windows for each in rules) else [])
    classifier = WindowClassifier(rules, private_titles, accessibility.read_tree())
    before, shown, after = _listed(), take(), _listed()
    for _ in range(limits.CAPTURE_TRIES - 1):
        if _layout(before) == _layout(after):
            break
        before, shown, after = _listed(), take(), _listed()
    return _view(shown, before, after, classifier, rules)


def _listed() -> list[Window]:
    found = windows.all_windows()
    if found is None:  # the display was open a moment ago
        raise Refusal(503, "capture_unavailable", "the display was closed while it was read; try again")
    return found


def _refuse_unknown(rules: Sequence[Privacy], private_titles: tuple[str, ...]) -> None:
    if private_titles or any(each.minds_windows for each in rules):
        told = "there are rules about windows, and here it cannot be known where they are; that needs X11"
        raise Refusal(503, "windows_unknown", told)
    if any(each.hides_unconfirmed for each in rules):
        told = (
            "the screen was not read, because private browser windows can only be detected on X11. To read it anyway, "
            "set HUBBUB_ACTIVITY_PRIVACY__UNCONFIRMED_WINDOWS=show"
        )
        raise Refusal(503, "windows_unknown", told)


def _layout(listed: list[Window]) -> list[tuple[Any, ...]]:
    return [(each.identifier, each.box, each.solid) for each in listed if each.is_shown]


def _view(
    shown: Picture, before: list[Window], after: list[Window], classifier: WindowClassifier, rules: Sequence[Privacy]
) -> View:
    hidden = [region for each in rules for region in each.regions()]
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
        covered = visible_parts(stack, lambda each: each.box, lambda each: each.solid if is_steady else ())
        for window, parts in zip(stack, covered, strict=True):
            hidden += parts if window.identifier in forbidden else []
    shown.blacken(hidden)
    seen = _seen([each for each in after if each.is_shown], forbidden)
    if is_steady:
        matches = classifier.match(after)
        for each in seen:
            each.nodes = classifier.visible_nodes(matches[each.window.identifier], each.parts)
    return View(shown, hidden, seen, _notes(unknown))


def _seen(stack: list[Window], forbidden: set[int]) -> list[Visible]:
    parts = visible_parts(stack, lambda each: each.box, lambda each: (each.box,))
    found = [
        Visible(window, own, [])
        for window, own in zip(stack, parts, strict=True)
        if own and window.identifier not in forbidden and (window.app or window.title)
    ]
    return found[::-1]


def _notes(unknown: set[str]) -> list[str]:
    if not unknown:
        return []
    names = ", ".join(sorted(unknown))
    return [
        f"windows of {names} are hidden: it cannot be known whether they are private. Either {accessibility.ADVICE}, "
        "or set HUBBUB_ACTIVITY_PRIVACY__UNCONFIRMED_WINDOWS=show"
    ]


def refuse_private(elements: Iterable[dict[str, Any]], rules: Sequence[Privacy]) -> None:
    """Detect a private browser window by the recognised text, if the positions of windows are unknown.

    Raises: Refusal, if there seems to be one, because its extent is unknown.
    """
    texts = (element.get("content") for element in elements)
    if any(isinstance(text, str) and each.names_private_window(text) for text in texts for each in rules):
        told = "a private window of a browser seems to be on the screen, and here it cannot be known where it is"
        raise Refusal(503, "private_window", told)


def take() -> Picture:
    """Take a screenshot of all screens.

    Raises: Refusal, if there is no readable screen.
    """
    try:
        import mss

        with mss.MSS() as screen:
            shot = screen.grab(screen.monitors[0])
            return Picture.from_screen((shot.width, shot.height), bytes(shot.bgra))
    except ImportError as error:
        raise Refusal(503, "capture_unavailable", f"mss is not installed: {INSTALL}") from error
    except Exception as error:  # Each system has its own errors for a missing screen.
        told = f"the screen cannot be seen: {type(error).__name__}; Wayland lets nobody take pictures of it like this"
        raise Refusal(503, "capture_unavailable", told) from error


def state() -> str:
    """Return whether there is a screen, without taking a screenshot."""
    try:
        import mss

        with mss.MSS() as screen:
            return SEEN if screen.monitors else "no screen"
    except ImportError:
        return "mss is not installed"
    except Exception as error:  # as above
        return f"no screen: {type(error).__name__}"
