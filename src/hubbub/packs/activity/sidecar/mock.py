"""An engine for tests, which reads nothing and returns invented elements that are marked as such."""

from __future__ import annotations

from typing import Any

from hubbub.packs.activity.sidecar.engine import ParseRequest


class MockEngine:
    """Answers like the mock of the contract's reference sidecar."""

    def probe(self) -> dict[str, Any]:
        """Return the reference mock's answer, with the mode added."""
        return {
            "ok": True,
            "mode": "mock",
            "model": "omniparser-mock",
            "gpu": "unknown",
            "message": "Omniparser API ready (mock)",
        }

    def require_ready(self) -> None:
        """Always ready."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Return one invented text and one invented icon."""
        return {
            "ok": True,
            "mode": "mock",
            "latency": 0.0,
            "latency_ms": 0,
            "parsed_content_list": [
                {"type": "text", "content": "mock text", "score": 1.0},
                {"type": "icon", "content": "mock icon", "score": 1.0},
            ],
            "som_image_base64": "",
        }
