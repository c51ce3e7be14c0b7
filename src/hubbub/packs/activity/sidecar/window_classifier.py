"""Decide which windows on the screen may be shown, and match windows with frames of the accessibility tree.

On X11 the title of a Chromium window does not show whether it is private; its accessible name does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.packs.activity import browsers, limits
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar.accessibility import AccessibilityTree, Node
from hubbub.packs.activity.sidecar.visibility import area, is_within, overlap
from hubbub.packs.activity.sidecar.windows import Window
from hubbub.packs.activity.title_matching import HiddenTitles

Verdict: TypeAlias = Literal["seen", "private", "unknown"]
_SAME_BOX_SHARE: Final = 0.9
"""Boxes of one window overlap by at least this share of the larger one."""


class FrameMatch(msgspec.Struct):
    """The frames of the accessibility tree that describe a window."""

    frames: list[int]
    is_unambiguous: bool
    """Whether they cannot describe another window."""


class WindowClassifier:
    """Decides which windows of one screenshot may be shown."""

    def __init__(
        self, rules: Sequence[Privacy], private_titles: tuple[str, ...], tree: AccessibilityTree | None
    ) -> None:
        self._rules = rules
        self._hidden_titles = HiddenTitles(private_titles)
        self._frames, self._nodes = (tree.frames, tree.nodes) if tree is not None else ([], [])
        self._hides_private = any(each.hides_private_windows for each in rules)
        self._hides_unknown = any(each.hides_unconfirmed for each in rules)

    def verdicts(self, listed: Sequence[Window]) -> dict[int, Verdict]:
        """Return the verdict on each window, by its identifier."""
        found: dict[int, Verdict] = {}
        owners: dict[tuple[int | None, str], Verdict] = {}
        matches = self.match([each for each in listed if not each.is_popup])
        for window in listed:
            if not window.is_popup:
                found[window.identifier] = verdict = self._verdict(window, matches[window.identifier])
                for owner in _owners(window):
                    owners[owner] = _stricter(verdict, owners.get(owner, "seen"))
        for window in listed:
            if window.is_popup:  # a menu is as private as the windows of its program
                verdict = "private" if self._is_private(window) else "seen"
                for owner in _owners(window):
                    verdict = _stricter(verdict, owners.get(owner, "seen"))
                found[window.identifier] = verdict
        return found

    def match(self, listed: Sequence[Window]) -> dict[int, FrameMatch]:
        """Match each window with frames of the tree: by title, else by process and position."""
        named = {each.identifier: self._match_by_title(each) for each in listed}
        taken = {index for indexes in named.values() for index in indexes}
        found = {each.identifier: named[each.identifier] or self._match_by_position(each, taken) for each in listed}
        claims = Counter(index for indexes in found.values() for index in indexes)
        return {
            each.identifier: FrameMatch(
                found[each.identifier],
                is_unambiguous=all(
                    claims[index] == 1 or self._is_only_window_at(index, each, listed, found)
                    for index in found[each.identifier]
                ),
            )
            for each in listed
        }

    def visible_nodes(self, match: FrameMatch, parts: Sequence[Box]) -> list[Node]:
        """Return the elements of a window whose visible parts these are.

        Elements that may belong to another window or are not fully visible are left to text recognition, and so are
        elements that a program reports outside of its window.
        """
        if not match.is_unambiguous or len(match.frames) != 1:
            return []
        return [node for node in self._nodes if node.frame == match.frames[0] and is_within(node.box, parts)]

    def _match_by_title(self, window: Window) -> list[int]:
        named = [
            index
            for index, frame in enumerate(self._frames)
            if window.title
            and frame.name.startswith(window.title)
            and (
                frame.pid == window.pid
                or (browsers.has_ambiguous_titles(frame.app) and browsers.has_ambiguous_titles(window.app))
            )
        ]
        placed = [index for index in named if _is_same_box(self._frames[index].box, window.box)]
        return placed or named

    def _match_by_position(self, window: Window, taken: set[int]) -> list[int]:
        return [
            index
            for index, frame in enumerate(self._frames)
            if index not in taken and frame.pid == window.pid and _is_same_box(frame.box, window.box)
        ]

    def _is_only_window_at(
        self, index: int, window: Window, listed: Sequence[Window], found: dict[int, list[int]]
    ) -> bool:
        """Whether this is the only window at the position of a frame, among those that the frame may describe."""
        box = self._frames[index].box
        windows_at_frame = [each for each in listed if index in found[each.identifier] and _is_same_box(box, each.box)]
        return windows_at_frame == [window]

    def _verdict(self, window: Window, match: FrameMatch) -> Verdict:
        if self._is_private(window):
            return "private"
        if not self._hides_private or not browsers.has_ambiguous_titles(window.app):
            return "seen"
        names = [self._frames[index].name for index in match.frames]
        if any(browsers.is_private_name(name, window.title) for name in names):
            return "private"
        if match.is_unambiguous and any(names):
            return "seen"
        if window.pid is not None and browsers.is_started_private(_read_process_arguments(window.pid)):
            return "private"
        return "unknown" if self._hides_unknown else "seen"

    def _is_private(self, window: Window) -> bool:
        by_rule = any(each.hides_window(window.app, window.title) for each in self._rules)
        return by_rule or self._hidden_titles.verdict(window.title) != "disclosed"


def _owners(window: Window) -> list[tuple[int | None, str]]:
    return [(window.pid, "")] if window.pid is not None else [(None, window.app)]


def _stricter(one: Verdict, other: Verdict) -> Verdict:
    return max(one, other, key=("seen", "unknown", "private").index)


def _is_same_box(one: Box, other: Box) -> bool:
    shared = overlap(one, other)
    return shared > 0 and shared >= _SAME_BOX_SHARE * max(area(one), area(other))


def _read_process_arguments(pid: int) -> list[str]:
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            text = file.read(limits.PROCESS_ARGUMENTS_BYTES).decode(errors="replace")
    except OSError:
        return []
    return text.replace("\0", " ").split()  # Chromium separates them by spaces
