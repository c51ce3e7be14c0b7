"""What an engine of the sidecar does, and how it says no."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from hubbub.packs.activity.settings import PrivacySettings


class ParseRequest(msgspec.Struct, frozen=True):
    """One question: a picture, or the screen as it is now."""

    picture: bytes | None
    lang: str = "eng"
    min_score: float = 0.0
    region: tuple[float, float, float, float] | None = None
    """Only this part: left, top, right, bottom, in pixels."""
    rules: PrivacySettings | None = None
    """Of whoever asks; they are kept besides our own, because both may have been started in different places."""
    private_titles: tuple[str, ...] = ()
    """Of pages that nobody is to see: windows that have one in their title are blackened."""


class Refusal(Exception):
    """Why there is no answer, as the protocol says it."""

    def __init__(self, status: int, error: str, details: str = "", **more: Any) -> None:
        super().__init__(details or error)
        self.status = status
        self.body: dict[str, Any] = {"ok": False, "error": error, **({"details": details} if details else {}), **more}


class Engine(Protocol):
    """Reads pictures. Its methods run in threads."""

    def probe(self) -> dict[str, Any]:
        """What it is and whether it works; quick."""

    def require_ready(self) -> None:
        """Raises: Refusal, if it cannot read now; asked before a picture is taken in."""

    def parse(self, request: ParseRequest) -> dict[str, Any]:
        """Read.

        Raises: Refusal.
        """
