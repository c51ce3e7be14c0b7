"""Replaces tool results that are too large to send with a preview and a link.

`ResultOffload` wraps each upstream of a hub in `OffloadingPeer`, which moves text and data of a large result into the
spill, for its caller only. Images, audio and links stay in the result, because models use them directly.
`hubbub.hub.stored_results` serves the links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.governance.decision import Target
from hubbub.hub.stored_results import (
    MayRead,
    format_time,
    read_instructions,
    register_result_readers,
    result_owner,
    result_uri,
)
from hubbub.hub.upstream import Upstream
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Notification, RawReply, Reply
from hubbub.protocol.content import Audio, Image, ResourceLink, Text
from hubbub.protocol.meta_keys import RESULT, own_meta
from hubbub.protocol.results import ToolResult, UnionToolResult
from hubbub.server.server import Server
from hubbub.settings.hub import HubSettings
from hubbub.store.spill import PieceInfo, Spill, cut_utf8

_INLINE_TYPES: Final = ("image", "audio", "resource_link")
_WRAPPER: Final = "result"
_SUCCEEDED_NOTE: Final = (
    "The call succeeded: do not repeat it. It is reported as an error only because its structured result is larger "
    "than the largest message ({limit} bytes), and the tool's output schema does not allow a part of it."
)
_PROTOCOL_PREFIX: Final = "io.modelcontextprotocol/"
_QUOTE: Final = ord('"')
_TRUE: Final = b"true"
_JSON_STARTS: Final = ("{", "[")
_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class ResultOffload:
    """The stored large results of one hub."""

    def __init__(self, settings: Callable[[], HubSettings]) -> None:
        """`settings` is called at each use, because a hub may change them while it runs."""
        self._settings = settings
        self.spill = Spill()

    def wrap(self, upstream: Upstream, peer: Peer | None = None) -> Peer:
        """Wrap an upstream, or the peer around it, so that none of its tool results is too large."""

        def has_output_schema(tool: str) -> bool:
            # Asked at each call, because the settings and the snapshot may change.
            return self._settings().output_schemas and upstream.snapshot.has_output_schema(tool)

        def find_target(tool: str) -> Target:
            entry = next((entry for entry in upstream.snapshot.tools if entry.name == tool), None)
            return Target("tool", upstream.id, tool, None if entry is None else entry.annotations)

        return OffloadingPeer(
            upstream if peer is None else peer,
            self.spill,
            limit=lambda: self._settings().result_bytes,
            has_output_schema=has_output_schema,
            before_store=self._apply_settings,
            find_target=find_target,
        )

    def register(self, front: Server, may_read: MayRead) -> None:
        """Register the tool and the resource that read stored results; `may_read` decides by the tool of each."""
        register_result_readers(front, self.spill, may_read)

    def close(self) -> None:
        """Delete all stored results."""
        self.spill.close()

    def _apply_settings(self) -> None:
        settings = self._settings()
        self.spill.total_bytes, self.spill.lifetime_s = settings.result_total_bytes, settings.result_ttl_s


class OffloadingPeer:
    """Wraps a peer and limits the size of its tool results."""

    def __init__(
        self,
        peer: Peer,
        spill: Spill,
        *,
        limit: Callable[[], int],
        has_output_schema: Callable[[str], bool],
        before_store: Callable[[], None] = lambda: None,
        find_target: Callable[[str], Target | None] = lambda tool: None,
    ) -> None:
        self._peer = peer
        self._spill = spill
        self._limit = limit
        """In bytes of JSON; 0: no limit."""
        self._has_output_schema = has_output_schema
        """Whether a tool of the upstream is listed with an output schema."""
        self._before_store = before_store
        self._find_target = find_target
        """Returns a tool of the upstream, as policies see it."""

    async def request(self, call: Call) -> Reply:
        """Forward a call; replace a tool result that is too large with a preview and a link."""
        reply = await self._peer.request(call)
        if call.method != "tools/call":
            return reply
        limit = self._limit()
        if limit == 0 or estimate_size(reply) <= limit:
            return reply
        self._before_store()
        return await asyncio.to_thread(self._offload, reply, call, limit)

    async def notify(self, note: Notification) -> None:
        await self._peer.notify(note)

    def _offload(self, reply: Reply, call: Call, limit: int) -> Reply:
        result = _parse_result(reply)
        if result is None or result.moved_bytes <= limit:
            return reply
        data, media_type = result.document()
        tool: str = call.params.name
        stored = self._spill.store(result_owner(call.caller), data, media_type, self._find_target(tool))
        needs_structured = result.structured is not None and not result.is_error and self._has_output_schema(tool)
        summary = _format_summary(result, stored, len(data))
        if needs_structured and _is_unsendable(result.structured):
            summary = f"{_SUCCEEDED_NOTE.format(limit=bounds.MESSAGE_BYTES)}\n\n{summary}"
        content: list[Any] = [Text(summary)]
        meta: dict[str, Any] = dict(result.meta)
        if stored is not None:
            location = {"uri": result_uri(stored), "size": stored.size, "expiresAt": format_time(stored.expires_at)}
            meta |= own_meta(RESULT, location)
            link = ResourceLink(result_uri(stored), f"Result of {tool}", mime_type=media_type, size=stored.size)
            content.append(link)
        content += result.inline_blocks
        is_union = isinstance(reply, RawReply | ToolResult) and reply.wraps
        short = (UnionToolResult if is_union else ToolResult)(content=content, meta=meta or UNSET)
        short.is_error = result.is_error or UNSET
        if needs_structured and result.structured is not None:
            _fit_output_schema(short, result.structured, summary)
        return short


class _Result(msgspec.Struct):
    """A tool result, decoded only as far as needed."""

    members: dict[str, Raw]
    raw_result: Raw | bytes
    texts: list[str]
    inline_blocks: list[Raw]
    """Blocks that are sent to the caller unchanged."""
    moved_count: int
    """Number of the other blocks."""

    @property
    def moved_bytes(self) -> int:
        return len(self.raw_result) - sum(map(len, self.inline_blocks))

    @property
    def structured(self) -> Raw | None:
        return self.members.get("structuredContent")

    @property
    def is_error(self) -> bool:
        return bytes(self.members.get("isError", b"")) == _TRUE

    @property
    def meta(self) -> dict[str, Raw]:
        """The `_meta` of the result, without the protocol's own keys, which `shape` adds again."""
        meta = self.members.get("_meta")
        if meta is None or len(meta) > bounds.PREVIEW_BYTES:
            return {}
        return {key: value for key, value in _decode_members(meta).items() if not key.startswith(_PROTOCOL_PREFIX)}

    @property
    def is_text(self) -> bool:
        """Whether it is a single text without structured content, or with the same text as structured content."""
        if self.inline_blocks or not self.moved_count == len(self.texts) == 1:
            return False
        return self.structured is None or self.texts[0] == _decode_text_value(self.structured)

    def document(self) -> tuple[bytes, str]:
        """The document to store, in the simplest form that loses nothing: text, data, or the whole result."""
        if self.is_text:
            return self.texts[0].encode(errors="replace"), "text/plain"
        repeats_data = self.moved_count == 0 or (
            self.moved_count == len(self.texts) == 1 and _looks_like_json(self.texts[0])
        )
        if self.structured is not None and repeats_data and not self.inline_blocks:
            return bytes(self.structured), "application/json"
        return bytes(self.raw_result), "application/json"


