"""What tools return and resources hold: text, images, audio, embedded and linked resources.

The same structs are what handlers return and what goes on the wire; bytes
become base64 when they are encoded.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType


class Annotations(msgspec.Struct, rename="camel"):
    """Hints to the client: for whom content is, how important, how old."""

    audience: list[str] | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class _Content(msgspec.Struct, tag_field="type", rename="camel", kw_only=True):
    annotations: Annotations | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Text(_Content, tag="text", kw_only=False):
    """Plain text."""

    text: str


class Image(_Content, tag="image", kw_only=False):
    """An image; `data` is the file's bytes."""

    data: bytes
    mime_type: str = "image/png"

    def __post_init__(self) -> None:
        _require_mime_type(self.mime_type)


class Audio(_Content, tag="audio", kw_only=False):
    """Sound; `data` is the file's bytes."""

    data: bytes
    mime_type: str = "audio/wav"

    def __post_init__(self) -> None:
        _require_mime_type(self.mime_type)


class ResourceContents(msgspec.Struct, rename="camel"):
    """The contents of one resource: `text` or `blob`."""

    uri: str
    mime_type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    blob: bytes | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class EmbeddedResource(_Content, tag="resource", kw_only=False):
    """A resource whose contents travel inside the result."""

    resource: ResourceContents


class ResourceLink(_Content, tag="resource_link", kw_only=False):
    """A resource that the client may read if it wants to."""

    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET


Content: TypeAlias = Text | Image | Audio | EmbeddedResource | ResourceLink
CONTENT_TYPES = (Text, Image, Audio, EmbeddedResource, ResourceLink)


def _require_mime_type(mime_type: str) -> None:
    if "/" not in mime_type:
        raise ValueError(f"{mime_type!r} is not a MIME type; write for example 'image/png'")
