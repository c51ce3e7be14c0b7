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
    DESTRUCTIVE,
    NON_DESTRUCTIVE,
    READ_ONLY,
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
from hubbub.packs.peers.files.options import DEFAULT_MIME, SendRequest
from hubbub.packs.peers.sessions import Sessions

_TRANSFER_ID_FIELD: Final[Fields] = {"transfer_id": string("The transfer's id.")}
_RETRY_FIELDS: Final[Fields] = {
    "ack_timeout_ms": {
        "type": "integer",
        "description": "How long to wait for the acknowledgement of a chunk.",
        "minimum": 1,
    },
    "max_retries": {"type": "integer", "description": "How often a chunk is retried.", "minimum": 0},
}
_TRANSFER_FIELDS: Final[Fields] = {
    "name": string("The file name that the other end sees."),
    "mime": string("Its media type.", default=DEFAULT_MIME),
    **TARGET,
    "transfer_id": string("An id for the transfer; generated if left out."),
    "chunk_bytes": {
        "type": "integer",
        "description": "Size of the chunks in bytes.",
        "minimum": 1024,
        "maximum": 262_144,
    },
    "timeout_ms": {
        "type": "integer",
        "description": "Give up if no further chunk is acknowledged for this long.",
        "minimum": 1,
    },
    **_RETRY_FIELDS,
}
_SEND: Final[Fields] = {**SESSION, "data_base64": string("The data to send, as base64."), **_TRANSFER_FIELDS}
_SEND_PATH: Final[Fields] = {
    **SESSION,
    "file_path": string("The file to send; it must be below a folder that vdo_capabilities lists in files.folders."),
    **_TRANSFER_FIELDS,
}
_RESUME: Final[Fields] = {
    **SESSION,
    **_TRANSFER_ID_FIELD,
    "target": {**TARGET["target"], "description": "The peer to resume with, if its stream id or uuid has changed."},
    "start_seq": {"type": "integer", "description": "Resend from this chunk on, if it was sent before.", "minimum": 0},
    **_RETRY_FIELDS,
}
_DIRECTIONS: Final = ("incoming", "outgoing", "all")
_ENCODINGS: Final = ("base64", "utf8", "json")
_RECEIVE: Final[Fields] = {
    **SESSION,
    **_TRANSFER_ID_FIELD,
    "encoding": string("Encoding of the content in the result.", enum=list(_ENCODINGS), default="base64"),
    "offset": integer("The first byte to read.", 0, limits.FILE_MAX_BYTES_CAP, 0),
    "length": {
        "type": "integer",
        "description": "Maximum number of bytes to read. Default: the whole file, if it has at most 1 MiB.",
        "minimum": 1,
        "maximum": limits.FILE_ANSWER_BYTES,
    },
}
_SAVE: Final[Fields] = {
    **SESSION,
    **_TRANSFER_ID_FIELD,
    "output_path": string("The file to write; it must be below a folder that vdo_capabilities lists in files.folders."),
    "overwrite": boolean("Replace an existing file.", False),
}
_MAX_CHARACTER_BYTES: Final = 4
"""Longest character in UTF-8: a piece of text holds at least one, so that reading in pieces makes progress."""
_NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"))
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def describe_folders(configured: Sequence[str]) -> dict[str, Any]:
    """Return which folders files are read from and written to, for the result of `vdo_capabilities`."""
    folders = allowed_folders(configured)
    return {"folders": folders.paths, "relative_to": folders.base, "receive_max_bytes": limits.FILE_ANSWER_BYTES}


def register_file_tools(server: Server, sessions: Sessions) -> None:
    """Register the tools in the order of the contract."""
    _register_sending(server, sessions)
    _register_listing(server, sessions)
    _register_receiving(server, sessions)


