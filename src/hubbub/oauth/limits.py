"""The named limits on memory and time of OAuth, as in `hubbub.bounds`."""

from __future__ import annotations

from typing import Final

DOCUMENT_BYTES: Final = 256 * 1024
"""A metadata document, a registration or a response of a token endpoint."""
REQUEST_TIMEOUT_S: Final = 30.0
"""One request to an authorization server."""
ERROR_CHARACTERS: Final = 200
"""How much of an error description of another server is shown."""
