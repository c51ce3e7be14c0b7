"""Secret values that this process has read, which are masked wherever text leaves it.

`redact` masks them in log lines and error messages, beside what only looks like a secret. Values stay known after
they were replaced, because a server may still repeat the old one. All encoded forms are found in one pass over the
text, so that the time does not grow with the number of secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MASK: Final = "***"
MIN_CHARACTERS: Final = 8
"""Shorter values, and shorter encoded forms, would also mask harmless text."""
MAX_KNOWN_VALUES: Final = 4096
"""Values that are masked in logs and errors; more forget the oldest."""
_BASE64_BLOCK: Final = 3


class KnownValues:
    """A bounded set of secret values, masked in every form in which programs print them."""

    def __init__(self, limit: int = MAX_KNOWN_VALUES) -> None:
        self._limit = limit
        self._forms_by_value: dict[str, tuple[str, ...]] = {}
        self._forms_by_start: dict[str, list[str]] = {}
        """The forms by their first `MIN_CHARACTERS` characters, the longest first."""

    def __bool__(self) -> bool:
        return bool(self._forms_by_value)

    def __len__(self) -> int:
        return len(self._forms_by_value)

    def add(self, value: str) -> None:
        """Mask a value from now on, and each of its lines, unless it is too short."""
        for part in secret_parts(value):
            self._add_part(part)

    def _add_part(self, value: str) -> None:
        if value in self._forms_by_value:
            return
        if len(self._forms_by_value) >= self._limit:
            self._forget(next(iter(self._forms_by_value)))
        forms = tuple(dict.fromkeys(form.decode() for form in encoded_forms(value)))
        self._forms_by_value[value] = forms
        for form in forms:
            same_start = self._forms_by_start.setdefault(form[:MIN_CHARACTERS], [])
            same_start.append(form)
            same_start.sort(key=len, reverse=True)

    def mask(self, text: str) -> str:
        """Replace each known value in a text by `MASK`."""
        starts, kept, done, position = self._forms_by_start, [], 0, 0
        last = len(text) - MIN_CHARACTERS
        while position <= last:
            forms = starts.get(text[position : position + MIN_CHARACTERS])
            found = forms and next((form for form in forms if text.startswith(form, position)), None)
            if not found:
                position += 1
                continue
            kept += [text[done:position], MASK]
            done = position = position + len(found)
        return text if not kept else "".join(kept) + text[done:]

    def _forget(self, value: str) -> None:
        for form in self._forms_by_value.pop(value):
            same_start = self._forms_by_start[form[:MIN_CHARACTERS]]
            same_start.remove(form)
            if not same_start:
                del self._forms_by_start[form[:MIN_CHARACTERS]]


KNOWN_VALUES: Final = KnownValues()
"""Those of this process. Log lines and error messages are written by the process as a whole, so there is one set."""


def secret_parts(value: str) -> list[str]:
    """The value and, because programs print line by line, each of its lines; without parts that are too short."""
    lines = value.splitlines()
    parts = [value, *(line.strip() for line in lines)] if len(lines) > 1 else [value]
    return [part for part in parts if len(part) >= MIN_CHARACTERS]


def encoded_forms(value: str) -> Iterator[bytes]:
    """Yield the forms in which a value may occur in text and JSON: itself, escaped, URL-encoded, in base64."""
    from base64 import b64encode, urlsafe_b64encode  # few processes have secrets
    from json import dumps
    from urllib.parse import quote, quote_plus

    data = value.encode(errors="replace")
    yield data
    for escaped in (dumps(value), dumps(value, ensure_ascii=False), repr(value)):
        yield escaped[1:-1].encode(errors="replace")
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted.encode()
        yield _lower_escapes(quoted).encode()
    for encode in (b64encode, urlsafe_b64encode):
        for offset in range(_BASE64_BLOCK):
            # Leave out the characters at both ends, which also encode neighbouring bytes.
            encoded = encode(b"\0" * offset + data).rstrip(b"=")
            has_partial_end = (offset + len(data)) % _BASE64_BLOCK != 0
            form = encoded[offset + 1 if offset else 0 : len(encoded) - has_partial_end]
            if len(form) >= MIN_CHARACTERS:
                yield form


def _lower_escapes(quoted: str) -> str:
    """Write the hexadecimal digits of percent escapes in lower case, as some libraries do."""
    first, *rest = quoted.split("%")
    return first + "".join(f"%{part[:2].lower()}{part[2:]}" for part in rest)
