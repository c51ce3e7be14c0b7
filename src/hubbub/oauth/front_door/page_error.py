"""The error that ends a login with a page."""

from __future__ import annotations

from hubbub.errors import HubbubError


class PageError(HubbubError):
    """A login cannot continue; the message is shown to the person at the browser."""

    def __init__(
        self, message: str, *, title: str = "This login cannot continue", status: int = 400, return_url: str = ""
    ) -> None:
        """`return_url`: where the person can return to the app."""
        super().__init__(message)
        self.title = title
        self.status = status
        self.return_url = return_url
