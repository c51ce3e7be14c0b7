"""The file tools: send, resume, list, read, save and cancel transfers."""

import base64
import codecs
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from hubbub import ArgumentsInvalid, Context, Server, ToolError
from hubbub.packs.peers import limits
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.contract_tool import (
    ACTS,
    DESTROYS,
    READS,
    SESSION,
    TARGET,
    ContractTool,
    Fields,
    Result,
    boolean,
    integer,
    string,
)
from hubbub.packs.peers.files.allowed_folders import allowed_folders
from hubbub.packs.peers.files.options import USUAL_MIME, Sending
from hubbub.packs.peers.sessions import Sessions

_ID: Final[Fields] = {"transfer_id": string("The transfer's id.")}
_HOW: Final[Fields] = {
    "ack_timeout_ms": {"type": "integer", "description": "How long a part may go unconfirmed.", "minimum": 1},
    "max_retries": {"type": "integer", "description": "How often a part is tried again.", "minimum": 0},
}
_SENDING: Final[Fields] = {
    "name": string("The file's name as the other end sees it."),
    "mime": string("Its media type.", default=USUAL_MIME),
    **TARGET,
    "transfer_id": string("An id for the transfer; one is made up if left out."),
    "chunk_bytes": {"type": "integer", "description": "Size of the parts.", "minimum": 1024, "maximum": 262_144},
    "timeout_ms": {
        "type": "integer",
        "description": "Give up if no further part is confirmed for so long.",
        "minimum": 1,
    },
    **_HOW,
}
_SEND: Final[Fields] = {**SESSION, "data_base64": string("What to send, as base64."), **_SENDING}
_SEND_PATH: Final[Fields] = {
    **SESSION,
    "file_path": string("The file to send; it must be below one of the folders that files may be read from."),
    **_SENDING,
}
_RESUME: Final[Fields] = {
    **SESSION,
    **_ID,
    "target": {**TARGET["target"], "description": "Another peer, or the same under another name."},
    "start_seq": {"type": "integer", "description": "Send again from this part on, if it was sent.", "minimum": 0},
    **_HOW,
}
_DIRECTIONS: Final = ("incoming", "outgoing", "all")
_ENCODINGS: Final = ("base64", "utf8", "json")
_RECEIVE: Final[Fields] = {
    **SESSION,
    **_ID,
    "encoding": string("How to give the content.", enum=list(_ENCODINGS), default="base64"),
    "offset": integer("The first byte to read.", 0, limits.FILE_MAX_BYTES_CAP, 0),
    "length": {
        "type": "integer",
        "description": "How many bytes to read at most. Default: the whole file, if it has at most 1 MiB.",
        "minimum": 1,
        "maximum": limits.FILE_ANSWER_BYTES,
    },
}
_SAVE: Final[Fields] = {
    **SESSION,
    **_ID,
    "output_path": string("Where to write it; below one of the folders that files may be written to."),
    "overwrite": boolean("Whether it may take the place of another file.", False),
}
_CHARACTER_BYTES: Final = 4
"""Longest character in UTF-8: a piece of text holds at least one, so that reading in pieces makes progress."""
_NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"))
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def shown_folders(configured: Sequence[str]) -> dict[str, Any]:
    """Return which folders files are read from and written to, for the result of `vdo_capabilities`."""
    folders = allowed_folders(configured)
    return {"folders": folders.paths, "relative_to": folders.base, "receive_max_bytes": limits.FILE_ANSWER_BYTES}


def register_file_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""
    _register_sending(server, sessions)
    _register_looking(server, sessions)
    _register_taking(server, sessions)


