"""The sidecar, asked over HTTP: ours, the original's, or OmniParser itself.

Some know their paths with a slash at the end and some without, so the other form is tried
where the first is not known, and nowhere else: a picture is not sent twice to a server that
was unable to read it.
"""

from __future__ import annotations

from typing import Any

from hubbub import Secret, bounds
from hubbub.packs.activity.failures import SourceFailure
from hubbub.packs.activity.http import JsonServer

_ADVICE = "start one with `hubbub sidecar`, or do without: everything but the screen works"
_UNKNOWN_PATH = (404, 405)


class SidecarClient:
    """One sidecar."""

    def __init__(self, url: str, *, timeout_s: float = bounds.ACTIVITY_CALL_S) -> None:
        """Raises: SettingsError."""
        self._server = JsonServer("The sidecar", url, _ADVICE, key_setting="HUBBUB_ACTIVITY_SIDECAR_TOKEN")
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    async def probe(self) -> dict[str, Any]:
        """What it says of itself.

        Raises: SourceFailure.
        """
        try:
            body = await self._probe("/probe")
        except SourceFailure as failure:
            if failure.status not in _UNKNOWN_PATH:
                raise
            body = await self._probe("/probe/")
        found: dict[str, Any] = self._server.decode(body, dict[str, Any])
        return found

    async def parse(self, request: dict[str, Any], token: Secret | None = None) -> dict[str, Any]:
        """What is on a picture, or on the screen, which may need a token.

        Raises: SourceFailure.
        """
        try:
            body = await self._parse("/parse", request, token)
        except SourceFailure as failure:
            if failure.status not in _UNKNOWN_PATH:
                raise
            body = await self._parse("/parse/", request, token)
        found: dict[str, Any] = self._server.decode(body, dict[str, Any])
        return found

    async def _probe(self, path: str) -> bytes:
        return await self._server.get(path, timeout_s=self._timeout_s, limit=bounds.ACTIVITY_ABOUT_BYTES)

    async def _parse(self, path: str, request: dict[str, Any], token: Secret | None) -> bytes:
        return await self._server.post(
            path, request, timeout_s=bounds.ACTIVITY_PARSE_S, limit=bounds.SIDECAR_BODY_BYTES, token=token
        )

    async def close(self) -> None:
        """Drop every connection."""
        await self._server.close()
