"""The errors of OAuth.

    OAuthError
    ├── ServerUnavailable       no answer at the moment; the request can be repeated later
    ├── MetadataError           metadata cannot be read, or contradicts itself
    ├── AuthorizationFailed     the authorization server refused, or its redirect cannot be trusted
    │   └── TokenRequestRefused     its token endpoint answered with an error
    └── LoginRequired           a person has to log in, and this client cannot open a login page
        └── UserLoginRequired       a user of a hub has to log in at a server behind it

No message contains a token, a code, a secret or a query of a URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from hubbub.errors import TransportError
from hubbub.oauth import limits


class OAuthError(TransportError):
    """A token for a server cannot be obtained. Nothing was executed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_executed=False)


class ServerUnavailable(OAuthError):
    """A server does not answer at the moment. The request can be repeated later."""

    def __init__(self, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = limits.RETRY_AFTER_S if retry_after_s is None else retry_after_s


class MetadataError(OAuthError):
    """The metadata of a server cannot be read, or must not be trusted."""


class AuthorizationFailed(OAuthError):
    """The authorization server refused, or its answer must not be trusted."""


class TokenRequestRefused(AuthorizationFailed):
    """The token endpoint answered with an OAuth error."""

    def __init__(self, issuer: str, code: str, description: str = "") -> None:
        shown = printable(code) or "no error code"
        detail = f" ({printable(description)})" if printable(description) else ""
        super().__init__(f"The authorization server {issuer} refused the request: {shown}{detail}")
        self.code = code


class LoginRequired(OAuthError):
    """A person has to log in first, in a browser."""

    login_command = ""
    """The command to run, if the settings have one."""

    @classmethod
    def for_server(cls, url: str, login_command: str) -> LoginRequired:
        """Return the error for a server: with the command to run, or else with the advice for Python programs."""
        if login_command:
            error = cls(f"{url} needs a login: run `{login_command}`")
            error.login_command = login_command
            return error
        return cls(
            f"{url} needs a login: set `redirect_handler` of `OAuth`, or run `hubbub login {url}` and set "
            "`store=FileCredentialStore()`"
        )


class UserLoginRequired(LoginRequired):
    """A user of a hub has to log in at one of its servers."""

    def __init__(self, server: str) -> None:
        super().__init__(f"The server {server} needs a login of the user; call hub.connect with its name")


def mask_values(text: str, values: Iterable[str]) -> str:
    """Hide values that were sent to a server, plain or form-encoded, in a text that the server returned."""
    long = [value for value in values if len(value) >= limits.MASKED_CHARACTERS]
    forms = {form for value in long for form in (value, quote(value, safe=""), quote_plus(value))}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def printable(text: str) -> str:
    """Return a text of another server as one short line without control characters."""
    line = " ".join(text.split())[: limits.ERROR_CHARACTERS]
    return "".join(character for character in line if character.isprintable())
