"""The records that the store keeps of a login: authorization codes, and grants with their refresh tokens."""

from __future__ import annotations

import base64
import hmac
import secrets

import msgspec

from hubbub.oauth.front_door.clients import hash_secret


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person who logged in."""

    name: str
    """With tenants the user of a tenant; without, the name of the principal."""
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    """The scopes that the person may grant."""
    key: str = ""
    """The id and version of the API key that was used to log in, which must stay valid."""
    provider_login: str = ""
    """The login at the identity provider, if it can be checked there again."""
    logged_in_at: float = 0.0
    """When the person logged in; what was revoked later cannot be continued."""


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """What a person granted to a client."""

    client_id: str
    client_name: str
    user: User
    scopes: tuple[str, ...]
    resource: str
    max_age_s: float
    """How long after the consent the person has to log in again."""


class AuthorizationCode(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization code; in the form that authlib's grants expect."""

    authorization: Authorization
    redirect_uri: str
    code_challenge: str
    dpop_jkt: str = ""
    code_hash: str = ""
    code_challenge_method: str = "S256"

    def get_redirect_uri(self) -> str:
        return self.redirect_uri


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant that is in force, with one valid refresh token; in the form that authlib's grants expect."""

    grant_id: str
    authorization: Authorization
    jkt: str = ""
    """The thumbprint of the client's DPoP key, if its tokens are bound to one."""

    def check_client(self, client: msgspec.Struct) -> bool:
        return self.authorization.client_id == getattr(client, "client_id", None)

    def get_scope(self) -> str:
        return " ".join(self.authorization.scopes)


class RefreshToken(msgspec.Struct, frozen=True):
    """A refresh token: the handle of its grant, which stays the same, and a secret, which is new in each."""

    handle: str
    secret: str

    @classmethod
    def new(cls) -> RefreshToken:
        """Make the first token of a grant."""
        return cls(secrets.token_urlsafe(16), secrets.token_urlsafe(32))

    def derive_next(self, key: bytes) -> RefreshToken:
        """Derive the token that replaces this one. It is always the same, and only holders of the key can derive it."""
        digest = hmac.digest(key, str(self).encode("utf-8", "surrogatepass"), "sha256")
        return RefreshToken(self.handle, base64.urlsafe_b64encode(digest).rstrip(b"=").decode())

    @classmethod
    def parse(cls, text: str) -> RefreshToken | None:
        """Parse a token that a client sent; None if it is not one of this server."""
        handle, dot, secret = text.partition(".")
        return cls(handle, secret) if handle and dot and secret else None

    def __str__(self) -> str:
        return f"{self.handle}.{self.secret}"

    @property
    def handle_hash(self) -> str:
        return hash_secret(self.handle).hex()

    @property
    def secret_hash(self) -> str:
        return hash_secret(self.secret).hex()