def _register_sending(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_file_send", _SEND, ("session_id", "data_base64"), ACTS).with_context_on(server)
    async def file_send(arguments: Arguments, context: Context) -> Result:
        """Send bytes to a peer as a file. Answers when the peer has all of it, and its hash is right."""
        session = sessions.of(arguments)
        data = _decoded(arguments.needed_text("data_base64"))
        transfer = await session.files.send_data(data, _sending(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}

    @ContractTool("vdo_file_send_path", _SEND_PATH, ("session_id", "file_path"), ACTS).with_context_on(server)
    async def file_send_path(arguments: Arguments, context: Context) -> Result:
        """Send a file to a peer. Answers when the peer has all of it, and its hash is right."""
        session = sessions.of(arguments)
        path = arguments.needed_text("file_path")
        transfer = await session.files.send_path(path, _sending(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}

    @ContractTool("vdo_file_resume", _RESUME, ("session_id", "transfer_id"), ACTS).with_context_on(server)
    async def file_resume(arguments: Arguments, context: Context) -> Result:
        """Go on with a file that was not sent to its end, where the peer says it is."""
        session = sessions.of(arguments)
        transfer_id = arguments.needed_text("transfer_id")
        transfer = await session.files.resume(transfer_id, _sending(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}


def _register_looking(server: Server, sessions: Sessions) -> None:
    fields = {**SESSION, "direction": string("Which ones.", enum=list(_DIRECTIONS), default="all")}

    @ContractTool("vdo_file_transfers", fields, ("session_id",), READS).on(server)
    async def file_transfers(arguments: Arguments) -> Result:
        """List the files that come and go: how far they are, and what went wrong."""
        session = sessions.of(arguments)
        direction = arguments.choice("direction", _DIRECTIONS, "all")
        incoming = [] if direction == "outgoing" else [each.summary() for each in session.files.incoming]
        outgoing = [] if direction == "incoming" else [each.summary() for each in session.files.outgoing]
        return {
            "ok": True,
            "session_id": session.id,
            "direction": direction,
            "incoming_count": len(incoming),
            "outgoing_count": len(outgoing),
            "incoming": incoming,
            "outgoing": outgoing,
        }


def _register_taking(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_file_receive", _RECEIVE, ("session_id", "transfer_id"), READS).on(server)
    async def file_receive(arguments: Arguments) -> Result:
        """Read a received file; one above 1 MiB in pieces: pass offset 0, then each next_offset until it is null."""
        session = sessions.of(arguments)
        transfer = session.files.received(arguments.needed_text("transfer_id"))
        encoding = arguments.text("encoding") or "base64"
        total = transfer.layout.total_bytes
        start, end = _piece(arguments, total, least=_CHARACTER_BYTES if encoding in ("utf8", "text") else 1)
        if encoding == "json" and end - start < total:
            raise ToolError("json needs the whole file: read pieces as base64 or utf8, or use vdo_file_save")
        encoded, size = _encoded(await session.files.read(transfer, start, end), encoding, is_end=end == total)
        return {
            "ok": True,
            "session_id": session.id,
            "transfer_id": transfer.transfer_id,
            "transfer": transfer.summary(),
            "encoding": encoding,
            **encoded,
            "offset": start,
            "length": size,
            "next_offset": start + size if start + size < total else None,
        }

    @ContractTool("vdo_file_save", _SAVE, ("session_id", "transfer_id", "output_path"), DESTROYS).on(server)
    async def file_save(arguments: Arguments) -> Result:
        """Write a file that came to disk."""
        session = sessions.of(arguments)
        transfer = session.files.received(arguments.needed_text("transfer_id"))
        wanted, overwrite = arguments.needed_text("output_path"), arguments.flag("overwrite", False)
        path, written = await session.files.save(transfer, wanted, overwrite=overwrite)
        return {
            "ok": True,
            "session_id": session.id,
            "transfer_id": transfer.transfer_id,
            "transfer": transfer.summary(),
            "output_path": path,
            "bytes_written": written,
        }

    @ContractTool("vdo_file_cancel", {**SESSION, **_ID}, ("session_id", "transfer_id"), DESTROYS).on(server)
    async def file_cancel(arguments: Arguments) -> Result:
        """Stop a file that comes or goes, and tell the other end. What came of it is removed."""
        session = sessions.of(arguments)
        transfer = session.files.cancel(arguments.needed_text("transfer_id"))
        summary = transfer.summary()
        return {"ok": True, "session_id": session.id, "transfer_id": transfer.transfer_id, "transfer": summary}


def _sending(arguments: Arguments, context: Context) -> Sending:
    async def tell(done: int, total: int) -> None:
        await context.progress(done, total)

    def seconds(name: str, cap: int) -> float | None:
        found = arguments.count(name, 0, cap)
        return found / 1000 if found else None

    least, most = limits.FILE_CHUNK_LEAST, limits.FILE_CHUNK_MOST
    chunk_bytes = arguments.count("chunk_bytes", 0, most)
    retries = arguments.count("max_retries", -1, limits.FILE_RETRIES, least=0)
    start_seq = arguments.count("start_seq", -1, 2**53, least=0)
    return Sending(
        target=arguments.target().name,
        transfer_id=arguments.text("transfer_id") or None,
        name=arguments.text("name") or "",
        mime=arguments.text("mime") or USUAL_MIME,
        chunk_bytes=max(chunk_bytes, least) if chunk_bytes else None,
        timeout_s=seconds("timeout_ms", limits.FILE_TIMEOUT_MS),
        ack_timeout_s=seconds("ack_timeout_ms", limits.FILE_ACK_TIMEOUT_MS),
        max_retries=None if retries < 0 else retries,
        start_seq=None if start_seq < 0 else start_seq,
        tell=tell,
    )


def _decoded(text: str) -> bytes:
    """Decode base64 as leniently as the VDO.Ninja bridge: either alphabet, with or without padding."""
    head = text.partition("=")[0].encode("ascii", "ignore").translate(_URL_SAFE, _NOT_BASE64)
    whole = head[: len(head) - (len(head) % 4 == 1)]
    data = base64.b64decode(whole + b"=" * (-len(whole) % 4))
    if not data:
        raise ToolError("data_base64 decoded to empty payload")
    return data


def _piece(arguments: Arguments, total: int, least: int) -> tuple[int, int]:
    """Return the range to read: all of a small file, or what the caller asks for, but at least `least` bytes."""
    most = limits.FILE_ANSWER_BYTES
    if arguments["offset"] is None and arguments["length"] is None:
        if total > most:
            raise ToolError(
                f"{total} bytes are more than the {most} that fit into an answer; "
                "pass offset and length to read it in pieces, or use vdo_file_save"
            )
        return 0, total
    start = arguments.count("offset", 0, limits.FILE_MAX_BYTES_CAP, least=0)
    if start >= total:
        raise ArgumentsInvalid(f"invalid offset: {start} is not below the size of the file, {total} bytes")
    length = arguments.count("length", most, most)
    return start, min(start + max(length, least), total)


def _encoded(data: bytes, encoding: str, *, is_end: bool) -> tuple[Mapping[str, Any], int]:
    """Return the content and how many bytes it stands for: a piece of text ends between characters."""
    given: dict[str, Any] = {"data_base64": None, "data_text": None, "data_json": None}
    size = len(data)
    match encoding:
        case "base64":
            given["data_base64"] = base64.b64encode(data).decode()
        case "utf8" | "text":
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            given["data_text"] = decoder.decode(data, final=is_end)
            size -= len(decoder.getstate()[0])
        case "json":
            given["data_json"] = _json(data)
        case _:
            raise ToolError(f"unsupported encoding: {encoding[:40]}")
    return given, size


def _json(data: bytes) -> Any:
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ToolError("completed transfer payload is not valid JSON") from error
    if found is None:
        raise ToolError("completed transfer payload is not valid JSON")
    return found