class _Block(msgspec.Struct):
    type: str = ""
    text: str | UnsetType = UNSET


_decode_block = msgspec.json.Decoder(_Block).decode


def estimate_size(reply: Reply) -> int:
    """Estimate the size of a result in bytes; must be cheap for forwarded results."""
    if isinstance(reply, RawReply):
        return len(reply.body)
    if not isinstance(reply, ToolResult):
        return 0
    size = 0
    if reply.structured_content is not UNSET:
        if not isinstance(reply.structured_content, Raw):
            reply.structured_content = Raw(_encode(reply.structured_content))  # as `shape` would
        size = len(reply.structured_content)
    for block in () if reply.content is UNSET else reply.content:
        if isinstance(block, Text):
            size += len(block.text)
        elif isinstance(block, Image | Audio):
            size += len(block.data) * 4 // 3
        else:
            size += len(_encode(block))
    return size


def _parse_result(reply: Reply) -> _Result | None:
    """Parse a tool result; None for other replies, such as `input_required`."""
    raw_result = reply.body if isinstance(reply, RawReply) else _encode(reply)
    try:
        members = _decode_members(raw_result)
        if "content" not in members and "structuredContent" not in members:
            return None
        blocks = _decode_list(members.get("content", b"[]"))
        found = [_decode_block(block) for block in blocks]
    except (msgspec.DecodeError, RecursionError):
        return None  # not judged here: forwarded unchanged
    inline_blocks = [raw for raw, block in zip(blocks, found, strict=True) if block.type in _INLINE_TYPES]
    if sum(map(len, inline_blocks)) > bounds.INLINE_BYTES:
        inline_blocks = []
    texts = [block.text for block in found if block.type == "text" and block.text is not UNSET]
    return _Result(members, raw_result, texts, inline_blocks, len(blocks) - len(inline_blocks))


def _format_summary(result: _Result, stored: PieceInfo | None, size: int) -> str:
    preview = _preview(result)
    if stored is None:
        rest = "It is too large to be stored: ask for less."
    else:
        rest = f"All of it can be read {read_instructions(stored, len(preview) if result.is_text else 0)}."
    return f"[The result has {size} bytes; these are the first {len(preview)}. {rest}]\n\n{preview.decode()}"


def _preview(result: _Result) -> bytes:
    texts = [text for text in result.texts if text.strip()]
    data = texts[0].encode(errors="replace") if texts else bytes(result.structured or b"")
    return cut_utf8(data, bounds.PREVIEW_BYTES)


def _fit_output_schema(short: ToolResult, structured: Raw, summary: str) -> None:
    """Add structured content that fits the tool's output schema, because clients refuse a success without it.

    A schema for text accepts the preview. Other data stays complete as long as it fits into a message; beyond that the
    result is marked as an error, which needs no structured content.
    """
    if _decode_text_value(structured) is not None:
        short.structured_content = summary if memoryview(structured)[0] == _QUOTE else {_WRAPPER: summary}
    elif _is_unsendable(structured):
        short.is_error = True
    else:
        short.structured_content = structured


def _is_unsendable(structured: Raw | None) -> bool:
    """Whether structured content is too large for any message and cannot be cut, as text can."""
    return structured is not None and len(structured) > bounds.MESSAGE_BYTES and _decode_text_value(structured) is None


def _decode_text_value(structured: Raw) -> str | None:
    """The text of `"text"`, or of `{"result": "text"}`, its form in revisions that allow objects only."""
    try:
        if memoryview(structured)[0] != _QUOTE:
            members = _decode_members(structured)
            if list(members) != [_WRAPPER]:
                return None
            structured = members[_WRAPPER]
        return _decode_text(structured)
    except msgspec.DecodeError:
        return None


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in _JSON_STARTS
