"""The engine that forwards pictures to a running OmniParser, under the same rules as the local engine.

Regions are blackened before the picture is sent. The result passes the rules for text, and where a rule removes some,
the annotated picture is blackened too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.sidecar import capture
from hubbub.packs.activity.sidecar.engine import ParseRequest, SidecarError
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar_client import SidecarClient


class OmniParserEngine:
    """Forwards pictures to an OmniParser server."""

    def __init__(self, url: str, privacy: Privacy) -> None:
        self._url = url
        self._privacy = privacy

    def probe(self) -> dict[str, Any]:
        """Return OmniParser's probe with `ok` and `ready`, which its own server omits, added when it answers."""
        try:
            found = asyncio.run(self._request(None))
        except SourceFailure as failure:
            return {
                "ok": False,
                "mode": "omniparser",
                "preflight_ok": False,
                "ready": False,
                "reason": failure.failure_kind,
                "message": failure.message,
            }
        probe = {"ok": True, "preflight_ok": True, "ready": True, "reason": "ready", **found, "mode": "omniparser"}
        if probe["ready"] is True and capture.screen_state() != capture.SCREEN_OK:
            probe |= {"ready": False, "reason": capture.NO_SCREEN_REASON}
        return probe

    def require_ready(self) -> None:
        """Always ready: `parse` reports it if OmniParser does not answer."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Forward a picture or a screenshot, and filter the result.

        Raises: SidecarError.
        """
        rules = capture.combine_rules(request, self._privacy)
        screenshot = None
        if request.picture is None:
            screenshot = capture.take_filtered_screenshot(rules, request.private_titles)
            image = screenshot.picture
        else:
            image = Picture.decode(request.picture)
            image.blacken(self._privacy.hidden_regions())
        if request.region is not None:
            image = image.crop(request.region)
        image_base64 = base64.b64encode(image.to_annotated_png([])).decode()
        try:
            found = asyncio.run(self._request({"base64_image": image_base64}))
        except SourceFailure as failure:
            raise SidecarError(502, "omniparser_failed", failure.message, kind=failure.failure_kind) from failure
        content_list = found.get("parsed_content_list")
        elements = [item for item in content_list if isinstance(item, dict)] if isinstance(content_list, list) else []
        if screenshot is not None and screenshot.visible_windows is None:
            capture.refuse_private(elements, rules)
        notes = [] if screenshot is None else screenshot.notes
        return {**self._filter_response(found, elements), "notes": notes, "ok": True, "mode": "omniparser"}

    def _filter_response(self, found: dict[str, Any], elements: list[dict[str, Any]]) -> dict[str, Any]:
        marked = _decode_picture(found.get("som_image_base64"))
        allowed = []
        for element in elements[: limits.SCREEN_ELEMENTS]:
            filtered = self._privacy.filter_elements([element])
            if marked is not None and (not filtered or filtered[0].get("content") != element.get("content")):
                box = element.get("bbox")
                # Without a position it is unknown what to blacken, so the picture is dropped.
                marked = _blacken_box(marked, box) if isinstance(box, list) and len(box) == 4 else None
            allowed += filtered
        return {
            "latency": found.get("latency"),
            "latency_ms": found.get("latency_ms"),
            "parsed_content_list": allowed,
            "som_image_base64": "" if marked is None else base64.b64encode(marked.to_annotated_png([])).decode(),
        }

    async def _request(self, request: dict[str, Any] | None) -> dict[str, Any]:
        client = SidecarClient(self._url)
        try:
            return await client.probe() if request is None else await client.parse(request)
        finally:
            await client.close()


def _decode_picture(text: Any) -> Picture | None:
    try:
        return Picture.decode(base64.b64decode(text, validate=True)) if isinstance(text, str) and text else None
    except (SidecarError, binascii.Error, ValueError):
        return None


def _blacken_box(marked: Picture, box: list[Any]) -> Picture | None:
    try:
        marked.blacken([marked.to_pixels(box)])
    except (TypeError, ValueError):
        return None
    return marked
