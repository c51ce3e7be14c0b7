"""Maps the claims of a verified token to the tenant, user and scopes of its caller."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.protocol.calls import Principal
from hubbub.security.tenant_identity import TenantIdentity, is_user_name
from hubbub.security.verified_tokens import TokenRefused

DEFAULT_SCOPE_CLAIMS: Final = ("scope", "scp")
SHARED_SCOPE_SETS: Final = 256
"""Sets of scopes that callers share."""
_END_OF_TIME: Final = 10.0**12
_CLIENT_CLAIMS: Final = ("client_id", "azp")
_SESSION_CLAIM: Final = "sid"
_MAX_QUOTED_CHARACTERS: Final = 80


class ClaimMapping(msgspec.Struct, frozen=True, kw_only=True):
    """Which claims are used; `a.b` is the claim `b` in the claim `a`, unless there is a claim of that very name."""

    tenant: str = "tenant"
    user: str = "sub"
    scopes: tuple[str, ...] = DEFAULT_SCOPE_CLAIMS
    name_prefix: str = ""
    """Put before the subject in the name of the caller, if there are no tenants."""


class InvalidClaim(TokenRefused):
    """The claims of a token do not identify a caller; the message says why."""


def parse_claims(payload: bytes) -> dict[str, Any]:
    """Parse claims.

    Raises: InvalidClaim, if a name occurs twice: two parsers could pick different values.
    """
    try:
        claims = json.loads(payload, object_pairs_hook=_refuse_repeated)
    except (ValueError, RecursionError) as error:
        raise InvalidClaim(f"claims: {type(error).__name__}") from None
    if not isinstance(claims, dict):
        raise InvalidClaim("the claims are not an object")
    return claims


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidClaim("a claim occurs twice")
    return members


def read_scopes(claims: dict[str, Any], names: tuple[str, ...]) -> frozenset[str]:
    """Return the scopes in these claims, each a text separated by spaces or a list.

    Raises: InvalidClaim, if one is neither.
    """
    scopes: list[str] = []
    for name in names:
        value = _find(claims, name)
        if value is None:
            continue
        items = value.split() if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise InvalidClaim(f"the claim {name!r} is neither a text nor a list of texts")
        scopes += items
    return _share_scopes(frozenset(scopes[: bounds.TOKEN_SCOPES]))


def read_time(claims: dict[str, Any], name: str, default: float | None = None) -> float:
    """Return a time in seconds since 1970, or the default if it is missing.

    Raises: InvalidClaim, if it is not a time, or is missing without a default.
    """
    if name not in claims and default is not None:
        return default
    value = claims.get(name)
    # Compared, because JSON may have NaN, and numbers that are too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _END_OF_TIME:
        raise InvalidClaim(f"the claim {name!r} is not a time")
    return float(value)


@lru_cache(maxsize=SHARED_SCOPE_SETS)
def _share_scopes(scopes: frozenset[str]) -> frozenset[str]:
    """Return the same object for equal sets: many callers have the same scopes, and a set takes 216 bytes."""
    return scopes


def make_token_principal(claims: dict[str, Any], mapping: ClaimMapping, identity: TenantIdentity) -> Principal:
    """Return the principal of a token whose signature, issuer, audience and times were checked.

    Raises: InvalidClaim, if it has no valid tenant or user.
    """
    value = _read_text(claims, mapping.tenant)
    tenant = identity.tenants.find_by_claim(value)
    if tenant is None:
        # The value is compared as it is: another case or a character that only looks the same is another tenant.
        raise InvalidClaim(f"the claim {mapping.tenant!r} means no tenant: {value[:_MAX_QUOTED_CHARACTERS]!a}")
    user = _read_text(claims, mapping.user)
    if not is_user_name(user):
        shown = ascii(user[:_MAX_QUOTED_CHARACTERS])
        raise InvalidClaim(
            f"the claim {mapping.user!r} must be printable, without / and #, and not too long, but is {shown}"
        )
    if mapping.user == "email" and claims.get("email_verified", True) is not True:
        raise InvalidClaim("the claim 'email' is not verified")
    client = next((_read_text(claims, name) for name in _CLIENT_CLAIMS if name in claims), "")
    session = _read_text(claims, _SESSION_CLAIM) if _SESSION_CLAIM in claims else ""
    return identity.make_principal(
        tenant=tenant,
        user=user,
        client=client,
        scopes=read_scopes(claims, mapping.scopes),
        credential=("jwt", _read_text(claims, "iss"), _read_text(claims, "sub"), client, session),
    )


def _read_text(claims: dict[str, Any], name: str) -> str:
    value = _find(claims, name)
    if not isinstance(value, str) or not value:
        problem = "is missing" if value is None else "is empty" if value == "" else "is not a text"
        raise InvalidClaim(f"the claim {name!r} {problem}")
    return value


def _find(claims: dict[str, Any], name: str) -> Any:
    if name in claims:  # as with https://example.com/tenant, whose dots separate nothing
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
