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
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
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
            found = asyncio.run(self._ask(None))
        except SourceFailure as failure:
            return {
                "ok": False,
                "mode": "omniparser",
                "preflight_ok": False,
                "ready": False,
                "reason": failure.word,
                "message": failure.message,
            }
        probe = {"ok": True, "preflight_ok": True, "ready": True, "reason": "ready", **found, "mode": "omniparser"}
        if probe["ready"] is True and capture.state() != capture.SEEN:
            probe |= {"ready": False, "reason": capture.NO_SCREEN}
        return probe

    def require_ready(self) -> None:
        """Always ready: `parse` reports it if OmniParser does not answer."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Forward a picture or a screenshot, and filter the result.

        Raises: Refusal.
        """
        rules = capture.rules_for(request, self._privacy)
        view = None
        if request.picture is None:
            view = capture.take_allowed(rules, request.private_titles)
            shown = view.picture
        else:
            shown = Picture.read(request.picture)
            shown.blacken(self._privacy.regions())
        if request.region is not None:
            shown = shown.cut(request.region)
        sent = base64.b64encode(shown.marked([])).decode()
        try:
            found = asyncio.run(self._ask({"base64_image": sent}))
        except SourceFailure as failure:
            raise Refusal(502, "omniparser_failed", failure.message, kind=failure.word) from failure
        given = found.get("parsed_content_list")
        elements = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        if view is not None and view.seen is None:
            capture.refuse_private(elements, rules)
        notes = [] if view is None else view.notes
        return {**self._shown(found, elements), "notes": notes, "ok": True, "mode": "omniparser"}

    def _shown(self, found: dict[str, Any], elements: list[dict[str, Any]]) -> dict[str, Any]:
        marked = _picture(found.get("som_image_base64"))
        allowed = []
        for element in elements[: limits.SCREEN_ELEMENTS]:
            kept = self._privacy.elements([element])
            if marked is not None and (not kept or kept[0].get("content") != element.get("content")):
                box = element.get("bbox")
                # Without a position it is unknown what to blacken, so the picture is dropped.
                marked = _blackened(marked, box) if isinstance(box, list) and len(box) == 4 else None
            allowed += kept
        return {
            "latency": found.get("latency"),
            "latency_ms": found.get("latency_ms"),
            "parsed_content_list": allowed,
            "som_image_base64": "" if marked is None else base64.b64encode(marked.marked([])).decode(),
        }

    async def _ask(self, request: dict[str, Any] | None) -> dict[str, Any]:
        client = SidecarClient(self._url)
        try:
            return await client.probe() if request is None else await client.parse(request)
        finally:
            await client.close()


def _picture(text: Any) -> Picture | None:
    try:
        return Picture.read(base64.b64decode(text, validate=True)) if isinstance(text, str) and text else None
    except (Refusal, binascii.Error, ValueError):
        return None


def _blackened(marked: Picture, box: list[Any]) -> Picture | None:
    try:
        marked.blacken([marked.in_pixels(box)])
    except (TypeError, ValueError):
        return None
    return marked
