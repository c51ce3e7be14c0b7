"""Recognizes secrets in the entries of clients, and replaces them by references to stored variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from hubbub.client.urls import looks_like_token
from hubbub.security.redact import redact

_SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|bearer|cookie|session|signature|\bsig\b|dsn|(database|db)_url"
    r"|connection_?string|webhook",
    re.IGNORECASE,
)
_PLAIN_HEADERS: Final = frozenset(("accept-language", "user-agent"))
_SCHEME: Final = re.compile(r"(?i)(bearer|basic|token)\s+(?=\S)")
_HEADER_ARGUMENT: Final = re.compile(r"(?P<name>[A-Za-z][\w-]*):\s*(?P<value>(?!//)\S.*)", re.DOTALL)
_PLAIN_NAME: Final = re.compile(
    r"(^|[_-])(dir|enabled|endpoint|file|folder|host|mode|name|path|port|scheme|timeout|tokens|ttl|type|user|username)$",
    re.IGNORECASE,
)
_SWITCH: Final = re.compile(r"(true|false|yes|no|on|off|none|null|[01])?", re.IGNORECASE)
_REFERENCE: Final = "${"


class StoredSecrets:
    """Names a variable for each secret: the name that it has already, unless another value has that name."""

    def __init__(self, stored: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._stored = stored
        self._environ = environ
        self.added: dict[str, str] = {}
        """The variables that have to be stored."""

    def find(self, name: str) -> str | None:
        """Return the value of a variable, in the order in which a hub looks for it."""
        return self._environ.get(name) or self.added.get(name) or self._stored.get(name)

    def all(self) -> dict[str, str]:
        """Return every variable that a hub will have."""
        return {**self._stored, **self.added, **self._environ}

    def refer(self, server: str, name: str, value: str) -> str:
        """Return a reference to a variable with this value, which is stored unless it is."""
        wanted = make_variable_name(name)
        prefixed = make_variable_name(f"{server}_{name}")
        numbered = (f"{prefixed}_{number}" for number in range(2, 1000))
        for variable in (wanted, prefixed, *numbered):
            if self.find(variable) in (None, value):
                if self._stored.get(variable) != value:
                    self.added[variable] = value
                return f"${{{variable}}}"
        raise AssertionError("unreachable: a thousand values of one name")

    # -- the parts of an entry -----------------------------------------------------

    def protect_variable(self, server: str, name: str, value: str) -> str:
        """Replace the value of an environment variable if it seems to be a secret."""
        if _REFERENCE in value or not (_has_secret_name(name, value) or _looks_secret(value)):
            return value
        return self.refer(server, name, value)

    def protect_header(self, server: str, name: str, value: str) -> str:
        """Replace the value of a header, after `Bearer`, unless the header never holds a secret."""
        if _REFERENCE in value or not value or name.lower() in _PLAIN_HEADERS:
            return value
        scheme = _SCHEME.match(value)
        start = scheme.end() if scheme is not None else 0
        return value[:start] + self.refer(server, f"{server}_{name}", value[start:])

    def protect_arguments(self, server: str, arguments: list[str]) -> list[str]:
        """Replace the values of options with names of secrets, and arguments that look like a secret."""
        protected: list[str] = []
        option = ""
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if argument.startswith("-") and equals and _has_secret_name(name, value):
                protected.append(f"{name}={self._protect_option(server, name, value)}")
            elif not argument.startswith("-") and _has_secret_name(option, argument):
                protected.append(self._protect_option(server, option, argument))
            else:
                protected.append(self._protect_argument(server, argument))
            option = argument if argument.startswith("-") and not equals else ""
        return protected

    def protect_url(self, server: str, url: str) -> str:
        """Replace the parts of a URL that look like a key: values of its query, and segments of its path."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return url  # It is refused later.
        segments = [self._protect_part(server, "url_token", each) for each in parts.path.split("/")]
        pairs = []
        for pair in parts.query.split("&") if parts.query else ():
            name, equals, value = pair.partition("=")
            if _has_secret_name(name, value) and _REFERENCE not in value:
                value = self.refer(server, f"{server}_{name}", value)
            else:
                value = self._protect_part(server, name, value)
            pairs.append(f"{name}{equals}{value}")
        return urlunsplit(parts._replace(path="/".join(segments), query="&".join(pairs)))

    def _protect_part(self, server: str, name: str, text: str) -> str:
        is_token = looks_like_token(text) and _REFERENCE not in text and text.isascii() and "." not in text
        return self.refer(server, f"{server}_{name}", text) if is_token else text

    def _protect_option(self, server: str, option: str, value: str) -> str:
        if _REFERENCE in value:
            return value
        return self.refer(server, f"{server}_{option.lstrip('-')}", value)

    def _protect_argument(self, server: str, argument: str) -> str:
        if _REFERENCE in argument or redact(argument) == argument:
            return argument
        header = _HEADER_ARGUMENT.fullmatch(argument)
        if header is not None:
            name, value = header["name"], header["value"]
            return f"{name}: {self.protect_header(server, name, value)}"
        return self.refer(server, f"{server}_argument", argument)


def make_variable_name(text: str) -> str:
    """Make the name of a variable from the name of a server, header or option."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper() or "SECRET"
    return f"_{name}" if name[0].isdigit() else name


def _looks_secret(value: str) -> bool:
    if redact(value) != value:
        return True
    return looks_like_token(value) and re.fullmatch(r"[\w+=-]+", value) is not None


def _has_secret_name(name: str, value: str) -> bool:
    """Whether the name says that the value is a secret. `AUTH_MODE`, `KEY_FILE` and `USE_TOKEN=true` do not."""
    return bool(_SECRET_NAME.search(name)) and not _PLAIN_NAME.search(name) and not _SWITCH.fullmatch(value)
