"""Replaces tool results that are too large to send with a preview and a link.

`Results` wraps each upstream of a hub in `Large`, which moves text and data of a large result into the spill, for its
caller only. Images, audio and links stay in the result, because models use them directly. `hubbub.hub.results` serves
the links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.hub.results import address_of, how_to_read, moment, offer_results, result_owner
from hubbub.hub.upstream import Upstream
from hubbub.ports import Peer
from hubbub.protocol.content import Audio, Image, ResourceLink, Text
from hubbub.protocol.meta_keys import RESULT, own_meta
from hubbub.protocol.model import Call, Note, RawReply, Reply
from hubbub.protocol.wire import ToolResult, UnionToolResult
from hubbub.server.server import Server
from hubbub.settings.hub import HubSettings
from hubbub.store.spill import Kept, Spill, whole_characters

_STAYS: Final = ("image", "audio", "resource_link")
_WRAPPER: Final = "result"
_SUCCEEDED: Final = (
    "The call has succeeded: do not repeat it. It is reported as an error only because its structured result is larger "
    "than a message may be ({limit} bytes), and the tool's output schema does not allow a part of it."
)
_PROTOCOL: Final = "io.modelcontextprotocol/"
_QUOTE: Final = ord('"')
_TRUE: Final = b"true"
_JSON_STARTS: Final = ("{", "[")
_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class Results:
    """The stored large results of one hub."""

    def __init__(self, settings: Callable[[], HubSettings]) -> None:
        """`settings` is called at each use, because a hub may change them while it runs."""
        self._settings = settings
        self.spill = Spill()

    def around(self, upstream: Upstream) -> Peer:
        """Wrap an upstream so that none of its tool results is too large."""

        def promises(tool: str) -> bool:
            return self._settings().output_schemas and upstream.snapshot.promises_data(tool)  # both may change later

        return Large(
            upstream,
            self.spill,
            limit=lambda: self._settings().result_bytes,
            promises=promises,
            before_keeping=self._follow_settings,
        )

    def offer(self, front: Server) -> None:
        """Register the tool and the resource that read stored results."""
        offer_results(front, self.spill)

    def close(self) -> None:
        """Delete all stored results."""
        self.spill.close()

    def _follow_settings(self) -> None:
        settings = self._settings()
        self.spill.total_bytes, self.spill.lifetime_s = settings.result_total_bytes, settings.result_ttl_s


class Large:
    """Wraps a peer and limits the size of its tool results."""

    def __init__(
        self,
        peer: Peer,
        spill: Spill,
        *,
        limit: Callable[[], int],
        promises: Callable[[str], bool],
        before_keeping: Callable[[], None] = lambda: None,
    ) -> None:
        self._peer = peer
        self._spill = spill
        self._limit = limit
        """In bytes of JSON; 0: no limit."""
        self._promises = promises
        """Whether a tool of the upstream is listed with an output schema."""
        self._before_keeping = before_keeping

    async def request(self, call: Call) -> Reply:
        """Forward a call; replace a tool result that is too large with a preview and a link."""
        reply = await self._peer.request(call)
        if call.method != "tools/call":
            return reply
        limit = self._limit()
        if limit == 0 or size_of(reply) <= limit:
            return reply
        self._before_keeping()
        return await asyncio.to_thread(self._shortened, reply, call, limit)

    async def notify(self, note: Note) -> None:
        await self._peer.notify(note)

    def _shortened(self, reply: Reply, call: Call, limit: int) -> Reply:
        result = _read(reply)
        if result is None or result.moved_bytes <= limit:
            return reply
        data, media_type = result.document()
        kept = self._spill.keep(result_owner(call.caller), data, media_type)
        tool: str = call.params.name
        is_promised = result.structured is not None and not result.is_error and self._promises(tool)
        told = _told(result, kept, len(data))
        if is_promised and _is_unsendable(result.structured):
            told = f"{_SUCCEEDED.format(limit=bounds.MESSAGE_BYTES)}\n\n{told}"
        content: list[Any] = [Text(told)]
        meta: dict[str, Any] = dict(result.meta)
        if kept is not None:
            place = {"uri": address_of(kept), "size": kept.size, "expiresAt": moment(kept.expires_at)}
            meta |= own_meta(RESULT, place)
            link = ResourceLink(address_of(kept), f"Result of {tool}", mime_type=media_type, size=kept.size)
            content.append(link)
        content += result.staying
        is_union = isinstance(reply, RawReply | ToolResult) and reply.wraps
        short = (UnionToolResult if is_union else ToolResult)(content=content, meta=meta or UNSET)
        short.is_error = result.is_error or UNSET
        if is_promised and result.structured is not None:
            _keep_promise(short, result.structured, told)
        return short


class _Result(msgspec.Struct):
    """A tool result, decoded only as far as needed."""

    members: dict[str, Raw]
    whole: Raw | bytes
    texts: list[str]
    staying: list[Raw]
    """Blocks that are sent to the caller unchanged."""
    moved: int
    """Number of the other blocks."""

    @property
    def moved_bytes(self) -> int:
        return len(self.whole) - sum(map(len, self.staying))

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
        return {key: value for key, value in _decode_members(meta).items() if not key.startswith(_PROTOCOL)}

    @property
    def is_text(self) -> bool:
        """Whether it is a single text without structured content, or with the same text as structured content."""
        if self.staying or not self.moved == len(self.texts) == 1:
            return False
        return self.structured is None or self.texts[0] == _text_in(self.structured)

    def document(self) -> tuple[bytes, str]:
        """The document to store, in the simplest form that loses nothing: text, data, or the whole result."""
        if self.is_text:
            return self.texts[0].encode(errors="replace"), "text/plain"
        says_the_same = self.moved == 0 or (self.moved == len(self.texts) == 1 and _looks_like_json(self.texts[0]))
        if self.structured is not None and says_the_same and not self.staying:
            return bytes(self.structured), "application/json"
        return bytes(self.whole), "application/json"


class _Block(msgspec.Struct):
    type: str = ""
    text: str | UnsetType = UNSET


_decode_block = msgspec.json.Decoder(_Block).decode


def size_of(reply: Reply) -> int:
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


def _read(reply: Reply) -> _Result | None:
    """Parse a tool result; None for other replies, such as `input_required`."""
    whole = reply.body if isinstance(reply, RawReply) else _encode(reply)
    try:
        members = _decode_members(whole)
        if "content" not in members and "structuredContent" not in members:
            return None
        blocks = _decode_list(members.get("content", b"[]"))
        found = [_decode_block(block) for block in blocks]
    except (msgspec.DecodeError, RecursionError):
        return None  # not judged here: forwarded unchanged
    staying = [raw for raw, block in zip(blocks, found, strict=True) if block.type in _STAYS]
    if sum(map(len, staying)) > bounds.INLINE_BYTES:
        staying = []
    texts = [block.text for block in found if block.type == "text" and block.text is not UNSET]
    return _Result(members, whole, texts, staying, len(blocks) - len(staying))


def _told(result: _Result, kept: Kept | None, size: int) -> str:
    preview = _preview(result)
    if kept is None:
        rest = "It is too large to be kept: ask for less."
    else:
        rest = f"All of it can be read {how_to_read(kept, len(preview) if result.is_text else 0)}."
    return f"[The result has {size} bytes; these are the first {len(preview)}. {rest}]\n\n{preview.decode()}"


def _preview(result: _Result) -> bytes:
    texts = [text for text in result.texts if text.strip()]
    data = texts[0].encode(errors="replace") if texts else bytes(result.structured or b"")
    return whole_characters(data, bounds.PREVIEW_BYTES)


def _keep_promise(short: ToolResult, structured: Raw, told: str) -> None:
    """Add structured content that fits the tool's output schema, because clients refuse a success without it.

    A schema for text accepts the preview. Other data stays complete as long as it fits into a message; beyond that the
    result is marked as an error, which needs no structured content.
    """
    if _text_in(structured) is not None:
        short.structured_content = told if memoryview(structured)[0] == _QUOTE else {_WRAPPER: told}
    elif _is_unsendable(structured):
        short.is_error = True
    else:
        short.structured_content = structured


def _is_unsendable(structured: Raw | None) -> bool:
    """Whether structured content is too large for any message and cannot be cut, as text can."""
    return structured is not None and len(structured) > bounds.MESSAGE_BYTES and _text_in(structured) is None


def _text_in(structured: Raw) -> str | None:
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
