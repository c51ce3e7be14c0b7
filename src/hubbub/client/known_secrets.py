"""What was given to a server in confidence, and must not come back in the text of an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

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
        return redact(self._without(text))

    def hide(self, value: Any) -> Any:
        """JSON without them, and otherwise as it is: programs read it, and may need what only looks like a secret."""
        if not self._values:
            return value
        match value:
            case str():
                return self._without(value)
            case list():
                return [self.hide(item) for item in value]
            case dict():
                return {self.hide(name): self.hide(item) for name, item in value.items()}
        return value

    def _without(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return text
