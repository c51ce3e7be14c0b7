"""An engine for tests: it looks at nothing, and what it says it found is made up, and says so."""

from __future__ import annotations

from typing import Any

from hubbub.packs.activity.sidecar.engine import ParseRequest


class MockEngine:
    """Answers like the original's."""

    def probe(self) -> dict[str, Any]:
        """What the original's says, with the mode besides."""
        return {
            "ok": True,
            "mode": "mock",
            "model": "omniparser-mock",
            "gpu": "unknown",
            "message": "Omniparser API ready (mock)",
        }

    def require_ready(self) -> None:
        """It always is."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """One text and one icon, neither of which is there."""
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