def _register_sending(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_file_send", _SEND, ("session_id", "data_base64"), NON_DESTRUCTIVE).register_with_context(server)
    async def file_send(arguments: Arguments, context: Context) -> Result:
        """Send bytes to a peer as a file. Returns when the peer has all of it and has verified its hash."""
        session = sessions.get(arguments)
        data = _decode_base64(arguments.required_text("data_base64"))
        transfer = await session.files.send_data(data, _read_send_request(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}

    @ContractTool("vdo_file_send_path", _SEND_PATH, ("session_id", "file_path"), NON_DESTRUCTIVE).register_with_context(
        server
    )
    async def file_send_path(arguments: Arguments, context: Context) -> Result:
        """Send a file to a peer. Returns when the peer has all of it and has verified its hash."""
        session = sessions.get(arguments)
        path = arguments.required_text("file_path")
        transfer = await session.files.send_path(path, _read_send_request(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}

    @ContractTool("vdo_file_resume", _RESUME, ("session_id", "transfer_id"), NON_DESTRUCTIVE).register_with_context(
        server
    )
    async def file_resume(arguments: Arguments, context: Context) -> Result:
        """Resume an outgoing file transfer that stopped, from the first chunk that the peer lacks."""
        session = sessions.get(arguments)
        transfer_id = arguments.required_text("transfer_id")
        transfer = await session.files.resume(transfer_id, _read_send_request(arguments, context))
        return {"ok": True, "session_id": session.id, "transfer": transfer.summary()}


def _register_listing(server: Server, sessions: Sessions) -> None:
    fields = {**SESSION, "direction": string("Which transfers to list.", enum=list(_DIRECTIONS), default="all")}

    @ContractTool("vdo_file_transfers", fields, ("session_id",), READ_ONLY).register(server)
    async def file_transfers(arguments: Arguments) -> Result:
        """List incoming and outgoing file transfers with their progress and errors."""
        session = sessions.get(arguments)
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


def _register_receiving(server: Server, sessions: Sessions) -> None:
    @ContractTool("vdo_file_receive", _RECEIVE, ("session_id", "transfer_id"), READ_ONLY).register(server)
    async def file_receive(arguments: Arguments) -> Result:
        """Read a received file; one above 1 MiB in pieces: pass offset 0, then each next_offset until it is null."""
        session = sessions.get(arguments)
        transfer = session.files.get_received(arguments.required_text("transfer_id"))
        encoding = arguments.text("encoding") or "base64"
        total = transfer.layout.total_bytes
        start, end = _read_range(arguments, total, least=_MAX_CHARACTER_BYTES if encoding in ("utf8", "text") else 1)
        if encoding == "json" and end - start < total:
            raise ToolError("json needs the whole file: read pieces as base64 or utf8, or use vdo_file_save")
        encoded, size = _encode_content(await session.files.read(transfer, start, end), encoding, is_end=end == total)
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

    @ContractTool("vdo_file_save", _SAVE, ("session_id", "transfer_id", "output_path"), DESTRUCTIVE).register(server)
    async def file_save(arguments: Arguments) -> Result:
        """Save a received file to disk."""
        session = sessions.get(arguments)
        transfer = session.files.get_received(arguments.required_text("transfer_id"))
        wanted, overwrite = arguments.required_text("output_path"), arguments.flag("overwrite", False)
        path, written = await session.files.save(transfer, wanted, overwrite=overwrite)
        return {
            "ok": True,
            "session_id": session.id,
            "transfer_id": transfer.transfer_id,
            "transfer": transfer.summary(),
            "output_path": path,
            "bytes_written": written,
        }

    @ContractTool(
        "vdo_file_cancel", {**SESSION, **_TRANSFER_ID_FIELD}, ("session_id", "transfer_id"), DESTRUCTIVE
    ).register(server)
    async def file_cancel(arguments: Arguments) -> Result:
        """Cancel a file transfer in either direction and notify the other end. Partly received data is deleted."""
        session = sessions.get(arguments)
        transfer = session.files.cancel(arguments.required_text("transfer_id"))
        summary = transfer.summary()
        return {"ok": True, "session_id": session.id, "transfer_id": transfer.transfer_id, "transfer": summary}


def _read_send_request(arguments: Arguments, context: Context) -> SendRequest:
    async def report_progress(done: int, total: int) -> None:
        await context.progress(done, total)

    def seconds(name: str, maximum: int) -> float | None:
        found = arguments.count(name, 0, maximum)
        return found / 1000 if found else None

    least, most = limits.FILE_CHUNK_MIN_BYTES, limits.FILE_CHUNK_MAX_BYTES
    chunk_bytes = arguments.count("chunk_bytes", 0, most)
    retries = arguments.count("max_retries", -1, limits.FILE_RETRIES, minimum=0)
    start_seq = arguments.count("start_seq", -1, 2**53, minimum=0)
    return SendRequest(
        target=arguments.target().name,
        transfer_id=arguments.text("transfer_id") or None,
        name=arguments.text("name") or "",
        mime=arguments.text("mime") or DEFAULT_MIME,
        chunk_bytes=max(chunk_bytes, least) if chunk_bytes else None,
        timeout_s=seconds("timeout_ms", limits.FILE_TIMEOUT_MS),
        ack_timeout_s=seconds("ack_timeout_ms", limits.FILE_ACK_TIMEOUT_MS),
        max_retries=None if retries < 0 else retries,
        start_seq=None if start_seq < 0 else start_seq,
        on_progress=report_progress,
    )


def _decode_base64(text: str) -> bytes:
    """Decode base64 as leniently as the VDO.Ninja bridge: either alphabet, with or without padding."""
    head = text.partition("=")[0].encode("ascii", "ignore").translate(_URL_SAFE, _NOT_BASE64)
    digits = head[: len(head) - (len(head) % 4 == 1)]
    data = base64.b64decode(digits + b"=" * (-len(digits) % 4))
    if not data:
        raise ToolError("data_base64 decoded to empty payload")
    return data


def _read_range(arguments: Arguments, total: int, least: int) -> tuple[int, int]:
    """Return the range to read: all of a small file, or what the caller asks for, but at least `least` bytes."""
    most = limits.FILE_ANSWER_BYTES
    if arguments["offset"] is None and arguments["length"] is None:
        if total > most:
            raise ToolError(
                f"the file has {total} bytes, but a result holds at most {most}; "
                "pass offset and length to read it in pieces, or use vdo_file_save"
            )
        return 0, total
    start = arguments.count("offset", 0, limits.FILE_MAX_BYTES_CAP, minimum=0)
    if start >= total:
        raise ArgumentsInvalid(f"invalid offset: {start} must be less than the size of the file, {total} bytes")
    length = arguments.count("length", most, most)
    return start, min(start + max(length, least), total)


def _encode_content(data: bytes, encoding: str, *, is_end: bool) -> tuple[Mapping[str, Any], int]:
    """Return the content and the number of bytes that it covers: a piece of text ends between characters."""
    content: dict[str, Any] = {"data_base64": None, "data_text": None, "data_json": None}
    size = len(data)
    match encoding:
        case "base64":
            content["data_base64"] = base64.b64encode(data).decode()
        case "utf8" | "text":
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            content["data_text"] = decoder.decode(data, final=is_end)
            size -= len(decoder.getstate()[0])
        case "json":
            content["data_json"] = _decode_json(data)
        case _:
            raise ToolError(f"unsupported encoding: {encoding[:40]}")
    return content, size


def _decode_json(data: bytes) -> Any:
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ToolError("completed transfer payload is not valid JSON") from error
    if found is None:
        raise ToolError("completed transfer payload is not valid JSON")
    return found
