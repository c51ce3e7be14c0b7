"""Secrets that a server was configured with, which are masked in everything that it returns.

Errors are masked generously (`mask`, and `hide` of a decoded value), because they need not stay exact. In
forwarded results (`hide` of raw JSON) only certain secrets are masked, in every form in which servers
echo them: unchanged, URL-encoded, and in base64 at any offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Raw

from hubbub import bounds
from hubbub.client.urls import looks_like_token
from hubbub.security.known_values import encoded_forms, secret_parts
from hubbub.security.redact import MASK, redact

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_-])(?:key|pass|pat|pw|dsn|bearer|cookie|credentials?)(?:[_-]|$)|apikey|passw|passphrase|secret|token"
    r"|^(?:proxy-)?authorization$",
    re.IGNORECASE,
)
_NON_SECRET_NAME: Final = re.compile(
    r"[_-](?:path|file|dir|url|uri|name|id|prefix|limit|type|ttl|size)$", re.IGNORECASE
)
"""Names of values that describe a secret but are not one."""
_PASSWORD_IN_URL: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_MIN_CHARACTERS: Final = 6
_MIN_CERTAIN_CHARACTERS: Final = 8
_UNCOMMON_CHARACTERS: Final = 16
"""Values of this length are not common words."""


class KnownSecrets:
    """The secret values that were sent last."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._forms_by_value: dict[str, tuple[bytes, ...]] = {}
        """The encoded forms of each value that is masked in results too."""

    def learn(self, values: Mapping[str, str | None], *, only_secret_names: bool = False) -> None:
        """Remember values; with `only_secret_names`, only those named like secrets, as most are paths or flags."""
        for name, value in values.items():
            if value is None:
                continue
            for password in _PASSWORD_IN_URL.findall(value):
                self._add(password, is_certain=True)
            has_secret_name = _SECRET_NAME.search(name) is not None
            if only_secret_names and not has_secret_name:
                continue
            is_certain = is_secret_name(name)
            scheme, _, token = value.partition(" ")
            if scheme != value and " " not in token:  # the token of `Bearer ...` by itself
                self._add(token, is_certain=is_certain)
                is_certain = False  # the token is enough: every form costs a search in every result
            self._add(value, is_certain=is_certain)
            if value[:6].lower() == "basic ":
                self._learn_basic(value[6:])

    def learn_references(self, values: Iterable[str]) -> None:
        """Remember values that were configured as secrets: they are masked everywhere, whatever they look like."""
        for value in values:
            for part in secret_parts(value):
                self._add(part, is_certain=True, is_configured=True)

    def learn_url(self, url: str) -> None:
        """Remember the values of a URL's query, and segments of its path that look like tokens."""
        parts = urlsplit(url)
        for value in (value for _, value in parse_qsl(parts.query)):
            self._add(value, is_certain=looks_like_token(value))
        for segment in parts.path.split("/"):
            if looks_like_token(segment):
                self._add(unquote(segment), is_certain=True)

    def learn_arguments(self, arguments: Sequence[str]) -> None:
        """Remember the values of options that are named like secrets: `--api-key X`, `--token=X`."""
        previous = ""
        for word in arguments:
            name, equals, value = word.partition("=")
            if not equals:
                name, value = previous, word
            if name.startswith("-") and not value.startswith("-"):
                self.learn({name.lstrip("-"): value}, only_secret_names=True)
            previous = word

    def mask(self, text: str) -> str:
        """Mask known secrets in a text, and everything that looks like one."""
        return redact(self._mask_values(text))

    def hide(self, value: Any) -> Any:
        """Mask only known secrets in JSON: programs read it, and may need values that only look like secrets."""
        if not self._values:
            return value
        match value:
            case Raw():
                return self._hide_raw(value) if self._forms_by_value else value
            case str():
                return self._mask_values(value)
            case list():
                return [self.hide(item) for item in value]
            case dict():
                return {self.hide(name): self.hide(item) for name, item in value.items()}
        return value

    def _hide_raw(self, raw: Raw) -> Raw:
        body = bytes(raw)
        found = [form for forms in self._forms_by_value.values() for form in forms if form in body]
        if not found:
            return raw
        for form in sorted(found, key=len, reverse=True):
            body = body.replace(form, MASK.encode())
        try:
            msgspec.json.decode(body)
        except msgspec.DecodeError:  # it was outside of a string, such as a number
            body = msgspec.json.encode(self.hide(msgspec.json.decode(raw)))
        return Raw(body)

    def _learn_basic(self, encoded: str) -> None:
        import binascii  # few servers need it

        try:
            pair = binascii.a2b_base64(encoded).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        self._add(pair, is_certain=True)
        self._add(pair.partition(":")[2], is_certain=True)

    def _add(self, value: str, *, is_certain: bool, is_configured: bool = False) -> None:
        if len(value) < _MIN_CHARACTERS:
            return
        if value in self._values:
            del self._values[value]  # Added again at the end: it is in use, so others are dropped first.
        elif len(self._values) >= bounds.KNOWN_SECRETS:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._forms_by_value.pop(oldest, None)
        self._values[value] = None
        if is_certain and value not in self._forms_by_value and (is_configured or _is_uncommon(value)):
            self._forms_by_value[value] = tuple(dict.fromkeys(encoded_forms(value)))

    def _mask_values(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        for forms in self._forms_by_value.values():
            for form in forms:
                text = text.replace(form.decode(), MASK)
        return text


def is_secret_name(name: str) -> bool:
    """Whether the value of a header or variable of this name is a secret, by its name."""
    return _SECRET_NAME.search(name) is not None and _NON_SECRET_NAME.search(name) is None


def _is_uncommon(value: str) -> bool:
    """Whether a value is long or mixed enough that it is not a common word."""
    if len(value) < _MIN_CERTAIN_CHARACTERS:
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    is_mixed = sum(any(map(kind, value)) for kind in kinds) > 1
    return is_mixed or len(value) >= _UNCOMMON_CHARACTERS
