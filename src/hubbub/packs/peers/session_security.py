"""Security requirements of a session: the operator's settings, tightened by the arguments of `vdo_connect`.

An argument that asks for less than the operator's settings is refused rather than ignored, so
that a caller does not wait for peers that are not admitted. The only module that imports keyring.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

import msgspec

from hubbub import ArgumentsInvalid, SettingsError
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.names import sanitize
from hubbub.packs.peers.settings import PeersSettings


class SessionSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements that the peers of one session must meet."""

    secrets: tuple[str, ...] = ()
    """Join tokens are signed with the first; signatures of any of them are accepted."""
    enforce_join_token: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()
    """Empty: every peer is allowed."""
    require_session_mac: bool = False


def read_security(arguments: Arguments, settings: PeersSettings, secrets: Sequence[str]) -> SessionSecurity:
    """Combine the operator's security settings with the caller's: arguments may tighten them, never loosen them.

    Raises: ArgumentsInvalid, ToolError.
    """
    is_enforcing = _read_strict_flag(arguments, "enforce_join_token", settings.enforce_join_token)
    own_secret = (arguments.text("join_token_secret") or "").strip()
    if own_secret and settings.enforce_join_token and not _is_known(own_secret, secrets):
        raise ArgumentsInvalid(
            "invalid join_token_secret: the operator of this server requires join tokens of another secret; "
            "leave the argument out"
        )
    # Tokens of the operator's older secrets stay valid, unless the caller chooses another secret.
    effective_secrets = (own_secret,) if own_secret and not _is_known(own_secret, secrets) else tuple(secrets)
    if is_enforcing and not effective_secrets:
        raise ArgumentsInvalid(
            "join_token_secret is required with enforce_join_token: without it, join tokens cannot be verified"
        )
    return SessionSecurity(
        secrets=effective_secrets,
        enforce_join_token=is_enforcing,
        allow_peer_stream_ids=_read_allowed(
            arguments, tuple(filter(None, map(sanitize, settings.allow_peer_stream_ids)))
        ),
        require_session_mac=_read_strict_flag(arguments, "require_session_mac", settings.require_session_mac),
    )


def _read_strict_flag(arguments: Arguments, name: str, is_set: bool) -> bool:
    is_wanted = arguments.strict_flag(name, is_set)
    if is_set and not is_wanted:
        raise ArgumentsInvalid(f"invalid {name}: the operator of this server has turned it on; leave the argument out")
    return is_wanted


def _read_allowed(arguments: Arguments, allowed: tuple[str, ...]) -> tuple[str, ...]:
    wanted = arguments.identifiers("allow_peer_stream_ids", allowed)
    if not allowed:
        return wanted
    if not wanted:
        raise ArgumentsInvalid(
            "invalid allow_peer_stream_ids: an empty list allows every peer, but the operator of this server allows "
            "certain peers only; leave the argument out"
        )
    disallowed = [name for name in wanted if name not in allowed]
    if disallowed:
        raise ArgumentsInvalid(
            f"invalid allow_peer_stream_ids: the operator of this server does not allow {', '.join(disallowed)[:500]}; "
            "name only peers from its list, or leave the argument out"
        )
    return wanted


def _is_known(secret: str, secrets: Sequence[str]) -> bool:
    return any(hmac.compare_digest(secret.encode(), known.encode()) for known in secrets)


def join_token_secrets(settings: PeersSettings) -> tuple[str, ...]:
    """Return the secrets that join tokens may be signed with; new tokens are signed with the first.

    Raises:
        SettingsError: the keyring cannot be read, or has no such secret.
    """
    # An empty secret does not count: anyone could sign with it.
    old = filter(None, (secret.reveal().strip() for secret in settings.join_token_old_secrets))
    secret = settings.join_token_secret.reveal().strip() if settings.join_token_secret else ""
    if secret:
        return (secret, *old)
    if settings.join_token_keyring is not None:
        return (_read_keyring(settings.join_token_keyring), *old)
    return ()


def _read_keyring(entry: str) -> str:
    service, _, name = entry.partition("/")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise SettingsError(
            "join_token_keyring needs the keyring library: install Hubbub with its extra 'keyring' "
            "(in a clone: pip install -e '.[keyring]')"
        ) from error
    try:
        secret = (keyring.get_password(service, name) or "").strip()
    except KeyringError as error:
        raise SettingsError(f"join_token_keyring: the system's keyring cannot be read: {error}") from error
    if not secret:
        raise SettingsError(
            f"join_token_keyring: the system's keyring has no secret {entry!r}; add it with "
            f"`keyring set {service} {name}`"
        )
    return secret
