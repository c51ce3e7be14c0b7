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

_NAME_KEYS: Final = ("id", "name", "client", "hostname")
_KNOWN_KEYS: Final = frozenset((*_NAME_KEYS, "type", "created", "last_updated", "data"))


class BucketIndex:
    """All buckets that may be disclosed."""

    def __init__(self, found: Mapping[str, Any], privacy: Privacy) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._duplicates: Counter[str] = Counter()
        self.metadata: dict[str, Any] = {}
        """Metadata of each bucket as ActivityWatch reports it, after the privacy rules."""
        for key, value in found.items():
            names = _read_names(value)
            verdict = privacy.watcher_verdict(key, names.get("client", ""), names.get("hostname", ""))
            if verdict == "dropped":
                continue
            label_text = self._make_unique(privacy.mask_name(key))
            self.metadata[label_text] = _filter_metadata(value, label_text, privacy)
            bucket = _read_bucket(key, value)
            bucket.is_masked = verdict == "masked"
            bucket.label = label_text
            bucket.apps = browser_apps(bucket) if bucket.type == WEB else frozenset()
            bucket.hostname = privacy.mask_name(bucket.hostname)
            self._buckets[label_text] = bucket

    @property
    def buckets(self) -> list[Bucket]:
        return list(self._buckets.values())

    def bucket(self, name: str) -> Bucket:
        """Return the bucket with this name.

        Raises: BadRequest.
        """
        if name not in self._buckets:
            raise BadRequest(f"unknown bucket {name[:80]!r}; known buckets: {self._list_names()}")
        return self._buckets[name]

    def find_bucket(self, prefix: str, host: object = None) -> str:
        """Return the name of the first bucket, in alphabetical order, that begins with `prefix`.

        Raises: BadRequest.
        """
        for name, bucket in sorted(self._buckets.items()):
            if name.startswith(prefix) and host in (None, bucket.hostname):
                return name
        raise BadRequest(f"no bucket begins with {prefix[:80]!r}; known buckets: {self._list_names()}")

    def _list_names(self) -> str:
        return ", ".join(sorted(self._buckets)[: limits.NAMES_IN_ERROR]) or "none"

    def _make_unique(self, label_text: str) -> str:
        name = label_text
        while name in self.metadata:
            self._duplicates[label_text] += 1
            name = f"{label_text} {self._duplicates[label_text] + 1}"
        return name


def _read_names(value: Any) -> dict[str, str]:
    fields = value if isinstance(value, dict) else {}
    return {name: fields[name] for name in _NAME_KEYS if isinstance(fields.get(name), str)}


def _filter_metadata(value: Any, label_text: str, privacy: Privacy) -> Any:
    if not isinstance(value, dict):
        return privacy.filter_value(value)
    names = {name: label_text if name == "id" else privacy.mask_name(text) for name, text in _read_names(value).items()}
    return {
        key if key in _KNOWN_KEYS else privacy.mask_title(key): names[key]
        if key in names
        else privacy.filter_value(item)
        for key, item in value.items()
    }


def _read_bucket(key: str, value: Any) -> Bucket:
    try:
        bucket = msgspec.convert({"id": key, **value} if isinstance(value, dict) else value, Bucket)
    except msgspec.ValidationError:
        return Bucket(key)  # a custom bucket of an unknown type
    bucket.id = key
    return bucket
