"""The engine that reads the screen of this machine, without a graphics card and without sending it anywhere.

Private windows and regions are blackened before anything is read; what was read passes the rules
for text, and where a rule took something away, the marked picture is blackened too.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any, Final

from hubbub import bounds
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar import accessibility, capture, picture, tesseract, windows
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.picture import Picture

_CONTAINERS: Final = ("frame", "window", "application", "panel", "filler", "dialog", "alert")
_TEXT_ROLES: Final = ("label", "text", "paragraph", "heading", "static")


class LocalEngine:
    """Screenshot, windows, accessibility tree and tesseract."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._probed: tuple[float, dict[str, Any]] | None = None
        self._can_read = False

    # -- what works ------------------------------------------------------------------

    def probe(self) -> dict[str, Any]:
        """What works here; looked at anew every few seconds."""
        now = time.monotonic()
        if self._probed is None or now - self._probed[0] > bounds.SIDECAR_PROBE_S:
            self._probed = now, self._look()
        return self._probed[1]

    def require_ready(self) -> None:
        """Raises: Refusal, if text cannot be read here."""
        found = self.probe()
        if not found["ready"]:
            keys = ("preflight_ok", "reason", "missing_imports", "missing_files", "missing_weights")
            raise Refusal(503, "preflight_only", "", **{key: found[key] for key in keys})

    def _look(self) -> dict[str, Any]:
        missing, versions = [], {}
        try:
            versions["pillow"] = picture.version()
        except ImportError as error:
            missing.append(f"PIL:{type(error).__name__}")
        reader = tesseract.version()
        if reader is not None:
            versions["tesseract"] = reader
        preflight_ok = not missing and reader is not None
        is_ready = preflight_ok and self._test()
        reason = (
            "imports_missing" if missing else "ocr_missing" if reader is None else "ready" if is_ready else "ocr_failed"
        )
        has_windows = windows.all_windows() is not None
        screen = capture.state()
        return {
            "ok": True,
            "mode": "local",
            "preflight_ok": preflight_ok,
            "ready": is_ready,
            "reason": reason,
            "missing_imports": missing,
            "optional_missing": [] if screen != "mss is not installed" else ["mss:ModuleNotFoundError"],
            "missing_files": [] if reader is not None else [tesseract.PROGRAM],
            "missing_weights": [],
            "required_weights": {},
            "versions": versions,
            "engines": {
                "ocr": "ok" if is_ready else tesseract.ADVICE,
                "capture": screen,
                "windows": "ok" if has_windows else "not known here: private windows cannot be blackened",
            },
        }

    def _test(self) -> bool:
        """Whether a word that is written on a picture is read from it; once is enough."""
        if not self._can_read:
            try:
                lines = tesseract.read_lines(*Picture.with_text("HUBBUB").for_reading())
            except Refusal:
                return False
            self._can_read = any("HUBBUB" in line.text for line in lines)
        return self._can_read

    # -- reading -----------------------------------------------------------------------

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Read a picture, or the screen.

        Raises: Refusal.
        """
        started = time.monotonic()
        listed: list[windows.Window] | None = []
        rules = capture.rules_for(request, self._privacy)
        if request.picture is None:
            shown, listed, hidden = capture.take_allowed(rules, request.private_titles)
        else:
            shown, hidden = Picture.read(request.picture), self._privacy.regions()
            shown.blacken(hidden)
        if request.region is not None:
            shown = shown.cut(request.region)
        offset = request.region[:2] if request.region is not None else (0.0, 0.0)
        found = _nodes(shown, hidden, offset, rules) if request.picture is None else []
        found += _uncovered(self._lines(shown, request), found, shown)
        if listed is None:
            capture.refuse_private(found, rules)
        elements = self._allowed(found, shown)
        seconds = time.monotonic() - started
        return {
            "ok": True,
            "mode": "local",
            "latency": round(seconds, 3),
            "latency_ms": round(seconds * 1000),
            "parsed_content_list": elements,
            "som_image_base64": base64.b64encode(shown.marked(elements)).decode(),
            "window": self._in_front(listed or []),
        }

    def _in_front(self, listed: list[windows.Window]) -> dict[str, Any] | None:
        active = next((window for window in listed if window.is_active), None)
        return None if active is None else self._privacy.data({"app": active.app, "title": active.title})

    def _lines(self, shown: Picture, request: ParseRequest) -> list[dict[str, Any]]:
        png, scale = shown.for_reading()
        return [
            _element("text", line.text, shown.in_ratios(line.box), "ocr", line.score, interactive=False)
            for line in tesseract.read_lines(png, scale, lang=request.lang)
            if line.score >= request.min_score
        ]

    def _allowed(self, elements: list[dict[str, Any]], shown: Picture) -> list[dict[str, Any]]:
        """What may be told; the places of the rest are blackened."""
        allowed = []
        for element in elements[: bounds.SCREEN_ELEMENTS]:
            kept = self._privacy.elements([element])
            if not kept or kept[0]["content"] != element["content"]:
                shown.blacken([shown.in_pixels(element["bbox"])])
            allowed += kept
        return allowed


def _nodes(
    shown: Picture, hidden: list[Box], offset: tuple[float, ...], rules: Sequence[Privacy]
) -> list[dict[str, Any]]:
    found = []
    for node in accessibility.read_tree() or []:
        if node.role in _CONTAINERS or any(_overlap(node.box, box) for box in hidden):
            continue
        if any(each.hides_window(node.app, "") for each in rules):
            continue
        left, top = offset[:2]
        box = (node.box[0] - left, node.box[1] - top, node.box[2] - left, node.box[3] - top)
        if box[0] < 0 or box[1] < 0 or box[2] > shown.width or box[3] > shown.height:
            continue
        kind = "text" if node.role in _TEXT_ROLES else "icon"
        element = _element(kind, node.name, shown.in_ratios(box), "a11y", 1.0, interactive=node.is_interactive)
        found.append(element)
    return found


def _element(
    kind: str, content: str, box: list[float], source: str, score: float, *, interactive: bool
) -> dict[str, Any]:
    return {
        "type": kind,
        "bbox": box,
        "interactivity": interactive,
        "content": content,
        "source": source,
        "score": score,
    }


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _uncovered(lines: list[dict[str, Any]], nodes: list[dict[str, Any]], shown: Picture) -> list[dict[str, Any]]:
    """Lines that no node already tells of."""
    kept = []
    for line in lines:
        left, top, right, bottom = line["bbox"]
        x, y = (left + right) / 2, (top + bottom) / 2
        told = line["content"].lower()
        if not any(
            node["bbox"][0] <= x <= node["bbox"][2]
            and node["bbox"][1] <= y <= node["bbox"][3]
            and (told in node["content"].lower() or node["content"].lower() in told)
            for node in nodes
        ):
            kept.append(line)
    return kept
