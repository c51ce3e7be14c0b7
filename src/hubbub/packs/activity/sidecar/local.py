"""The engine that reads the screen on this machine, without a GPU and without sending it anywhere.

Private windows and regions are blackened before anything is read. The recognised text passes the rules for text, and
where a rule removes some, the annotated picture is blackened too.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any, Final

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box, Privacy
from hubbub.packs.activity.sidecar import capture, picture, tesseract, windows
from hubbub.packs.activity.sidecar.capture import View
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.visible import overlap

_CONTAINERS: Final = ("frame", "window", "application", "panel", "filler", "dialog", "alert")
_TEXT_ROLES: Final = ("label", "text", "paragraph", "heading", "static")


class LocalEngine:
    """Reads with screenshot, window list, accessibility tree and tesseract."""

    def __init__(self, privacy: Privacy, lang: str = tesseract.USUAL_LANGUAGE) -> None:
        self._privacy = privacy
        self._lang = lang
        self._probed: tuple[float, dict[str, Any]] | None = None
        self._can_read = False

    # -- what works ------------------------------------------------------------------

    def probe(self) -> dict[str, Any]:
        """Return what works here; checked again every few seconds."""
        now = time.monotonic()
        if self._probed is None or now - self._probed[0] > limits.SIDECAR_PROBE_S:
            self._probed = now, self._look()
        return self._probed[1]

    def require_ready(self) -> None:
        """Raises: Refusal, if text cannot be recognised here; pictures can be read without a screen."""
        found = self.probe()
        if not found["ready"] and found["reason"] != capture.NO_SCREEN:
            keys = ("preflight_ok", "reason", "missing_imports", "missing_files", "missing_weights")
            raise Refusal(503, "preflight_only", found["engines"]["ocr"], **{key: found[key] for key in keys})

    def _look(self) -> dict[str, Any]:
        missing, versions = [], {}
        try:
            versions["pillow"] = picture.version()
        except ImportError as error:
            missing.append(f"PIL:{type(error).__name__}")
        reader = tesseract.version()
        if reader is not None:
            versions["tesseract"] = reader
        trouble = tesseract.ADVICE if reader is None else _trouble(lambda: tesseract.require_language(self._lang))
        preflight_ok = not missing and not trouble
        can_read = preflight_ok and self._test()
        screen = capture.state()
        is_ready = can_read and screen == capture.SEEN
        reasons = {
            "imports_missing": bool(missing),
            "ocr_missing": reader is None,
            "language_missing": bool(trouble),
            "ocr_failed": not can_read,
            capture.NO_SCREEN: not is_ready,
        }
        reason = next((name for name, is_so in reasons.items() if is_so), "ready")
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
                "ocr": "ok" if can_read else trouble or "tesseract did not recognise the text of a test picture",
                "capture": screen,
                "windows": _trouble(_require_windows) or "ok",
            },
        }

    def _test(self) -> bool:
        """Whether tesseract recognises a word in a test picture; not repeated after a success."""
        if not self._can_read:
            try:
                lines = tesseract.read_lines(*Picture.with_text("HUBBUB").for_reading(), lang=self._lang)
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
        tesseract.require_language(request.lang or self._lang)
        rules = capture.rules_for(request, self._privacy)
        if request.picture is None:
            view = capture.take_allowed(rules, request.private_titles)
        else:
            shown = Picture.read(request.picture)
            shown.blacken(self._privacy.regions())
            view = View(shown, [], [], [])
        shown = view.picture if request.region is None else view.picture.cut(request.region)
        left, top = (max(value, 0.0) for value in request.region[:2]) if request.region is not None else (0.0, 0.0)

        def owner(box: Box) -> int | None:
            return view.owner(_moved(box, left, top))

        found = _nodes(shown, view, left, top)
        found += _uncovered(self._lines(shown, request, owner), found)
        if view.seen is None:
            capture.refuse_private(found, rules)
        elements = self._allowed(found, shown)
        seconds = time.monotonic() - started
        windows_seen = [each.window for each in view.seen or []]
        return {
            "ok": True,
            "mode": "local",
            "latency": round(seconds, 3),
            "latency_ms": round(seconds * 1000),
            "parsed_content_list": elements,
            "som_image_base64": base64.b64encode(shown.marked(elements)).decode(),
            "window": next((self._named(each) for each in windows_seen if each.is_active), None),
            "windows": [self._named(each) for each in windows_seen],
            "notes": view.notes,
        }

    def _named(self, window: windows.Window) -> dict[str, Any] | None:
        return self._privacy.data({"app": window.app, "title": window.title})

    def _lines(self, shown: Picture, request: ParseRequest, owner: Callable[[Box], int | None]) -> list[dict[str, Any]]:
        png, scale = shown.for_reading()
        return [
            _element("text", line.text, shown.in_ratios(line.box), "ocr", line.score, owner(line.box))
            for line in tesseract.read_lines(png, scale, lang=request.lang or self._lang, owner=owner)
            if line.score >= request.min_score
        ]

    def _allowed(self, elements: list[dict[str, Any]], shown: Picture) -> list[dict[str, Any]]:
        """Return the elements that may be disclosed, and blacken the others."""
        allowed = []
        for element in elements[: limits.SCREEN_ELEMENTS]:
            kept = self._privacy.elements([element])
            if not kept or kept[0]["content"] != element["content"]:
                shown.blacken([shown.in_pixels(element["bbox"])])
            allowed += kept
        return allowed


def _trouble(check: Callable[[], None]) -> str:
    """Return the message of a check that fails; empty if it passes."""
    try:
        check()
    except Refusal as refusal:
        return str(refusal)
    return ""


def _require_windows() -> None:
    if windows.all_windows() is None:
        raise Refusal(
            503, "windows_unknown", "the list of windows is not available here, so private windows cannot be blackened"
        )


def _nodes(shown: Picture, view: View, left: float, top: float) -> list[dict[str, Any]]:
    found = []
    for index, each in enumerate(view.seen or []):
        for node in each.nodes:
            if node.role in _CONTAINERS or any(overlap(node.box, box) for box in view.hidden):
                continue
            box = _moved(node.box, -left, -top)
            if box[0] < 0 or box[1] < 0 or box[2] > shown.width or box[3] > shown.height:
                continue
            kind = "text" if node.role in _TEXT_ROLES else "icon"
            place = shown.in_ratios(box)
            found.append(_element(kind, node.name, place, "a11y", 1.0, index, interactive=node.is_interactive))
    return found


def _element(
    kind: str,
    content: str,
    box: list[float],
    source: str,
    score: float,
    window: int | None,
    *,
    interactive: bool = False,
) -> dict[str, Any]:
    return {
        "type": kind,
        "bbox": box,
        "interactivity": interactive,
        "content": content,
        "source": source,
        "score": score,
        "window": window,
    }


def _moved(box: Box, x: float, y: float) -> Box:
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y


def _uncovered(lines: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that no node already contains."""
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
