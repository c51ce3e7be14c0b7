"""The interface of the sidecar's engines, and their error."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from hubbub import HubbubError
from hubbub.packs.activity.settings import PrivacySettings


class ParseRequest(msgspec.Struct, frozen=True):
    """A request to read a picture, or the current screen."""

    picture: bytes | None
    lang: str | None = None
    """Language of the text, by tesseract's name; None for that of the settings."""
    min_score: float = 0.0
    region: tuple[float, float, float, float] | None = None
    """Read only this part: left, top, right, bottom, in pixels."""
    rules: PrivacySettings | None = None
    """Privacy rules of the caller. They apply besides the sidecar's own: the two may be configured differently."""
    private_titles: tuple[str, ...] = ()
    """Hidden titles of pages: windows with one of them in their titles are blackened."""


class SidecarError(HubbubError):
    """An error response of the sidecar's protocol."""

    def __init__(self, status: int, error: str, details: str = "", **more: Any) -> None:
        super().__init__(details or error)
        self.status = status
        self.body: dict[str, Any] = {"ok": False, "error": error, **({"details": details} if details else {}), **more}


class Engine(Protocol):
    """Reads pictures. Its methods run in threads."""

    def probe(self) -> dict[str, Any]:
        """Return what the engine is and whether it works; fast."""

    def require_ready(self) -> None:
        """Raises: SidecarError, if the engine cannot read now; called before the body of a request is read."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Read a picture or the screen.

        Raises: SidecarError.
        """
