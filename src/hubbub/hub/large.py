"""Results of tools that are too large to send: a preview and a link instead.

`Large` is put around an upstream, by the `Results` of a hub. It moves text and data out of a result into the spill, for
its caller alone; pictures, sound and links stay, because models take them as they are.
Where the link leads is in `hubbub.hub.results`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.hub.results import address_of, how_to_read, moment, offer_results, owner_of
from hubbub.hub.upstream import Upstream
from hubbub.ports import Peer
from hubbub.protocol.content import Audio, Content, Image, ResourceLink, Text
from hubbub.protocol.model import Call, Note, RawReply, Reply
from hubbub.protocol.revisions import Revision
from hubbub.protocol.wire import ToolReply
from hubbub.server.server import Server
from hubbub.settings.hub import HubSettings
from hubbub.store.spill import Kept, Spill, whole_characters

META_KEY: Final = "hubbub/result"
_STAYS: Final = ("image", "audio", "resource_link")
_WRAPPER: Final = "result"
_PROTOCOL: Final = "io.modelcontextprotocol/"
_QUOTE: Final = ord('"')
_TRUE: Final = b"true"
_JSON_STARTS: Final = ("{", "[")
_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class Results:
    """What one hub keeps of results that were too large."""

    def __init__(self, settings: Callable[[], HubSettings]) -> None:
        """The settings are asked for whenever they matter: a hub may change them while it runs."""
        self._settings = settings
        self.spill = Spill()

    def around(self, upstream: Upstream) -> Peer:
        """The upstream, whose results are never too large."""

        def promises(tool: str) -> bool:
            return upstream.snapshot.promises_data(tool)  # of the snapshot as it is then

        return Large(
            upstream,
            self.spill,
            limit=lambda: self._settings().result_bytes,
            promises=promises,
            before_keeping=self._follow_settings,
        )

    def offer(self, front: Server) -> None:
        """Let a front give out the pages of what is kept."""
        offer_results(front, self.spill)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep them until the hub stops."""
        try:
            yield
        finally:
            self.spill.close()

    def _follow_settings(self) -> None:
        settings = self._settings()
        self.spill.total_bytes, self.spill.lifetime_s = settings.result_total_bytes, settings.result_ttl_s


class Large:
    """The same peer, with no result of a tool larger than a limit."""

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
        """In bytes of JSON; 0 lets everything pass."""
        self._promises = promises
        """Whether a tool, by its name here, is listed with an output schema."""
        self._before_keeping = before_keeping

    async def request(self, call: Call) -> Reply:
        """Answer, with a link in place of what is too large."""
        reply = await self._peer.request(call)
        if call.method != "tools/call":
            return reply
        limit = self._limit()
        if limit == 0 or size_of(reply) <= limit:
            return reply
        self._before_keeping()
        return await asyncio.to_thread(self._shortened, reply, call, limit)

    async def notify(self, note: Note) -> None:
        """Pass it on."""
        await self._peer.notify(note)

    def _shortened(self, reply: Reply, call: Call, limit: int) -> Reply:
        result = _read(reply)
        if result is None or result.moved_bytes <= limit:
            return reply
        data, media_type = result.document()
        kept = self._spill.keep(owner_of(call.caller), data, media_type)
        tool: str = call.params.name
        told = _told(result, kept, len(data))
        content: list[Any] = [Text(told)]
        meta: dict[str, Any] = dict(result.meta)
        if kept is not None:
            meta[META_KEY] = {"uri": address_of(kept), "size": kept.size, "expiresAt": moment(kept.expires_at)}
            link = ResourceLink(address_of(kept), f"Result of {tool}", mime_type=media_type, size=kept.size)
            content.append(link)
        content += _for_revision(result.staying, call.caller.revision)
        short = ToolReply(content=content, meta=meta or UNSET)
        short.is_error = result.is_error or UNSET
        if result.structured is not None and not result.is_error and self._promises(tool):
            wraps = isinstance(reply, RawReply) and reply.wraps and call.caller.revision.structured == "object"
            _keep_promise(short, result.structured, told, wraps=wraps)
        return short


class _Result(msgspec.Struct):
    """The result of a tool, taken apart as far as it must be."""

    members: dict[str, Raw]
    whole: Raw | bytes
    texts: list[str]
    staying: list[Raw]
    """Blocks that go to the caller as they are."""
    moved: int
    """Other blocks than those."""

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
        """What else the server said, but for what every server says of itself, which is shaped anew."""
        meta = self.members.get("_meta")
        if meta is None or len(meta) > bounds.PREVIEW_BYTES:
            return {}
        return {key: value for key, value in _decode_members(meta).items() if not key.startswith(_PROTOCOL)}

    @property
    def is_text(self) -> bool:
        """Whether it is one text and nothing else, as data at most that text again."""
        if self.staying or not self.moved == len(self.texts) == 1:
            return False
        return self.structured is None or self.texts[0] == _text_in(self.structured)

    def document(self) -> tuple[bytes, str]:
        """What is kept, in the form that is easiest to read without losing anything: text, data, or all of it."""
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
    """About how many bytes a result takes; must cost nothing for one that only passes through."""
    if isinstance(reply, RawReply):
        return len(reply.body)
    if not isinstance(reply, ToolReply):
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
    """None for what is no result of a tool, such as a question back."""
    whole = reply.body if isinstance(reply, RawReply) else _encode(reply)
    try:
        members = _decode_members(whole)
        if "content" not in members and "structuredContent" not in members:
            return None
        blocks = _decode_list(members.get("content", b"[]"))
        found = [_decode_block(block) for block in blocks]
    except (msgspec.DecodeError, RecursionError):
        return None  # whoever passes it on will have an opinion
    staying = [raw for raw, block in zip(blocks, found, strict=True) if block.type in _STAYS]
    if sum(map(len, staying)) > bounds.INLINE_BYTES:
        staying = []
    texts = [block.text for block in found if block.type == "text" and block.text is not UNSET]
    return _Result(members, whole, texts, staying, len(blocks) - len(staying))


def _for_revision(blocks: list[Raw], revision: Revision) -> list[Any]:
    """Blocks as they came; decoded for the revisions that must get them in other words."""
    return list(blocks) if revision.resource_links else [msgspec.json.decode(raw, type=Content) for raw in blocks]


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


def _keep_promise(short: ToolReply, structured: Raw, told: str, *, wraps: bool) -> None:
    """Clients refuse a success without the data that the tool's schema promises.

    A text is promised as any text, so the preview will do. Other data stay whole as long as they can
    be sent at all; beyond that the call fails in so many words, which no schema forbids.
    """
    if _text_in(structured) is not None:
        short.structured_content = told if memoryview(structured)[0] == _QUOTE else {_WRAPPER: told}
    elif len(structured) <= bounds.MESSAGE_BYTES:
        short.structured_content = {_WRAPPER: structured} if wraps else structured
    else:
        short.is_error = True


def _text_in(structured: Raw) -> str | None:
    """The text of `"text"`, or of `{"result": "text"}`, its form in revisions that know objects only."""
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
