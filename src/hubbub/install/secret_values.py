"""Recognizes secrets in the entries of clients, and replaces them by references to stored variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, count
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from hubbub.client.urls import looks_like_token
from hubbub.security.redact import redact

_SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|bearer|cookie|session|signature|\bsig\b|dsn|(database|db)_url"
    r"|connection_?string|webhook|(^|[_-])(pat|pin)$",
    re.IGNORECASE,
)
_PLAIN_HEADERS: Final = frozenset(("accept-language", "user-agent"))
_SCHEME: Final = re.compile(r"(?i)(bearer|basic|token)\s+(?=\S)")
_HEADER_ARGUMENT: Final = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?P<colon>:\s*)(?P<value>(?!//)\S.*)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"(?P<option>-[\w-]+=)?(?P<name>[A-Za-z_]\w*)=(?P<value>.+)", re.DOTALL)
"""As in `docker run -e NAME=VALUE` or `--env=NAME=VALUE`."""
_PLAIN_NAME: Final = re.compile(
    r"(^|[_-])(dir|enabled|endpoint|file|folder|host|mode|name|path|port|scheme|timeout|tokens|ttl|type|user|username)$",
    re.IGNORECASE,
)
_SWITCH: Final = re.compile(r"(true|false|yes|no|on|off|none|null|[01])?", re.IGNORECASE)
_REFERENCE: Final = "${"
_REFERENCES: Final = re.compile(r"(\$\{[^{}]*\})")
_SCHEME_WORD: Final = re.compile(r"([A-Za-z-]+\s+)?\s*")
"""Text around a reference that is not a secret: none, or a word such as `ApiKey`."""


class StoredSecrets:
    """Assigns a variable to each secret. An existing name is reused, unless it is taken by another value."""

    def __init__(self, stored: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._stored = stored
        self._environ = environ
        self.added: dict[str, str] = {}
        """New variables, to be stored."""

    def find(self, name: str) -> str | None:
        """Return the value of a variable, in the order in which a hub looks for it."""
        return self._environ.get(name) or self.added.get(name) or self._stored.get(name)

    def all(self) -> dict[str, str]:
        """Return every variable that a hub will have."""
        return {**self._stored, **self.added, **self._environ}

    def refer(self, server: str, name: str, value: str) -> str:
        """Return a reference to a variable with this value; store the variable if it is new."""
        wanted = make_variable_name(name)
        prefix = make_variable_name(server)
        prefixed = wanted if wanted.startswith(f"{prefix}_") else f"{prefix}_{wanted}"
        names = chain((wanted, prefixed), (f"{prefixed}_{number}" for number in count(2)))
        variable = next(name for name in names if self.find(name) in (None, value))
        if self._stored.get(variable) != value:
            self.added[variable] = value
        return f"${{{variable}}}"

    def store_default(self, name: str, default: str) -> str | None:
        """Store the default of `${NAME:-default}` if it seems to be a secret; return the reference, or None if not.

        A hub uses stored variables where the environment has none, so the meaning stays the same.
        """
        if not (_has_secret_name(name, default) or _looks_secret(default)):
            return None
        if name not in self._stored and name not in self.added:
            self.added[name] = default
        return f"${{{name}}}"

    # -- the parts of an entry -----------------------------------------------------

    def protect_variable(self, server: str, name: str, value: str) -> str:
        """Replace the value of an environment variable if it seems to be a secret."""
        is_named = _has_secret_name(name, value)
        if _REFERENCE in value:
            return self._protect_literals(server, name, value, is_secret=is_named)
        return self.refer(server, name, value) if is_named or _looks_secret(value) else value

    def protect_header(self, server: str, name: str, value: str) -> str:
        """Replace the value of a header, after `Bearer`, unless the header never holds a secret."""
        if not value or name.lower() in _PLAIN_HEADERS:
            return value
        scheme = _SCHEME.match(value)
        start = scheme.end() if scheme is not None else 0
        return value[:start] + self._protect_named(server, name, value[start:])

    def protect_arguments(self, server: str, arguments: list[str]) -> list[str]:
        """Replace the values of options with names of secrets, and arguments that look like a secret."""
        protected: list[str] = []
        option = ""
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if argument.startswith("-") and equals and _has_secret_name(name, value):
                protected.append(f"{name}={self._protect_named(server, name.lstrip('-'), value)}")
            elif not argument.startswith("-") and _has_secret_name(option, argument):
                protected.append(self._protect_named(server, option.lstrip("-"), argument))
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
            if _has_secret_name(name, value):
                value = self._protect_named(server, name, value)
            else:
                value = self._protect_part(server, name, value)
            pairs.append(f"{name}{equals}{value}")
        return urlunsplit(parts._replace(path="/".join(segments), query="&".join(pairs)))

    def _protect_part(self, server: str, name: str, text: str) -> str:
        is_token = looks_like_token(text) and _REFERENCE not in text and text.isascii() and "." not in text
        return self.refer(server, f"{server}_{name}", text) if is_token else text

    def _protect_argument(self, server: str, argument: str) -> str:
        header = _HEADER_ARGUMENT.fullmatch(argument)
        if header is not None and (_has_secret_name(header["name"], header["value"]) or _looks_secret(header["value"])):
            name = header["name"]
            return f"{name}{header['colon']}{self.protect_header(server, name, header['value'])}"
        assignment = _ASSIGNMENT.fullmatch(argument)
        if assignment is not None and _has_secret_name(assignment["name"], assignment["value"]):
            name, value = assignment["name"], assignment["value"]
            return f"{assignment['option'] or ''}{name}={self._protect_named(server, name, value)}"
        if _REFERENCE in argument:
            return self._protect_literals(server, f"{server}_argument", argument, is_secret=False)
        return argument if redact(argument) == argument else self.refer(server, f"{server}_argument", argument)

    def _protect_named(self, server: str, name: str, value: str) -> str:
        """Replace a value whose name says that it is a secret."""
        if _REFERENCE in value:
            return self._protect_literals(server, f"{server}_{name}", value, is_secret=True)
        return self.refer(server, f"{server}_{name}", value)

    def _protect_literals(self, server: str, name: str, value: str, *, is_secret: bool) -> str:
        """Replace the text around references if it holds a secret, as in `postgres://me:hunter2@${HOST}`."""
        parts = _REFERENCES.split(value)
        literal = "".join(parts[::2])
        if redact(literal) == literal and not (is_secret and "://" not in literal):
            return value
        is_found = any(redact(part) != part for part in parts[::2])
        return "".join(
            part
            if index % 2 or _SCHEME_WORD.fullmatch(part) or (is_found and redact(part) == part)
            else self.refer(server, name, part)
            for index, part in enumerate(parts)
        )


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
