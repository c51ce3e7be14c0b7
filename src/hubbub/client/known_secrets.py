"""What was given to a server in confidence, and must not come back in the text of an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hubbub.security.redact import MASK, redact

_TELLING: Final = re.compile(
    r"(?:^|[_-])(?:key|pass|pat|pw|dsn|bearer|cookie|credentials?)(?:[_-]|$)|apikey|passw|passphrase|secret|token",
    re.IGNORECASE,
)
_LEAST_CHARACTERS: Final = 6
_MOST: Final = 64


class KnownSecrets:
    """The values that were sent last."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def learn(self, values: Mapping[str, str | None], *, only_telling_names: bool = False) -> None:
        """Remember values; of variables only those whose names tell, since most others are paths and flags."""
        for name, value in values.items():
            if value is None or (only_telling_names and not _TELLING.search(name)):
                continue
            for part in {value, value.rpartition(" ")[2]}:  # the token of `Bearer ...` by itself too
                if len(part) >= _LEAST_CHARACTERS and part not in self._values:
                    if len(self._values) >= _MOST:
                        del self._values[next(iter(self._values))]
                    self._values[part] = None

    def mask(self, text: str) -> str:
        """The text without them, and without what looks like others."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return redact(text)
