"""The buckets of ActivityWatch under the names that the privacy rules allow. Pure.

Bucket names reveal apps and machines: a browser's watcher is named after the browser. Buckets of dropped apps are left
out. Names that match a rule contain `[private]`, and callers use them in that form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.browsers import browser_apps
from hubbub.packs.activity.events import WEB, Bucket
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.privacy import Privacy

_NAMES: Final = ("id", "name", "client", "hostname")
_KEYS: Final = frozenset((*_NAMES, "type", "created", "last_updated", "data"))


class Catalogue:
    """All buckets that may be disclosed."""

    def __init__(self, found: Mapping[str, Any], privacy: Privacy) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._alike: Counter[str] = Counter()
        self.shown: dict[str, Any] = {}
        """Metadata of each bucket as ActivityWatch reports it, after the privacy rules."""
        for key, value in found.items():
            names = _names(value)
            verdict = privacy.of_watcher(key, names.get("client", ""), names.get("hostname", ""))
            if verdict == "dropped":
                continue
            told = self._free_name(privacy.name(key))
            self.shown[told] = _told(value, told, privacy)
            bucket = _read(key, value)
            bucket.is_masked = verdict == "masked"
            bucket.label = told
            bucket.apps = browser_apps(bucket) if bucket.type == WEB else frozenset()
            bucket.hostname = privacy.name(bucket.hostname)
            self._buckets[told] = bucket

    @property
    def buckets(self) -> list[Bucket]:
        return list(self._buckets.values())

    def bucket(self, name: str) -> Bucket:
        """Return the bucket with this name.

        Raises: BadRequest.
        """
        if name not in self._buckets:
            raise BadRequest(f"there is no bucket named {name[:80]!r}; there are {self._known()}")
        return self._buckets[name]

    def find(self, prefix: str, host: object = None) -> str:
        """Return the name of the first bucket, in alphabetical order, that begins with `prefix`.

        Raises: BadRequest.
        """
        for name, bucket in sorted(self._buckets.items()):
            if name.startswith(prefix) and host in (None, bucket.hostname):
                return name
        raise BadRequest(f"no bucket begins with {prefix[:80]!r}; there are {self._known()}")

    def _known(self) -> str:
        return ", ".join(sorted(self._buckets)[: limits.NAMED_IN_ERROR]) or "none"

    def _free_name(self, told: str) -> str:
        name = told
        while name in self.shown:
            self._alike[told] += 1
            name = f"{told} {self._alike[told] + 1}"
        return name


def _names(value: Any) -> dict[str, str]:
    given = value if isinstance(value, dict) else {}
    return {name: given[name] for name in _NAMES if isinstance(given.get(name), str)}


def _told(value: Any, told: str, privacy: Privacy) -> Any:
    if not isinstance(value, dict):
        return privacy.tree(value)
    names = {name: told if name == "id" else privacy.name(text) for name, text in _names(value).items()}
    return {
        key if key in _KEYS else privacy.word(key): names[key] if key in names else privacy.tree(item)
        for key, item in value.items()
    }


def _read(key: str, value: Any) -> Bucket:
    try:
        bucket = msgspec.convert({"id": key, **value} if isinstance(value, dict) else value, Bucket)
    except msgspec.ValidationError:
        return Bucket(key)  # a custom bucket of an unknown type
    bucket.id = key
    return bucket
