"""The identity of callers who belong to tenants: `tenant/user#credential`.

All state of callers is kept under the name of their principal, so the name has every part that must keep two callers
apart. The credential is a keyed hash of its kind, id and version: equal for a refreshed token of the same login, other
for a rotated key, and useless for guessing what was hashed. It never depends on a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from typing import Final, NamedTuple

import msgspec

from hubbub import bounds
from hubbub.ports import TenantDirectory
from hubbub.protocol.calls import Principal

FINGERPRINT_CHARACTERS: Final = 16
_SEPARATORS: Final = frozenset("/#")
_PURPOSE: Final = b"hubbub principal fingerprint 1"


class TenantIdentity(NamedTuple):
    """What authenticators need to identify callers of tenants."""

    tenants: TenantDirectory
    key: bytes
    """Hashes credentials; the same for all processes of one installation."""

    def make_principal(
        self, *, tenant: str, user: str, client: str, scopes: frozenset[str], credential: tuple[str, ...]
    ) -> Principal:
        """Make the principal of a caller; `credential` is the kind, the id and the version of what it sent.

        An operator has the tenant "", so that its name begins with `/`, which no name of a tenant's caller does.
        """
        fingerprint = self._fingerprint(credential)
        # Many callers have these in common: 100 bytes less for each.
        return Principal(
            f"{tenant}/{user}#{fingerprint}",
            scopes,
            tenant=sys.intern(tenant),
            user=user,
            client=sys.intern(client),
            credential=fingerprint,
        )

    def is_removed(self, principal: str) -> bool:
        """Whether the tenant of this principal is no longer in the settings."""
        tenant, slash, rest = principal.partition("/")
        return bool(tenant and slash) and "#" in rest and tenant not in self.tenants

    def _fingerprint(self, parts: tuple[str, ...]) -> str:
        # As JSON, so that no two lists of parts give the same bytes.
        text = msgspec.json.encode(parts)
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()[:FINGERPRINT_CHARACTERS]


def derive_fingerprint_key(sealing_key: bytes) -> bytes:
    """Derive the key for fingerprints, so that the sealing key itself has one use only."""
    return hmac.new(sealing_key, _PURPOSE, hashlib.sha256).digest()


def is_user_name(text: str) -> bool:
    """Whether a text can be the name of a user: printable, and without the separators of principal names.

    Not printable are control characters, and invisible and bidirectional ones, which would make records misleading.
    """
    return (
        0 < len(text) <= bounds.TOKEN_SUBJECT_CHARACTERS
        and text.isprintable()
        and text == text.strip()
        and _SEPARATORS.isdisjoint(text)
    )
