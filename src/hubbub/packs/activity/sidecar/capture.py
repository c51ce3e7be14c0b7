"""Takes the screenshot. The only importer of mss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hubbub.packs.activity.hiding import Hiding
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar import windows
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.picture import Picture


def rules_for(request: ParseRequest, own: Privacy) -> list[Privacy]:
    """Our own, and those of whoever asks."""
    return [own] if request.rules is None else [own, Privacy(request.rules)]


def take_allowed(
    rules: Sequence[Privacy], private_titles: tuple[str, ...] = ()
) -> tuple[Picture, list[windows.Window] | None, list[Box]]:
    """All screens as they may be seen, the windows on them that are not private, and what was blackened.

    Where it is not known which window is where, there are None; `refuse_private` has a look at what was read.

    Raises: Refusal, also where it is not known which window is where and there are rules about windows.
    """
    hiding = Hiding(private_titles)
    listed = windows.all_windows()
    if listed is None and (hiding or any(each.minds_windows for each in rules)):
        told = "there are rules about windows, and here it cannot be known where they are; that needs X11"
        raise Refusal(503, "windows_unknown", told)
    shown = take()
    # Asked again: a private window may have come meanwhile, and one that went is better black than seen.
    known = [*(listed or []), *(windows.all_windows() or [])]

    def is_private(window: windows.Window) -> bool:
        by_rule = any(each.hides_window(window.app, window.title) for each in rules)
        return by_rule or hiding.verdict(window.title) != "told"

    hidden = [region for each in rules for region in each.regions()]
    hidden += [window.box for window in known if is_private(window)]
    shown.blacken(hidden)
    seen = None if listed is None else [window for window in listed if not is_private(window)]
    return shown, seen, hidden


def refuse_private(elements: Iterable[dict[str, Any]], rules: Sequence[Privacy]) -> None:
    """Where windows are not known, a private one of a browser is known by what it says of itself.

    Raises: Refusal, if there seems to be one: nobody knows where it ends.
    """
    texts = (element.get("content") for element in elements)
    if any(isinstance(text, str) and each.names_private_window(text) for text in texts for each in rules):
        told = "a private window of a browser seems to be on the screen, and here it cannot be known where it is"
        raise Refusal(503, "private_window", told)


def take() -> Picture:
    """All screens as they are now.

    Raises: Refusal, where there is no screen that can be seen.
    """
    try:
        import mss

        with mss.MSS() as screen:
            shot = screen.grab(screen.monitors[0])
            return Picture.from_screen((shot.width, shot.height), bytes(shot.bgra))
    except ImportError as error:
        raise Refusal(503, "capture_unavailable", "mss is not installed: pip install 'hubbub[activity]'") from error
    except Exception as error:  # Each system has errors of its own for a screen that is not there.
        told = f"the screen cannot be seen: {type(error).__name__}; Wayland lets nobody take pictures of it like this"
        raise Refusal(503, "capture_unavailable", told) from error


def state() -> str:
    """Whether there is a screen to be seen, without looking at it."""
    try:
        import mss

        with mss.MSS() as screen:
            return "ok" if screen.monitors else "no screen"
    except ImportError:
        return "mss is not installed"
    except Exception as error:  # as above
        return f"no screen: {type(error).__name__}"
