"""The engine that hands pictures on to a running OmniParser, under the same rules as our own.

Regions are blackened before the picture leaves; what comes back passes the rules for text, and
where one took something away, the marked picture is blackened too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from hubbub import bounds
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.sidecar import capture
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar_client import SidecarClient


class OmniParserEngine:
    """Somebody else's eyes."""

    def __init__(self, url: str, privacy: Privacy) -> None:
        self._url = url
        self._privacy = privacy

    def probe(self) -> dict[str, Any]:
        """What OmniParser says of itself, and that we reach it; its own server says neither `ok` nor `ready`."""
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
        return {"ok": True, "preflight_ok": True, "ready": True, "reason": "ready", **found, "mode": "omniparser"}

    def require_ready(self) -> None:
        """Whether it answers will be seen."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Hand it on.

        Raises: Refusal.
        """
        rules = capture.rules_for(request, self._privacy)
        are_windows_known = True
        if request.picture is None:
            shown, listed, _ = capture.take_allowed(rules, request.private_titles)
            are_windows_known = listed is not None
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
        if not are_windows_known:
            capture.refuse_private(elements, rules)
        return {**self._shown(found, elements), "ok": True, "mode": "omniparser"}

    def _shown(self, found: dict[str, Any], elements: list[dict[str, Any]]) -> dict[str, Any]:
        marked = _picture(found.get("som_image_base64"))
        allowed = []
        for element in elements[: bounds.SCREEN_ELEMENTS]:
            kept = self._privacy.elements([element])
            if marked is not None and (not kept or kept[0].get("content") != element.get("content")):
                box = element.get("bbox")
                # Of something without a place, nobody knows what to blacken.
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
