"""What is known about an access token after it was verified, and the interface of what verifies it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.errors import HubbubError
from hubbub.protocol.calls import Principal


class VerifiedToken(msgspec.Struct, frozen=True):
    """A token that is valid for this server."""

    principal: Principal
    usable_until: float
    """When it expires, or must be verified again."""
    paths: frozenset[str] | None = None
    """The only paths at which it is valid, because its audience names them; None: every path."""
    key_thumbprint: str | None = None
    """The key that it is bound to (`cnf.jkt`): only who proves to have this key may use it."""
    is_sufficient: bool = False
    """Whether its bearer may send any request to its paths: neither a proof nor more scopes are needed."""


class TokenRefused(HubbubError):
    """Why a token is refused; written to the log, never sent to the caller."""


class TokenVerifier(Protocol):
    """Verifies the tokens of one authorization server."""

    @property
    def generation(self) -> int:
        """Grows whenever tokens that were verified before must be verified again."""

    async def verify(self, token: bytes) -> VerifiedToken:
        """Verify a token.

        Raises:
            TokenRefused: it is not valid for this server.
            KeysUnavailable: this cannot be found out at the moment.
        """
