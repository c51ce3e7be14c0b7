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
from hubbub.packs.activity.sidecar.capture import Screenshot
from hubbub.packs.activity.sidecar.engine import ParseRequest, SidecarError
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.visibility import overlap

_CONTAINER_ROLES: Final = ("frame", "window", "application", "panel", "filler", "dialog", "alert")
_TEXT_ROLES: Final = ("label", "text", "paragraph", "heading", "static")


class LocalEngine:
    """Reads with screenshot, window list, accessibility tree and tesseract."""

    def __init__(self, privacy: Privacy, lang: str = tesseract.DEFAULT_LANGUAGE) -> None:
        self._privacy = privacy
        self._lang = lang
        self._cached_probe: tuple[float, dict[str, Any]] | None = None
        self._can_read = False

    # -- what works ------------------------------------------------------------------

    def probe(self) -> dict[str, Any]:
        """Return what works here; checked again every few seconds."""
        now = time.monotonic()
        if self._cached_probe is None or now - self._cached_probe[0] > limits.SIDECAR_PROBE_CACHE_S:
            self._cached_probe = now, self._check_parts()
        return self._cached_probe[1]

    def require_ready(self) -> None:
        """Raises: SidecarError, if text cannot be recognised here; pictures can be read without a screen."""
        found = self.probe()
        if not found["ready"] and found["reason"] != capture.NO_SCREEN_REASON:
            keys = ("preflight_ok", "reason", "missing_imports", "missing_files", "missing_weights")
            raise SidecarError(503, "preflight_only", found["engines"]["ocr"], **{key: found[key] for key in keys})

    def _check_parts(self) -> dict[str, Any]:
        missing, versions = [], {}
        try:
            versions["pillow"] = picture.version()
        except ImportError as error:
            missing.append(f"PIL:{type(error).__name__}")
        tesseract_version = tesseract.version()
        if tesseract_version is not None:
            versions["tesseract"] = tesseract_version
        language_error = (
            tesseract.ADVICE
            if tesseract_version is None
            else _check_message(lambda: tesseract.require_language(self._lang))
        )
        preflight_ok = not missing and not language_error
        can_read = preflight_ok and self._recognises_test_text()
        screen = capture.screen_state()
        is_ready = can_read and screen == capture.SCREEN_OK
        reasons = {
            "imports_missing": bool(missing),
            "ocr_missing": tesseract_version is None,
            "language_missing": bool(language_error),
            "ocr_failed": not can_read,
            capture.NO_SCREEN_REASON: not is_ready,
        }
        reason = next((name for name, applies in reasons.items() if applies), "ready")
        return {
            "ok": True,
            "mode": "local",
            "preflight_ok": preflight_ok,
            "ready": is_ready,
            "reason": reason,
            "missing_imports": missing,
            "optional_missing": [] if screen != "mss is not installed" else ["mss:ModuleNotFoundError"],
            "missing_files": [] if tesseract_version is not None else [tesseract.PROGRAM],
            "missing_weights": [],
            "required_weights": {},
            "versions": versions,
            "engines": {
                "ocr": "ok" if can_read else language_error or "tesseract did not recognise the text of a test picture",
                "capture": screen,
                "windows": _check_message(_require_windows) or "ok",
            },
        }

    def _recognises_test_text(self) -> bool:
        """Whether tesseract recognises a word in a test picture; not repeated after a success."""
        if not self._can_read:
            try:
                lines = tesseract.read_lines(*Picture.with_text("HUBBUB").for_ocr(), lang=self._lang)
            except SidecarError:
                return False
            self._can_read = any("HUBBUB" in line.text for line in lines)
        return self._can_read

    # -- reading -----------------------------------------------------------------------

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Read a picture, or the screen.

        Raises: SidecarError.
        """
        started = time.monotonic()
        tesseract.require_language(request.lang or self._lang)
        rules = capture.combine_rules(request, self._privacy)
        if request.picture is None:
            screenshot = capture.take_filtered_screenshot(rules, request.private_titles)
        else:
            image = Picture.decode(request.picture)
            image.blacken(self._privacy.hidden_regions())
            screenshot = Screenshot(image, [], [], [])
        image = screenshot.picture if request.region is None else screenshot.picture.crop(request.region)
        left, top = (max(value, 0.0) for value in request.region[:2]) if request.region is not None else (0.0, 0.0)

        def owner(box: Box) -> int | None:
            return screenshot.window_index_at(_shift_box(box, left, top))

        found = _node_elements(image, screenshot, left, top)
        found += _without_duplicates(self._line_elements(image, request, owner), found)
        if screenshot.visible_windows is None:
            capture.refuse_private(found, rules)
        elements = self._filter_elements(found, image)
        seconds = time.monotonic() - started
        shown_windows = [each.window for each in screenshot.visible_windows or []]
        return {
            "ok": True,
            "mode": "local",
            "latency": round(seconds, 3),
            "latency_ms": round(seconds * 1000),
            "parsed_content_list": elements,
            "som_image_base64": base64.b64encode(image.to_annotated_png(elements)).decode(),
            "window": next((self._describe_window(each) for each in shown_windows if each.is_active), None),
            "windows": [self._describe_window(each) for each in shown_windows],
            "notes": screenshot.notes,
        }

    def _describe_window(self, window: windows.Window) -> dict[str, Any] | None:
        return self._privacy.filter_data({"app": window.app, "title": window.title})

    def _line_elements(
        self, image: Picture, request: ParseRequest, owner: Callable[[Box], int | None]
    ) -> list[dict[str, Any]]:
        png, scale = image.for_ocr()
        return [
            _make_element("text", line.text, image.to_ratios(line.box), "ocr", line.score, owner(line.box))
            for line in tesseract.read_lines(png, scale, lang=request.lang or self._lang, owner=owner)
            if line.score >= request.min_score
        ]

    def _filter_elements(self, elements: list[dict[str, Any]], image: Picture) -> list[dict[str, Any]]:
        """Return the elements that may be disclosed, and blacken the others."""
        allowed = []
        for element in elements[: limits.SCREEN_ELEMENTS]:
            remaining = self._privacy.filter_elements([element])
            if not remaining or remaining[0]["content"] != element["content"]:
                image.blacken([image.to_pixels(element["bbox"])])
            allowed += remaining
        return allowed


def _check_message(check: Callable[[], None]) -> str:
    """Return the message of a check that fails; empty if it passes."""
    try:
        check()
    except SidecarError as error:
        return str(error)
    return ""


def _require_windows() -> None:
    if windows.list_windows() is None:
        raise SidecarError(
            503, "windows_unknown", "the list of windows is not available here, so private windows cannot be blackened"
        )


def _node_elements(image: Picture, screenshot: Screenshot, left: float, top: float) -> list[dict[str, Any]]:
    found = []
    for index, each in enumerate(screenshot.visible_windows or []):
        for node in each.nodes:
            if node.role in _CONTAINER_ROLES or any(overlap(node.box, box) for box in screenshot.hidden_boxes):
                continue
            box = _shift_box(node.box, -left, -top)
            if box[0] < 0 or box[1] < 0 or box[2] > image.width or box[3] > image.height:
                continue
            kind = "text" if node.role in _TEXT_ROLES else "icon"
            ratios = image.to_ratios(box)
            found.append(_make_element(kind, node.name, ratios, "a11y", 1.0, index, interactive=node.is_interactive))
    return found


def _make_element(
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


def _shift_box(box: Box, x: float, y: float) -> Box:
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y


def _without_duplicates(lines: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that no node already contains."""
    remaining = []
    for line in lines:
        left, top, right, bottom = line["bbox"]
        x, y = (left + right) / 2, (top + bottom) / 2
        line_text = line["content"].lower()
        if not any(
            node["bbox"][0] <= x <= node["bbox"][2]
            and node["bbox"][1] <= y <= node["bbox"][3]
            and (line_text in node["content"].lower() or node["content"].lower() in line_text)
            for node in nodes
        ):
            remaining.append(line)
    return remaining
