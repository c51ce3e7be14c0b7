"""What pages say when a login cannot continue."""

from __future__ import annotations

from typing import Final

REPORT: Final = "Report this to the developer of the app."
EXPIRED: Final = "This login has expired, or it began in another browser. Go back to the app and log in again."
REVOKED: Final = "Your access was revoked after this login began. Go back to the app and log in again."
PROVIDER_FAILED: Final = (
    "The identity provider did not log you in. Try again in a few minutes; if that does not help, tell the operator "
    "of this server."
)
ANSWERED: Final = "You have answered this page before. Go back to the app; if it is not connected, log in again."
UNKNOWN_KEY: Final = "This API key is unknown, expired or revoked. Ask the operator of this server for a new one."
CANCELLED: Final = "The login at the identity provider was cancelled."
